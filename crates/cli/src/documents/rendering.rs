//! How a service becomes objects and is synced, in documents and in the API: what services and templates share.

use serde_json::{Map, Value, json};

use super::{
    console::{Console, text},
    kind::Kind,
    schema::{Field, Type, field, refused},
    state::{Hidden, State, below, picked},
};
use crate::error::CliError;

pub(super) const GIT: &[Field] = &[
    field("ref", Type::Text, "Branch, tag, commit, or semver range of tags.").required(),
    field("folder", Type::Text, "Folder in the repository.").required(),
    field("files", Type::Texts, "Further files that are taken along."),
    refused("url", "name the repository by repositoryRef"),
];

pub(super) const KUSTOMIZE: &[Field] = &[
    field("path", Type::Text, "Folder of the Kustomization, relative to the service's.").required(),
    field("enableHelm", Type::Bool, "Inflate helmCharts."),
    field("envsubst", Type::Bool, "Replace ${NAME} in the output by the service's configuration."),
];

const VERIFY: &[Field] = &[
    field("cosignKey", Type::Text, "PEM of the public key of cosign's signatures."),
    field("openpgpKeys", Type::Text, "OpenPGP public keys, armoured, of Helm's provenance files."),
];

pub(super) const HELM: &[Field] = &[
    field("url", Type::Text, "Chart repository or registry: https:// or oci://."),
    field("chart", Type::Text, "Name of the chart in it."),
    field("version", Type::Text, "Version of the chart, or a range such as 4.4.x."),
    field("repositoryRef", Type::Reference(Kind::GitRepository), "Git repository that holds the chart."),
    field("git", Type::Fields(GIT), "Where in that repository the chart is."),
    field("release", Type::Text, "Name of the release; else the service's."),
    field("values", Type::Json, "Values. Kept encrypted, and never printed.").hidden(),
    field(
        "valuesFrom",
        Type::Secret,
        "Secret among the files whose keys are YAML files of values; values win over them.",
    )
    .hidden(),
    field("valuesFiles", Type::Texts, "Files of values in the service's folder; later over earlier."),
    field("ignoreHooks", Type::Bool, "Leave out the chart's hooks."),
    field("ignoreCrds", Type::Bool, "Leave out the chart's crds/."),
    field("luaScript", Type::Text, "Lua that makes values."),
    field("luaFile", Type::Text, "The same in a file of the service's folder."),
    field("luaFolder", Type::Text, "The same in all Lua files of a folder."),
    field(
        "kustomizePostrender",
        Type::Text,
        "Folder of a Kustomization that the chart's objects are put through.",
    ),
    field("verify", Type::Fields(VERIFY), "Who must have signed the chart.").added(),
    refused(
        "valuesConfigMapRef",
        "`plural apply` reads no cluster; write the values in values, or a Secret in the files and name it in valuesFrom",
    ),
    refused("repository", "a HelmRepository of Flux is in a cluster, and the console reads none; give url"),
];

const HELM_MINIMAL: &[Field] = &[
    field("values", Type::Text, "Values as YAML. Kept encrypted, and never printed.").hidden(),
    field("valuesFiles", Type::Texts, "Files of values; later over earlier."),
    field("release", Type::Text, "Name of the release."),
    field("ignoreHooks", Type::Bool, "Leave out the chart's hooks."),
];

pub(super) const RENDERERS: &[Field] = &[
    field("path", Type::Text, "Folder or file, relative to the service's folder.").required(),
    field("type", Type::Word(&["AUTO", "RAW", "HELM", "KUSTOMIZE", "COMMAND"]), "What renders it.")
        .required(),
    field("helm", Type::Fields(HELM_MINIMAL), "How its chart is rendered."),
    field("command", Type::Text, "For COMMAND: a program that the agent's operator declared.").added(),
];

pub(super) const SOURCES: &[Field] = &[
    field("path", Type::Text, "Folder that its files go to, relative to the service's."),
    field("repositoryRef", Type::Reference(Kind::GitRepository), "The repository.").required(),
    field("git", Type::Fields(GIT), "Where in it.").required(),
];

const NORMALIZERS: &[Field] = &[
    field("name", Type::Text, "Pattern of names."),
    field("kind", Type::Text, "Pattern of kinds.").added(),
    field("namespace", Type::Text, "Pattern of namespaces."),
    field("jsonPointers", Type::Texts, "Fields; a part * is every key or element."),
    field("backfill", Type::Bool, "Send the live value instead of leaving the field out."),
    field("managers", Type::Texts, "Everything that one of these field managers owns.").added(),
];

const POLICY: &[Field] = &[
    field("manual", Type::Bool, "A new revision waits until somebody asks for it."),
    field("prune", Type::Bool, "What left git is deleted without being asked for.").on(),
    field("selfHeal", Type::Bool, "Foreign changes are put right.").on(),
    field("waveWait", Type::Bool, "A wave waits for the health of the one before.").on(),
    field("waveTimeout", Type::Span, "How long a wave may take to become healthy."),
    field("retryLimit", Type::Int, "How often a sync that failed is tried again."),
    field("retryWait", Type::Span, "First wait before another try."),
    field("retryMaxWait", Type::Span, "Longest wait before another try."),
    field("prunePercent", Type::Int, "Share of the service whose deletion needs no approval."),
    field("pruneObjects", Type::Int, "Number of objects whose deletion needs no approval."),
];

pub(super) const SYNC_CONFIG: &[Field] = &[
    field("createNamespace", Type::Bool, "Make the namespace when it is missing.").on(),
    field("deleteNamespace", Type::Bool, "Remove the namespace with the service."),
    field("enforceNamespace", Type::Bool, "Force every object into the service's namespace."),
    field("requireOwnership", Type::Bool, "Fail when an object belongs to another service.").on(),
    field("labels", Type::TextMap, "Labels of the namespace that is made."),
    field("annotations", Type::TextMap, "Annotations of the namespace that is made."),
    field("diffNormalizers", Type::List(NORMALIZERS), "Fields that are not compared."),
    field("policy", Type::Fields(POLICY), "When it is synced, and how far.").added(),
    field("serviceAccount", Type::Text, "ServiceAccount whose rights count.").added(),
];

/// The names of what a rendering is made of.
pub(super) const RENDERING: [&str; 4] = ["helm", "kustomize", "renderers", "sources"];

/// What the console says of a rendering, as fields of a document.
pub(super) async fn read(answer: &Value, console: &mut Console<'_>) -> Result<State, CliError> {
    let mut state = State::new();
    if let Some(helm) = answer.get("helm").filter(|helm| !helm.is_null()) {
        let names: Vec<&str> = HELM.iter().map(|field| field.name).filter(|name| *name != "values").collect();
        let mut fields = picked(helm, &names);
        if let Some(id) = text(helm, "repositoryId") {
            fields.insert("repositoryRef".into(), repository(&id, console).await?);
        }
        state.insert("helm".into(), Value::Object(fields));
    }
    state.extend(picked(answer, &["kustomize", "renderers"]));
    let mut sources = Vec::new();
    for source in answer.get("sources").and_then(Value::as_array).into_iter().flatten() {
        let mut fields = picked(source, &["path", "git"]);
        if let Some(id) = text(source, "repositoryId") {
            fields.insert("repositoryRef".into(), repository(&id, console).await?);
        }
        sources.push(Value::Object(fields));
    }
    state.insert("sources".into(), sources.into());
    if let Some(config) = answer.get("syncConfig") {
        let names: Vec<&str> = SYNC_CONFIG.iter().map(|field| field.name).collect();
        let mut fields = picked(config, &names);
        if let Some(metadata) = config.get("namespaceMetadata") {
            fields.extend(picked(metadata, &["labels", "annotations"]));
        }
        state.insert("syncConfig".into(), Value::Object(fields));
    }
    Ok(state)
}

/// A repository by its address; by its id where the caller may not see it.
pub(super) async fn repository(id: &str, console: &mut Console<'_>) -> Result<Value, CliError> {
    Ok(console.key(Kind::GitRepository, id).await?.unwrap_or_else(|| id.to_owned()).into())
}

/// The attributes of one field of a rendering. `hidden` are its values by their paths below `prefix`.
pub(super) async fn attribute(
    name: &str,
    state: &State,
    (hidden, prefix): (&Hidden, &str),
    console: &mut Console<'_>,
) -> Result<Value, CliError> {
    let value = state.get(name);
    Ok(match name {
        "helm" => match value.and_then(Value::as_object) {
            None => Value::Null,
            Some(helm) => {
                let mut helm = with_repository(helm, console).await?;
                if let Some(values) = hidden.get(&format!("{prefix}helm.values")) {
                    helm.insert("values".into(), values_text(values).into());
                }
                if let Some(set) = hidden.get(&format!("{prefix}helm.set")) {
                    helm.insert("set".into(), set.clone());
                }
                Value::Object(helm)
            }
        },
        "renderers" => {
            let mut all = Vec::new();
            for (at, renderer) in value.and_then(Value::as_array).into_iter().flatten().enumerate() {
                let mut renderer = renderer.clone();
                if let Some(values) = hidden.get(&format!("{prefix}renderers[{at}].helm.values")) {
                    if renderer.get("helm").is_none() {
                        renderer["helm"] = json!({});
                    }
                    renderer["helm"]["values"] = values_text(values).into();
                }
                all.push(renderer);
            }
            all.into()
        }
        "sources" => {
            let mut all = Vec::new();
            for source in value.and_then(Value::as_array).into_iter().flatten() {
                if let Some(source) = source.as_object() {
                    all.push(Value::Object(with_repository(source, console).await?));
                }
            }
            all.into()
        }
        _ => value.cloned().unwrap_or_default(),
    })
}

async fn with_repository(state: &State, console: &mut Console<'_>) -> Result<State, CliError> {
    let mut attributes = state.clone();
    if let Some(key) = attributes.remove("repositoryRef") {
        let key = key.as_str().unwrap_or_default();
        attributes.insert("repositoryId".into(), console.known_id(Kind::GitRepository, key).await?.into());
    }
    Ok(attributes)
}

/// Values are sent as text; none end those that are stored.
fn values_text(values: &Value) -> String {
    match values {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        // JSON is YAML.
        other => other.to_string(),
    }
}

/// The whole sync configuration: what is absent is as it is by default.
pub(super) fn sync_config(state: &State) -> Value {
    let empty = State::new();
    let config = below(state, "syncConfig").unwrap_or(&empty);
    let mut whole = whole(SYNC_CONFIG, config);
    let mut metadata = Map::new();
    for name in ["labels", "annotations"] {
        // A JSON object goes as its text.
        let texts = whole.remove(name).unwrap_or_else(|| json!({}));
        metadata.insert(name.into(), texts.to_string().into());
    }
    whole.insert("namespaceMetadata".into(), metadata.into());
    Value::Object(whole)
}

/// Every field: what is absent with its default, or null.
fn whole(fields: &'static [Field], state: &State) -> State {
    let value = |field: &Field| match (field.ty, state.get(field.name)) {
        (Type::Fields(fields), known) => {
            let empty = State::new();
            Value::Object(whole(fields, known.and_then(Value::as_object).unwrap_or(&empty)))
        }
        (_, Some(value)) => value.clone(),
        (Type::Bool, None) => field.on.into(),
        (Type::Texts | Type::List(_), None) => json!([]),
        (Type::TextMap, None) => json!({}),
        (_, None) => Value::Null,
    };
    fields.iter().map(|field| (field.name.to_owned(), value(field))).collect()
}

/// Puts `valuesFrom` of a chart under its `values`.
pub(super) fn join_values(hidden: &mut Hidden, prefix: &str) -> Result<(), String> {
    let Some(from) = hidden.0.remove(&format!("{prefix}helm.valuesFrom")) else { return Ok(()) };
    let mut values = Value::Object(Map::new());
    for (key, text) in from.as_object().into_iter().flatten() {
        let file: Value = serde_saphyr::from_str(text.as_str().unwrap_or_default())
            .map_err(|_| format!("helm.valuesFrom: the key {key} of its Secret is not YAML"))?;
        merge(&mut values, file);
    }
    let path = format!("{prefix}helm.values");
    if let Some(inline) = hidden.0.remove(&path) {
        merge(&mut values, inline);
    }
    hidden.0.insert(path, values);
    Ok(())
}

fn merge(below: &mut Value, above: Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (name, value) in above {
                merge(below.entry(name).or_insert(Value::Null), value);
            }
        }
        (below, above) => *below = above,
    }
}

/// Whether hidden values are the same: values of charts by what they say, not by how it is written.
pub(super) fn same_values(a: &Value, b: &Value) -> bool {
    let read = |value: &Value| match value {
        Value::String(text) if text.is_empty() => Value::Null,
        Value::String(text) => serde_saphyr::from_str(text).unwrap_or_else(|_| value.clone()),
        other => other.clone(),
    };
    a == b || read(a) == read(b)
}
