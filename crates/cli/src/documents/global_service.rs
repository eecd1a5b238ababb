//! Documents of global services.

use plural_wire::{ChangeGlobalService, MakeGlobalService, ReadGlobalService, RemoveGlobalService};
use serde_json::{Value, json};

use super::{
    cluster::{DISTROS, tag_list, tags},
    console::{Console, text, there},
    kind::{Info, Kind},
    project::{RECONCILIATION, id_attribute},
    schema::{Field, Type, field, refused},
    state::{Hidden, State, picked, sorted},
    template::{self, TEMPLATE},
    thing::{Desired, Live},
};
use crate::error::CliError;

pub(super) static INFO: Info = Info {
    name: "GlobalService",
    singular: "globalservice",
    plural: "globalservices",
    short: &["gs", "global", "global-service", "global-services"],
    named_by: "NAME",
    docs: "One service on every cluster that it targets.",
    fields: FIELDS,
};

pub(super) const CASCADE: &[Field] = &[
    field("delete", Type::Bool, "They are deleted with their objects."),
    field("detach", Type::Bool, "They are forgotten; their objects stay."),
];

const CONTEXT: &[Field] =
    &[field("raw", Type::Json, "Data that Liquid templates read as context.").required()];

const TAG: &[Field] =
    &[field("name", Type::Text, "Its name.").required(), field("value", Type::Text, "Its value.").required()];

const MEMBERS: &[Field] = &[
    field("clusters", Type::Texts, "Handles of these clusters."),
    field("percent", Type::Int, "So much of all."),
    field("tag", Type::Fields(TAG), "Clusters with this tag."),
];

const COHORTS: &[Field] = &[
    field("name", Type::Text, "For people.").required(),
    field("members", Type::Fields(MEMBERS), "Who is in it: one of the fields.").required(),
];

const ROLLOUT: &[Field] = &[
    field("cohorts", Type::List(COHORTS), "In order; clusters in none of them make the last one."),
    field("maxUnavailable", Type::Text, "How many clusters may be moving or unwell at once: 3 or 10%."),
    field("soakSeconds", Type::Int, "Seconds that a cohort must stay healthy before the next begins."),
    field("timeoutSeconds", Type::Int, "Seconds that a cluster may take to become healthy."),
    field("maxFailures", Type::Int, "Clusters that may fail before it halts."),
    field("undo", Type::Bool, "Moves everybody back when it would halt."),
];

const FIELDS: &[Field] = &[
    field("name", Type::Text, "Unique name; else the document's."),
    field("tags", Type::TextMap, "Tags that a cluster must have to be meant; all of them."),
    field("distro", Type::Word(DISTROS), "The kind of Kubernetes that a cluster must be."),
    field(
        "projectRef",
        Type::Reference(Kind::Project),
        "Only clusters of this project; every cluster when absent. It cannot change.",
    ),
    field("ignoreClusters", Type::Texts, "Handles of clusters that are left out."),
    field(
        "serviceRef",
        Type::Reference(Kind::ServiceDeployment),
        "Service whose copies the instances are; instead of template. It cannot change.",
    ),
    field("template", Type::Fields(TEMPLATE), "What the instances are made from."),
    field("context", Type::Fields(CONTEXT), "Data for Liquid templates in the template's own fields."),
    field("cascade", Type::Fields(CASCADE), "What becomes of instances that are no longer wanted."),
    field("reparent", Type::Bool, "Take over a service of the same name that a cluster has already."),
    field(
        "rollout",
        Type::Fields(ROLLOUT),
        "How changes move from cluster to cluster; to all at once when absent.",
    )
    .added(),
    refused("interval", "instances are checked at the agent's rhythm; leave it out"),
    refused("mgmt", "the console does not know a management cluster; select clusters by tags"),
    refused("providerRef", "the console makes no clusters; select them by tags or distro"),
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
    if let Some(ignored) = said.get_mut("ignoreClusters").filter(|list| list.is_array()) {
        *ignored = sorted(Some(ignored));
    }
    template::prepare("template", said, hidden, problems);
    let has = |field: &str| said.get(field).is_some_and(|value| !value.is_null());
    if has("serviceRef") && has("template") {
        problems.push("spec.template: must not be given together with serviceRef".to_owned());
    }
    name
}

pub(super) async fn read(key: &str, console: &mut Console<'_>) -> Result<Option<Live>, CliError> {
    let ask = ReadGlobalService(json!({"name": key}));
    let Some(answer) = there(console.client.send(&ask).await)? else { return Ok(None) };
    let mut state = picked(&answer, &["name", "distro", "reparent", "cascade", "context"]);
    state.insert("tags".into(), tags(&answer));
    for (field, reference, kind) in
        [("project", "projectRef", Kind::Project), ("service", "serviceRef", Kind::ServiceDeployment)]
    {
        if let Some(id) = answer.get(field).and_then(|one| text(one, "id")) {
            state.extend(console.key(kind, &id).await?.map(|key| (reference.to_owned(), key.into())));
        }
    }
    let mut ignored = Vec::new();
    for id in answer.get("ignoreClusters").and_then(Value::as_array).into_iter().flatten() {
        ignored.push(handle(id, console).await?);
    }
    state.insert("ignoreClusters".into(), sorted(Some(&ignored.into())));
    if let Some(strategy) = answer.get("rolloutStrategy").filter(|strategy| !strategy.is_null()) {
        let mut strategy = strategy.clone();
        for cohort in strategy.get_mut("cohorts").and_then(Value::as_array_mut).into_iter().flatten() {
            for id in cohort["members"]["clusters"].as_array_mut().into_iter().flatten() {
                *id = handle(id, console).await?;
            }
        }
        state.insert("rollout".into(), strategy);
    }
    // Of copies of a service the console shows what the copies are made from.
    let mut notes = Vec::new();
    if !state.contains_key("serviceRef") {
        state.insert("template".into(), Value::Object(template::read(&answer["template"], console).await?));
        notes.push(template::note("template"));
    }
    let live = Live::new(Kind::GlobalService, key, &answer, &state);
    Ok(Some(Live { notes, ..live }))
}

async fn handle(id: &Value, console: &mut Console<'_>) -> Result<Value, CliError> {
    let id = id.as_str().unwrap_or_default();
    Ok(console.key(Kind::Cluster, id).await?.unwrap_or_else(|| id.to_owned()).into())
}

async fn cluster_ids(list: Option<&Value>, console: &mut Console<'_>) -> Result<Value, CliError> {
    let mut ids = Vec::new();
    for handle in list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        ids.push(Value::from(console.known_id(Kind::Cluster, handle).await?));
    }
    Ok(ids.into())
}

/// The attributes of these fields.
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
            "tags" => tag_list(state),
            "ignoreClusters" => cluster_ids(value.as_ref(), console).await?,
            "reparent" => value.is_some().into(),
            "context" => match value {
                Some(context) => json!({"raw": context["raw"].to_string()}),
                None => Value::Null,
            },
            "rollout" => match value {
                Some(mut rollout) => {
                    for cohort in
                        rollout.get_mut("cohorts").and_then(Value::as_array_mut).into_iter().flatten()
                    {
                        if let Some(list) = cohort["members"].get("clusters").cloned() {
                            cohort["members"]["clusters"] = cluster_ids(Some(&list), console).await?;
                        }
                    }
                    rollout
                }
                None => Value::Null,
            },
            "distro" | "cascade" => value.unwrap_or_default(),
            "template" => match template::attributes("template", state, hidden, console).await? {
                Some(template) => template,
                None => continue,
            },
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
    attributes.extend(id_attribute(state, console).await?);
    let service = match super::state::text(state, "serviceRef") {
        Some(service) => Some(console.known_id(Kind::ServiceDeployment, service).await?),
        None => None,
    };
    console.send(MakeGlobalService(json!({"serviceId": service, "attributes": attributes}))).await
}

pub(super) async fn change(
    live: &Live,
    merged: &State,
    desired: &Desired,
    console: &mut Console<'_>,
) -> Result<Value, CliError> {
    let names = template::changed_fields("template", live, merged, desired);
    let mut attributes = attributes(&names, merged, &desired.hidden, console).await?;
    attributes.insert("name".into(), desired.key.clone().into());
    console.send(ChangeGlobalService(json!({"id": live.id, "attributes": attributes}))).await
}

pub(super) async fn remove(live: &Live, console: &Console<'_>) -> Result<Value, CliError> {
    console.send(RemoveGlobalService(json!({"id": live.id}))).await
}
