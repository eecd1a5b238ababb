//! A project holds clusters and repositories, and carries bindings for both.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::ids::ProjectId;
use crate::name::Name;
use crate::page::Keyed;
use crate::policy::BindingsChange;
use crate::project_limits::ProjectLimits;

/// A project. One is the default: what names no project lands there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Id.
    pub id: ProjectId,
    /// Unique in the installation.
    pub name: Name,
    /// For people.
    pub description: Option<String>,
    /// Where things go that name no project.
    pub default: bool,
    /// What its services may touch.
    pub limits: ProjectLimits,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// What a new project is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewProject {
    /// Unique in the installation.
    pub name: Name,
    /// For people.
    pub description: Option<String>,
    /// Who may use it, besides administrators of the installation.
    pub bindings: BindingsChange,
}

impl NewProject {
    /// A project with nothing but a name.
    pub fn named(name: Name) -> Self {
        Self { name, description: None, bindings: BindingsChange::default() }
    }
}

/// What changes of a project; `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProjectChange {
    /// New name.
    pub name: Option<Name>,
    /// New description.
    pub description: Option<String>,
    /// Who may use it from now on.
    pub bindings: BindingsChange,
}

impl Keyed for Project {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}
