//! Documents of managed namespaces.

use plural_wire::{
    ChangeManagedNamespace, MakeManagedNamespace, ReadManagedNamespace, RemoveManagedNamespace,
};
use serde_json::{Value, json};

use super::{
    cluster::DISTROS,
    console::{Console, text, there},
    global_service::CASCADE,
    kind::{Info, Kind},
    project::{RECONCILIATION, described, id_attribute},
    schema::{Field, Type, field},
    state::{Hidden, State, below, picked},
    template::{self, TEMPLATE},
    thing::{Desired, Live},
};
use crate::error::CliError;

pub(super) static INFO: Info = Info {
    name: "ManagedNamespace",
    singular: "managednamespace",
    plural: "managednamespaces",
    short: &["ns", "mns", "namespace", "namespaces", "managed-namespace", "managed-namespaces"],
    named_by: "NAME",
    docs: "One namespace on every cluster that it targets.",
    fields: FIELDS,
};

const TARGET: &[Field] = &[
    field("tags", Type::TextMap, "Tags that a cluster must have to be meant; all of them."),
    field("distro", Type::Word(DISTROS), "The kind of Kubernetes that a cluster must be."),
];

const FIELDS: &[Field] = &[
    field("name", Type::Text, "Unique name; else the document's."),
    field("namespace", Type::Text, "What it is called in its clusters; else its name. It cannot change.")
        .added(),
    field("description", Type::Text, "For people."),
    field("labels", Type::TextMap, "Labels that it has at least; all of them."),
    field("annotations", Type::TextMap, "Annotations that it has at least; all of them."),
    field("pullSecrets", Type::Texts, "Secrets in it that its default ServiceAccount pulls images with."),
    field("service", Type::Fields(TEMPLATE), "A service in it."),
    field("target", Type::Fields(TARGET), "Which clusters are meant; all when absent."),
    field("cascade", Type::Fields(CASCADE), "What becomes of it on clusters that are no longer meant."),
    field(
        "projectRef",
        Type::Reference(Kind::Project),
        "Only clusters of this project; every cluster when absent. It cannot change.",
    ),
    RECONCILIATION,
];

pub(super) fn prepare(
    name: &str,
    said: &mut State,
    hidden: &mut Hidden,
    problems: &mut Vec<String>,
) -> String {
    let name = super::state::text(said, "name").unwrap_or(name).to_owned();
    said.insert("name".into(), name.clone().into());
    template::prepare("service", said, hidden, problems);
    name
}

pub(super) async fn read(key: &str, console: &mut Console<'_>) -> Result<Option<Live>, CliError> {
    let ask = ReadManagedNamespace(json!({"name": key}));
    let Some(answer) = there(console.client.send(&ask).await)? else { return Ok(None) };
    let simple =
        ["name", "namespace", "description", "labels", "annotations", "pullSecrets", "target", "cascade"];
    let mut state = picked(&answer, &simple);
    if let Some(id) = answer.get("project").and_then(|project| text(project, "id")) {
        state.extend(console.key(Kind::Project, &id).await?.map(|name| ("projectRef".into(), name.into())));
    }
    let mut notes = Vec::new();
    if let Some(service) = answer.get("service").filter(|service| !service.is_null()) {
        let mut service = template::read(service, console).await?;
        // It lies in the namespace whatever its template says.
        service.remove("namespace");
        state.insert("service".into(), Value::Object(service));
        notes.push(template::note("service"));
    }
    let live = Live::new(Kind::ManagedNamespace, key, &answer, &state);
    Ok(Some(Live { notes, ..live }))
}

async fn attributes(
    names: &[String],
    state: &State,
    hidden: &Hidden,
    console: &mut Console<'_>,
) -> Result<State, CliError> {
    let mut attributes = State::new();
    for name in names {
        let value = state.get(name.as_str()).cloned();
        let value = match name.as_str() {
            "description" => described(state),
            "labels" | "annotations" => value.unwrap_or_else(|| json!({})).to_string().into(),
            "pullSecrets" => value.unwrap_or_else(|| json!([])),
            "cascade" => value.unwrap_or_else(|| json!({})),
            "target" => {
                let target = below(state, "target");
                let part = |name: &str| target.and_then(|target| target.get(name)).cloned();
                let tags = part("tags").unwrap_or_else(|| json!({})).to_string();
                json!({"tags": tags, "distro": part("distro")})
            }
            "service" => template::attributes("service", state, hidden, console).await?.unwrap_or_default(),
            _ => continue,
        };
        attributes.insert(name.clone(), value);
    }
    Ok(attributes)
}

pub(super) async fn make(
    state: &State,
    desired: &Desired,
    console: &mut Console<'_>,
) -> Result<Value, CliError> {
    let names: Vec<String> = state.keys().cloned().collect();
    let mut attributes = attributes(&names, state, &desired.hidden, console).await?;
    attributes.insert("name".into(), desired.key.clone().into());
    attributes.extend(state.get("namespace").map(|name| ("namespace".into(), name.clone())));
    attributes.extend(id_attribute(state, console).await?);
    console.send(MakeManagedNamespace(json!({"attributes": attributes}))).await
}

pub(super) async fn change(
    live: &Live,
    merged: &State,
    desired: &Desired,
    console: &mut Console<'_>,
) -> Result<Value, CliError> {
    let names = template::changed_fields("service", live, merged, desired);
    let mut attributes = attributes(&names, merged, &desired.hidden, console).await?;
    attributes.insert("name".into(), desired.key.clone().into());
    console.send(ChangeManagedNamespace(json!({"id": live.id, "attributes": attributes}))).await
}

pub(super) async fn remove(live: &Live, console: &Console<'_>) -> Result<Value, CliError> {
    console.send(RemoveManagedNamespace(json!({"id": live.id}))).await
}
