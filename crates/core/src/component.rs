//! One Kubernetes object that a service owns, as its agent last saw it.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ids::ServiceId;
use crate::sync::ObjectRef;

/// One object of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// Stable for one object of one service: derived from both.
    pub id: Uuid,
    /// Whose it is.
    pub service_id: ServiceId,
    /// Which object.
    pub key: ComponentKey,
    /// How it is; absent while unknown.
    pub state: Option<ComponentState>,
    /// The live object carries what was applied.
    pub synced: bool,
    /// The API server's uid.
    pub uid: Option<String>,
    /// Why it is not running.
    pub message: Option<String>,
    /// What it owns, down to Pods, each after its owner.
    pub children: Vec<ComponentChild>,
}

/// An object that a component owns, directly or through others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentChild {
    /// Which object.
    pub key: ComponentKey,
    /// The API server's uid.
    pub uid: String,
    /// The uid of its owner: the component, or another child.
    pub parent_uid: Option<String>,
    /// How it is; absent while unknown.
    pub state: Option<ComponentState>,
    /// Why it is not running.
    pub message: Option<String>,
}

/// Names one object in a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComponentKey {
    /// "" for the core group.
    pub group: String,
    /// "v1".
    pub version: String,
    /// "Deployment".
    pub kind: String,
    /// "" for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl fmt::Display for ComponentKey {
    /// `Deployment.apps/shop/web`, as an object is written everywhere else.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, version: _, kind, namespace, name } = self.clone();
        ObjectRef { group, kind, namespace, name }.fmt(f)
    }
}

/// Health of one object, named as in the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ComponentState {
    /// It does what it should.
    Running,
    /// It is on its way.
    Pending,
    /// It is broken.
    Failed,
    /// It waits for a person.
    Paused,
}

impl ComponentState {
    /// The word on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Pending => "PENDING",
            Self::Failed => "FAILED",
            Self::Paused => "PAUSED",
        }
    }

    /// The state of this name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Running, Self::Pending, Self::Failed, Self::Paused]
            .into_iter()
            .find(|state| state.as_str() == text)
    }
}
