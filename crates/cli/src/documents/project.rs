//! Documents of projects, and the bindings that several kinds have.

use plural_wire::{
    ChangeProject, LimitProject, MakeProject, ReadProject, RemoveProject, SetProjectStackSettings,
};
use serde_json::{Value, json};

use super::{
    console::{Console, text, there},
    kind::{Info, Kind},
    schema::{Field, Support, Type, field, refused},
    stack_fields::{JOB, told_job},
    state::{State, below, picked, sorted},
    thing::{Desired, Live},
};
use crate::error::CliError;

pub(super) static INFO: Info = Info {
    name: "Project",
    singular: "project",
    plural: "projects",
    short: &["proj"],
    named_by: "NAME",
    docs: "A part of the fleet with its own readers, writers and administrators.",
    fields: FIELDS,
};

const FIELDS: &[Field] = &[
    field("name", Type::Text, "Unique name.").required(),
    field("description", Type::Text, "What it is for."),
    field(
        "bindings",
        Type::Fields(BINDINGS),
        "Who may read and write; stays as it is where it is not named.",
    ),
    field("limits", Type::Fields(LIMITS), "What its services may touch. * stands for any run of characters.")
        .added(),
    field(
        "stackSettings",
        Type::Fields(STACK_SETTINGS),
        "What its stacks have where they say nothing themselves.",
    )
    .added(),
    RECONCILIATION,
];

const STACK_SETTINGS: &[Field] = &[field("jobSpec", Type::Fields(JOB), "The Kubernetes Jobs of their runs.")];

const LIMITS: &[Field] = &[
    field("namespaces", Type::Texts, "Namespaces that may be written to."),
    field("allowedKinds", Type::Texts, "Kinds that may be written: group/Kind, /Kind of the core group."),
    field("deniedKinds", Type::Texts, "Kinds that may not be written."),
    field("noClusterScoped", Type::Bool, "No objects outside of namespaces, except clusterKinds."),
    field("clusterKinds", Type::Texts, "Kinds of objects outside of namespaces that may be written."),
    field("repositories", Type::Texts, "Where services may be read from."),
    field("serviceAccounts", Type::Texts, "NAMESPACE/NAME of service accounts that services may act as."),
    field("requireServiceAccount", Type::Bool, "Every service acts as a service account."),
    field("defaultServiceAccount", Type::Text, "The service account of a service that names none."),
    field(
        "referenceNamespaces",
        Type::Texts,
        "Namespaces whose Secrets and ConfigMaps services may refer to.",
    ),
    field("runNamespaces", Type::Texts, "Namespaces of the Jobs of runs of stacks."),
    field("runImages", Type::Texts, "Images that runs of stacks may have."),
    field("planServiceAccount", Type::Text, "The service account of Jobs that plan."),
    field("applyServiceAccount", Type::Text, "The service account of Jobs that apply."),
    field("moduleSources", Type::Texts, "From where the code of stacks may take modules."),
];

const BY_NAME: &str = "ids are of one console; name users by userEmail and groups by groupName";

const BINDING: &[Field] = &[
    field("userEmail", Type::Text, "A user, by e-mail address."),
    field("groupName", Type::Text, "A group, by name."),
    refused("id", BY_NAME),
    refused("UserID", BY_NAME),
    refused("groupID", BY_NAME),
];

pub(super) const BINDINGS: &[Field] = &[
    field("read", Type::List(BINDING), "Who may look."),
    field("write", Type::List(BINDING), "Who may change."),
];

/// The field that all kinds have.
pub(super) const RECONCILIATION: Field = Field {
    support: Support::Operator,
    ..field(
        "reconciliation",
        Type::Json,
        "How an operator applies the document again and again; no effect here.",
    )
};

pub(super) fn prepare(said: &State) -> String {
    super::state::text(said, "name").unwrap_or_default().to_owned()
}

/// The bindings that the console tells.
pub(super) fn bindings(answer: &Value) -> Value {
    let list = |name: &str| {
        let all = answer.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
        let bindings = all.iter().filter_map(|one| {
            let user = one.get("user").and_then(|user| text(user, "email"));
            let group = one.get("group").and_then(|group| text(group, "name"));
            user.map(|email| json!({"userEmail": email}))
                .or_else(|| group.map(|name| json!({"groupName": name})))
        });
        sorted(Some(&bindings.collect::<Vec<_>>().into()))
    };
    json!({"read": list("readBindings"), "write": list("writeBindings")})
}

/// Puts bindings in the order in which they are compared.
pub(super) fn order_bindings(said: &mut State) {
    if let Some(Value::Object(bindings)) = said.get_mut("bindings") {
        for list in bindings.values_mut().filter(|list| list.is_array()) {
            *list = sorted(Some(list));
        }
    }
}

/// Attributes of bindings, where `before` has others.
pub(super) async fn bind(
    attributes: &mut State,
    before: Option<&State>,
    state: &State,
    console: &mut Console<'_>,
) -> Result<(), CliError> {
    let bindings =
        |state: &State, name: &str| below(state, "bindings").and_then(|all| all.get(name)).cloned();
    for (name, attribute) in [("read", "readBindings"), ("write", "writeBindings")] {
        let wanted = bindings(state, name);
        if wanted != before.and_then(|before| bindings(before, name)) {
            attributes.insert(attribute.into(), console.bindings(wanted.as_ref()).await?);
        }
    }
    Ok(())
}

pub(super) async fn read(key: &str, console: &mut Console<'_>) -> Result<Option<Live>, CliError> {
    let Some(answer) = there(console.client.send(&ReadProject(json!({"name": key}))).await)? else {
        return Ok(None);
    };
    let mut state = picked(&answer, &["name", "description", "limits"]);
    if let Some(job) = answer.pointer("/stackSettings/jobSpec").filter(|job| job.is_object()) {
        state.insert("stackSettings".into(), json!({"jobSpec": told_job(job)}));
    }
    state.insert("bindings".into(), bindings(&answer));
    Ok(Some(Live::new(Kind::Project, key, &answer, &state)))
}

pub(super) async fn make(
    state: &State,
    desired: &Desired,
    console: &mut Console<'_>,
) -> Result<Value, CliError> {
    let mut attributes = json_fields(&[("name", json!(desired.key)), ("description", described(state))]);
    bind(&mut attributes, None, state, console).await?;
    let made = console.send(MakeProject(json!({"attributes": attributes}))).await?;
    if let Some(limits) = state.get("limits") {
        let id = text(&made, "id");
        console.send(LimitProject(json!({"projectId": id, "attributes": limits}))).await?;
    }
    // They are held to the limits.
    if let Some(settings) = state.get("stackSettings") {
        let id = text(&made, "id");
        console.send(SetProjectStackSettings(json!({"projectId": id, "attributes": settings}))).await?;
    }
    Ok(made)
}

pub(super) async fn change(
    live: &Live,
    merged: &State,
    desired: &Desired,
    console: &mut Console<'_>,
) -> Result<Value, CliError> {
    let without = |state: &State| {
        let mut state = state.clone();
        state.remove("limits");
        state.remove("stackSettings");
        state
    };
    if without(&live.state) != without(merged) {
        let mut attributes = json_fields(&[("name", json!(desired.key)), ("description", described(merged))]);
        bind(&mut attributes, Some(&live.state), merged, console).await?;
        console.send(ChangeProject(json!({"id": live.id, "attributes": attributes}))).await?;
    }
    if live.state.get("limits") != merged.get("limits") {
        let limits = merged.get("limits").cloned().unwrap_or_else(|| json!({}));
        console.send(LimitProject(json!({"projectId": live.id, "attributes": limits}))).await?;
    }
    if live.state.get("stackSettings") != merged.get("stackSettings") {
        let settings = merged.get("stackSettings").cloned().unwrap_or_else(|| json!({}));
        let set = json!({"projectId": live.id, "attributes": settings});
        console.send(SetProjectStackSettings(set)).await?;
    }
    Ok(Value::Null)
}

pub(super) async fn remove(live: &Live, console: &Console<'_>) -> Result<Value, CliError> {
    console.send(RemoveProject(json!({"id": live.id}))).await
}

/// The description: an empty one clears it.
pub(super) fn described(state: &State) -> Value {
    state.get("description").cloned().unwrap_or_else(|| json!(""))
}

pub(super) fn json_fields(fields: &[(&str, Value)]) -> State {
    fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

/// `projectId` of something new whose document names a project.
pub(super) async fn id_attribute(
    state: &State,
    console: &mut Console<'_>,
) -> Result<Option<(String, Value)>, CliError> {
    let Some(project) = super::state::text(state, "projectRef") else { return Ok(None) };
    Ok(Some(("projectId".to_owned(), console.known_id(Kind::Project, project).await?.into())))
}
