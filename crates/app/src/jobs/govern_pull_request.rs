//! Pull requests that a governance has to confirm.

use std::sync::Arc;
use std::time::Duration;

use crate::app::App;
use crate::job::{ABOUT_A_DAY, Job, JobFailure};
use crate::jobs::KnownPullRequest;

/// Goes on with a pull request and its governance.
#[derive(Debug)]
pub enum GovernPullRequest {}

impl Job for GovernPullRequest {
    const KIND: &'static str = "govern_pull_request";
    // What the governance or the host says counts in the record. These are of the console itself.
    const ATTEMPTS: u32 = ABOUT_A_DAY;
    const DEADLINE: Duration = Duration::from_mins(5);
    type Payload = KnownPullRequest;

    fn key(known: &KnownPullRequest) -> String {
        known.id.to_string()
    }

    async fn run(app: &Arc<App>, known: KnownPullRequest) -> Result<(), JobFailure> {
        Ok(app.pull_request_govern(known.id).await?)
    }
}
