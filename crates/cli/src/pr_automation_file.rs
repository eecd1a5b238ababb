//! An automation in a file: as the resource `PrAutomation` has it, or as the API does.
//!
//! What a resource calls by the name of another one is looked up here, and the rest is told to the console as it is.

use std::path::Path;

use plural_core::merge_window::{MergeWindow, MergeWindows};
use plural_core::pr_automation_spec::PrAutomationSpec;
use plural_wire::Client;
use serde_json::{Map, Value, json};

use crate::{
    error::CliError, file, groups, key, key::ClusterKey, pr_governances, scm_connections, terminal::Terminal,
    users,
};

/// What of the API's input is no part of what an automation asks and does.
const BESIDES: [&str; 13] = [
    "name",
    "role",
    "projectId",
    "connectionId",
    "repositoryId",
    "clusterId",
    "serviceId",
    "governanceId",
    "readBindings",
    "writeBindings",
    "createBindings",
    "mergeWindows",
    "mergeCron",
];

/// What a file says, with what it calls by name still called so.
#[derive(Debug, Default)]
pub(crate) struct AutomationFile {
    /// As the API calls it.
    pub(crate) attributes: Map<String, Value>,
    /// Name of a connection.
    pub(crate) connection: Option<String>,
    /// Name of a governance.
    pub(crate) governance: Option<String>,
    /// Name of a project.
    pub(crate) project: Option<String>,
    /// Handle of a cluster.
    pub(crate) cluster: Option<String>,
    /// Who may, by the field that says so.
    bindings: Vec<(&'static str, Vec<Value>)>,
    /// References that cannot be followed from here, with the option that stands for each.
    unknown: Vec<(&'static str, &'static str)>,
}

/// Reads a file.
pub(crate) fn read(path: &Path, terminal: &mut Terminal<'_>) -> Result<AutomationFile, CliError> {
    of_document(file::mapping("an automation", path, terminal)?, terminal)
}

fn of_document(
    mut document: Map<String, Value>,
    terminal: &mut Terminal<'_>,
) -> Result<AutomationFile, CliError> {
    let mut name = None;
    if let Some(kind) = document.get("kind") {
        if kind.as_str() != Some("PrAutomation") {
            return Err(CliError::usage("the file must have a PrAutomation (kind), or what is in its spec"));
        }
        name = document.get("metadata").and_then(|metadata| metadata.get("name")).cloned();
        document = match document.remove("spec") {
            Some(Value::Object(spec)) => spec,
            _ => return Err(CliError::usage("the PrAutomation has no spec")),
        };
    }
    let mut found = AutomationFile::default();
    let mut named = |reference: &str| {
        let named = document.remove(reference)?;
        Some(named.get("name").and_then(Value::as_str).unwrap_or_default().to_owned())
    };
    found.connection = named("scmConnectionRef");
    found.governance = named("governanceRef");
    found.project = named("projectRef");
    found.cluster = named("clusterRef");
    for (reference, option) in [("serviceRef", "--service"), ("repositoryRef", "--repository")] {
        if named(reference).is_some() {
            found.unknown.push((reference, option));
        }
    }
    if named("catalogRef").is_some() {
        terminal.say("catalogRef is left out: there are no catalogs yet");
    }
    if let Some(handle) = document.remove("cluster") {
        found.cluster = handle.as_str().map(str::to_owned).or(found.cluster);
    }
    // How often an operator looks is nothing that the console keeps.
    document.remove("reconciliation");
    if let Some(bindings) = document.remove("bindings") {
        found.bindings = bound(bindings)?;
    }
    if let Some(name) = name {
        document.entry("name").or_insert(name);
    }
    let mut attributes = Value::Object(document);
    without_nulls(&mut attributes);
    defaults_as_text(&mut attributes);
    if let Value::Object(attributes) = attributes {
        found.attributes = attributes;
    }
    Ok(found)
}

/// Who may what, by the fields of the API.
fn bound(bindings: Value) -> Result<Vec<(&'static str, Vec<Value>)>, CliError> {
    let bindings = match bindings {
        Value::Null => Map::new(),
        Value::Object(bindings) => bindings,
        _ => return Err(CliError::usage("bindings must hold write, create or both")),
    };
    let mut all = Vec::with_capacity(bindings.len());
    for (of, subjects) in bindings {
        let field = match of.as_str() {
            "write" => "writeBindings",
            "create" => "createBindings",
            _ => {
                return Err(CliError::usage(format!(
                    "bindings has an unknown field {of:?}: there are write and create"
                )));
            }
        };
        match subjects {
            Value::Null => {}
            Value::Array(subjects) => all.push((field, subjects)),
            _ => return Err(CliError::usage(format!("bindings.{of} must be a list"))),
        }
    }
    Ok(all)
}

impl AutomationFile {
    /// What the file calls by name becomes ids; what an option said already stays.
    pub(crate) async fn resolved(self, client: &Client) -> Result<Map<String, Value>, CliError> {
        let Self { mut attributes, connection, governance, project, cluster, bindings, unknown } = self;
        if let Some(name) = connection.filter(|_| !attributes.contains_key("connectionId")) {
            attributes
                .insert("connectionId".to_owned(), scm_connections::find(&name, client).await?.id.into());
        }
        if let Some(name) = governance.filter(|_| !attributes.contains_key("governanceId")) {
            attributes
                .insert("governanceId".to_owned(), pr_governances::find(&name, client).await?.id.into());
        }
        if let Some(name) = project.filter(|_| !attributes.contains_key("projectId")) {
            attributes.insert("projectId".to_owned(), key::project(client, &name).await?.id.into());
        }
        if let Some(handle) = cluster.filter(|_| !attributes.contains_key("clusterId")) {
            let key: ClusterKey = handle.parse().map_err(CliError::usage)?;
            attributes.insert("clusterId".to_owned(), key.get(client).await?.id.into());
        }
        for (reference, option) in unknown {
            let given = if option == "--service" { "serviceId" } else { "repositoryId" };
            if !attributes.contains_key(given) {
                return Err(CliError::usage(format!(
                    "{reference} names a resource of a cluster, which the console does not know by that name"
                ))
                .hint(format!("give {option}")));
            }
        }
        for (field, all) in bindings {
            let mut subjects = Vec::with_capacity(all.len());
            for binding in all {
                subjects.push(subject(&binding, client).await?);
            }
            attributes.insert(field.to_owned(), subjects.into());
        }
        Ok(attributes)
    }
}

/// Whom a binding of a resource is for.
async fn subject(binding: &Value, client: &Client) -> Result<Value, CliError> {
    let text = |field: &str| binding.get(field).and_then(Value::as_str).map(str::to_owned);
    if let Some(email) = text("userEmail") {
        return Ok(json!({"userId": users::find(&email, client).await?.id}));
    }
    if let Some(name) = text("groupName") {
        return Ok(json!({"groupId": groups::find(&name, client).await?.id}));
    }
    match (text("UserID"), text("groupID")) {
        (Some(id), None) => Ok(json!({"userId": id})),
        (None, Some(id)) => Ok(json!({"groupId": id})),
        _ => Err(CliError::usage("each binding must have one of userEmail, groupName, UserID and groupID")),
    }
}

/// Checks what would be told to the console, without it: fields that nobody knows, limits, paths, regexes, questions.
pub(crate) fn check(attributes: &Map<String, Value>) -> Result<(), CliError> {
    let mut spec = attributes.clone();
    let has_repository = spec.contains_key("repositoryId");
    if spec.contains_key("ai") {
        return Err(CliError::usage("ai is not built: no model writes files here").hint("leave it out"));
    }
    check_windows(attributes)?;
    for field in BESIDES {
        spec.remove(field);
    }
    let spec: PrAutomationSpec = serde_json::from_value(Value::Object(spec))
        .map_err(|error| CliError::usage(format!("the automation cannot be read: {error}")))?;
    spec.check(has_repository).map_err(|error| CliError::usage(error.to_string()))
}

/// When pull requests may be merged.
fn check_windows(attributes: &Map<String, Value>) -> Result<(), CliError> {
    let bad =
        |error: String| CliError::usage(format!("the windows of the automation cannot be read: {error}"));
    let windows: Option<Vec<MergeWindow>> = attributes
        .get("mergeWindows")
        .map(|windows| serde_json::from_value(windows.clone()))
        .transpose()
        .map_err(|error| bad(error.to_string()))?;
    let cron = match attributes.get("mergeCron") {
        None => None,
        Some(Value::String(cron)) => Some(cron.as_str()),
        Some(_) => return Err(bad("mergeCron must be a text, such as \"0 22 * * 1-5\"".to_owned())),
    };
    MergeWindows::given(windows, cron).map(drop).map_err(|error| bad(error.to_string()))
}

/// A field that is null is one that is not there.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// YAML reads `default: 3` as a number, and answers are texts; so is what a condition compares them with.
fn defaults_as_text(attributes: &mut Value) {
    let Some(Value::Array(questions)) = attributes.get_mut("configuration") else { return };
    for question in questions {
        for at in ["/default", "/condition/value"] {
            if let Some(value) = question.pointer_mut(at)
                && (value.is_number() || value.is_boolean())
            {
                *value = Value::String(value.to_string());
            }
        }
    }
}
