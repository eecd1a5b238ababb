//! A served resource: its names, scope, versions and subresources.

use std::sync::Arc;

use serde_json::Value;

use crate::schema::Schema;

/// Where the scale subresource finds its numbers, as JSON pointers into the object.
#[derive(Debug, Clone)]
pub(crate) struct ScalePaths {
    /// Wanted replicas.
    pub spec: String,
    /// Actual replicas.
    pub status: String,
    /// Label selector as text; built-in kinds have a structured one at `/spec/selector`.
    pub selector: Option<String>,
}

impl ScalePaths {
    /// The paths of built-in kinds.
    pub(crate) fn built_in() -> Self {
        Self { spec: "/spec/replicas".into(), status: "/status/replicas".into(), selector: None }
    }
}

/// A subresource as discovery lists it.
#[derive(Debug, Clone)]
pub(crate) struct Subresource {
    /// Last part of its path.
    pub name: String,
    /// Kind of its body.
    pub kind: String,
    /// Group of its body, empty for the resource's own.
    pub group: String,
    /// Version of its body, empty for the resource's own.
    pub version: String,
    /// Verbs.
    pub verbs: Vec<String>,
}

/// A printer column of a custom resource.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    /// Heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub ty: String,
    /// OpenAPI format.
    pub format: String,
    /// 0 is always shown.
    pub priority: i64,
    /// Path in the object, as steps of field names.
    pub path: Vec<String>,
}

/// One version of a resource.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    /// `v1`, `v1beta1`, ...
    pub name: String,
    /// Reachable.
    pub served: bool,
    /// Has a status subresource.
    pub status: bool,
    /// Has a scale subresource.
    pub scale: Option<ScalePaths>,
    /// Schema; virtual kinds (reviews) have one too.
    pub schema: Option<Schema>,
    /// Printer columns (custom resources).
    pub columns: Vec<Column>,
    /// Subresources.
    pub subresources: Vec<Subresource>,
    /// OpenAPI document of a custom resource.
    pub document: Option<Value>,
    /// Warning that a deprecated version sends with every answer.
    pub deprecation: Option<String>,
}

/// One resource with all its versions, most preferred first.
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    /// Key of its objects in the store.
    pub table: Arc<str>,
    /// API group, empty for core.
    pub group: String,
    /// `deployments`.
    pub plural: String,
    /// `deployment`.
    pub singular: String,
    /// `Deployment`.
    pub kind: String,
    /// `DeploymentList`.
    pub list_kind: String,
    /// Lives in namespaces.
    pub namespaced: bool,
    /// `deploy`.
    pub short: Vec<String>,
    /// `all`.
    pub categories: Vec<String>,
    /// Verbs of the main endpoint.
    pub verbs: Vec<String>,
    /// Versions.
    pub versions: Vec<Version>,
    /// Index of the version objects are stored in.
    pub storage: usize,
    /// Comes from a CustomResourceDefinition.
    pub custom: bool,
}

impl Resource {
    /// The version with this name, if served.
    pub(crate) fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|v| v.name == name && v.served)
    }

    /// `group/version`, or only the version in the core group.
    pub(crate) fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }
}

/// `plural.group`, or only the plural in the core group.
pub(crate) fn qualified(plural: &str, group: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}
