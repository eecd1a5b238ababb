//! Lets the stacks of a definition follow it, after it was changed.

use std::sync::Arc;

use plural_core::ids::{StackDefinitionId, UserId};
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::job::{Job, JobFailure};

/// Lets stacks follow their definition.
#[derive(Debug)]
pub enum FollowDefinition {}

/// Which definition was changed, and by whom.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FollowedDefinition {
    /// The definition.
    pub definition: StackDefinitionId,
    /// Whoever changed it starts the runs.
    pub by: Option<UserId>,
    /// The same, as runs name them.
    pub author: String,
}

impl Job for FollowDefinition {
    const KIND: &'static str = "follow_definition";
    type Payload = FollowedDefinition;

    fn key(followed: &FollowedDefinition) -> String {
        followed.definition.to_string()
    }

    async fn run(app: &Arc<App>, followed: FollowedDefinition) -> Result<(), JobFailure> {
        Ok(Box::pin(app.stack_definition_followed(&followed)).await?)
    }
}
