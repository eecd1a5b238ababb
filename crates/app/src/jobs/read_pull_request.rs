//! The life of pull requests after they were opened: what webhooks told, what is read back, and what follows from a merge.

use std::sync::Arc;
use std::time::Duration;

use plural_core::ids::{PullRequestId, ScmWebhookId};
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::job::{Job, JobFailure};

/// Looks for what a webhook told of a pull request.
#[derive(Debug)]
pub enum HearPullRequest {}

/// Of which pull request a webhook told: by its number, or by a commit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HeardPullRequest {
    /// The webhook.
    pub webhook_id: ScmWebhookId,
    /// The repository, in lower case.
    pub slug: String,
    /// Its number.
    pub number: Option<u64>,
    /// The commit that a check is of.
    pub head: Option<String>,
}

impl Job for HearPullRequest {
    const KIND: &'static str = "hear_pull_request";
    type Payload = HeardPullRequest;

    fn key(heard: &HeardPullRequest) -> String {
        let HeardPullRequest { webhook_id, slug, number, head } = heard;
        let about = number.map_or_else(|| head.clone().unwrap_or_default(), |number| number.to_string());
        format!("{webhook_id}:{slug}:{about}")
    }

    async fn run(app: &Arc<App>, heard: HeardPullRequest) -> Result<(), JobFailure> {
        Ok(app.pull_request_heard(&heard).await?)
    }
}

/// Reads a pull request back from its host.
#[derive(Debug)]
pub enum ReadPullRequest {}

/// Which pull request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KnownPullRequest {
    /// Its record.
    pub id: PullRequestId,
}

impl Job for ReadPullRequest {
    const KIND: &'static str = "read_pull_request";
    const DEADLINE: Duration = Duration::from_mins(2);
    type Payload = KnownPullRequest;

    fn key(known: &KnownPullRequest) -> String {
        known.id.to_string()
    }

    async fn run(app: &Arc<App>, known: KnownPullRequest) -> Result<(), JobFailure> {
        Ok(app.pull_request_read(known.id).await?)
    }
}

/// Has what is read from a repository move on after a merge.
#[derive(Debug)]
pub enum FollowMerge {}

/// Which pull request was merged.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MergedPullRequest {
    /// Its record.
    pub id: PullRequestId,
}

impl Job for FollowMerge {
    const KIND: &'static str = "follow_merge";
    type Payload = MergedPullRequest;

    fn key(merged: &MergedPullRequest) -> String {
        merged.id.to_string()
    }

    async fn run(app: &Arc<App>, merged: MergedPullRequest) -> Result<(), JobFailure> {
        Ok(app.pull_request_merged(merged.id).await?)
    }
}
