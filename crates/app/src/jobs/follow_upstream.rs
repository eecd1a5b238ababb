//! Lets the stacks that depend on another one follow it, after a run of that is over.

use std::sync::Arc;

use plural_core::ids::{StackId, StackRunId};
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::job::{Job, JobFailure};

/// Lets stacks follow one that they depend on.
#[derive(Debug)]
pub enum FollowUpstream {}

/// Which run is over.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FollowedRun {
    /// Of this stack.
    pub stack: StackId,
    /// The run.
    pub run: StackRunId,
}

impl Job for FollowUpstream {
    const KIND: &'static str = "follow_upstream";
    type Payload = FollowedRun;

    fn key(followed: &FollowedRun) -> String {
        followed.stack.to_string()
    }

    async fn run(app: &Arc<App>, followed: FollowedRun) -> Result<(), JobFailure> {
        let FollowedRun { stack, run } = followed;
        Ok(app.stack_followed(stack, run).await?)
    }
}
