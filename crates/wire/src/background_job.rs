//! Background jobs of the console.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::{document::operations, page::Connection, shared::Id};

/// Background work of the console that is not done yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackgroundJob {
    /// Opaque id.
    pub id: String,
    /// The kind of work.
    pub kind: String,
    /// To what.
    pub key: String,
    /// What it is doing.
    pub state: BackgroundJobState,
    /// Attempts since it was last enqueued.
    pub attempts: u32,
    /// Why the last attempt failed.
    pub error: Option<String>,
    /// It does not run before.
    pub run_after: Option<DateTime<Utc>>,
    /// When it was first enqueued.
    pub inserted_at: Option<DateTime<Utc>>,
    /// When it was last enqueued, or an attempt ended.
    pub updated_at: Option<DateTime<Utc>>,
}

/// What a background job is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum BackgroundJobState {
    /// It runs when it is due.
    Waiting,
    /// A replica of the console runs it.
    Running,
    /// It failed for good.
    Dead,
    /// One that a newer console knows and this client does not.
    #[serde(other)]
    Unknown,
}

macro_rules! background_job_fields {
    () => {
        "fragment BackgroundJobFields on BackgroundJob {
  id kind key state attempts error runAfter insertedAt updatedAt
}"
    };
}

operations! {
    /// The background jobs, by pages; for administrators.
    Query ListBackgroundJobs {
        /// Only in this state.
        state: Option<BackgroundJobState>,
        /// Only of this kind.
        kind: Option<String>,
        /// The page after this cursor.
        after: Option<String>,
        /// Items of the page.
        first: i64,
    } => "backgroundJobs": Connection<BackgroundJob>,
    concat!("query ListBackgroundJobs($state: BackgroundJobState, $kind: String, $after: String, $first: Int) {
  backgroundJobs(state: $state, kind: $kind, after: $after, first: $first) {
    pageInfo { hasNextPage endCursor }
    edges { node { ...BackgroundJobFields } }
  }
}
", background_job_fields!());

    /// Runs a dead job again.
    Mutation RetryBackgroundJob {
        /// Of the job.
        id: String,
    } => "retryBackgroundJob": BackgroundJob,
    concat!("mutation RetryBackgroundJob($id: ID!) {
  retryBackgroundJob(id: $id) { ...BackgroundJobFields }
}
", background_job_fields!());

    /// Removes a job that is dead or waits.
    Mutation DeleteBackgroundJob {
        /// Of the job.
        id: String,
    } => "deleteBackgroundJob": Id,
    "mutation DeleteBackgroundJob($id: ID!) {
  deleteBackgroundJob(id: $id) { id }
}";
}
