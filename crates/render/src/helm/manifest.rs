//! What templates wrote becomes documents in the order in which Helm installs them.

mod head;

use serde_json::Value;

use self::head::Head;
use crate::yaml;

/// One document of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// Path of the template, from the name of the chart on.
    pub path: String,
    /// The text, trimmed: known to be YAML.
    pub content: String,
    kind: String,
}

impl Manifest {
    /// The document, read; null when there is nothing but comments.
    pub fn value(&self) -> Value {
        // What cannot be read was refused before this was made.
        yaml::parse(self.content.as_bytes()).unwrap_or_default()
    }
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
            let head = head::read(document)
                .map_err(|error| failed(format!("error converting YAML to JSON: {error}")))?;
            let head = Head::of(&head).map_err(|error| {
                failed(format!("error unmarshaling JSON: while decoding JSON: json: {error}"))
            })?;
            let manifest = Manifest { path: path.clone(), content: document.to_owned(), kind: head.kind };
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
