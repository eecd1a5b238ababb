//! A stack from the wizard of the web console to its end, in a real browser, driven by `ui/tests/stack_day.mjs`.

use plural_testkit::{TestDatabase, each_database, one_database, program_or_report};
use serde_json::json;

use super::{life::configuration, world::World};
use crate::{
    web_console::{built, node, seen},
    world::{EMAIL, PASSWORD},
};

each_database!(a_stack_is_made_read_approved_and_destroyed);
one_database!(
    sqlite,
    "the pages are the same, whatever keeps what they show";
    a_stack_is_made_and_destroyed_by_keyboard,
    a_stack_of_commands_is_made_and_destroyed,
    a_stack_of_commands_is_made_and_destroyed_by_keyboard
);

/// What reads the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    OpenTofu,
    Commands,
}

const DAY: [&str; 8] = ["signsIn", "makes", "reads", "approves", "looks", "sees", "hears", "destroys"];
const KEYS: [&str; 1] = ["byKeys"];

async fn a_stack_is_made_read_approved_and_destroyed(database: TestDatabase) -> anyhow::Result<()> {
    passes(database, Tool::OpenTofu, "day", &DAY).await
}

async fn a_stack_is_made_and_destroyed_by_keyboard(database: TestDatabase) -> anyhow::Result<()> {
    passes(database, Tool::OpenTofu, "keys", &KEYS).await
}

async fn a_stack_of_commands_is_made_and_destroyed(database: TestDatabase) -> anyhow::Result<()> {
    passes(database, Tool::Commands, "day", &DAY).await
}

async fn a_stack_of_commands_is_made_and_destroyed_by_keyboard(database: TestDatabase) -> anyhow::Result<()> {
    passes(database, Tool::Commands, "keys", &KEYS).await
}

/// A part of the day goes through all its steps.
async fn passes(database: TestDatabase, tool: Tool, part: &str, steps: &[&str]) -> anyhow::Result<()> {
    let Some(ui) = built() else { return Ok(()) };
    if tool == Tool::OpenTofu && program_or_report("tofu").is_none() {
        return Ok(());
    }
    let world = World::simulated(&database).await?;
    world.remote.push_files([("infra/main.tf", configuration("hello"))])?;
    let told = json!({
        "url": world.console.url(),
        "email": EMAIL,
        "password": PASSWORD,
        "remote": world.remote.path(),
        "cluster": "blue",
        "tool": match tool {
            Tool::OpenTofu => "TERRAFORM",
            Tool::Commands => "CUSTOM",
        },
    });
    let seen = seen(node(&ui, "tests/stack_day.mjs", &[part, &told.to_string()])).await?;
    assert_eq!(seen["steps"], json!(steps), "{seen} {}", world.told(&seen));
    // What was shown to one person is in no log.
    let secrets = [("output", "s3cr3t-hello".to_owned())];
    crate::asker::holds_none("the console's log", world.console.log().as_bytes(), &secrets);
    crate::asker::holds_none("the agent's log", world.agent.log().as_bytes(), &secrets);
    world.end();
    Ok(())
}
