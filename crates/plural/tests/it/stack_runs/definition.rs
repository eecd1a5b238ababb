//! A stack that takes its commands from a definition.

use plural_testkit::{TestDatabase, each_database, eventually};
use serde_json::{Value, json};

use super::world::{PATIENCE, World};
use crate::program::{Done, finish};

each_database!(commands_of_a_definition);

/// `plural cd …`, as the administrator.
async fn cd(world: &World, words: &[&str]) -> anyhow::Result<Done> {
    let all = [["cd"].as_slice(), words].concat();
    let mut command = world.home.plural(&all);
    command.env("PLURAL_CONSOLE_URL", world.console.url()).env("PLURAL_CONSOLE_TOKEN", &world.admin.token);
    finish(command).await
}

/// The same, which has to succeed: what it wrote as JSON.
async fn done(world: &World, words: &[&str]) -> anyhow::Result<Value> {
    let Done { code, out, err } = cd(world, &[words, &["-o", "json"]].concat()).await?;
    anyhow::ensure!(code == Some(0), "{words:?}: {code:?}\n{out}\n{err}");
    Ok(serde_json::from_str(&out)?)
}

async fn commands_of_a_definition(database: TestDatabase) -> anyhow::Result<()> {
    let world = World::simulated(&database).await?;
    world.remote.push_files([("dns/say.sh", "echo \"$1 for $WHOM\"\n")])?;
    let create = [
        "stack-definitions",
        "create",
        "say",
        "--tool-image",
        "example.org/tools",
        "--tool-version",
        "1",
        "--plan-command",
        "sh say.sh planned",
        "--apply-command",
        "sh say.sh applied",
        "--destroy-command",
        "sh say.sh undone",
    ];
    let definition = done(&world, &create).await?;
    let environment = json!([{"name": "WHOM", "value": "everybody"}]);
    let more = json!({"definitionId": definition["id"], "configuration": {}, "environment": environment});
    let stack = world.stack("CUSTOM", "dns", more).await?;
    let run = world.planned(&stack, None).await;
    let text = run["plan"]["text"].as_str().unwrap_or_default();
    assert!(text.contains("planned for everybody"), "{}", world.told(&run));
    world.approve(&run).await?;
    let run = world.until(&run, "SUCCESSFUL").await;
    assert!(World::printed(&run).contains("applied for everybody"), "{}", world.told(&run));

    // Another name plans nothing; other commands plan once.
    done(&world, &["stack-definitions", "update", "say", "--name", "tell"]).await?;
    let change = [
        "stack-definitions",
        "update",
        "tell",
        "--plan-command",
        "sh say.sh planned",
        "--apply-command",
        "sh say.sh changed",
    ];
    done(&world, &change).await?;
    let next = run["number"].as_i64().unwrap_or_default() + 1;
    let again = eventually(PATIENCE, async || {
        let newest = world.newest(&stack).await.map_err(|error| format!("{error:#}"))?;
        if newest["number"] == next { Ok(newest) } else { Err(world.told(&newest)) }
    })
    .await;
    assert_eq!(again["trigger"], "SPEC", "{}", world.told(&again));
    let again = world.until(&again, "PENDING_APPROVAL").await;
    world.approve(&again).await?;
    let again = world.until(&again, "SUCCESSFUL").await;
    assert!(World::printed(&again).contains("changed for everybody"), "{}", world.told(&again));
    assert_eq!(world.newest(&stack).await?["id"], again["id"], "it plans once");

    // It stays while the stack has it, and goes when that has commands of its own.
    let Done { code, err, .. } = cd(&world, &["stack-definitions", "delete", "tell", "--yes"]).await?;
    assert!(code == Some(1) && err.contains("give them another one"), "{code:?} {err}");
    let own = ["stacks", "update", "dns", "--definition", "", "--apply-command", "sh say.sh own"];
    done(&world, &own).await?;
    let Done { code, err, .. } = cd(&world, &["stack-definitions", "delete", "tell", "--yes"]).await?;
    assert_eq!(code, Some(0), "{err}");
    world.end();
    Ok(())
}
