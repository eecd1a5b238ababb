//! Pull requests that somebody asked an automation for.

use std::sync::Arc;

use plural_core::Result;
use plural_core::ids::PullRequestId;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::job::{Job, JobFailure};

/// Opens a pull request that is recorded.
#[derive(Debug)]
pub enum OpenPullRequest {}

/// Which pull request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BegunPullRequest {
    /// Its record.
    pub id: PullRequestId,
}

impl Job for OpenPullRequest {
    const KIND: &'static str = "open_pull_request";
    // About as long as a host is asked again.
    const ATTEMPTS: u32 = 9;
    type Payload = BegunPullRequest;

    fn key(begun: &BegunPullRequest) -> String {
        begun.id.to_string()
    }

    async fn run(app: &Arc<App>, begun: BegunPullRequest) -> Result<(), JobFailure> {
        app.pull_request_open(begun.id).await
    }

    async fn died(app: &Arc<App>, begun: BegunPullRequest, why: &str) -> Result<()> {
        app.pull_request_given_up(begun.id, why).await
    }
}
