//! What a git host is told of the plans of a pull request.

use std::sync::Arc;

use crate::app::App;
use crate::job::{ABOUT_A_DAY, Job, JobFailure};
use crate::stack_pull_request::PullAddress;

/// Tells the host of a pull request how the plans of its stacks stand.
#[derive(Debug)]
pub enum TellPullRequest {}

impl Job for TellPullRequest {
    const KIND: &'static str = "tell_pull_request";
    // A check that stays pending keeps everybody from merging.
    const ATTEMPTS: u32 = ABOUT_A_DAY;
    type Payload = PullAddress;

    fn key(pull: &PullAddress) -> String {
        pull.key()
    }

    async fn run(app: &Arc<App>, pull: PullAddress) -> Result<(), JobFailure> {
        Ok(Box::pin(app.pull_request_tell(&pull)).await?)
    }
}
