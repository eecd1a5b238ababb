//! Global services: one service on every cluster that it targets.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::{
    cluster::ClusterRef,
    document::operations,
    page::{Connection, Paged},
    service::ServiceDeploymentStatus,
    shared::list,
};

/// A global service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GlobalService {
    /// Opaque id.
    pub id: String,
    /// Name, unique.
    pub name: String,
    /// Tags that a cluster must have to be meant.
    #[serde(default, deserialize_with = "list")]
    pub tags: Vec<crate::shared::Tag>,
    /// The distribution that it must have.
    pub distro: Option<String>,
    /// Grows with each change of what the instances are made from.
    pub generation: String,
    /// How the newest generation spreads; absent when it was given to everybody at once.
    pub rollout: Option<Rollout>,
    /// What it says now has been seen to.
    pub spread: bool,
    /// Why it could not be spread everywhere.
    pub error: Option<String>,
    /// Set while its instances are let go.
    pub deleted_at: Option<DateTime<Utc>>,
    /// How its instances fare.
    pub instance_counts: Option<InstanceCounts>,
}

/// How the instances of a global service fare.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceCounts {
    /// So many there are.
    pub all: u64,
    /// So many stay and are healthy with what they were given.
    pub healthy: u64,
    /// So many stay and are healthy with the newest generation.
    pub newest: u64,
    /// So many are on their way out.
    pub leaving: u64,
}

/// How a change moves through the clusters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// How it is.
    pub state: RolloutState,
    /// What everybody should come to.
    pub generation: String,
    /// What they came from.
    pub previous: String,
    /// The cohort that moves.
    pub cohort: Option<String>,
    /// Why it halted.
    pub message: Option<String>,
}

/// How a rollout is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RolloutState {
    /// Members move.
    Progressing,
    /// The moved cohorts are healthy; time has to pass.
    Soaking,
    /// It stands still until a person resumes or undoes it.
    Halted,
    /// Members move back.
    Undoing,
    /// Everybody is back.
    Undone,
    /// Everybody is there.
    Complete,
    /// One that a newer console knows and this client does not.
    #[serde(other)]
    Unknown,
}

impl RolloutState {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Progressing => "PROGRESSING",
            Self::Soaking => "SOAKING",
            Self::Halted => "HALTED",
            Self::Undoing => "UNDOING",
            Self::Undone => "UNDONE",
            Self::Complete => "COMPLETE",
            Self::Unknown => "UNKNOWN",
        }
    }
}

/// The instances of a global service.
#[derive(Debug, Clone, Deserialize)]
pub struct GlobalServiceInstances {
    /// One page of them.
    pub instances: Connection<GlobalServiceInstance>,
}

impl Paged for GlobalServiceInstances {
    type Item = GlobalServiceInstance;

    fn page(self) -> Connection<GlobalServiceInstance> {
        self.instances
    }
}

/// A global service on one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GlobalServiceInstance {
    /// The generation that it was given.
    pub generation: String,
    /// How it fares.
    pub status: ServiceDeploymentStatus,
    /// Its service.
    pub service_id: String,
    /// Its cluster.
    pub cluster: Option<ClusterRef>,
}

/// What a global service is given, as the API's `GlobalServiceAttributes`. It may hold values that are secret:
/// `Debug` does not show it.
#[derive(Clone, Serialize)]
#[serde(transparent)]
pub struct GlobalServiceAttributes(pub serde_json::Map<String, serde_json::Value>);

impl fmt::Debug for GlobalServiceAttributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// What to do with a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RolloutSteering {
    /// Stop where it is.
    Halt,
    /// Go on after a halt.
    Resume,
    /// Give everybody back what was before.
    Undo,
}

macro_rules! global_service_fields {
    () => {
        "fragment GlobalServiceFields on GlobalService {
  id name distro generation spread error deletedAt
  tags { name value }
  rollout { state generation previous cohort message }
  instanceCounts { all healthy newest leaving }
}"
    };
}

operations! {
    /// The global services that the caller may see, by pages.
    Query ListGlobalServices {
        /// The page after this cursor.
        after: Option<String>,
        /// Items of the page.
        first: i64,
    } => "globalServices": Connection<GlobalService>,
    concat!("query ListGlobalServices($after: String, $first: Int) {
  globalServices(after: $after, first: $first) {
    pageInfo { hasNextPage endCursor }
    edges { node { ...GlobalServiceFields } }
  }
}
", global_service_fields!());

    /// One global service, by id or by name.
    Query GetGlobalService {
        /// Its id, or
        id: Option<String>,
        /// its name.
        name: Option<String>,
    } => "globalService": GlobalService,
    concat!("query GetGlobalService($id: ID, $name: String) {
  globalService(id: $id, name: $name) { ...GlobalServiceFields }
}
", global_service_fields!());

    /// The instances of a global service, by pages.
    Query ListGlobalServiceInstances {
        /// Id of the global service.
        id: String,
        /// The page after this cursor.
        after: Option<String>,
        /// Items of the page.
        first: i64,
    } => "globalService": GlobalServiceInstances,
    "query ListGlobalServiceInstances($id: ID, $after: String, $first: Int) {
  globalService(id: $id) {
    instances(after: $after, first: $first) {
      pageInfo { hasNextPage endCursor }
      edges { node { generation status serviceId cluster { id name handle } } }
    }
  }
}";

    /// Puts a service on every cluster that it targets.
    Mutation CreateGlobalService {
        /// The service whose copies the instances are; instead of a template.
        service_id: Option<String>,
        /// What it is given.
        attributes: GlobalServiceAttributes,
    } => "createGlobalService": GlobalService,
    concat!("mutation CreateGlobalService($serviceId: ID, $attributes: GlobalServiceAttributes!) {
  createGlobalService(serviceId: $serviceId, attributes: $attributes) { ...GlobalServiceFields }
}
", global_service_fields!());

    /// Changes a global service.
    Mutation UpdateGlobalService {
        /// Its id.
        id: String,
        /// What it is given; what is absent stays as it is, and null clears it.
        attributes: GlobalServiceAttributes,
    } => "updateGlobalService": GlobalService,
    concat!("mutation UpdateGlobalService($id: ID!, $attributes: GlobalServiceAttributes!) {
  updateGlobalService(id: $id, attributes: $attributes) { ...GlobalServiceFields }
}
", global_service_fields!());

    /// Lets the instances of a global service go and removes it.
    Mutation DeleteGlobalService {
        /// Its id.
        id: String,
    } => "deleteGlobalService": GlobalService,
    concat!("mutation DeleteGlobalService($id: ID!) {
  deleteGlobalService(id: $id) { ...GlobalServiceFields }
}
", global_service_fields!());

    /// Halts, resumes or undoes a rollout.
    Mutation SteerRollout {
        /// Id of the global service.
        id: String,
        /// What to do.
        action: RolloutSteering,
    } => "steerRollout": GlobalService,
    concat!("mutation SteerRollout($id: ID!, $action: RolloutSteering!) {
  steerRollout(id: $id, action: $action) { ...GlobalServiceFields }
}
", global_service_fields!());
}
