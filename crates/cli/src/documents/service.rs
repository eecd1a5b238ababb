//! Documents of services.

use plural_core::service::GitRef;
use plural_wire::{ChangeService, DetachService, MakeService, ReadService, ReadServiceValues, RemoveService};
use serde_json::{Map, Value, json};

use super::{
    cluster::changed,
    console::{Console, text, there},
    kind::{Info, Kind},
    project::{BINDINGS, RECONCILIATION, bind, bindings},
    rendering::{self, GIT, HELM, KUSTOMIZE, RENDERERS, RENDERING, SOURCES, SYNC_CONFIG},
    schema::{Field, Type, field, refused},
    service_context::values_list,
    state::{Hidden, State, picked, sorted},
    thing::{Desired, Live},
};
use crate::error::CliError;

pub(super) static INFO: Info = Info {
    name: "ServiceDeployment",
    singular: "servicedeployment",
    plural: "servicedeployments",
    short: &["svc", "service", "services"],
    named_by: "CLUSTER/NAME",
    docs: "A folder of a git repository, or a chart, kept applied in a cluster.",
    fields: FIELDS,
};

pub(super) const DEPENDENCIES: &[Field] = &[
    field("name", Type::Text, "Name of the service.").required(),
    field("cluster", Type::Text, "Handle of its cluster, when it is another one.").added(),
];

const IMPORTS: &[Field] =
    &[field("stackRef", Type::Reference(Kind::InfrastructureStack), "The stack.").required()];

const CONFIGURATION_FROM: &[Field] = &[
    field("name", Type::Text, "The name that templates read.").required(),
    field("secretKeyRef", Type::Fields(KEY_REF), "A key of a Secret. This or one of the next is required."),
    field("configMapKeyRef", Type::Fields(KEY_REF), "A key of a ConfigMap."),
    field(
        "vaultKeyRef",
        Type::Fields(VAULT_REF),
        "A key of a secret in Vault, read as the service's ServiceAccount.",
    ),
    field("sopsKeyRef", Type::Fields(FILE_REF), "A value of a file that SOPS encrypted."),
    field("ageKeyRef", Type::Fields(FILE_REF), "A file that age encrypted, or a value of it."),
];

const VAULT_REF: &[Field] = &[
    field("path", Type::Text, "The secret, with its mount first: secret/shop/db.").required(),
    field("key", Type::Text, "The key in it.").required(),
];

const FILE_REF: &[Field] = &[
    field("file", Type::Text, "The file, from the service's folder.").required(),
    field("key", Type::Text, "The value in it, as keys with dots between them; the whole file when absent."),
];

const KEY_REF: &[Field] = &[
    field("name", Type::Text, "Name of the object.").required(),
    field("key", Type::Text, "The key in its data.").required(),
    field(
        "namespace",
        Type::Text,
        "Its namespace, when it is not the service's: the limit referenceNamespaces must name it.",
    ),
];

const FIELDS: &[Field] = &[
    field("name", Type::Text, "Name, unique on its cluster; else the document's."),
    field(
        "namespace",
        Type::Text,
        "Namespace of its objects; else its name. Another one moves them: those in the one before go with approval.",
    ),
    field("cluster", Type::Text, "Handle of its cluster. This or clusterRef is required."),
    field("clusterRef", Type::Reference(Kind::Cluster), "Its cluster."),
    field("repositoryRef", Type::Reference(Kind::GitRepository), "The repository that it is read from."),
    field("git", Type::Fields(GIT), "Where in the repository."),
    field("helm", Type::Fields(HELM), "A chart, and how it is rendered."),
    field("kustomize", Type::Fields(KUSTOMIZE), "A Kustomization in the folder."),
    field("renderers", Type::List(RENDERERS), "What renders which part of the folder."),
    field("sources", Type::List(SOURCES), "Further places in git whose files join its own."),
    field(
        "configuration",
        Type::TextMap,
        "Values for templates; all of them. Kept encrypted, and never printed.",
    )
    .hidden(),
    field(
        "configurationRef",
        Type::Secret,
        "Secret among the files with values for templates; configuration wins over it.",
    )
    .hidden(),
    field(
        "configurationFrom",
        Type::List(CONFIGURATION_FROM),
        "Values for templates that only the agent finds, so that the console never holds them.",
    )
    .added(),
    field("contexts", Type::Texts, "Names of contexts that its templates read."),
    field(
        "dependencies",
        Type::List(DEPENDENCIES),
        "Services that have to be healthy before it gets a new revision.",
    ),
    field("imports", Type::List(IMPORTS), "Stacks whose outputs its templates read as imports[\"NAME\"]."),
    field("syncConfig", Type::Fields(SYNC_CONFIG), "How it is applied."),
    field(
        "bindings",
        Type::Fields(BINDINGS),
        "Who may read and write; stays as it is where it is not named.",
    ),
    field("version", Type::Text, "A label for people."),
    field("docsPath", Type::Text, "Folder with documentation. It cannot change."),
    field("protect", Type::Bool, "Refuse its deletion."),
    field("templated", Type::Bool, "Render .liquid files.").on(),
    field("dryRun", Type::Bool, "Plan and report, apply nothing.").added(),
    field("interval", Type::Span, "Time between full checks.").added(),
    field(
        "detach",
        Type::Bool,
        "`plural delete` leaves its objects in the cluster. The console does not keep this.",
    )
    .hidden(),
    refused("flowRef", "there are no flows; leave it out"),
    refused("agentId", "agents of AI are not supported; leave it out"),
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
    let of_ref = said.remove("clusterRef");
    let cluster = match (super::state::text(said, "cluster").map(str::to_owned), of_ref) {
        (Some(cluster), None) | (None, Some(Value::String(cluster))) => cluster,
        (Some(_), Some(_)) => {
            problems.push("spec.clusterRef: must not be given together with cluster".to_owned());
            return String::new();
        }
        _ => {
            problems.push("spec: cluster or clusterRef is required".to_owned());
            return String::new();
        }
    };
    said.insert("cluster".into(), cluster.clone().into());
    ordered(said);
    neat(said, problems);
    if let Some(Value::Array(all)) = said.get_mut("dependencies") {
        for one in all.iter_mut().filter_map(Value::as_object_mut) {
            // One on its own cluster is named without that.
            if one.get("cluster").and_then(Value::as_str) == Some(cluster.as_str()) {
                one.remove("cluster");
            }
        }
        *all = sorted(Some(&all.clone().into())).as_array().cloned().unwrap_or_default();
    }
    if let Some(imports) = said.get_mut("imports").filter(|list| list.is_array()) {
        *imports = sorted(Some(imports));
    }
    hidden.0.remove("detach");
    join_configuration(hidden, "");
    if let Err(problem) = rendering::join_values(hidden, "") {
        problems.push(format!("spec.{problem}"));
    }
    format!("{cluster}/{name}")
}

/// Puts lists without an order of their own in the order in which they are compared.
pub(super) fn ordered(said: &mut State) {
    for name in ["contexts", "configurationFrom"] {
        if let Some(list) = said.get_mut(name).filter(|list| list.is_array()) {
            *list = sorted(Some(list));
        }
    }
    super::project::order_bindings(said);
}

/// Brings places in git into the form in which the console keeps them.
pub(super) fn neat(said: &mut State, problems: &mut Vec<String>) {
    let mut places: Vec<&mut Value> = Vec::new();
    for (name, value) in said.iter_mut() {
        match (name.as_str(), value) {
            ("git", git) => places.push(git),
            ("sources", Value::Array(sources)) => {
                places.extend(sources.iter_mut().filter_map(|source| source.get_mut("git")));
            }
            _ => {}
        }
    }
    for git in places.into_iter().filter_map(Value::as_object_mut) {
        let texts = |name: &str| -> Vec<String> {
            let all = git.get(name).and_then(Value::as_array).into_iter().flatten();
            all.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let (reference, folder) = (super::state::text(git, "ref"), super::state::text(git, "folder"));
        match GitRef::new(reference.unwrap_or_default(), folder.unwrap_or_default(), &texts("files")) {
            Ok(GitRef { reference, folder, files }) => {
                git.insert("ref".into(), reference.into());
                git.insert("folder".into(), folder.into());
                git.insert("files".into(), files.into());
            }
            Err(error) => problems.push(format!("spec: {error}")),
        }
    }
}

/// Puts the values of `configurationRef` under those of `configuration`.
pub(super) fn join_configuration(hidden: &mut Hidden, prefix: &str) {
    let Some(secret) = hidden.0.remove(&format!("{prefix}configurationRef")) else { return };
    let mut values: Map<String, Value> = secret.as_object().cloned().unwrap_or_default();
    let path = format!("{prefix}configuration");
    if let Some(Value::Object(inline)) = hidden.0.remove(&path) {
        values.extend(inline);
    }
    hidden.0.insert(path, values.into());
}

pub(super) async fn read(key: &str, console: &mut Console<'_>) -> Result<Option<Live>, CliError> {
    let (cluster, name) = key.split_once('/').unwrap_or_default();
    let ask = ReadService(json!({"cluster": cluster, "name": name}));
    let Some(answer) = there(console.client.send(&ask).await)? else { return Ok(None) };
    let simple =
        ["name", "namespace", "git", "version", "docsPath", "protect", "templated", "dryRun", "interval"];
    let mut state = picked(&answer, &simple);
    state.insert("cluster".into(), cluster.into());
    if let Some(id) = answer.get("repository").and_then(|repository| text(repository, "id")) {
        state.insert("repositoryRef".into(), rendering::repository(&id, console).await?);
    }
    state.extend(rendering::read(&answer, console).await?);
    let contexts = answer.get("contexts").and_then(Value::as_array).into_iter().flatten();
    let contexts: Vec<Value> =
        contexts.filter_map(|context| text(context, "name")).map(Value::from).collect();
    state.insert("contexts".into(), sorted(Some(&contexts.into())));
    let imports = answer.get("imports").and_then(Value::as_array).into_iter().flatten();
    let imports = imports.filter_map(|import| text(import.get("stack")?, "name"));
    let imports: Vec<Value> = imports.map(|name| json!({"stackRef": name})).collect();
    state.insert("imports".into(), sorted(Some(&imports.into())));
    let dependencies = answer.get("dependencies").and_then(Value::as_array).into_iter().flatten();
    let dependencies = dependencies.map(|one| {
        let mut fields = picked(one, &["name", "cluster"]);
        if fields.get("cluster").and_then(Value::as_str) == Some(cluster) {
            fields.remove("cluster");
        }
        Value::Object(fields)
    });
    state.insert("dependencies".into(), sorted(Some(&dependencies.collect::<Vec<_>>().into())));
    state.insert("configurationFrom".into(), references(&answer));
    state.insert("bindings".into(), bindings(&answer));
    Ok(Some(Live::new(Kind::ServiceDeployment, key, &answer, &state)))
}

/// The references among the values of a service.
fn references(answer: &Value) -> Value {
    let all = answer.get("configuration").and_then(Value::as_array).into_iter().flatten();
    let references = all.filter_map(|one| {
        let from = one.get("valueFrom").and_then(Value::as_object)?;
        let mut fields = picked(one, &["name"]);
        for (kind, key) in from.iter().filter(|(_, key)| key.is_object()) {
            fields.insert(kind.clone(), picked(key, &["name", "key", "namespace", "path", "file"]).into());
        }
        Some(Value::Object(fields))
    });
    sorted(Some(&references.collect::<Vec<_>>().into()))
}

/// References as attributes, with null for those that are gone.
fn references_to(state: &State, before: Option<&State>) -> Vec<Value> {
    let all = |state: &State| -> Vec<Value> {
        state.get("configurationFrom").and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let mut list: Vec<Value> = all(state)
        .into_iter()
        .filter_map(|one| {
            let Value::Object(mut from) = one else { return None };
            let name = from.remove("name")?;
            Some(json!({"name": name, "valueFrom": from}))
        })
        .collect();
    for one in before.map(all).unwrap_or_default() {
        let name = one.get("name").cloned().unwrap_or_default();
        if !list.iter().any(|other| other.get("name") == Some(&name)) {
            list.push(json!({"name": name, "value": null}));
        }
    }
    list
}

/// The hidden values of a service, for who may change it.
pub(super) async fn hidden(id: &str, console: &Console<'_>) -> Result<Hidden, CliError> {
    let answer = console.send(ReadServiceValues(json!({"id": id}))).await?;
    let mut hidden = Hidden::default();
    let configuration = answer.get("configuration").and_then(Value::as_array).into_iter().flatten();
    let configuration = configuration
        .filter(|one| one.get("valueFrom").is_none_or(Value::is_null))
        .filter_map(|one| Some((text(one, "name")?, Value::from(text(one, "value")?))));
    hidden.0.insert("configuration".into(), Value::Object(configuration.collect()));
    for name in ["values", "set"] {
        let value = answer.get("helm").and_then(|helm| helm.get(name)).filter(|value| !value.is_null());
        hidden.0.extend(value.map(|value| (format!("helm.{name}"), value.clone())));
    }
    for (at, renderer) in answer.get("renderers").and_then(Value::as_array).into_iter().flatten().enumerate()
    {
        let values = renderer.get("helm").and_then(|helm| text(helm, "values"));
        hidden.0.extend(values.map(|values| (format!("renderers[{at}].helm.values"), values.into())));
    }
    Ok(hidden)
}

pub(super) async fn make(
    state: &State,
    desired: &Desired,
    console: &mut Console<'_>,
) -> Result<Value, CliError> {
    let names: Vec<String> = state.keys().cloned().collect();
    let mut attributes = State::new();
    for name in names {
        attribute(&name, state, &desired.hidden, &mut attributes, console).await?;
    }
    let (cluster, name) = desired.key.split_once('/').unwrap_or_default();
    attributes.insert("name".into(), name.into());
    attributes.entry("namespace").or_insert_with(|| name.into());
    let mut configuration = references_to(state, None);
    if let Some(Value::Array(values)) = desired.hidden.get("configuration").map(values_list) {
        configuration.extend(values);
    }
    if !configuration.is_empty() {
        attributes.insert("configuration".into(), configuration.into());
    }
    bind(&mut attributes, None, state, console).await?;
    let cluster = console.known_id(Kind::Cluster, cluster).await?;
    console.send(MakeService(json!({"clusterId": cluster, "attributes": attributes}))).await
}

pub(super) async fn change(
    live: &mut Live,
    merged: &State,
    desired: &Desired,
    console: &mut Console<'_>,
) -> Result<Value, CliError> {
    let mut names: Vec<String> = changed(&live.state, merged).map(|(name, _)| name.to_owned()).collect();
    for path in desired.hidden.0.keys() {
        let name = path.split(['.', '[']).next().unwrap_or(path).to_owned();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut hidden = desired.hidden.clone();
    if names.iter().any(|name| RENDERING.contains(&name.as_str())) {
        // A chart is sent as a whole: values that the document does not name would be gone.
        super::thing::unhide(Kind::ServiceDeployment, live, console).await?;
        let places = [live.state.get("renderers"), merged.get("renderers")];
        for (path, value) in live.hidden.iter().flat_map(|known| &known.0) {
            if let Some(path) = moved(path, places) {
                hidden.0.entry(path).or_insert_with(|| value.clone());
            }
        }
    }
    let mut attributes = State::new();
    for name in &names {
        attribute(name, merged, &hidden, &mut attributes, console).await?;
    }
    if let Some(Value::Array(mut values)) = attributes.remove("configuration") {
        values.extend(references_to(merged, None));
        attributes.insert("configuration".into(), values.into());
    } else if names.iter().any(|name| name == "configurationFrom") {
        // The values stay, whoever knows them.
        attributes.insert("mergeConfiguration".into(), references_to(merged, Some(&live.state)).into());
    }
    bind(&mut attributes, Some(&live.state), merged, console).await?;
    console.send(ChangeService(json!({"id": live.id, "attributes": attributes}))).await
}

/// Where the values of a renderer are, once the renderers are others: with the one of the same path.
fn moved(path: &str, [before, after]: [Option<&Value>; 2]) -> Option<String> {
    let Some(rest) = path.strip_prefix("renderers[") else { return Some(path.to_owned()) };
    let (at, rest) = rest.split_once(']')?;
    let folder = before?.as_array()?.get(at.parse::<usize>().ok()?)?.get("path")?;
    let now = after?.as_array()?.iter().position(|one| one.get("path") == Some(folder))?;
    Some(format!("renderers[{now}]{rest}"))
}

/// The attribute of one field; those that are sent otherwise are left out.
async fn attribute(
    name: &str,
    state: &State,
    hidden: &Hidden,
    attributes: &mut State,
    console: &mut Console<'_>,
) -> Result<(), CliError> {
    let value = state.get(name).cloned();
    let (name, value) = match name {
        "cluster" | "name" | "bindings" | "configurationFrom" => return Ok(()),
        "repositoryRef" => match value.as_ref().and_then(Value::as_str) {
            Some(key) => ("repositoryId", console.known_id(Kind::GitRepository, key).await?.into()),
            None => return Ok(()),
        },
        "helm" | "kustomize" | "renderers" | "sources" => {
            (name, rendering::attribute(name, state, (hidden, ""), console).await?)
        }
        "syncConfig" => (name, rendering::sync_config(state)),
        "configuration" => (name, hidden.get("configuration").map(values_list).unwrap_or_default()),
        "contexts" => {
            let mut all = Vec::new();
            for context in value.iter().filter_map(Value::as_array).flatten().filter_map(Value::as_str) {
                all.push(json!({"contextId": console.known_id(Kind::ServiceContext, context).await?}));
            }
            ("contextBindings", all.into())
        }
        "dependencies" => (name, value.unwrap_or_else(|| json!([]))),
        "imports" => {
            let mut all = Vec::new();
            for import in value.iter().filter_map(Value::as_array).flatten() {
                let Some(stack) = text(import, "stackRef") else { continue };
                all.push(json!({"stackId": console.known_id(Kind::InfrastructureStack, &stack).await?}));
            }
            (name, all.into())
        }
        "protect" | "dryRun" => (name, value.unwrap_or(Value::Bool(false))),
        "templated" => (name, value.unwrap_or(Value::Bool(true))),
        "version" => (name, value.unwrap_or_else(|| json!(""))),
        _ => (name, value.unwrap_or_default()),
    };
    attributes.insert(name.to_owned(), value);
    Ok(())
}

pub(super) async fn remove(live: &Live, detach: bool, console: &Console<'_>) -> Result<Value, CliError> {
    let id = json!({"id": live.id});
    if detach { console.send(DetachService(id)).await } else { console.send(RemoveService(id)).await }
}
