//! Webhooks that the console makes at git hosts itself. What it cannot finish it does again the next time: a webhook is told by its address.

use std::sync::Arc;

use plural_core::ids::ScmConnectionId;
use plural_core::scm_connection::ScmConnection;
use plural_core::scm_webhook::{ScmWebhook, ScmWebhookScope};
use plural_core::{Error, Result};
use secrecy::SecretString;

use crate::access::{Authorized, Write};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::ports::git_hosts::{Host, HostCause, HostError};
use crate::scm_connection::ScmConnectionSelector;
use crate::scm_webhook::ScmWebhookRow;
use crate::secret::random;

impl App {
    /// Has the host of a connection send to `console`, the console's own address: about one repository, or about all of an organization.
    /// Needs write access to the connection. Where the connection has no webhook for the owner yet, one is made with a secret of its own;
    /// at the host, the webhook with its address is made, or gets its secret again. Twice is once.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what the connection may not touch, and [`Error::Conflict`] where the host does not let it.
    pub async fn scm_webhook_register(
        &self,
        ctx: &OpCtx,
        console: &str,
        connection: ScmConnectionId,
        scope: ScmWebhookScope,
    ) -> Result<ScmWebhook> {
        let (connection, scope, host) = self.webhook_scope(ctx, connection, scope).await?;
        if console.is_empty() {
            return Err(Error::conflict(
                "the console does not know the address that the host would send to: start it with --public-url",
            ));
        }
        let owner = scope.owner(&connection);
        let found = match self.store.scm_webhook_of(connection.id, &owner).await? {
            Some(row) => self.webhook_known(row).await?,
            None => self.webhook_new(ctx, &connection, &owner).await?,
        };
        let (webhook, secret) = found;
        let name = format!("{} at {}", webhook.name(), scope.as_str());
        let by = connection.audited_new(ctx, "scm_webhook.register", "scm webhook", webhook.id, &name);
        self.store.scm_webhook_acted(by).await?;
        let set = host.webhook_set(&scope, &address(console, &webhook), &secret).await;
        set.map_err(|error| refused(&scope, error))?;
        Ok(webhook)
    }

    /// Removes at the host what [`Self::scm_webhook_register`] made there. The address stays for others that send to it. Twice is once.
    ///
    /// # Errors
    /// [`Error::NotFound`] where the connection has no webhook for the owner; else as for registering one.
    pub async fn scm_webhook_unregister(
        &self,
        ctx: &OpCtx,
        console: &str,
        connection: ScmConnectionId,
        scope: ScmWebhookScope,
    ) -> Result<ScmWebhook> {
        let (connection, scope, host) = self.webhook_scope(ctx, connection, scope).await?;
        let owner = scope.owner(&connection);
        let found = self.store.scm_webhook_of(connection.id, &owner).await?;
        let ScmWebhookRow { webhook, connection: _, hmac: _ } =
            found.ok_or(Error::not_found("scm webhook"))?;
        let name = format!("{} at {}", webhook.name(), scope.as_str());
        let by = connection.audited_new(ctx, "scm_webhook.unregister", "scm webhook", webhook.id, &name);
        self.store.scm_webhook_acted(by).await?;
        let removed = host.webhook_remove(&scope, &address(console, &webhook)).await;
        removed.map_err(|error| refused(&scope, error))?;
        Ok(webhook)
    }

    /// The connection, what of its host is meant, and the host. Nothing was sent there yet.
    async fn webhook_scope(
        &self,
        ctx: &OpCtx,
        id: ScmConnectionId,
        scope: ScmWebhookScope,
    ) -> Result<(Authorized<ScmConnection, Write>, ScmWebhookScope, Arc<dyn Host>)> {
        let by = ScmConnectionSelector::Id(id);
        let connection = self.authorized::<ScmConnection, Write>(ctx, &by).await?;
        let scope = scope.checked(&connection)?;
        let (_, host) = self.scm_host(connection.id).await?;
        Ok((connection, scope, host))
    }

    async fn webhook_known(&self, row: ScmWebhookRow) -> Result<(ScmWebhook, SecretString)> {
        let ScmWebhookRow { webhook, connection: _, hmac } = row;
        let secret = self.scm_webhook_secret(webhook.id, &hmac).await?;
        Ok((webhook, secret))
    }

    async fn webhook_new(
        &self,
        ctx: &OpCtx,
        connection: &Authorized<ScmConnection, Write>,
        owner: &str,
    ) -> Result<(ScmWebhook, SecretString)> {
        let secret = SecretString::from(hex::encode(random::<32>()?));
        match self.webhook_made(ctx, connection, owner.to_owned(), &secret).await {
            Ok(webhook) => Ok((webhook, secret)),
            // Somebody else made it a moment ago.
            Err(error @ Error::Conflict { .. }) => {
                let row = self.store.scm_webhook_of(connection.id, owner).await?.ok_or(error)?;
                self.webhook_known(row).await
            }
            Err(error) => Err(error),
        }
    }
}

/// Where the host sends to.
fn address(console: &str, webhook: &ScmWebhook) -> String {
    format!("{}{}", console.trim_end_matches('/'), webhook.path())
}

/// What the host does not let the connection do is its owner's to change.
fn refused(scope: &ScmWebhookScope, error: HostError) -> Error {
    match error.cause {
        HostCause::Refused | HostCause::NotFound => Error::conflict(format!(
            "the host does not let the connection manage webhooks of {}: {}; its token needs the right to, and its owner has to be one \
             that the host has webhooks for",
            scope.as_str(),
            error.message
        )),
        HostCause::Later | HostCause::Moved | HostCause::Conflict => error.into(),
    }
}
