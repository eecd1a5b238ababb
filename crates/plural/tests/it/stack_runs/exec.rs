//! Commands that somebody runs in the environment of a stack.

use plural_testkit::{TestDatabase, one_database};
use serde_json::json;

use super::world::World;
use crate::program::{Done, finish};

one_database!(
    sqlite,
    "what the databases do differently is tested with the console alone";
    a_command_of_somebodys_own
);

/// `plural cd stacks exec infra …`, as the administrator.
async fn exec(world: &World, words: &[&str]) -> anyhow::Result<Done> {
    let all = [["cd", "stacks", "exec", "infra"].as_slice(), words].concat();
    let mut command = world.home.plural(&all);
    command.env("PLURAL_CONSOLE_URL", world.console.url()).env("PLURAL_CONSOLE_TOKEN", &world.admin.token);
    finish(command).await
}

async fn a_command_of_somebodys_own(database: TestDatabase) -> anyhow::Result<()> {
    let world = World::simulated(&database).await?;
    world.remote.push_files([("infra/deep/a b.txt", "found\n")])?;
    let commands = json!([
        {"cmd": "sh", "args": ["-c", "echo would write"], "stage": "PLAN"},
        {"cmd": "sh", "args": ["-c", "echo wrote"], "stage": "APPLY"},
    ]);
    let environment = json!([{"name": "KEY", "value": "s3cr3t-value", "secret": true}]);
    let more = json!({"commands": commands, "environment": environment});
    let stack = world.stack("CUSTOM", "infra", more).await?;
    let waits = world.planned(&stack, None).await;

    // Its words are its own, its output is all of standard output, and its secrets are hidden.
    let Done { code, out, err } = exec(&world, &["--dir", "deep", "--", "cat", "a b.txt"]).await?;
    assert_eq!((code, out.as_str()), (Some(0), "found\n"), "{err}");
    let script = "echo \"$KEY\"; exit 7";
    let Done { code, out, err } = exec(&world, &["--", "sh", "-c", script]).await?;
    assert_eq!((code, out.as_str()), (Some(7), "***\n"), "{err}");
    // The plan that waits is still the one of the stack.
    let run = world.run(waits["id"].as_str().unwrap_or_default()).await?;
    assert_eq!((&run["status"], &run["plan"]), (&json!("PENDING_APPROVAL"), &waits["plan"]), "{run}");
    assert_eq!(world.known(&stack).await?["status"], "PENDING_APPROVAL");

    // With the rights to apply it waits for people, who read the command.
    let Done { code, err, .. } = exec(&world, &["--approve", "--", "echo", "it is done"]).await?;
    assert!(code == Some(1) && err.contains("plural cd stacks approve infra/"), "{code:?} {err}");
    let run = world.newest(&stack).await?;
    let text = run["plan"]["text"].as_str().unwrap_or_default();
    assert!(text.contains("echo 'it is done'"), "{}", world.told(&run));
    assert!(run["steps"].as_array().is_some_and(|steps| steps.len() == 1), "{}", world.told(&run));
    world.approve(&run).await?;
    let run = world.until(&run, "SUCCESSFUL").await;
    assert_eq!((&run["kind"], &run["phase"]), (&json!("COMMANDS"), &json!("APPLY")), "{run}");
    assert_eq!(World::printed(&run), "it is done\n", "{}", world.told(&run));
    world.end();
    Ok(())
}
