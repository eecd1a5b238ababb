//! What webhooks of single repositories are signed with.

use async_trait::async_trait;
use plural_core::{Repository, RepositoryId, Result};

use crate::access::{Audited, Write};
use crate::seal::Sealed;

/// Secrets of repositories' webhooks, each sealed for `repository:ID:webhook`.
#[async_trait]
pub trait RepositoryWebhookStore: Send + Sync + 'static {
    /// Keeps a secret in place of the one before.
    async fn repository_webhook_set(&self, by: Audited<'_, Repository, Write>, secret: &Sealed)
    -> Result<()>;
    /// The secret, for who may change the repository; none until somebody made one.
    async fn repository_webhook_read(&self, by: Audited<'_, Repository, Write>) -> Result<Option<Sealed>>;
    /// What a webhook that names this repository must be signed with. Nobody's question: nobody is told.
    async fn repository_webhook(&self, id: RepositoryId) -> Result<Option<Sealed>>;
}
