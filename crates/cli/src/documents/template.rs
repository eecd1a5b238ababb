//! The template of a service, in documents of global services and managed namespaces.

use serde_json::{Value, json};

use super::{
    cluster::changed,
    console::{Console, text},
    kind::Kind,
    rendering::{self, GIT, HELM, KUSTOMIZE, RENDERERS, RENDERING, SOURCES, SYNC_CONFIG},
    schema::{Field, Type, field},
    service::{DEPENDENCIES, join_configuration, neat, ordered},
    service_context::values_list,
    state::{Hidden, State, picked, sorted},
    thing::{Desired, Live},
};
use crate::error::CliError;

pub(super) const TEMPLATE: &[Field] = &[
    field("name", Type::Text, "Name of the instances. It cannot change."),
    field("namespace", Type::Text, "Namespace of their objects. It cannot change."),
    field("repositoryRef", Type::Reference(Kind::GitRepository), "The repository that they are read from."),
    field("git", Type::Fields(GIT), "Where in the repository."),
    field("helm", Type::Fields(HELM), "A chart, and how it is rendered."),
    field("kustomize", Type::Fields(KUSTOMIZE), "A Kustomization in the folder."),
    field("renderers", Type::List(RENDERERS), "What renders which part of the folder."),
    field("sources", Type::List(SOURCES), "Further places in git whose files join their own."),
    field(
        "configuration",
        Type::TextMap,
        "Values for templates; all of them. Kept encrypted, and never told.",
    )
    .hidden(),
    field(
        "configurationRef",
        Type::Secret,
        "Secret among the files with values for templates; configuration wins over it.",
    )
    .hidden(),
    field("contexts", Type::Texts, "Names of contexts that their templates read."),
    field(
        "dependencies",
        Type::List(DEPENDENCIES),
        "Services that each instance depends on, on its own cluster.",
    ),
    field("syncConfig", Type::Fields(SYNC_CONFIG), "How they are applied."),
    field("protect", Type::Bool, "They refuse deletion."),
    field("templated", Type::Bool, "Render .liquid files.").on(),
    field("version", Type::Text, "A label for people.").added(),
    field("dryRun", Type::Bool, "Plan and report, apply nothing.").added(),
];

/// The fields that change. What is secret in the template at `name` is not told, so that a template with secret values always
/// counts as changed.
pub(super) fn changed_fields(name: &str, live: &Live, merged: &State, desired: &Desired) -> Vec<String> {
    let mut fields: Vec<String> = changed(&live.state, merged).map(|(field, _)| field.to_owned()).collect();
    if !desired.hidden.0.is_empty() && !fields.iter().any(|field| field == name) {
        fields.push(name.to_owned());
    }
    fields
}

/// Brings the template at `name` into the form in which it is compared.
pub(super) fn prepare(name: &str, said: &mut State, hidden: &mut Hidden, problems: &mut Vec<String>) {
    if let Some(Value::Object(template)) = said.get_mut(name) {
        ordered(template);
        neat(template, problems);
        if let Some(list) = template.get_mut("dependencies").filter(|list| list.is_array()) {
            *list = sorted(Some(list));
        }
    }
    let prefix = format!("{name}.");
    join_configuration(hidden, &prefix);
    if let Err(problem) = rendering::join_values(hidden, &prefix) {
        problems.push(format!("spec.{name}.{problem}"));
    }
}

/// What the console says of a template.
pub(super) async fn read(answer: &Value, console: &mut Console<'_>) -> Result<State, CliError> {
    let simple = ["name", "namespace", "git", "version", "protect", "dryRun", "templated"];
    let mut state = picked(answer, &simple);
    if let Some(id) = text(answer, "repositoryId") {
        state.insert("repositoryRef".into(), rendering::repository(&id, console).await?);
    }
    state.extend(rendering::read(answer, console).await?);
    state.insert("contexts".into(), sorted(answer.get("contexts")));
    let dependencies = answer.get("dependencyNames").and_then(Value::as_array).into_iter().flatten();
    let dependencies: Vec<Value> = dependencies.map(|name| json!({"name": name})).collect();
    state.insert("dependencies".into(), sorted(Some(&dependencies.into())));
    Ok(state)
}

/// The whole template as attributes. Values that the document does not name stay as they are stored.
pub(super) async fn attributes(
    name: &str,
    state: &State,
    hidden: &Hidden,
    console: &mut Console<'_>,
) -> Result<Option<Value>, CliError> {
    let Some(template) = state.get(name).and_then(Value::as_object) else { return Ok(None) };
    let prefix = format!("{name}.");
    let simple =
        ["name", "namespace", "git", "version", "protect", "dryRun", "templated", "contexts", "dependencies"];
    let mut attributes = picked(&Value::Object(template.clone()), &simple);
    if let Some(key) = super::state::text(template, "repositoryRef") {
        attributes.insert("repositoryId".into(), console.known_id(Kind::GitRepository, key).await?.into());
    }
    for part in RENDERING.into_iter().filter(|part| template.contains_key(*part)) {
        let value = rendering::attribute(part, template, (hidden, &prefix), console).await?;
        attributes.insert(part.into(), value);
    }
    attributes.insert("syncConfig".into(), rendering::sync_config(template));
    if let Some(configuration) = hidden.get(&format!("{prefix}configuration")) {
        attributes.insert("configuration".into(), values_list(configuration));
    }
    attributes.insert("keepValues".into(), true.into());
    Ok(Some(Value::Object(attributes)))
}

/// Note on what is never told of a template.
pub(super) fn note(name: &str) -> String {
    format!(
        "values of spec.{name}.configuration and of its charts are never told: name those that change in a Secret"
    )
}
