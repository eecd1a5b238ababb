//! What services wait for.

use serde::{Deserialize, Serialize};

use crate::{
    document::operations, service::ServiceDeploymentStatus, service_context::ContextBindingAttributes,
    shared::Id,
};

/// A service that another one depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceDependency {
    /// Its name.
    pub name: String,
    /// Handle of its cluster.
    pub cluster: Option<String>,
    /// How it fares; absent while there is no such service.
    pub status: Option<ServiceDeploymentStatus>,
    /// Nothing waits for it.
    pub healthy: Option<bool>,
    /// What it is waited for.
    pub message: Option<String>,
}

/// A service to depend on.
#[derive(Debug, Clone, Serialize)]
pub struct ServiceDependencyAttributes {
    /// `NAME` on the same cluster, `CLUSTER/NAME` elsewhere.
    pub name: String,
}

/// What a service is tied to; what is absent stays.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LinksAttributes {
    /// All that it depends on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<Vec<ServiceDependencyAttributes>>,
    /// All contexts that its templates read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_bindings: Option<Vec<ContextBindingAttributes>>,
}

impl LinksAttributes {
    /// Nothing is named.
    pub fn is_empty(&self) -> bool {
        let Self { dependencies, context_bindings } = self;
        dependencies.is_none() && context_bindings.is_none()
    }
}

operations! {
    /// Removes a service with all that depends on it, each after what depends on it.
    Mutation DeleteServiceCascade {
        /// Its id.
        id: String,
        /// Yes.
        cascade: bool,
    } => "deleteServiceDeployment": Id,
    "mutation DeleteServiceCascade($id: ID!, $cascade: Boolean) {
  deleteServiceDeployment(id: $id, cascade: $cascade) { id }
}";
}
