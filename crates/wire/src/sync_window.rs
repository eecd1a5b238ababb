//! When new commits may go on by themselves.

use serde::{Deserialize, Serialize};

use crate::{document::operations, shared::Id};

/// A time that comes again and again, in which new commits go on, or wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SyncWindow {
    /// Opaque id.
    pub id: String,
    /// Lets through, or holds back.
    pub kind: SyncWindowKind,
    /// When it opens, in cron's five fields.
    pub schedule: String,
    /// How long it stays open, in seconds.
    pub duration: i64,
    /// Name of the time zone that the schedule is meant in.
    pub time_zone: String,
    /// Why there is one.
    pub description: Option<String>,
}

/// Whether a window lets through or holds back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum SyncWindowKind {
    /// New commits go on only while one of these is open.
    Allow,
    /// New commits wait while one of these is open.
    Deny,
    /// One that a newer console knows and this client does not.
    #[serde(other)]
    Unknown,
}

/// A window to make.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SyncWindowAttributes {
    /// Lets through, or holds back.
    pub kind: SyncWindowKind,
    /// When it opens, in cron's five fields.
    pub schedule: String,
    /// How long it stays open, in seconds: from a minute to a week.
    pub duration: i64,
    /// Name of the time zone that the schedule is meant in; UTC by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Why there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

macro_rules! sync_window_fields {
    () => {
        "fragment SyncWindowFields on SyncWindow {
  id kind schedule duration timeZone description
}"
    };
}

operations! {
    /// The windows of a project, a cluster or a service; none that it inherits.
    Query ListSyncWindows {
        /// Of this project, or
        project_id: Option<String>,
        /// of this cluster, or
        cluster_id: Option<String>,
        /// of this service.
        service_id: Option<String>,
    } => "syncWindows": Vec<SyncWindow>,
    concat!("query ListSyncWindows($projectId: ID, $clusterId: ID, $serviceId: ID) {
  syncWindows(projectId: $projectId, clusterId: $clusterId, serviceId: $serviceId) { ...SyncWindowFields }
}
", sync_window_fields!());

    /// Makes a window of a project, a cluster or a service.
    Mutation CreateSyncWindow {
        /// Of this project, or
        project_id: Option<String>,
        /// of this cluster, or
        cluster_id: Option<String>,
        /// of this service.
        service_id: Option<String>,
        /// The window.
        attributes: SyncWindowAttributes,
    } => "createSyncWindow": SyncWindow,
    concat!("mutation CreateSyncWindow($projectId: ID, $clusterId: ID, $serviceId: ID, $attributes: SyncWindowAttributes!) {
  createSyncWindow(projectId: $projectId, clusterId: $clusterId, serviceId: $serviceId, attributes: $attributes) { ...SyncWindowFields }
}
", sync_window_fields!());

    /// Removes a window of a project, a cluster or a service.
    Mutation DeleteSyncWindow {
        /// Its id.
        id: String,
        /// Of this project, or
        project_id: Option<String>,
        /// of this cluster, or
        cluster_id: Option<String>,
        /// of this service.
        service_id: Option<String>,
    } => "deleteSyncWindow": Id,
    "mutation DeleteSyncWindow($id: ID!, $projectId: ID, $clusterId: ID, $serviceId: ID) {
  deleteSyncWindow(id: $id, projectId: $projectId, clusterId: $clusterId, serviceId: $serviceId) { id }
}";
}
