//! What services wait for.

use serde::{Deserialize, Serialize};

use crate::{
    cluster::ClusterRef,
    document::operations,
    service::ServiceDeploymentStatus,
    service_context::ContextBindingAttributes,
    shared::{Id, list},
    sync::ObjectRef,
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

/// What a deletion takes with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceDeletion {
    /// The services, in the order in which they go.
    #[serde(default, deserialize_with = "list")]
    pub services: Vec<DoomedService>,
    /// Services that depend on it and that the caller may not see.
    pub hidden: Option<u32>,
    /// Services that go and are not listed.
    pub omitted: Option<u32>,
}

/// A service that goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoomedService {
    /// Opaque id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its cluster.
    pub cluster: Option<ClusterRef>,
    /// Deleting it is refused.
    pub protect: Option<bool>,
    /// Its objects.
    #[serde(default, deserialize_with = "list")]
    pub components: Vec<ObjectRef>,
}

operations! {
    /// What a deletion takes with it.
    Query GetServiceDeletion {
        /// The service's id.
        id: String,
        /// With what depends on it.
        cascade: bool,
    } => "serviceDeletion": ServiceDeletion,
    "query GetServiceDeletion($id: ID!, $cascade: Boolean) {
  serviceDeletion(id: $id, cascade: $cascade) {
    hidden omitted
    services { id name protect cluster { id name handle } components { group kind namespace name } }
  }
}";

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
