//! Recordings of shells.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::{document::operations, page::Connection, shared::list, user::User};

/// A recording of a shell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recording {
    /// Opaque id.
    pub id: String,
    /// Id of its cluster, which may be gone.
    pub cluster_id: String,
    /// Id of its project, which may be gone.
    pub project_id: String,
    /// The project's name, or the last that it had.
    pub project_name: Option<String>,
    /// Who was in the shell, as it was called then.
    pub actor_name: String,
    /// How the shell came about: `EXEC` or `ATTACH`.
    pub kind: String,
    /// Namespace of the Pod.
    pub namespace: String,
    /// The Pod.
    pub pod: String,
    /// The container, when one was named.
    pub container: Option<String>,
    /// The command and its arguments.
    #[serde(default, deserialize_with = "list")]
    pub command: Vec<String>,
    /// Where it is.
    pub state: RecordingState,
    /// Bytes recorded so far.
    pub bytes: f64,
    /// Milliseconds from its beginning to what is known last.
    pub duration_ms: f64,
    /// When it began.
    pub inserted_at: Option<DateTime<Utc>>,
    /// When it goes.
    pub expires_at: Option<DateTime<Utc>>,
}

/// Where a recording is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RecordingState {
    /// Its shell is open.
    Running,
    /// It ended with its shell.
    Ended,
    /// It was as large as it may be.
    Full,
    /// It could not be kept any more.
    Failed,
    /// Its console ended in the middle.
    Broken,
    /// One that a newer console knows and this client does not.
    #[serde(other)]
    Unknown,
}

/// A cluster with what was last recorded in it.
#[derive(Debug, Clone, Deserialize)]
pub struct ClusterRecordings {
    /// The cluster's id.
    pub id: String,
    /// The recordings.
    pub recordings: Connection<Recording>,
}

/// Whether shells in the clusters of a project are recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordingPolicy {
    /// Every shell is recorded, or there is none.
    pub record: Option<bool>,
    /// What is typed is recorded too.
    pub input: Option<bool>,
    /// Days that a recording is kept.
    pub keep_days: Option<i64>,
    /// Megabytes that a recording may take.
    pub limit_megabytes: Option<i64>,
    /// Who may read.
    #[serde(default, deserialize_with = "list")]
    pub user_readers: Vec<User>,
    /// Whose members may.
    #[serde(default, deserialize_with = "list")]
    pub group_readers: Vec<RecordingGroup>,
}

/// A group whose members may read recordings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingGroup {
    /// Opaque id.
    pub id: String,
    /// Its unique name.
    pub name: String,
}

/// What to say of shells in a project's clusters.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordingPolicyAttributes {
    /// Every shell is recorded, or there is none.
    pub record: bool,
    /// What is typed is recorded too.
    pub input: bool,
    /// Days that a recording is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_days: Option<i64>,
    /// Megabytes that a recording may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_megabytes: Option<i64>,
    /// Who may read: e-mail addresses or ids.
    pub user_readers: Vec<String>,
    /// Whose members may: names or ids.
    pub group_readers: Vec<String>,
}

/// A project with what was said of shells in its clusters.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProjectRecordings {
    /// The project's id.
    pub id: String,
    /// What was said.
    pub recording_policy: RecordingPolicy,
}

operations! {
    /// A cluster, by id or handle, with what was last recorded in it.
    Query ListRecordings {
        /// Its id, or
        id: Option<String>,
        /// its handle.
        handle: Option<String>,
        /// How many.
        last: i64,
    } => "cluster": ClusterRecordings,
    "query ListRecordings($id: ID, $handle: String, $last: Int) {
  cluster(id: $id, handle: $handle) {
    id
    recordings(last: $last) {
      pageInfo { hasNextPage endCursor }
      edges {
        node { id clusterId projectId projectName actorName kind namespace pod container command state bytes durationMs insertedAt expiresAt }
      }
    }
  }
}";

    /// What was last recorded of shells and the caller may read, also in clusters and projects that are gone.
    Query ListReadableRecordings {
        /// Only of this project, or
        project_id: Option<String>,
        /// only of the project of this name.
        project_name: Option<String>,
        /// How many.
        last: i64,
    } => "recordings": Connection<Recording>,
    "query ListReadableRecordings($projectId: ID, $projectName: String, $last: Int) {
  recordings(projectId: $projectId, projectName: $projectName, last: $last) {
    pageInfo { hasNextPage endCursor }
    edges {
      node { id clusterId projectId projectName actorName kind namespace pod container command state bytes durationMs insertedAt expiresAt }
    }
  }
}";

    /// Whether shells in the clusters of a project are recorded.
    Query GetRecordingPolicy {
        /// The project's id.
        id: String,
    } => "project": ProjectRecordings,
    "query GetRecordingPolicy($id: ID) {
  project(id: $id) {
    id
    recordingPolicy {
      record input keepDays limitMegabytes userReaders { id name email } groupReaders { id name }
    }
  }
}";

    /// Says whether shells in the clusters of a project are recorded, in place of what was said so far.
    Mutation SetRecordingPolicy {
        /// The project's id.
        project_id: String,
        /// What to say.
        attributes: RecordingPolicyAttributes,
    } => "setRecordingPolicy": RecordingPolicy,
    "mutation SetRecordingPolicy($projectId: ID!, $attributes: RecordingPolicyAttributes!) {
  setRecordingPolicy(projectId: $projectId, attributes: $attributes) {
    record input keepDays limitMegabytes userReaders { id name email } groupReaders { id name }
  }
}";
}
