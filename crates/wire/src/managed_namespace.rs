//! Managed namespaces: one namespace on every cluster that it targets.

use std::{collections::BTreeMap, fmt};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::{
    cluster::ClusterRef,
    document::operations,
    page::{Connection, Paged},
    service::ServiceDeploymentStatus,
};

/// A managed namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManagedNamespace {
    /// Opaque id.
    pub id: String,
    /// Name, unique.
    pub name: String,
    /// What the namespace is called in its clusters.
    pub namespace: String,
    /// For people.
    pub description: Option<String>,
    /// Labels that it has at least.
    #[serde(default, deserialize_with = "map")]
    pub labels: BTreeMap<String, String>,
    /// Annotations that it has at least.
    #[serde(default, deserialize_with = "map")]
    pub annotations: BTreeMap<String, String>,
    /// Secrets that its default ServiceAccount pulls images with; absent when that account is left alone.
    pub pull_secrets: Option<Vec<String>>,
    /// Which clusters are meant.
    pub target: Option<ManagedNamespaceTarget>,
    /// What becomes of it on clusters that are no longer meant.
    pub cascade: Option<ManagedNamespaceCascade>,
    /// The service in it.
    pub service: Option<ManagedNamespaceService>,
    /// Every cluster that it targets was told what it says now.
    pub spread: bool,
    /// Why it could not be spread everywhere.
    pub error: Option<String>,
    /// Set while its namespaces are let go.
    pub deleted_at: Option<DateTime<Utc>>,
    /// How it is on its clusters.
    pub instance_counts: Option<ManagedNamespaceCounts>,
}

/// How a managed namespace is on its clusters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagedNamespaceCounts {
    /// So many clusters have it.
    pub all: u64,
    /// On so many it is as it should be.
    pub synced: u64,
    /// On so many it, or the service in it, is on its way out.
    pub leaving: u64,
}

/// Which clusters are meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagedNamespaceTarget {
    /// Tags that they must have.
    #[serde(default, deserialize_with = "map")]
    pub tags: BTreeMap<String, String>,
    /// Their distribution.
    pub distro: Option<String>,
}

/// What becomes of a managed namespace on clusters that are no longer meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagedNamespaceCascade {
    /// It is deleted, once somebody approves.
    pub delete: Option<bool>,
    /// It is forgotten with its service.
    pub detach: Option<bool>,
}

/// The service in a managed namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagedNamespaceService {
    /// What its instances are called.
    pub name: Option<String>,
    /// Where their objects go.
    pub namespace: Option<String>,
}

/// How a managed namespace is on one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ManagedNamespaceState {
    /// As it should be.
    Synced,
    /// Its agent, or a person who must approve, has something to do.
    Waiting,
    /// Something is wrong.
    Error,
    /// One that a newer console knows and this client does not.
    #[serde(other)]
    Unknown,
}

impl ManagedNamespaceState {
    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Synced => "SYNCED",
            Self::Waiting => "WAITING",
            Self::Error => "ERROR",
            Self::Unknown => "UNKNOWN",
        }
    }
}

/// The instances of a managed namespace.
#[derive(Debug, Clone, Deserialize)]
pub struct ManagedNamespaceInstances {
    /// One page of them.
    pub instances: Connection<ManagedNamespaceInstance>,
}

impl Paged for ManagedNamespaceInstances {
    type Item = ManagedNamespaceInstance;

    fn page(self) -> Connection<ManagedNamespaceInstance> {
        self.instances
    }
}

/// A managed namespace on one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManagedNamespaceInstance {
    /// How it is.
    pub state: ManagedNamespaceState,
    /// It is on its way out.
    pub leaving: bool,
    /// The service that holds the namespace.
    pub namespace_id: Option<String>,
    /// How that fares.
    pub namespace_status: Option<ServiceDeploymentStatus>,
    /// The service in it.
    pub service_id: Option<String>,
    /// How that fares.
    pub service_status: Option<ServiceDeploymentStatus>,
    /// Its cluster.
    pub cluster: Option<ClusterRef>,
}

/// What a managed namespace is given, as the API's `ManagedNamespaceAttributes`. It may hold values that are secret:
/// `Debug` does not show it.
#[derive(Clone, Serialize)]
#[serde(transparent)]
pub struct ManagedNamespaceAttributes(pub serde_json::Map<String, serde_json::Value>);

impl fmt::Debug for ManagedNamespaceAttributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A map that may be null.
fn map<'de, D: serde::Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

macro_rules! managed_namespace_fields {
    () => {
        "fragment ManagedNamespaceFields on ManagedNamespace {
  id name namespace description labels annotations pullSecrets spread error deletedAt
  target { tags distro }
  cascade { delete detach }
  service { name namespace }
  instanceCounts { all synced leaving }
}"
    };
}

operations! {
    /// The managed namespaces that the caller may see, by pages.
    Query ListManagedNamespaces {
        /// The page after this cursor.
        after: Option<String>,
        /// Items of the page.
        first: i64,
    } => "managedNamespaces": Connection<ManagedNamespace>,
    concat!("query ListManagedNamespaces($after: String, $first: Int) {
  managedNamespaces(after: $after, first: $first) {
    pageInfo { hasNextPage endCursor }
    edges { node { ...ManagedNamespaceFields } }
  }
}
", managed_namespace_fields!());

    /// One managed namespace, by id or by name.
    Query GetManagedNamespace {
        /// Its id, or
        id: Option<String>,
        /// its name.
        name: Option<String>,
    } => "managedNamespace": ManagedNamespace,
    concat!("query GetManagedNamespace($id: ID, $name: String) {
  managedNamespace(id: $id, name: $name) { ...ManagedNamespaceFields }
}
", managed_namespace_fields!());

    /// How a managed namespace is on each cluster, by pages.
    Query ListManagedNamespaceInstances {
        /// Its id.
        id: String,
        /// The page after this cursor.
        after: Option<String>,
        /// Items of the page.
        first: i64,
    } => "managedNamespace": ManagedNamespaceInstances,
    "query ListManagedNamespaceInstances($id: ID, $after: String, $first: Int) {
  managedNamespace(id: $id) {
    instances(after: $after, first: $first) {
      pageInfo { hasNextPage endCursor }
      edges { node {
        state leaving namespaceId namespaceStatus serviceId serviceStatus
        cluster { id name handle }
      } }
    }
  }
}";

    /// Puts a namespace on every cluster that it targets.
    Mutation CreateManagedNamespace {
        /// What it is given.
        attributes: ManagedNamespaceAttributes,
    } => "createManagedNamespace": ManagedNamespace,
    concat!("mutation CreateManagedNamespace($attributes: ManagedNamespaceAttributes!) {
  createManagedNamespace(attributes: $attributes) { ...ManagedNamespaceFields }
}
", managed_namespace_fields!());

    /// Changes a managed namespace.
    Mutation UpdateManagedNamespace {
        /// Its id.
        id: String,
        /// What it is given; what is absent stays as it is.
        attributes: ManagedNamespaceAttributes,
    } => "updateManagedNamespace": ManagedNamespace,
    concat!("mutation UpdateManagedNamespace($id: ID!, $attributes: ManagedNamespaceAttributes!) {
  updateManagedNamespace(id: $id, attributes: $attributes) { ...ManagedNamespaceFields }
}
", managed_namespace_fields!());

    /// Lets the namespaces of a managed namespace go and removes it.
    Mutation DeleteManagedNamespace {
        /// Its id.
        id: String,
    } => "deleteManagedNamespace": ManagedNamespace,
    concat!("mutation DeleteManagedNamespace($id: ID!) {
  deleteManagedNamespace(id: $id) { ...ManagedNamespaceFields }
}
", managed_namespace_fields!());
}
