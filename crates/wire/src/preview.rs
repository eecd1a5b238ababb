//! What a service renders to.

use serde::{Deserialize, Serialize};

use crate::{document::operations, service::ServiceError, shared::list};

/// What a service renders to.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePreview {
    /// Its objects; values of Secrets are masked.
    #[serde(default, deserialize_with = "list")]
    pub objects: Vec<RenderedObject>,
    /// Warnings; without any object: why there is none.
    #[serde(default, deserialize_with = "list")]
    pub errors: Vec<ServiceError>,
}

/// One object.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenderedObject {
    /// Kind.
    pub kind: String,
    /// Namespace, where the object names one.
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
    /// File and line that it was written at.
    pub source: String,
    /// The whole of it.
    pub content: serde_json::Value,
}

operations! {
    /// What a service renders to: by id, or by its cluster's handle and its name.
    Query GetServicePreview {
        /// Its id, or
        id: Option<String>,
        /// its cluster's handle and
        cluster: Option<String>,
        /// its name.
        name: Option<String>,
    } => "servicePreview": ServicePreview,
    "query GetServicePreview($id: ID, $cluster: String, $name: String) {
  servicePreview(id: $id, cluster: $cluster, name: $name) {
    objects { kind namespace name source content }
    errors { source message }
  }
}";
}
