//! Lets the stacks that depended on one that is gone follow that, where the console ended before it did so itself.

use std::sync::Arc;
use std::time::Duration;

use plural_core::ids::StackId;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::job::{Job, JobFailure, NewJob};

/// Whoever removed the stack has let them follow by then.
const AFTERWARDS: Duration = Duration::from_secs(30);

/// Lets stacks follow one that is gone.
#[derive(Debug)]
pub enum FollowGone {}

/// Which stacks it left.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LeftStacks {
    /// The stack that is gone.
    pub gone: StackId,
    /// Those that depended on it. What depends on what is gone with it.
    pub left: Vec<StackId>,
}

impl FollowGone {
    /// The work that is left behind when this stack goes; none where it leaves nobody.
    ///
    /// # Errors
    /// When it has no JSON.
    pub(crate) fn of(gone: StackId, left: &[StackId]) -> plural_core::Result<Vec<NewJob>> {
        if left.is_empty() {
            return Ok(Vec::new());
        }
        let job = NewJob::of::<Self>(&LeftStacks { gone, left: left.to_vec() })?;
        Ok(vec![job.after(AFTERWARDS)])
    }
}

impl Job for FollowGone {
    const KIND: &'static str = "follow_gone";
    type Payload = LeftStacks;

    fn key(of: &LeftStacks) -> String {
        of.gone.to_string()
    }

    async fn run(app: &Arc<App>, of: LeftStacks) -> Result<(), JobFailure> {
        Ok(app.dependents_follow(of.left, None).await?)
    }
}
