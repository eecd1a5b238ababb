//! Projects.

use serde::{Deserialize, Serialize};

use crate::{document::operations, shared::list};

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
    /// What its services may touch.
    #[serde(default)]
    pub limits: Option<ProjectLimits>,
}

/// What the services of a project may touch; empty lists limit nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProjectLimits {
    /// Namespaces that may be written to.
    #[serde(default, deserialize_with = "list")]
    pub namespaces: Vec<String>,
    /// Kinds that may be written.
    #[serde(default, deserialize_with = "list")]
    pub allowed_kinds: Vec<String>,
    /// Kinds that may not.
    #[serde(default, deserialize_with = "list")]
    pub denied_kinds: Vec<String>,
    /// Objects of no namespace may not be written.
    #[serde(default)]
    pub no_cluster_scoped: Option<bool>,
    /// Kinds of objects of no namespace that may be written all the same.
    #[serde(default, deserialize_with = "list")]
    pub cluster_kinds: Vec<String>,
    /// Where services may be read from.
    #[serde(default, deserialize_with = "list")]
    pub repositories: Vec<String>,
    /// Service accounts that services may act as besides those of their own namespaces.
    #[serde(default, deserialize_with = "list")]
    pub service_accounts: Vec<String>,
    /// Every service acts as a service account.
    #[serde(default)]
    pub require_service_account: Option<bool>,
    /// The account that a service acts as which names none.
    #[serde(default)]
    pub default_service_account: Option<String>,
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
  project(id: $id, name: $name) {
    id name default description
    limits {
      namespaces allowedKinds deniedKinds noClusterScoped clusterKinds repositories
      serviceAccounts requireServiceAccount defaultServiceAccount
    }
  }
}";

    /// Limits what the services of a project may touch, in place of its limits so far.
    Mutation SetProjectLimits {
        /// The project's id.
        project_id: String,
        /// The limits.
        attributes: ProjectLimits,
    } => "setProjectLimits": Project,
    "mutation SetProjectLimits($projectId: ID!, $attributes: ProjectLimitsAttributes!) {
  setProjectLimits(projectId: $projectId, attributes: $attributes) {
    id name default description
    limits {
      namespaces allowedKinds deniedKinds noClusterScoped clusterKinds repositories
      serviceAccounts requireServiceAccount defaultServiceAccount
    }
  }
}";
}
