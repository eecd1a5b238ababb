//! Documents of contexts.

use plural_wire::{ReadContext, RemoveContext, SaveContext};
use serde_json::{Value, json};

use super::{
    console::{Console, text, there},
    kind::{Info, Kind},
    project::{RECONCILIATION, id_attribute},
    schema::{Field, Type, field, refused},
    state::{State, picked},
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

const FIELDS: &[Field] = &[
    field("name", Type::Text, "Unique name; else the document's."),
    field("configuration", Type::Json, "The mapping; all of it."),
    field("secretRef", Type::Secret, "Secret among the files with values that are never shown; all of them.")
        .hidden(),
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
    attributes.extend(id_attribute(state, console).await?);
    console.send(SaveContext(json!({"name": desired.key, "attributes": attributes}))).await
}

pub(super) async fn change(
    _live: &Live,
    merged: &State,
    desired: &Desired,
    console: &mut Console<'_>,
) -> Result<Value, CliError> {
    let attributes = attributes(merged, desired);
    console.send(SaveContext(json!({"name": desired.key, "attributes": attributes}))).await
}

pub(super) async fn remove(live: &Live, console: &Console<'_>) -> Result<Value, CliError> {
    console.send(RemoveContext(json!({"id": live.id}))).await
}
