//! A binding gives a user or a group a role on a project, a cluster or a service.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ids::{BindingId, ClusterId, GroupId, ProjectId, ServiceId, UserId};
use crate::page::Keyed;

/// One grant. Inherited downwards: project → its clusters → their services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binding {
    /// Id.
    pub id: BindingId,
    /// On what.
    pub target: BindingTarget,
    /// To whom.
    pub subject: BindingSubject,
    /// What.
    pub role: Role,
}

/// What a binding is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BindingTarget {
    /// A project and everything in it.
    Project(ProjectId),
    /// A cluster and its services.
    Cluster(ClusterId),
    /// One service.
    Service(ServiceId),
}

/// Whom a binding is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BindingSubject {
    /// One user.
    User(UserId),
    /// Every member of a group.
    Group(GroupId),
}

/// What a binding allows. Each role includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Look.
    Read,
    /// Change.
    Write,
    /// Give others access, delete.
    Admin,
}

impl Keyed for Binding {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}
