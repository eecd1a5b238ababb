//! Documents of definitions of stacks.

use plural_wire::{ChangeStackDefinition, MakeStackDefinition, ReadStackDefinition, RemoveStackDefinition};
use serde_json::{Value, json};

use super::{
    console::{Console, there},
    kind::{Info, Kind},
    project::{RECONCILIATION, described},
    schema::{Field, Type, field, refused},
    stack_fields::{HOOKS, STEPS, configuration, neat_steps, steps},
    state::{State, below, picked},
    thing::{Desired, Live},
};
use crate::error::CliError;

pub(super) static INFO: Info = Info {
    name: "StackDefinition",
    singular: "stackdefinition",
    plural: "stackdefinitions",
    short: &["stackdef", "stack-definition", "stack-definitions"],
    named_by: "NAME",
    docs: "Commands, an image and hooks that many stacks of type CUSTOM share.",
    fields: FIELDS,
};

const EACH_STACKS_OWN: &str = "the settings of a tool are each stack's own";

const CONFIGURATION: &[Field] = &[
    field("image", Type::Text, "Image with the programs, without tag."),
    field("version", Type::Text, "Version of them: the image's tag unless tag is given."),
    field("tag", Type::Text, "Tag of the image."),
    field("hooks", Type::List(HOOKS), "Commands between the others; all of them."),
    refused("terraform", EACH_STACKS_OWN),
    refused("terragrunt", EACH_STACKS_OWN),
    refused("pulumi", EACH_STACKS_OWN),
    refused("ansible", EACH_STACKS_OWN),
    refused("aiApproval", "plans are approved by people; leave it out"),
];

const FIELDS: &[Field] = &[
    field("name", Type::Text, "Unique name; else the document's."),
    field("description", Type::Text, "What it is for."),
    field("steps", Type::List(STEPS), "The commands of its stacks; all of them."),
    field("deleteSteps", Type::List(STEPS), "The commands that undo them; all of them."),
    field(
        "configuration",
        Type::Fields(CONFIGURATION),
        "What its stacks are run with, where they say nothing else.",
    ),
    RECONCILIATION,
];

pub(super) fn prepare(name: &str, said: &mut State) -> String {
    let name = super::state::text(said, "name").unwrap_or(name).to_owned();
    said.insert("name".into(), name.clone().into());
    for list in ["steps", "deleteSteps"] {
        neat_steps(said, list);
    }
    name
}

pub(super) async fn read(key: &str, console: &Console<'_>) -> Result<Option<Live>, CliError> {
    let ask = ReadStackDefinition(json!({"name": key}));
    let Some(answer) = there(console.client.send(&ask).await)? else { return Ok(None) };
    let mut state = picked(&answer, &["name", "description", "steps", "deleteSteps", "configuration"]);
    for list in ["steps", "deleteSteps"] {
        neat_steps(&mut state, list);
    }
    Ok(Some(Live::new(Kind::StackDefinition, key, &answer, &state)))
}

/// All that it is: the API takes it as a whole.
fn attributes(state: &State, name: &str) -> Value {
    json!({
        "name": name,
        "description": described(state),
        "steps": steps(state, "steps"),
        "deleteSteps": steps(state, "deleteSteps"),
        "configuration": configuration(None, below(state, "configuration")),
    })
}

pub(super) async fn make(state: &State, desired: &Desired, console: &Console<'_>) -> Result<Value, CliError> {
    let attributes = attributes(state, &desired.key);
    console.send(MakeStackDefinition(json!({"attributes": attributes}))).await
}

pub(super) async fn change(live: &Live, merged: &State, console: &Console<'_>) -> Result<Value, CliError> {
    let attributes = attributes(merged, &live.key);
    // What the document leaves out is as it was then.
    let update = json!({"id": live.id, "attributes": attributes, "unchangedSince": live.updated_at});
    console.send(ChangeStackDefinition(update)).await
}

pub(super) async fn remove(live: &Live, console: &Console<'_>) -> Result<Value, CliError> {
    console.send(RemoveStackDefinition(json!({"id": live.id}))).await
}
