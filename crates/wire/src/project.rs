//! Projects.

use serde::{Deserialize, Serialize};

use crate::document::operations;

/// Enough of a project to name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectRef {
    /// Opaque id.
    pub id: String,
    /// Its unique name.
    pub name: String,
}

/// A part of the fleet with its own readers and writers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    /// Opaque id.
    pub id: String,
    /// Its unique name.
    pub name: String,
    /// Whether things without a project go here.
    pub default: Option<bool>,
    /// What it is for.
    pub description: Option<String>,
}

operations! {
    /// One project, by id or by name.
    Query GetProject {
        /// Its id, or
        id: Option<String>,
        /// its name.
        name: Option<String>,
    } => "project": Project,
    "query GetProject($id: ID, $name: String) {
  project(id: $id, name: $name) { id name default description }
}";
}
