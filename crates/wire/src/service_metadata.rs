//! What is told about a service's objects, and about a cluster's.

use serde::{Deserialize, Serialize};

use crate::{cluster::ClusterRef, document::operations, shared::list};

/// Images and host names of a service's objects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceMetadata {
    /// Container images.
    #[serde(default, deserialize_with = "list")]
    pub images: Vec<String>,
    /// Host names.
    #[serde(default, deserialize_with = "list")]
    pub fqdns: Vec<String>,
}

/// That an object is written in an API version that goes away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiDeprecation {
    /// The version of Kubernetes that said so first.
    pub deprecated_in: Option<String>,
    /// The first that does not serve it.
    pub removed_in: Option<String>,
    /// What to write instead.
    pub replacement: Option<String>,
    /// The next minor version of Kubernetes does not serve it, or this one does not already.
    pub blocking: bool,
    /// The object.
    pub component: Option<DeprecatedComponent>,
}

/// An object in an API version that goes away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeprecatedComponent {
    /// API group, empty for the core group.
    pub group: Option<String>,
    /// API version.
    pub version: Option<String>,
    /// Kind.
    pub kind: String,
    /// Namespace, absent for cluster-wide objects.
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
    /// Whose it is, where that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceRef>,
}

/// A service by its names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceRef {
    /// Opaque id.
    pub id: String,
    /// Name, unique in its cluster.
    pub name: String,
    /// Its repository.
    #[serde(default)]
    pub repository: Option<RepositoryRef>,
}

/// A repository by its address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryRef {
    /// Its address.
    pub url: String,
}

/// What is told about a service's objects as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceFacts {
    /// Images and host names; absent until its agent has told.
    pub metadata: Option<ServiceMetadata>,
    /// Its objects in API versions that go away.
    #[serde(default, deserialize_with = "list")]
    pub api_deprecations: Vec<ApiDeprecation>,
}

/// What is told about a cluster's objects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDeprecations {
    /// The cluster.
    #[serde(flatten)]
    pub cluster: ClusterRef,
    /// The Kubernetes version that it runs.
    pub current_version: Option<String>,
    /// Objects of its services in API versions that go away.
    #[serde(default, deserialize_with = "list")]
    pub api_deprecations: Vec<ApiDeprecation>,
}

operations! {
    /// What is told about a service's objects as a whole.
    Query GetServiceFacts {
        /// Its id.
        id: String,
    } => "serviceDeployment": ServiceFacts,
    "query GetServiceFacts($id: ID) {
  serviceDeployment(id: $id) {
    metadata { images fqdns }
    apiDeprecations {
      deprecatedIn removedIn replacement blocking
      component { group version kind namespace name }
    }
  }
}";

    /// Objects of a cluster's services in API versions that go away.
    Query ListClusterDeprecations {
        /// Its id.
        id: String,
    } => "cluster": ClusterDeprecations,
    "query ListClusterDeprecations($id: ID) {
  cluster(id: $id) {
    id name handle currentVersion
    apiDeprecations {
      deprecatedIn removedIn replacement blocking
      component { group version kind namespace name service { id name repository { url } } }
    }
  }
}";
}
