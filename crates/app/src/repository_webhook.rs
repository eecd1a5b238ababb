//! Webhooks of single repositories: each has a secret of its own, so that one that leaks concerns one repository.

use async_trait::async_trait;
use plural_core::data_key::KeyOwner;
use plural_core::ids::RepositoryId;
use plural_core::repository::Repository;
use plural_core::{Error, Result};
use secrecy::{ExposeSecret, SecretString};

use crate::access::{Audited, Write};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::repository::RepositorySelector;
use crate::seal::Sealed;
use crate::secret::random;

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

impl App {
    /// The secret of a repository's webhook, for who may change the repository; none until one was made.
    pub async fn repository_webhook_secret(
        &self,
        ctx: &OpCtx,
        id: RepositoryId,
    ) -> Result<Option<SecretString>> {
        let repository = self.authorized::<Repository, Write>(ctx, &RepositorySelector::Id(id)).await?;
        let by = repository.audited(ctx, "repository.webhook.read");
        let sealed = self.store.repository_webhook_read(by).await?;
        self.webhook_opened(id, sealed).await
    }

    /// A new secret. The one before is refused from now on; the repository is still polled.
    pub async fn repository_webhook_rotate(&self, ctx: &OpCtx, id: RepositoryId) -> Result<SecretString> {
        let repository = self.authorized::<Repository, Write>(ctx, &RepositorySelector::Id(id)).await?;
        let secret = SecretString::from(hex::encode(random::<32>()?));
        let owner = KeyOwner::Project(repository.project_id);
        let sealed = self.sealer.seal(owner, &seal_context(id), secret.expose_secret().as_bytes()).await?;
        let by = repository.audited(ctx, "repository.webhook.rotate");
        self.store.repository_webhook_set(by, &sealed).await?;
        Ok(secret)
    }

    /// What a webhook that names this repository must be signed with, where it has a secret of its own.
    pub(crate) async fn repository_webhook_wanted(&self, id: RepositoryId) -> Result<Option<SecretString>> {
        let sealed = self.store.repository_webhook(id).await?;
        self.webhook_opened(id, sealed).await
    }

    async fn webhook_opened(&self, id: RepositoryId, sealed: Option<Sealed>) -> Result<Option<SecretString>> {
        let Some(sealed) = sealed else { return Ok(None) };
        let text = String::from_utf8(self.sealer.open(&seal_context(id), &sealed).await?);
        text.map(|text| Some(SecretString::from(text)))
            .map_err(|_| Error::internal("reading a webhook's secret", "it is not what was sealed"))
    }
}

fn seal_context(id: RepositoryId) -> String {
    format!("repository:{id}:webhook")
}
