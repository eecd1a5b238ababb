//! What templates wrote becomes documents in the order in which Helm installs them.

use serde_json::Value;

use super::load::json_type;
use crate::yaml;

/// One document of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// Path of the template, from the name of the chart on.
    pub path: String,
    /// The text, trimmed.
    pub content: String,
    /// The same, read; null when there is nothing but comments.
    pub value: Value,
    kind: String,
}

/// One document that Helm runs at a certain moment instead of installing it.
#[derive(Debug, Clone, PartialEq)]
pub struct Hook {
    /// The document.
    pub manifest: Manifest,
    /// `pre-install`, `post-upgrade`, `test` and so on.
    pub events: Vec<&'static str>,
    /// Order among hooks of the same event.
    pub weight: i64,
}

impl Hook {
    /// Whether it runs as a test.
    pub fn is_test(&self) -> bool {
        self.events.contains(&"test")
    }
}

const INSTALL_ORDER: &[&str] = &[
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
];

const EVENTS: &[(&str, &str)] = &[
    ("pre-install", "pre-install"),
    ("post-install", "post-install"),
    ("pre-delete", "pre-delete"),
    ("post-delete", "post-delete"),
    ("pre-upgrade", "pre-upgrade"),
    ("post-upgrade", "post-upgrade"),
    ("pre-rollback", "pre-rollback"),
    ("post-rollback", "post-rollback"),
    ("test", "test"),
    ("test-success", "test"),
];

/// Splits rendered files into documents and sorts them: manifests, then hooks.
///
/// # Errors
/// When a document is not YAML, or not an object.
pub(super) fn sort(files: &[(String, String)]) -> Result<(Vec<Manifest>, Vec<Hook>), String> {
    let mut files: Vec<&(String, String)> = files.iter().collect();
    files.sort_by(|a, b| a.0.cmp(&b.0));
    let (mut manifests, mut hooks) = (Vec::new(), Vec::new());
    for (path, content) in files {
        for document in yaml::split_documents(content) {
            let failed = |error: String| format!("YAML parse error on {path}: {error}");
            let value = yaml::parse(document.as_bytes())
                .map_err(|error| failed(format!("error converting YAML to JSON: {error}")))?;
            let head = Head::of(&value).map_err(|error| {
                failed(format!("error unmarshaling JSON: while decoding JSON: json: {error}"))
            })?;
            let manifest =
                Manifest { path: path.clone(), content: document.to_owned(), value, kind: head.kind };
            let Some(wanted) = head.hook else {
                manifests.push(manifest);
                continue;
            };
            let events: Option<Vec<&'static str>> = wanted
                .split(',')
                .map(|event| {
                    let event = event.trim().to_lowercase();
                    EVENTS.iter().find(|(name, _)| *name == event).map(|(_, event)| *event)
                })
                .collect();
            // A hook of an event that does not exist runs never.
            if let Some(events) = events {
                hooks.push(Hook { manifest, events, weight: head.weight });
            }
        }
    }
    manifests.sort_by(|a, b| by_kind(&a.kind, &b.kind));
    hooks.sort_by(|a, b| by_kind(&a.manifest.kind, &b.manifest.kind));
    Ok((manifests, hooks))
}

fn by_kind(a: &str, b: &str) -> std::cmp::Ordering {
    let rank = |kind: &str| INSTALL_ORDER.iter().position(|known| *known == kind);
    match (rank(a), rank(b)) {
        (None, None) => a.cmp(b),
        (None, Some(_)) => std::cmp::Ordering::Greater,
        (Some(_), None) => std::cmp::Ordering::Less,
        (Some(a), Some(b)) => a.cmp(&b),
    }
}

struct Head {
    kind: String,
    hook: Option<String>,
    weight: i64,
}

/// The member of an object whose name is `name`, case aside when there is none.
fn member<'v>(object: &'v serde_json::Map<String, Value>, name: &str) -> Option<&'v Value> {
    object
        .get(name)
        .or_else(|| object.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value))
        .filter(|value| !value.is_null())
}

fn text(value: Option<&Value>, field: &str) -> Result<String, String> {
    match value {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(value.to_string()),
        Some(other) => {
            Err(format!("cannot unmarshal {} into Go struct field {field} of type string", json_type(other)))
        }
    }
}

impl Head {
    fn of(value: &Value) -> Result<Self, String> {
        let object = match value {
            Value::Null => return Ok(Self { kind: String::new(), hook: None, weight: 0 }),
            Value::Object(object) => object,
            other => {
                return Err(format!(
                    "cannot unmarshal {} into Go value of type releaseutil.SimpleHead",
                    json_type(other)
                ));
            }
        };
        text(member(object, "apiVersion"), "SimpleHead.apiVersion")?;
        let kind = text(member(object, "kind"), "SimpleHead.kind")?;
        let mut head = Self { kind, hook: None, weight: 0 };
        let metadata = match member(object, "metadata") {
            None => return Ok(head),
            Some(Value::Object(metadata)) => metadata,
            Some(other) => {
                return Err(format!(
                    "cannot unmarshal {} into Go struct field SimpleHead.metadata of type struct {{ Name string \"json:\\\"name\\\"\"; Annotations map[string]string \"json:\\\"annotations\\\"\" }}",
                    json_type(other)
                ));
            }
        };
        text(member(metadata, "name"), "SimpleHead.metadata.name")?;
        let annotations = match member(metadata, "annotations") {
            None => return Ok(head),
            Some(Value::Object(annotations)) => annotations,
            Some(other) => {
                return Err(format!(
                    "cannot unmarshal {} into Go struct field SimpleHead.metadata.annotations of type map[string]string",
                    json_type(other)
                ));
            }
        };
        for (key, value) in annotations {
            let value =
                text(Some(value).filter(|value| !value.is_null()), "SimpleHead.metadata.annotations")?;
            match key.as_str() {
                "helm.sh/hook" => head.hook = Some(value),
                "helm.sh/hook-weight" => head.weight = value.parse().unwrap_or(0),
                _ => {}
            }
        }
        Ok(head)
    }
}
