//! Bad days: whatever dies, a run ends in words that are true, nothing is applied twice, and no run stays running.

use plural_testkit::{TestDatabase, each_database, eventually, one_database, program_or_report};
use serde_json::{Value, json};

use super::world::{PATIENCE, World};

each_database!(
    a_console_that_is_killed_after_an_approval_applies_what_was_approved,
    a_harness_that_is_killed_while_it_applies_is_not_begun_again
);
one_database!(
    sqlite,
    "what the database has to do with it is the state of runs, which the cases above and the store's own have on both";
    a_harness_that_is_killed_while_it_prepares_plans_anew,
    a_harness_that_is_killed_while_it_plans_plans_anew,
    a_harness_that_is_killed_after_it_handed_in_its_plan_plans_anew,
    a_harness_that_is_killed_before_it_applies_changes_nothing,
    what_was_applied_and_not_told_is_found_by_the_next_plan,
    the_lock_of_a_run_that_died_is_released_and_nobody_else_writes_before,
    an_agent_that_is_killed_between_the_steps_is_not_missed,
    an_api_server_that_is_away_costs_no_run,
    a_tool_that_is_missing_is_named,
    a_command_that_hangs_is_ended,
    a_cancelled_run_ends_its_command,
    what_is_secret_is_not_printed,
    a_state_that_is_no_state_is_refused,
    a_stack_whose_cluster_is_gone_can_be_let_go
);

/// Commands that wait in one stage until somebody writes to their FIFO, and say so.
pub(super) const HOLD: &str =
    "rm -f hold; mkfifo hold; echo it holds; read -r line < hold; echo \"it was told to $line\"\n";
pub(super) const SAY: &str = "echo \"$1\"\n";

/// A stack whose command of `stage` waits for its FIFO.
pub(super) async fn holding(world: &World, stage: &str, more: Value) -> anyhow::Result<String> {
    world.remote.push_files([("shop/hold.sh", HOLD), ("shop/say.sh", SAY)])?;
    let command = |stage: &str, script: &str| json!({"stage": stage, "cmd": "sh", "args": [script, stage]});
    let mut commands = vec![command("PLAN", "say.sh"), command("APPLY", "say.sh")];
    commands.insert(usize::from(stage == "APPLY"), command(stage, "hold.sh"));
    let mut attributes = json!({"commands": commands});
    for (name, value) in more.as_object().into_iter().flatten() {
        attributes[name] = value.clone();
    }
    world.stack("CUSTOM", "shop", attributes).await
}

/// Kills the harness of a first plan in this stage. It is planned anew, by another Job, and nobody has to do anything.
async fn killed_before_the_plan_counts(database: TestDatabase, stage: &str) -> anyhow::Result<()> {
    let world = World::simulated(&database).await?;
    let stack = holding(&world, stage, json!({})).await?;
    let run = world.begun(&stack).await;
    let first = world.prints(&run, "PLAN", "it holds").await;
    world.kill_harness(&run).await;
    world.release(&run).await?;
    let waits = world.until(&json!({"id": run}), "PENDING_APPROVAL").await;
    assert_ne!(first["job"], waits["job"], "another Job planned: {}", world.told(&waits));
    world.approve(&waits).await?;
    // A command of the stage INIT is run in both Jobs.
    if stage == "INIT" {
        world.release(&run).await?;
    }
    let done = world.until(&waits, "SUCCESSFUL").await;
    assert_eq!(World::printed(&done).matches("APPLY").count(), 1, "{}", world.told(&done));
    world.end();
    Ok(())
}

async fn a_harness_that_is_killed_while_it_prepares_plans_anew(database: TestDatabase) -> anyhow::Result<()> {
    killed_before_the_plan_counts(database, "INIT").await
}

async fn a_harness_that_is_killed_while_it_plans_plans_anew(database: TestDatabase) -> anyhow::Result<()> {
    killed_before_the_plan_counts(database, "PLAN").await
}

/// Commands of the stage VERIFY run when the plan is uploaded.
async fn a_harness_that_is_killed_after_it_handed_in_its_plan_plans_anew(
    database: TestDatabase,
) -> anyhow::Result<()> {
    killed_before_the_plan_counts(database, "VERIFY").await
}

async fn a_harness_that_is_killed_before_it_applies_changes_nothing(
    database: TestDatabase,
) -> anyhow::Result<()> {
    let world = World::simulated(&database).await?;
    let stack = holding(&world, "INIT", json!({})).await?;
    let run = world.begun(&stack).await;
    world.release(&run).await?;
    let waits = world.until(&json!({"id": run}), "PENDING_APPROVAL").await;
    world.approve(&waits).await?;
    // It is tried again, by another Job each time.
    let mut last = world.prints(&run, "APPLY", "it holds").await["job"].clone();
    world.kill_harness(&run).await;
    for _ in 1..3 {
        last = eventually(PATIENCE, async || {
            let held = world.prints(&run, "APPLY", "it holds").await;
            let is_another = held["job"] != last && !held["job"].is_null();
            if is_another { Ok(held["job"].clone()) } else { Err(world.told(&held)) }
        })
        .await;
        world.kill_harness(&run).await;
    }
    let failed = world.fails(&waits, &["3 times in a row; nothing was applied"]).await;
    assert!(!failed["error"].to_string().contains("may have changed"), "{}", world.told(&failed));
    assert!(!World::printed(&failed).contains("APPLY"), "{}", world.told(&failed));

    // One that lives does all of it, once.
    let waits = json!({"id": world.trigger(&stack).await?});
    world.release(waits["id"].as_str().unwrap_or_default()).await?;
    let waits = world.until(&waits, "PENDING_APPROVAL").await;
    world.approve(&waits).await?;
    let run = waits["id"].as_str().unwrap_or_default();
    world.prints(run, "APPLY", "it holds").await;
    world.kill_harness(run).await;
    world.release(run).await?;
    let done = world.until(&waits, "SUCCESSFUL").await;
    assert_eq!(World::printed(&done).matches("APPLY").count(), 1, "{}", world.told(&done));
    world.end();
    Ok(())
}

async fn a_harness_that_is_killed_while_it_applies_is_not_begun_again(
    database: TestDatabase,
) -> anyhow::Result<()> {
    let world = World::simulated(&database).await?;
    let stack = holding(&world, "APPLY", json!({})).await?;
    let waits = world.planned(&stack, None).await;
    let run = waits["id"].as_str().unwrap_or_default().to_owned();
    world.approve(&waits).await?;
    let held = world.prints(&run, "APPLY", "it holds").await;
    world.kill_harness(&run).await;
    let failed = world.fails(&waits, &["may have changed"]).await;
    assert_eq!(held["job"], failed["job"], "it was not begun again: {}", world.told(&failed));

    // The stack is free: the next run does what is left.
    let waits = world.plan(&stack).await?;
    world.approve(&waits).await?;
    world.release(waits["id"].as_str().unwrap_or_default()).await?;
    world.until(&waits, "SUCCESSFUL").await;
    world.end();
    Ok(())
}

/// A configuration of one resource, which says something while it is made.
pub(super) fn resource(while_it_is_made: &str) -> String {
    format!(
        "resource \"terraform_data\" \"one\" {{\n  input = \"one\"\n  provisioner \"local-exec\" {{\n    \
         command = \"sh ${{path.module}}/{while_it_is_made}\"\n  }}\n}}\n"
    )
}

async fn what_was_applied_and_not_told_is_found_by_the_next_plan(
    database: TestDatabase,
) -> anyhow::Result<()> {
    if program_or_report("tofu").is_none() {
        return Ok(());
    }
    let world = World::simulated(&database).await?;
    world.remote.push_files([
        ("infra/main.tf", resource("say.sh")),
        ("infra/say.sh", SAY.to_owned()),
        ("infra/hold.sh", HOLD.to_owned()),
    ])?;
    let more = json!({"manageState": true, "configuration": {"hooks": [
        {"cmd": "sh", "args": ["hold.sh"], "afterStage": "APPLY"},
    ]}});
    let stack = world.stack("TERRAFORM", "infra", more).await?;
    let waits = world.planned(&stack, None).await;
    let run = waits["id"].as_str().unwrap_or_default().to_owned();
    world.approve(&waits).await?;
    world.prints(&run, "APPLY", "it holds").await;
    world.kill_harness(&run).await;
    world.fails(&waits, &["may have changed"]).await;
    let known = world.known(&stack).await?;
    assert_eq!(known["stateVersion"]["resources"], 1, "the tool wrote its state: {known}");

    // Nothing was forgotten, so nothing is left to do.
    let next = json!({"id": world.trigger(&stack).await?});
    let next = world.until(&next, "SUCCESSFUL").await;
    assert_eq!((&next["plan"]["add"], &next["phase"]), (&json!(0), &json!("PLAN")), "{}", world.told(&next));
    world.end();
    Ok(())
}

/// The id of the lock of somebody else.
pub(super) const LOCK: &str = "6b0f5c4e-1f0e-7a5e-9b0a-0123456789ab";

/// Somebody else who would lock the state, as a tool does; the status of the answer.
pub(super) async fn lock(world: &World, stack: &str, method: &str) -> anyhow::Result<u16> {
    let http = reqwest::Client::builder().tls_certs_only([]).build()?;
    let url = format!("{}/v1/stacks/{stack}/state", world.console.url());
    let method = reqwest::Method::from_bytes(method.as_bytes())?;
    let body = json!({"ID": LOCK, "Who": "ada@box"}).to_string();
    let asked = http.request(method, url).basic_auth("plural", Some(&world.admin.token)).body(body);
    Ok(asked.send().await?.status().as_u16())
}

async fn the_lock_of_a_run_that_died_is_released_and_nobody_else_writes_before(
    database: TestDatabase,
) -> anyhow::Result<()> {
    if program_or_report("tofu").is_none() {
        return Ok(());
    }
    let world = World::simulated(&database).await?;
    world.remote.push_files([("infra/main.tf", resource("hold.sh")), ("infra/hold.sh", HOLD.to_owned())])?;
    let stack = world.stack("TERRAFORM", "infra", json!({"manageState": true})).await?;
    let waits = world.planned(&stack, None).await;
    let run = waits["id"].as_str().unwrap_or_default().to_owned();
    // A plan holds nothing, and neither does one that waits.
    assert_eq!(world.known(&stack).await?["lock"], Value::Null);
    world.approve(&waits).await?;
    world.prints(&run, "APPLY", "it holds").await;
    assert_ne!(world.known(&stack).await?["lock"], Value::Null, "who applies holds the state");
    assert_eq!(lock(&world, &stack, "LOCK").await?, 423);

    world.kill_harness(&run).await;
    world.fails(&waits, &["may have changed"]).await;
    eventually(PATIENCE, async || match lock(&world, &stack, "LOCK").await {
        Ok(200) => Ok(()),
        Ok(status) => Err(status.to_string()),
        Err(error) => Err(format!("{error:#}")),
    })
    .await;

    // A person's lock is nobody else's to end: an apply meets it and says so.
    let waits = world.plan(&stack).await?;
    world.approve(&waits).await?;
    let failed = world.until(&waits, "FAILED").await;
    assert!(World::printed(&failed).contains(LOCK), "{}", world.told(&failed));
    assert_eq!(world.known(&stack).await?["lock"]["id"], LOCK);
    world.end();
    Ok(())
}

async fn a_console_that_is_killed_after_an_approval_applies_what_was_approved(
    database: TestDatabase,
) -> anyhow::Result<()> {
    let mut world = World::simulated(&database).await?;
    let stack = holding(&world, "PLAN", json!({})).await?;
    let run = world.begun(&stack).await;
    // Killed while a command runs, too: the harness goes on, and tells it to the next one.
    world.prints(&run, "PLAN", "it holds").await;
    world.console.kill();
    world.console.restart().await?;
    world.release(&run).await?;
    let waits = world.until(&json!({"id": run}), "PENDING_APPROVAL").await;
    let printed = World::printed(&waits);
    assert_eq!(printed.matches("it holds").count(), 1, "{}", world.told(&waits));
    assert!(printed.contains("it was told to go on"), "{}", world.told(&waits));

    // No agent takes it before the console is killed.
    world.agent.stop();
    world.approve(&waits).await?;
    world.console.kill();
    world.console.restart().await?;
    world.agent.restart()?;
    let done = world.until(&waits, "SUCCESSFUL").await;
    assert_eq!(done["plan"]["digest"], waits["plan"]["digest"], "{}", world.told(&done));
    assert_eq!(World::printed(&done).matches("APPLY").count(), 1, "{}", world.told(&done));
    world.end();
    Ok(())
}

async fn an_agent_that_is_killed_between_the_steps_is_not_missed(
    database: TestDatabase,
) -> anyhow::Result<()> {
    let mut world = World::simulated(&database).await?;
    let stack = holding(&world, "PLAN", json!({})).await?;
    let run = world.begun(&stack).await;
    let held = world.prints(&run, "PLAN", "it holds").await;
    world.agent.kill();
    // The harness needs no agent.
    world.release(&run).await?;
    let waits = world.until(&json!({"id": run}), "PENDING_APPROVAL").await;
    assert_eq!(held["job"], waits["job"], "{}", world.told(&waits));
    world.approve(&waits).await?;
    world.agent.restart()?;
    world.until(&waits, "SUCCESSFUL").await;
    world.end();
    Ok(())
}

async fn an_api_server_that_is_away_costs_no_run(database: TestDatabase) -> anyhow::Result<()> {
    let Some(world) = World::real(&database).await? else { return Ok(()) };
    let stack = holding(&world, "APPLY", json!({})).await?;
    let waits = world.planned(&stack, None).await;
    let run = waits["id"].as_str().unwrap_or_default().to_owned();
    world.approve(&waits).await?;
    world.prints(&run, "APPLY", "it holds").await;
    let Some(cluster) = world.place.as_real() else { anyhow::bail!("no real control plane") };
    cluster.kill_apiserver()?;
    world.release(&run).await?;
    world.until(&waits, "SUCCESSFUL").await;
    cluster.restart_apiserver().await?;
    // And the next one, on the API server that is back.
    let waits = world.plan(&stack).await?;
    world.approve(&waits).await?;
    world.release(waits["id"].as_str().unwrap_or_default()).await?;
    world.until(&waits, "SUCCESSFUL").await;
    world.end();
    Ok(())
}

async fn a_tool_that_is_missing_is_named(database: TestDatabase) -> anyhow::Result<()> {
    let world = World::simulated(&database).await?;
    world.remote.push_files([("shop/say.sh", SAY)])?;
    let more = json!({"commands": [{"stage": "PLAN", "cmd": "no-such-tool", "args": ["--version"]}]});
    let stack = world.stack("CUSTOM", "shop", more).await?;
    let run = json!({"id": world.begun(&stack).await});
    let failed = world.fails(&run, &["no-such-tool"]).await;
    let last = failed["steps"].as_array().and_then(|steps| steps.last()).cloned().unwrap_or_default();
    assert_eq!(last["status"], "FAILED", "{}", world.told(&failed));
    world.end();
    Ok(())
}

async fn a_command_that_hangs_is_ended(database: TestDatabase) -> anyhow::Result<()> {
    let world = World::simulated(&database).await?;
    let stack = holding(&world, "PLAN", json!({"timeout": "2s"})).await?;
    let run = json!({"id": world.begun(&stack).await});
    world.fails(&run, &["longer than 2 seconds"]).await;
    world.end();
    Ok(())
}

async fn a_cancelled_run_ends_its_command(database: TestDatabase) -> anyhow::Result<()> {
    let world = World::simulated(&database).await?;
    let stack = holding(&world, "APPLY", json!({})).await?;
    let waits = world.planned(&stack, None).await;
    let run = waits["id"].as_str().unwrap_or_default().to_owned();
    world.approve(&waits).await?;
    world.prints(&run, "APPLY", "it holds").await;
    world.does("cancelStackRun", &run).await?;
    let cancelled = world.until(&waits, "CANCELLED").await;
    assert!(!World::printed(&cancelled).contains("it was told"), "{}", world.told(&cancelled));
    eventually(PATIENCE, async || super::place::harnesses(&run).is_empty()).await;
    world.end();
    Ok(())
}

async fn what_is_secret_is_not_printed(database: TestDatabase) -> anyhow::Result<()> {
    let world = World::simulated(&database).await?;
    // As it is, in base64, cut in two writes, and what is no secret.
    let script = "echo \"word: $WORD\"; printf %s \"$WORD\" | base64; \
        printf %.5s \"$WORD\"; printf '%s\\n' \"${WORD#?????}\"; echo \"open: $OPEN\"; env | grep -c PLURAL_RUN_TOKEN\n";
    world.remote.push_files([("shop/leak.sh", script)])?;
    let more = json!({
        "commands": [{"stage": "PLAN", "cmd": "sh", "args": ["leak.sh"]}, {"stage": "APPLY", "cmd": "sh", "args": ["leak.sh"]}],
        "environment": [
            {"name": "WORD", "value": "correct-horse-battery-staple", "secret": true},
            {"name": "OPEN", "value": "a window"},
        ],
    });
    let stack = world.stack("CUSTOM", "shop", more).await?;
    // The last command, grep, finds nothing and fails with 1.
    let run = json!({"id": world.begun(&stack).await});
    let failed = world.fails(&run, &["exit code 1"]).await;
    let printed = World::printed(&failed);
    assert!(printed.contains("open: a window\n0\n"), "{}", world.told(&failed));
    assert!(printed.contains("word: "), "{}", world.told(&failed));
    let secrets = [("secret", "correct-horse-battery-staple".to_owned())];
    crate::asker::holds_none("the run", failed.to_string().as_bytes(), &secrets);
    crate::asker::holds_none("the console's log", world.console.log().as_bytes(), &secrets);
    crate::asker::holds_none("the agent's log", world.agent.log().as_bytes(), &secrets);
    crate::asker::holds_none("the cluster", world.place.logs().as_bytes(), &secrets);
    world.end();
    Ok(())
}

async fn a_state_that_is_no_state_is_refused(database: TestDatabase) -> anyhow::Result<()> {
    if program_or_report("tofu").is_none() {
        return Ok(());
    }
    let world = World::simulated(&database).await?;
    // A run itself tries: its commands have the address and the credential.
    let script = "curl -s -o answer -w '%{http_code}' -u \"$TF_HTTP_USERNAME:$TF_HTTP_PASSWORD\" \
        --data-binary 'no state' \"$TF_HTTP_ADDRESS\"\n";
    world.remote.push_files([
        ("infra/main.tf", resource("say.sh")),
        ("infra/say.sh", SAY.to_owned()),
        ("infra/bad.sh", script.to_owned()),
    ])?;
    let more = json!({"manageState": true, "configuration": {"hooks": [
        {"cmd": "sh", "args": ["bad.sh"], "afterStage": "PLAN"},
        {"cmd": "sh", "args": ["bad.sh"], "afterStage": "APPLY"},
    ]}});
    let stack = world.stack("TERRAFORM", "infra", more).await?;
    let waits = world.planned(&stack, None).await;
    // Who plans does not write at all.
    let printed = World::printed(&waits);
    assert!(printed.contains("403") || printed.contains("401"), "{}", world.told(&waits));
    world.approve(&waits).await?;
    let done = world.until(&waits, "SUCCESSFUL").await;
    let known = world.known(&stack).await?;
    assert_eq!(known["stateVersion"]["resources"], 1, "{known} {}", world.told(&done));
    assert!(
        World::printed(&done).contains("400") || World::printed(&done).contains("422"),
        "{}",
        world.told(&done)
    );
    world.end();
    Ok(())
}

async fn a_stack_whose_cluster_is_gone_can_be_let_go(database: TestDatabase) -> anyhow::Result<()> {
    let mut world = World::simulated(&database).await?;
    let undo = json!({"deleteCommands": [{"cmd": "sh", "args": ["say.sh", "undone"]}]});
    let stack = holding(&world, "APPLY", undo).await?;
    let waits = world.planned(&stack, None).await;
    world.approve(&waits).await?;
    world.release(waits["id"].as_str().unwrap_or_default()).await?;
    world.until(&waits, "SUCCESSFUL").await;
    world.agent.stop();

    // A stack holds its cluster, also one that is not there any more.
    let ask = async |document: &str, id: &str| world.admin.ask(document, json!({"id": id})).await;
    let refused = ask("mutation ($id: ID!) { detachCluster(id: $id) { id } }", &world.cluster).await?;
    assert!(refused["errors"].to_string().contains("stack"), "{refused}");

    // What it made cannot be undone there: the run that would do it begins nowhere, and is cancelled. Then both are let go.
    world.does("deleteStack", &stack).await?;
    let destruction = world.newest(&stack).await?;
    assert_eq!(destruction["kind"], "DESTROY", "{}", world.told(&destruction));
    world.does("cancelStackRun", destruction["id"].as_str().unwrap_or_default()).await?;
    world.until(&destruction, "CANCELLED").await;
    world.does("detachStack", &stack).await?;
    let gone = ask("query ($id: ID!) { infrastructureStack(id: $id) { id } }", &stack).await?;
    assert!(gone["data"]["infrastructureStack"].is_null(), "{gone}");
    world.does("detachCluster", &world.cluster).await?;
    world.end();
    Ok(())
}
