//! Two stacks of which one takes what the other one made, with OpenTofu itself.

use plural_testkit::{TestDatabase, each_database, eventually, program_or_report};
use serde_json::{Value, json};

use super::life::is_gone;
use super::world::{PATIENCE, World};

each_database!(outputs_of_one_stack_are_variables_of_another);

fn network(word: &str) -> String {
    format!(
        "resource \"terraform_data\" \"net\" {{\n  input = \"{word}\"\n}}\n\n\
         output \"vpc\" {{\n  value = terraform_data.net.output\n}}\n\n\
         output \"zones\" {{\n  value = [\"{word}-a\", \"{word}-b\"]\n}}\n\n\
         output \"key\" {{\n  value     = \"s3cr3t-{word}\"\n  sensitive = true\n}}\n"
    )
}

const APP: &str = "variable \"vpc\" { type = string }\n\nvariable \"zones\" { type = list(string) }\n\n\
    variable \"key\" {\n  type      = string\n  sensitive = true\n}\n\n\
    resource \"terraform_data\" \"app\" {\n  input = \"${var.vpc} ${join(\",\", var.zones)} ${length(var.key)}\"\n}\n\n\
    output \"told\" {\n  value = terraform_data.app.output\n}\n";

async fn outputs_of_one_stack_are_variables_of_another(database: TestDatabase) -> anyhow::Result<()> {
    if program_or_report("tofu").is_none() {
        return Ok(());
    }
    let world = World::simulated(&database).await?;
    world.remote.push_files([("net/main.tf", network("one")), ("app/main.tf", APP.to_owned())])?;
    let at_once = json!({"manageState": true, "approval": false});
    let net = world.stack("TERRAFORM", "net", at_once.clone()).await?;
    let mut settings = at_once;
    settings["dependencies"] = json!([{"stackId": net, "outputs": [
        {"output": "vpc", "variable": "vpc"}, {"output": "zones", "variable": "zones"}, {"output": "key", "variable": "key"},
    ]}]);
    let app = world.stack("TERRAFORM", "app", settings).await?;
    told(&world, &app, "one one-a,one-b 10").await;
    let shown = world.plural("cd stacks graph").await?;
    assert!(shown.contains("net") && shown.contains("app"), "{shown}");
    let dot = world.plural("cd stacks graph net -o dot").await?;
    assert!(dot.contains("label=\"vpc, zones, key\""), "{dot}");

    // Another commit of the one alone: the other one follows, and what is secret is printed nowhere.
    world.remote.push_files([("net/main.tf", network("second"))])?;
    let known = told(&world, &app, "second second-a,second-b 13").await;
    let newest = world.newest(&app).await?;
    assert_eq!(newest["trigger"], "UPSTREAM", "{}", world.told(&newest));
    assert!(!newest.to_string().contains("s3cr3t-second"), "{newest}");
    let runs = known["runs"]["edges"].as_array().map_or(0, Vec::len);
    assert_eq!(runs, 2, "{known}");

    // The one that is depended on goes last.
    let refused = world.plural("cd stacks delete net --yes").await;
    assert!(refused.is_err_and(|error| error.to_string().contains("delete them first, in this order: app")));
    world.plural("cd stacks delete app --yes").await?;
    is_gone(&world, &app).await;
    world.plural("cd stacks delete net --yes").await?;
    is_gone(&world, &net).await;
    world.end();
    Ok(())
}

/// Waits until the output of a stack is this.
async fn told(world: &World, stack: &str, wanted: &str) -> Value {
    eventually(PATIENCE, async || {
        let known = world.known(stack).await.map_err(|error| format!("{error:#}"))?;
        let outputs = known["output"].as_array().cloned().unwrap_or_default();
        if outputs.iter().any(|output| output["name"] == "told" && output["value"] == wanted) {
            return Ok(known);
        }
        let newest = world.newest(stack).await.map_err(|error| format!("{error:#}"))?;
        Err(format!("{known:#}\n{}", world.told(&newest)))
    })
    .await
}
