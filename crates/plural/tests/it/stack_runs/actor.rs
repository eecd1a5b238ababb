//! The commands of an apply ask the console in the name of the stack's actor, and can do no more than that is for.

use plural_testkit::{TestDatabase, each_database};
use serde_json::{Value, json};

use super::world::World;
use crate::program::PLURAL;

each_database!(an_apply_writes_a_context_and_can_do_no_more);

/// Asks the console by the command line, with what its environment says.
const ASK: &str = r#"
echo "token: ${PLURAL_CONSOLE_TOKEN:-none}"
if [ -n "$PLURAL_CONSOLE_TOKEN" ]; then
  echo 'vpc: vpc-1' | "$CLI" cd contexts save network --file - && echo 'it is saved'
  echo "then: $("$CLI" cd projects create taken 2>&1 | tr '\n' ' ')"
  echo "then: $("$CLI" cd users list 2>&1 | tr '\n' ' ')"
fi
"#;

async fn an_apply_writes_a_context_and_can_do_no_more(database: TestDatabase) -> anyhow::Result<()> {
    let world = World::simulated(&database).await?;
    world.remote.push_files([("net/ask.sh", ASK)])?;
    let command = |stage: &str| json!({"stage": stage, "cmd": "sh", "args": ["ask.sh"]});
    let me = world.admin.data("{ me { id email } }", json!({})).await?["me"].take();
    let more = json!({"commands": [command("PLAN"), command("APPLY")], "actorId": me["id"],
        "environment": [{"name": "CLI", "value": PLURAL}]});
    let stack = world.stack("CUSTOM", "net", more).await?;
    let run = world.planned(&stack, None).await;
    let text = run["plan"]["text"].as_str().unwrap_or_default();
    assert!(text.contains("token: none"), "a plan asks in nobody's name: {}", world.told(&run));
    world.approve(&run).await?;
    let run = world.until(&run, "SUCCESSFUL").await;
    let printed = World::printed(&run);
    assert!(printed.contains("it is saved"), "{}", world.told(&run));
    let refused = printed.lines().filter(|line| line.starts_with("then: error: not logged in"));
    assert_eq!(refused.count(), 2, "{}", world.told(&run));
    assert!(!printed.contains("run-actor-"), "no log shows the token: {}", world.told(&run));
    let context = "{ serviceContext(name: \"network\") { configuration } }";
    let known = world.admin.data(context, json!({})).await?;
    assert!(known.to_string().contains("vpc-1"), "{known}");
    let taken = world.admin.data("{ projects(q: \"taken\") { edges { node { id } } } }", json!({})).await?;
    assert_eq!(taken["projects"]["edges"], json!([]), "{taken}");
    let audits =
        world.admin.data("{ audits(last: 100) { edges { node { action actorName } } } }", json!({})).await?;
    let by = audits["audits"]["edges"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|edge| edge["node"]["action"] == "serviceContext.create");
    let by = by.map_or(Value::Null, |edge| edge["node"]["actorName"].clone());
    let run_id = run["id"].as_str().unwrap_or_default();
    assert!(by.as_str().is_some_and(|by| by.contains(&format!("run:{run_id}"))), "{by}");
    world.end();
    Ok(())
}
