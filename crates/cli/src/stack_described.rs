//! `plural cd stacks describe`: all that is known of a stack, in lines.

use std::fmt::Write as _;

use chrono::Utc;
use plural_wire::StackDetails;

use crate::{
    output::{age, or_dash},
    stack_runs, stack_states, stacks,
};

/// All that is known of a stack.
pub(crate) fn words(known: &StackDetails) -> String {
    let now = Utc::now();
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let name = format!("{name}:");
        let _ = writeln!(text, "{name:<12}{value}");
    };
    let stack = &known.stack;
    line("Name", &or_dash(Some(&stack.name)));
    line("Id", &or_dash(Some(&stack.id)));
    line("Project", &or_dash(stack.project.as_ref().map(|project| project.name.as_str())));
    line("Type", stack.kind.as_str());
    for tag in stacks::tags(stack) {
        line("Tag", &or_dash(Some(&tag)));
    }
    line("Protected", if stack.protect { "yes" } else { "no" });
    line("Age", &age(stack.inserted_at, now));
    if let Some(git) = &stack.git {
        line("Status", &stacks::status(stack));
        line("Repository", &or_dash(known.repository.as_ref().map(|repository| repository.url.as_str())));
        line("Ref", &or_dash(Some(&git.reference)));
        line("Folder", &or_dash(Some(&git.folder)));
        line("Cluster", &or_dash(stack.cluster.as_ref().map(|cluster| cluster.name.as_str())));
        line("Looked at", &every(known));
        if let Some(connection) = &known.connection {
            line("Connection", &or_dash(Some(&connection.name)));
        }
        let applied = stack.sha.as_deref().map(stack_runs::short);
        let applied = match (applied, known.last_successful_at) {
            (Some(sha), Some(at)) => format!("{sha}, {} ago", age(Some(at), now)),
            (Some(sha), None) => sha,
            (None, _) => "nothing yet".to_owned(),
        };
        line("Applied", &or_dash(Some(&applied)));
        line("Approval", &approval(known));
    }
    if let Some(definition) = &known.definition {
        line("Definition", &or_dash(Some(&definition.name)));
    }
    if let Some(error) = &known.source_error {
        line("Error", &or_dash(Some(error)));
    }
    for variable in &known.environment {
        let value = if variable.secret == Some(true) { "(secret)" } else { variable.value.as_str() };
        line("Variable", &or_dash(Some(&format!("{}={value}", variable.name))));
    }
    for file in &known.files {
        line("File", &or_dash(Some(&file.path)));
    }
    match &stack.state_version {
        None => line("State", "none yet"),
        Some(state) => {
            line(
                "State",
                &format!(
                    "serial {}, {}, written {} ago by {}",
                    state.serial,
                    stack_states::resources_in_words(state),
                    age(state.inserted_at, now),
                    or_dash(Some(&state.author))
                ),
            );
            line("Lineage", &or_dash(Some(&state.lineage)));
        }
    }
    match &stack.lock {
        None => line("Lock", "none"),
        Some(lock) => {
            line(
                "Lock",
                &format!(
                    "{} since {} by {} ({}, {})",
                    or_dash(Some(&lock.id)),
                    age(lock.inserted_at, now),
                    or_dash(Some(&lock.author)),
                    or_dash(Some(&lock.who)),
                    or_dash(Some(&lock.operation))
                ),
            );
        }
    }
    text
}

/// How often its code is looked at, in words.
fn every(known: &StackDetails) -> String {
    match &known.interval {
        Some(interval) => format!("every {}", or_dash(Some(interval))),
        None => "as often as the console fetches the repository".to_owned(),
    }
}

/// Who has to agree to a plan, in words.
fn approval(known: &StackDetails) -> String {
    if known.approval != Some(true) {
        return "none: a plan is applied at once".to_owned();
    }
    let people = usize::try_from(known.required_approvals).unwrap_or(1);
    let people = if people == 1 { "1 person".to_owned() } else { format!("{people} people") };
    let own = if known.forbid_self_approval { ", other than who made the change" } else { "" };
    let expiry = known.approval_expiry.as_deref().map(|time| format!(", within {}", or_dash(Some(time))));
    let commands = if known.command_approval { "; all commands that somebody runs wait, too" } else { "" };
    format!("by {people}{own}{}{commands}", expiry.unwrap_or_default())
}
