//! Documents of contexts.

use plural_wire::{ReadContext, RemoveContext, SaveContext};
use serde_json::{Value, json};

use super::{
    console::{Console, text, there},
    kind::{Info, Kind},
    project::{RECONCILIATION, id_attribute},
    schema::{Field, Type, field, refused},
    state::{State, picked, sorted},
    thing::{Desired, Live, Values},
};
use crate::error::CliError;

pub(super) static INFO: Info = Info {
    name: "ServiceContext",
    singular: "servicecontext",
    plural: "servicecontexts",
    short: &["ctx", "context", "contexts"],
    named_by: "NAME",
    docs: "A named mapping that the templates of services read as contexts.NAME.",
    fields: FIELDS,
};

const CONFIG_MAP: &str = "`plural apply` reads no cluster; write the values in configuration";

const IMPORTS: &[Field] = &[
    field("stackRef", Type::Reference(Kind::InfrastructureStack), "The stack.").required(),
    field("output", Type::Text, "Name of the output.").required(),
    field("name", Type::Text, "The name that templates read; else the output's."),
    field(
        "sensitive",
        Type::Bool,
        "Take it also where the tool calls it sensitive. That needs the right to read the stack's state.",
    ),
];

const FIELDS: &[Field] = &[
    field("name", Type::Text, "Unique name; else the document's."),
    field("configuration", Type::Json, "The mapping; all of it."),
    field("secretRef", Type::Secret, "Secret among the files with values that are never shown; all of them.")
        .hidden(),
    field("imports", Type::List(IMPORTS), "Outputs of stacks that it takes; all of them.").added(),
    field(
        "projectRef",
        Type::Reference(Kind::Project),
        "Where it belongs; the default project when absent. It cannot change.",
    ),
    refused("configMapRef", CONFIG_MAP),
    refused("configMapRefs", CONFIG_MAP),
    RECONCILIATION,
];

pub(super) async fn read(key: &str, console: &mut Console<'_>) -> Result<Option<Live>, CliError> {
    let ask = ReadContext(json!({"name": key}));
    let Some(answer) = there(console.client.send(&ask).await)? else { return Ok(None) };
    let mut state = picked(&answer, &["name", "configuration"]);
    if let Some(project) = answer.get("project").and_then(|project| text(project, "id")) {
        state.extend(
            console.key(Kind::Project, &project).await?.map(|name| ("projectRef".into(), name.into())),
        );
    }
    let imports = answer.get("imports").and_then(Value::as_array).into_iter().flatten();
    let imports = imports.filter_map(|import| {
        let mut one = picked(import, &["output", "name", "sensitive"]);
        one.insert("stackRef".into(), text(import.get("stack")?, "name")?.into());
        Some(Value::Object(one))
    });
    let imports: Vec<Value> = imports.collect();
    if !imports.is_empty() {
        state.insert("imports".into(), imports.into());
        order_imports(&mut state);
    }
    let mut live = Live::new(Kind::ServiceContext, key, &answer, &state);
    let names: Vec<&str> = answer
        .get("secretNames")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if !names.is_empty() {
        live.notes.push(format!("secret keys of spec.secretRef: {}", names.join(", ")));
    }
    Ok(Some(live))
}

/// The console tells names of secret values only.
pub(super) fn values(live: &Live, desired: &Desired) -> Values {
    let secret = desired.hidden.get("secretRef").and_then(Value::as_object);
    let mut names: Vec<&str> = secret.into_iter().flat_map(|all| all.keys()).map(String::as_str).collect();
    names.sort_unstable();
    let mut known: Vec<&str> = live
        .notes
        .iter()
        .filter_map(|note| note.strip_prefix("secret keys of spec.secretRef: "))
        .flat_map(|names| names.split(", "))
        .collect();
    known.sort_unstable();
    match (names.is_empty(), names == known) {
        (_, false) => Values::Other,
        (true, true) => Values::Same,
        (false, true) => Values::Unknown,
    }
}

/// Puts imports in the order in which they are compared, without what is so by itself.
pub(super) fn order_imports(state: &mut State) {
    let Some(Value::Array(all)) = state.get_mut("imports") else { return };
    for one in all.iter_mut().filter_map(Value::as_object_mut) {
        if one.get("name") == one.get("output") {
            one.remove("name");
        }
        if one.get("sensitive") == Some(&Value::Bool(false)) {
            one.remove("sensitive");
        }
    }
    *all = sorted(Some(&all.clone().into())).as_array().cloned().unwrap_or_default();
}

async fn imports(state: &State, console: &mut Console<'_>) -> Result<Value, CliError> {
    let mut all = Vec::new();
    for import in state.get("imports").and_then(Value::as_array).into_iter().flatten() {
        let Some(stack) = text(import, "stackRef") else { continue };
        let stack_id = console.known_id(Kind::InfrastructureStack, &stack).await?;
        let mut one = picked(import, &["output", "name", "sensitive"]);
        one.insert("stackId".into(), stack_id.into());
        all.push(Value::Object(one));
    }
    Ok(all.into())
}

fn attributes(state: &State, desired: &Desired) -> State {
    let configuration = state.get("configuration").cloned().unwrap_or_else(|| json!({}));
    let mut attributes = State::new();
    attributes.insert("configuration".into(), configuration.to_string().into());
    if let Some(secret) = desired.hidden.get("secretRef") {
        attributes.insert("secrets".into(), values_list(secret));
    }
    attributes
}

/// A mapping as a list of names and values.
pub(super) fn values_list(values: &Value) -> Value {
    let all = values.as_object().into_iter().flatten();
    all.map(|(name, value)| json!({"name": name, "value": value})).collect()
}

pub(super) async fn make(
    state: &State,
    desired: &Desired,
    console: &mut Console<'_>,
) -> Result<Value, CliError> {
    let mut attributes = attributes(state, desired);
    attributes.insert("imports".into(), imports(state, console).await?);
    attributes.extend(id_attribute(state, console).await?);
    console.send(SaveContext(json!({"name": desired.key, "attributes": attributes}))).await
}

pub(super) async fn change(
    live: &Live,
    merged: &State,
    desired: &Desired,
    console: &mut Console<'_>,
) -> Result<Value, CliError> {
    let mut attributes = attributes(merged, desired);
    if merged.get("imports") != live.state.get("imports") {
        // Rights are asked for what is named: those that stay are not asked for again.
        attributes.insert("imports".into(), imports(merged, console).await?);
    }
    console.send(SaveContext(json!({"name": desired.key, "attributes": attributes}))).await
}

pub(super) async fn remove(live: &Live, console: &Console<'_>) -> Result<Value, CliError> {
    console.send(RemoveContext(json!({"id": live.id}))).await
}
