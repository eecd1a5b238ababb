//! The objects that a service owns, and what those own.

use serde::{Deserialize, Serialize};

use crate::{
    document::operations,
    service::{ServiceDeployment, service_fields},
    shared::list,
};

/// An object that a service owns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceComponent {
    /// Opaque id.
    pub id: String,
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
    /// How it fares; absent when nothing is known.
    pub state: Option<ComponentState>,
    /// Whether the live object carries what was applied.
    pub synced: bool,
}

/// A service with its objects and all that they own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceTree {
    /// What lists show.
    #[serde(flatten)]
    pub service: ServiceDeployment,
    /// The objects it owns.
    #[serde(default, deserialize_with = "list")]
    pub components: Vec<ComponentTree>,
}

/// An object of a service with all that it owns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentTree {
    /// The object.
    #[serde(flatten)]
    pub component: ServiceComponent,
    /// The API server's uid.
    pub uid: Option<String>,
    /// Why it is not running.
    pub message: Option<String>,
    /// What it owns, down to Pods, each after its owner.
    #[serde(default, deserialize_with = "list")]
    pub children: Vec<ServiceComponentChild>,
}

/// An object that a component owns, directly or through others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceComponentChild {
    /// The API server's uid.
    pub uid: Option<String>,
    /// The uid of its owner: the component, or another child.
    pub parent_uid: Option<String>,
    /// API group, empty for the core group.
    pub group: Option<String>,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Namespace, absent for cluster-wide objects.
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
    /// How it fares; absent when nothing is known.
    pub state: Option<ComponentState>,
    /// Why it is not running.
    pub message: Option<String>,
}

/// How an object fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ComponentState {
    /// Ready.
    Running,
    /// On its way.
    Pending,
    /// Not getting ready.
    Failed,
    /// Suspended.
    Paused,
    /// One that a newer console knows and this client does not.
    #[serde(other)]
    Unknown,
}

operations! {
    /// One service with its objects and all that they own: by id, or by its cluster's handle and its name.
    Query GetServiceTree {
        /// Its id, or
        id: Option<String>,
        /// its cluster's handle and
        cluster: Option<String>,
        /// its name.
        name: Option<String>,
    } => "serviceDeployment": ServiceTree,
    concat!("query GetServiceTree($id: ID, $cluster: String, $name: String) {
  serviceDeployment(id: $id, cluster: $cluster, name: $name) {
    ...ServiceFields
    components {
      id group version kind namespace name state synced uid message
      children { uid parentUid group version kind namespace name state message }
    }
  }
}
", service_fields!());
}
