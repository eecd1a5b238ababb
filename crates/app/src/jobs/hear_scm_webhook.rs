//! What a webhook of a git host told: a hint, after which the console looks itself.

use std::sync::Arc;

use plural_core::ids::ScmWebhookId;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::job::{Job, JobFailure};

/// Has the git repositories fetched that a webhook told of.
#[derive(Debug)]
pub enum HearScmWebhook {}

/// Which webhook told of which repository.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HeardRepository {
    /// The webhook.
    pub webhook_id: ScmWebhookId,
    /// The repository, in lower case.
    pub slug: String,
}

impl Job for HearScmWebhook {
    const KIND: &'static str = "hear_scm_webhook";
    type Payload = HeardRepository;

    fn key(heard: &HeardRepository) -> String {
        format!("{}:{}", heard.webhook_id, heard.slug)
    }

    async fn run(app: &Arc<App>, heard: HeardRepository) -> Result<(), JobFailure> {
        Ok(app.scm_webhook_heard(&heard).await?)
    }
}
