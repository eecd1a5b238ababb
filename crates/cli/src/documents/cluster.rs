//! Documents of clusters: what the console knows of one. An agent still has to join it.

use plural_wire::{ChangeCluster, MakeCluster, ReadCluster, RemoveCluster};
use serde_json::{Map, Value, json};

use super::{
    console::{Console, text, there},
    kind::{Info, Kind},
    project::{BINDINGS, RECONCILIATION, bind, bindings, id_attribute, json_fields},
    schema::{Field, Type, field, refused},
    state::{State, picked},
    thing::{Desired, Live},
};
use crate::error::CliError;

pub(super) static INFO: Info = Info {
    name: "Cluster",
    singular: "cluster",
    plural: "clusters",
    short: &["cl"],
    named_by: "HANDLE",
    docs: "A Kubernetes cluster. A new one is registered; `plural cd clusters bootstrap` then installs its agent.",
    fields: FIELDS,
};

/// What Kubernetes clusters are known by.
pub(super) const DISTROS: &[&str] = &["GENERIC", "EKS", "AKS", "GKE", "RKE", "K3S", "OPENSHIFT"];

const BROUGHT: &str = "the console makes no clusters, it takes those that there are; leave it out";

const FIELDS: &[Field] = &[
    field("handle", Type::Text, "Unique short name; else the document's."),
    field("version", Type::Text, "The Kubernetes version to record."),
    field("protect", Type::Bool, "Refuse its deletion."),
    field("tags", Type::TextMap, "Tags by which it is selected; all of them."),
    field(
        "projectRef",
        Type::Reference(Kind::Project),
        "Where it belongs; the default project when absent. It cannot change.",
    ),
    field(
        "bindings",
        Type::Fields(BINDINGS),
        "Who may read and write; stays as it is where it is not named.",
    ),
    field("metadata", Type::Json, "Data for templates.").added(),
    field("distro", Type::Word(DISTROS), "What kind of Kubernetes it is.").added(),
    refused("providerRef", BROUGHT),
    refused("cloud", BROUGHT),
    refused("cloudSettings", BROUGHT),
    refused("nodePools", BROUGHT),
    refused("disableAI", "the console runs no AI; leave it out"),
    RECONCILIATION,
];

pub(super) fn prepare(name: &str, said: &mut State) -> String {
    let handle = super::state::text(said, "handle").unwrap_or(name).to_owned();
    said.insert("handle".into(), handle.clone().into());
    handle
}

pub(super) async fn read(key: &str, console: &mut Console<'_>) -> Result<Option<Live>, CliError> {
    let Some(answer) = there(console.client.send(&ReadCluster(json!({"handle": key}))).await)? else {
        return Ok(None);
    };
    let mut state = picked(&answer, &["handle", "version", "protect", "metadata", "distro"]);
    state.insert("tags".into(), tags(&answer));
    state.insert("bindings".into(), bindings(&answer));
    if let Some(project) = answer.get("project").and_then(|project| text(project, "id")) {
        state.extend(
            console.key(Kind::Project, &project).await?.map(|name| ("projectRef".into(), name.into())),
        );
    }
    Ok(Some(Live::new(Kind::Cluster, key, &answer, &state)))
}

/// The tags of an answer, as a mapping.
pub(super) fn tags(answer: &Value) -> Value {
    let all = answer.get("tags").and_then(Value::as_array).into_iter().flatten();
    let all = all.filter_map(|tag| Some((text(tag, "name")?, Value::from(text(tag, "value")?))));
    Value::Object(all.collect::<Map<_, _>>())
}

/// Tags as attributes.
pub(super) fn tag_list(state: &State) -> Value {
    let all = state.get("tags").and_then(Value::as_object).into_iter().flatten();
    all.map(|(name, value)| json!({"name": name, "value": value})).collect()
}

pub(super) async fn make(
    state: &State,
    desired: &Desired,
    console: &mut Console<'_>,
) -> Result<Value, CliError> {
    let mut attributes = json_fields(&[("name", json!(desired.key)), ("handle", json!(desired.key))]);
    attributes.extend(picked(&Value::Object(state.clone()), &["version", "protect", "distro"]));
    attributes.insert("tags".into(), tag_list(state));
    attributes.extend(state.get("metadata").map(|data| ("metadata".into(), data.to_string().into())));
    attributes.extend(id_attribute(state, console).await?);
    bind(&mut attributes, None, state, console).await?;
    console.send(MakeCluster(json!({"attributes": attributes}))).await
}

pub(super) async fn change(
    live: &Live,
    merged: &State,
    _desired: &Desired,
    console: &mut Console<'_>,
) -> Result<Value, CliError> {
    let mut attributes = State::new();
    for (name, value) in changed(&live.state, merged) {
        match name {
            "tags" => attributes.insert("tags".into(), tag_list(merged)),
            "metadata" => {
                let data = value.cloned().unwrap_or_else(|| json!({}));
                attributes.insert("metadata".into(), data.to_string().into())
            }
            "protect" => attributes.insert("protect".into(), value.is_some().into()),
            "version" | "distro" => attributes.insert(name.into(), value.cloned().unwrap_or_default()),
            _ => None,
        };
    }
    bind(&mut attributes, Some(&live.state), merged, console).await?;
    console.send(ChangeCluster(json!({"id": live.id, "attributes": attributes}))).await
}

/// The fields that differ, with what they become.
pub(super) fn changed<'s>(
    live: &'s State,
    merged: &'s State,
) -> impl Iterator<Item = (&'s str, Option<&'s Value>)> {
    let gone = live.keys().filter(|name| !merged.contains_key(*name));
    let all = merged.keys().chain(gone).filter(|name| live.get(*name) != merged.get(*name));
    all.map(|name| (name.as_str(), merged.get(name)))
}

pub(super) async fn remove(live: &Live, console: &Console<'_>) -> Result<Value, CliError> {
    console.send(RemoveCluster(json!({"id": live.id}))).await
}
