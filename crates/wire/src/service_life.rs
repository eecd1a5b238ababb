//! The life of a service: its revisions, what was done to it, going back, standing still, copies.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::{
    document::operations,
    page::Connection,
    service::{ConfigAttributes, GitRef, ServiceDeployment, service_fields},
};

/// Who holds a service at a revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePin {
    /// The revision that it stands at.
    pub revision_id: String,
    /// The newest revision, which waits.
    pub newest_revision_id: String,
    /// Who pinned it.
    pub by: String,
    /// What ends it.
    pub until: PinUntil,
    /// When.
    pub inserted_at: DateTime<Utc>,
}

/// What ends a pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PinUntil {
    /// Only somebody who releases it.
    Release,
    /// The next commit that changes the service, too.
    NextCommit,
    /// The sync windows that hold it back, too.
    Window,
    /// The services that it depends on, once they are healthy, too.
    Dependencies,
    /// One that a newer console knows and this client does not.
    #[serde(other)]
    Unknown,
}

/// What a service was, at one time, for a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RevisionDetails {
    /// Opaque id.
    pub id: String,
    /// The service's version label.
    pub version: String,
    /// Its commit.
    pub sha: Option<String>,
    /// First line of the commit's message.
    pub message: Option<String>,
    /// Where it was read from.
    pub git: Option<GitRef>,
    /// Who made it.
    pub by: Option<String>,
    /// The service can be rolled back to it.
    pub restorable: Option<bool>,
    /// When it was made.
    pub inserted_at: Option<DateTime<Utc>>,
}

/// A service with its last revisions, the newest last.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServiceRevisions {
    /// What lists show.
    #[serde(flatten)]
    pub service: ServiceDeployment,
    /// The revisions.
    pub revisions: Connection<RevisionDetails>,
}

/// Something that was done to a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceEvent {
    /// Opaque id.
    pub id: String,
    /// What: `service.rollback`.
    pub action: String,
    /// Who, as it was called then.
    pub actor_name: String,
    /// When.
    pub inserted_at: Option<DateTime<Utc>>,
}

/// A service with what was last done to it, the newest last.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServiceEvents {
    /// What lists show.
    #[serde(flatten)]
    pub service: ServiceDeployment,
    /// What was done.
    pub events: Connection<ServiceEvent>,
}

/// What is other about a copy of a service.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceCloneAttributes {
    /// Its name.
    pub name: String,
    /// Its namespace; else that of the service it is copied from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Values that it is given besides, or instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<Vec<ConfigAttributes>>,
}

operations! {
    /// One service with its last revisions: by id, or by its cluster's handle and its name.
    Query ListServiceRevisions {
        /// Its id, or
        id: Option<String>,
        /// its cluster's handle and
        cluster: Option<String>,
        /// its name.
        name: Option<String>,
        /// How many.
        last: i64,
    } => "serviceDeployment": ServiceRevisions,
    concat!("query ListServiceRevisions($id: ID, $cluster: String, $name: String, $last: Int) {
  serviceDeployment(id: $id, cluster: $cluster, name: $name) {
    ...ServiceFields
    revisions(last: $last) {
      pageInfo { hasNextPage endCursor }
      edges { node { id version sha message git { ref folder } by restorable insertedAt } }
    }
  }
}
", service_fields!());

    /// One service with what was last done to it: by id, or by its cluster's handle and its name.
    Query ListServiceEvents {
        /// Its id, or
        id: Option<String>,
        /// its cluster's handle and
        cluster: Option<String>,
        /// its name.
        name: Option<String>,
        /// How many.
        last: i64,
    } => "serviceDeployment": ServiceEvents,
    concat!("query ListServiceEvents($id: ID, $cluster: String, $name: String, $last: Int) {
  serviceDeployment(id: $id, cluster: $cluster, name: $name) {
    ...ServiceFields
    events(last: $last) {
      pageInfo { hasNextPage endCursor }
      edges { node { id action actorName insertedAt } }
    }
  }
}
", service_fields!());

    /// Goes back to a revision of the service and stays there.
    Mutation RollbackService {
        /// Its id.
        id: String,
        /// The revision's id.
        revision_id: String,
        /// What ends it.
        until: PinUntil,
    } => "rollbackService": ServiceDeployment,
    concat!("mutation RollbackService($id: ID!, $revisionId: ID!, $until: PinUntil) {
  rollbackService(id: $id, revisionId: $revisionId, until: $until) { ...ServiceFields }
}
", service_fields!());

    /// Lets a service that was rolled back go on.
    Mutation ReleaseService {
        /// Its id.
        id: String,
    } => "releaseService": ServiceDeployment,
    concat!("mutation ReleaseService($id: ID!) {
  releaseService(id: $id) { ...ServiceFields }
}
", service_fields!());

    /// Has the agent write nothing of a service.
    Mutation PauseService {
        /// Its id.
        id: String,
    } => "pauseService": ServiceDeployment,
    concat!("mutation PauseService($id: ID!) {
  pauseService(id: $id) { ...ServiceFields }
}
", service_fields!());

    /// Lets the agent go on with a service.
    Mutation ResumeService {
        /// Its id.
        id: String,
    } => "resumeService": ServiceDeployment,
    concat!("mutation ResumeService($id: ID!) {
  resumeService(id: $id) { ...ServiceFields }
}
", service_fields!());

    /// Marks a service as the upgrade of its cluster's agent, or takes the mark off.
    Mutation MarkAgentUpgrade {
        /// Its id.
        id: String,
        /// Whether it is marked.
        marked: bool,
    } => "markAgentUpgrade": ServiceDeployment,
    concat!("mutation MarkAgentUpgrade($id: ID!, $marked: Boolean!) {
  markAgentUpgrade(id: $id, marked: $marked) { ...ServiceFields }
}
", service_fields!());

    /// Puts a copy of a service on a cluster.
    Mutation CloneService {
        /// The cluster's id.
        cluster_id: String,
        /// The service's id.
        service_id: String,
        /// What is other about the copy.
        attributes: ServiceCloneAttributes,
    } => "cloneService": ServiceDeployment,
    concat!("mutation CloneService($clusterId: ID!, $serviceId: ID!, $attributes: ServiceCloneAttributes!) {
  cloneService(clusterId: $clusterId, serviceId: $serviceId, attributes: $attributes) { ...ServiceFields }
}
", service_fields!());
}
