//! Bad days of the tool itself: what it started hangs, it prints a gigabyte, and it writes a state that is not its any more.

use std::time::Duration;

use plural_core::run_call::MAX_STEP_LOG;
use plural_testkit::{TestDatabase, each_database, eventually, one_database, program_or_report};
use serde_json::{Value, json};

use super::{
    days::{HOLD, LOCK, SAY, lock, resource},
    place::{Process, below, harnesses, most_memory},
    world::{PATIENCE, World},
};

each_database!(who_lost_the_lock_writes_no_state);
one_database!(
    sqlite,
    "it is about processes and their logs, which are kept on both databases in the console's own cases";
    what_a_provider_started_ends_when_it_takes_too_long,
    what_a_provider_started_ends_with_a_cancelled_run,
    a_tool_that_prints_a_gigabyte_fills_nothing
);

/// What a provider starts and waits for: a shell that starts another program, both of which never end.
const HANG: &str = "echo it hangs\nsleep 1000000 &\nsleep 1000000\n";

/// A stack whose resource hangs while it is made, at that point: its run, and all that its harness started.
async fn hanging(world: &World, more: Value) -> anyhow::Result<(String, Value, Vec<Process>)> {
    world.remote.push_files([("infra/main.tf", resource("hang.sh")), ("infra/hang.sh", HANG.to_owned())])?;
    let mut attributes = json!({"manageState": true});
    for (name, value) in more.as_object().into_iter().flatten() {
        attributes[name] = value.clone();
    }
    let stack = world.stack("TERRAFORM", "infra", attributes).await?;
    let waits = world.planned(&stack, None).await;
    let run = waits["id"].as_str().unwrap_or_default().to_owned();
    world.approve(&waits).await?;
    world.prints(&run, "APPLY", "it hangs").await;
    let started = eventually(PATIENCE, async || {
        let found: Vec<Process> = harnesses(&run).into_iter().flat_map(below).collect();
        // The tool, the script of its provisioner, and what that started.
        if found.len() >= 4 { Ok(found) } else { Err(format!("{found:?}")) }
    })
    .await;
    Ok((stack, waits, started))
}

/// Waits until nothing of a run is left: no harness, nothing that was started, no lock. The stack goes on.
async fn nothing_is_left(world: &World, stack: &str, run: &Value, started: &[Process]) -> anyhow::Result<()> {
    let id = run["id"].as_str().unwrap_or_default();
    eventually(PATIENCE, async || {
        let left: Vec<&Process> = started.iter().filter(|process| process.is_there()).collect();
        if left.is_empty() && harnesses(id).is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    let known = world.known(stack).await?;
    assert_eq!(known["lock"], Value::Null, "{known} {}", world.told(run));
    // What was made halfway is in the state, and the next plan makes it anew.
    assert_eq!(known["stateVersion"]["resources"], 1, "{known} {}", world.told(run));
    let sha = world.remote.push_files([("infra/hang.sh", "echo it is made\n")])?;
    let waits = world.planned(stack, Some(&sha)).await;
    world.approve(&waits).await?;
    let done = world.until(&waits, "SUCCESSFUL").await;
    assert!(World::printed(&done).contains("it is made"), "{}", world.told(&done));
    Ok(())
}

async fn what_a_provider_started_ends_when_it_takes_too_long(database: TestDatabase) -> anyhow::Result<()> {
    if program_or_report("tofu").is_none() {
        return Ok(());
    }
    let world = World::simulated(&database).await?;
    // Long enough to plan, and to come to where it hangs, on a busy machine.
    let (stack, waits, started) = hanging(&world, json!({"timeout": "40s"})).await?;
    let failed = world.fails(&waits, &["longer than 40 seconds", "may have changed"]).await;
    nothing_is_left(&world, &stack, &failed, &started).await?;
    world.end();
    Ok(())
}

async fn what_a_provider_started_ends_with_a_cancelled_run(database: TestDatabase) -> anyhow::Result<()> {
    if program_or_report("tofu").is_none() {
        return Ok(());
    }
    let world = World::simulated(&database).await?;
    let (stack, waits, started) = hanging(&world, json!({})).await?;
    world.does("cancelStackRun", waits["id"].as_str().unwrap_or_default()).await?;
    let cancelled = world.until(&waits, "CANCELLED").await;
    nothing_is_left(&world, &stack, &cancelled, &started).await?;
    world.end();
    Ok(())
}

/// What is printed: one GiB.
const PRINTED: u64 = 1 << 30;
/// A line of it: 64 bytes with its end, so that the last one is whole.
const LINE: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde";
/// What the Job asks its node for, unless the stack says otherwise: what is kept of a log, the pieces on their way, and the program itself
/// are less.
const MEMORY: u64 = 256 << 20;
/// How long it may take to print and to read it, on a busy machine and in a program that is not optimised.
const PRINTING: Duration = Duration::from_mins(10);

async fn a_tool_that_prints_a_gigabyte_fills_nothing(database: TestDatabase) -> anyhow::Result<()> {
    let world = World::simulated(&database).await?;
    let script = format!("yes {LINE} | head -c {PRINTED}\n");
    world.remote.push_files([("shop/print.sh", script)])?;
    let more = json!({
        "timeout": "10m",
        "approval": false,
        "commands": [
            {"stage": "PLAN", "cmd": "true", "args": []},
            {"stage": "APPLY", "cmd": "sh", "args": ["print.sh"]},
        ],
    });
    let stack = world.stack("CUSTOM", "shop", more).await?;
    let run = world.begun(&stack).await;
    world.prints(&run, "APPLY", LINE).await;
    let mut most = 0;
    eventually(PRINTING, || {
        let running = harnesses(&run);
        most = running.iter().filter_map(|pid| most_memory(*pid)).fold(most, u64::max);
        async move { if running.is_empty() { Ok(()) } else { Err("the harness runs".to_owned()) } }
    })
    .await;
    assert!((1..MEMORY).contains(&most), "the harness used {} MiB", most >> 20);

    // All of it was read: the tool ended by itself, and what is not kept is counted to the byte.
    let done = world.until(&json!({"id": run}), "SUCCESSFUL").await;
    let log = world.plural(&format!("cd stacks logs shop/{}", done["number"])).await?;
    let parts = log.split_once("\n--- ").and_then(|(first, rest)| {
        let (dropped, last) = rest.split_once(" bytes are not kept: there is too much ---\n")?;
        Some((first, dropped.parse::<u64>().ok()?, last))
    });
    let Some((first, dropped, last)) = parts else {
        anyhow::bail!("{} bytes are kept, and nothing says what is not", log.len());
    };
    assert_eq!(first.len() as u64 + dropped + last.len() as u64, PRINTED);
    // As much as a log may have: its beginning, and of its end a MiB in whole lines.
    let length = log.len() as u64;
    assert!((MAX_STEP_LOG - (64 << 10)..=MAX_STEP_LOG).contains(&length), "{length} bytes are kept");
    assert!(((1 << 20) - 64..=1 << 20).contains(&last.len()), "{} bytes of the end", last.len());
    assert!([first, last].iter().all(|part| part.lines().all(|line| line == LINE)), "lines are whole");
    world.end();
    Ok(())
}

const STATES: &str = "query ($id: ID!) { infrastructureStack(id: $id) {
  lock { id } stateVersion { id serial } stateVersions { id serial resources rejected author }
} }";
const UNLOCK: &str = "mutation ($id: ID!, $l: ID!) { forceUnlockStack(stackId: $id, lock: $l) { id } }";
const RESTORE: &str = "mutation ($id: ID!, $v: ID!) { restoreStackState(stackId: $id, version: $v) { id } }";

/// A run applies, and somebody takes the state away from it and writes another one. What the run made is not forgotten.
async fn who_lost_the_lock_writes_no_state(database: TestDatabase) -> anyhow::Result<()> {
    if program_or_report("tofu").is_none() {
        return Ok(());
    }
    let world = World::simulated(&database).await?;
    let first = ("infra/main.tf", resource("say.sh"));
    world.remote.push_files([first.clone(), ("infra/say.sh", SAY.to_owned())])?;
    let stack = world.stack("TERRAFORM", "infra", json!({"manageState": true})).await?;
    let waits = world.planned(&stack, None).await;
    world.approve(&waits).await?;
    world.until(&waits, "SUCCESSFUL").await;
    let (_, state) = world.admin.get(&format!("/v1/stacks/{stack}/state")).await?;
    let mut other: Value = serde_json::from_str(&state)?;

    // One more resource, which holds the state while it is made.
    let second = ("infra/two.tf", resource("hold.sh").replace("\"one\" {", "\"two\" {"));
    let sha = world.remote.push_files([second, ("infra/hold.sh", HOLD.to_owned())])?;
    let waits = world.planned(&stack, Some(&sha)).await;
    let run = waits["id"].as_str().unwrap_or_default().to_owned();
    world.approve(&waits).await?;
    world.prints(&run, "APPLY", "it holds").await;
    let held = world.known(&stack).await?["lock"]["id"].take();
    world.admin.data(UNLOCK, json!({"id": stack, "l": held})).await?;
    assert_eq!(lock(&world, &stack, "LOCK").await?, 200);
    let serial = other["serial"].as_u64().unwrap_or_default() + 7;
    other["serial"] = json!(serial);
    let http = reqwest::Client::builder().tls_certs_only([]).build()?;
    let url = format!("{}/v1/stacks/{stack}/state?ID={LOCK}", world.console.url());
    let write = http.post(url).basic_auth("plural", Some(&world.admin.token)).body(other.to_string());
    assert_eq!(write.send().await?.status().as_u16(), 200);

    world.release(&run).await?;
    let failed = world.fails(&waits, &["errored.tfstate", "may have changed"]).await;
    let known = world.admin.data(STATES, json!({"id": stack})).await?["infrastructureStack"].take();
    assert_eq!(
        (&known["stateVersion"]["serial"], &known["lock"]["id"]),
        (&json!(serial), &json!(LOCK)),
        "{known}"
    );
    let versions = known["stateVersions"].as_array().cloned().unwrap_or_default();
    let rejected: Vec<&Value> = versions.iter().filter(|version| !version["rejected"].is_null()).collect();
    assert!(
        rejected.iter().any(|version| version["resources"] == 2 && version["author"] == format!("run:{run}")),
        "{known} {}",
        world.told(&failed)
    );

    // A person takes it in once nobody holds the state, and then nothing is left to do.
    let made = rejected.iter().find(|version| version["resources"] == 2).map(|version| version["id"].clone());
    world.admin.data(UNLOCK, json!({"id": stack, "l": LOCK})).await?;
    world.admin.data(RESTORE, json!({"id": stack, "v": made})).await?;
    let next = json!({"id": world.trigger(&stack).await?});
    let next = world.until(&next, "SUCCESSFUL").await;
    assert_eq!((&next["plan"]["add"], &next["phase"]), (&json!(0), &json!("PLAN")), "{}", world.told(&next));
    world.end();
    Ok(())
}
