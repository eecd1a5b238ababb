//! A rule of a stack's own repository, a plan of OpenTofu, and a console whose rules run confined.

use plural_testkit::{TestDatabase, each_database, program_or_report};
use serde_json::{Value, json};

use super::world::World;

each_database!(a_rule_denies_a_plan_of_opentofu);

const RULE: &str = r#"package plural.stacks

deny contains {"msg": "it must not say bad", "resource": change.address, "severity": "HIGH"} if {
    some change in input.resource_changes
    change.change.after.input == "bad"
}

warn contains "a new thing" if {
    some change in input.resource_changes
    "create" in change.change.actions
}
"#;

fn configuration(input: &str) -> String {
    format!("resource \"terraform_data\" \"one\" {{\n  input = \"{input}\"\n}}\n")
}

async fn a_rule_denies_a_plan_of_opentofu(database: TestDatabase) -> anyhow::Result<()> {
    if program_or_report("tofu").is_none() {
        return Ok(());
    }
    let world = World::simulated(&database).await?;
    world.remote.push_files([
        ("infra/main.tf", configuration("bad")),
        (".plural/policies/a.rego", RULE.to_owned()),
    ])?;
    let policy = json!({"type": "REGO", "customPolicies": true});
    let stack =
        world.stack("TERRAFORM", "infra", json!({"manageState": true, "policyEngine": policy})).await?;
    let first = world.begun(&stack).await;
    let run = world.until(&json!({"id": first}), "FAILED").await;
    assert_eq!(
        run["error"],
        "policy refused the plan: it must not say bad (terraform_data.one)",
        "{}",
        world.told(&run)
    );
    assert_eq!(run["phase"], "PLAN", "{}", world.told(&run));
    let shown = world.plural("cd stacks run infra").await?;
    assert!(shown.contains("refuses, HIGH: it must not say bad (terraform_data.one)"), "{shown}");
    assert!(shown.contains("warns, UNKNOWN: a new thing"), "{shown}");

    // The same without a console.
    let ask = "query ($id: ID!) { stackRun(id: $id) { state { planJson } } }";
    let plan = world.admin.data(ask, json!({"id": first})).await?["stackRun"]["state"]["planJson"].take();
    let plan = plan.as_str().map_or_else(|| plan.to_string(), str::to_owned);
    let folder = tempfile::tempdir()?;
    let (rules, file) = (folder.path().join("rules"), folder.path().join("plan.json"));
    std::fs::create_dir(&rules)?;
    std::fs::write(rules.join("a.rego"), RULE)?;
    std::fs::write(&file, &plan)?;
    let test = format!("cd stacks policy test {} --plan {}", rules.display(), file.display());
    let refused = world.plural(&test).await.expect_err("it is refused").to_string();
    assert!(refused.contains("policy refused the plan: it must not say bad"), "{refused}");
    let shown = world.plural(&format!("{test} --max-severity HIGH -o json")).await?;
    let found: Value = serde_json::from_str(&shown)?;
    assert_eq!(found.as_array().map(Vec::len), Some(2), "{shown}");

    // What is only warned of is approved and applied.
    let second = world.remote.push_files([("infra/main.tf", configuration("good"))])?;
    let run = world.planned(&stack, Some(&second)).await;
    let shown = world.plural("cd stacks run infra").await?;
    assert!(shown.contains("warns, UNKNOWN: a new thing") && !shown.contains("refuses"), "{shown}");
    world.approve(&run).await?;
    world.until(&run, "SUCCESSFUL").await;
    world.end();
    Ok(())
}
