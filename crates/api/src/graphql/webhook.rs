//! What git hosts sign their webhooks with.

use async_graphql::{Context, ID, Object, SimpleObject};
use plural_core::ids::RepositoryId;
use secrecy::{ExposeSecret, SecretString};

use super::{
    error::{IntoGraphql, Nullable, nullable},
    request::request,
};

/// Reading the webhooks' secret.
#[derive(Default)]
pub(crate) struct WebhookQuery;

/// How a git host tells of pushes to one repository.
#[derive(SimpleObject)]
pub(crate) struct GitRepositoryWebhook {
    /// Where it sends them, by the kind of host: put `github`, `gitlab` or `generic` in place of `TYPE`.
    path: String,
    /// What it signs them with; for GitLab, its secret token.
    secret: String,
}

impl GitRepositoryWebhook {
    fn new(id: RepositoryId, secret: &SecretString) -> Self {
        Self { path: format!("/ext/v1/webhooks/TYPE/{id}"), secret: secret.expose_secret().to_owned() }
    }
}

/// Reading the webhooks' secret.
#[Object]
impl WebhookQuery {
    /// What webhooks to `/ext/v1/webhooks/{github,gitlab,generic}` must be signed with; for administrators.
    async fn webhook_secret(&self, ctx: &Context<'_>) -> Nullable<String> {
        nullable(async {
            let request = request(ctx);
            let secret = request.app.webhook_secret(&request.op).await.into_graphql(ctx)?;
            Ok(Some(secret.expose_secret().to_owned()))
        })
        .await
    }

    /// The webhook of one repository, for who may change the repository; absent until a secret was made for it.
    async fn git_repository_webhook(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Of the repository.")] id: ID,
    ) -> Nullable<GitRepositoryWebhook> {
        nullable(async {
            let request = request(ctx);
            let id = super::error::id(&id).into_graphql(ctx)?;
            let secret = request.app.repository_webhook_secret(&request.op, id).await.into_graphql(ctx)?;
            Ok(secret.map(|secret| GitRepositoryWebhook::new(id, &secret)))
        })
        .await
    }
}

/// Changing webhooks' secrets.
#[derive(Default)]
pub(crate) struct WebhookMutation;

/// Changing webhooks' secrets.
#[Object]
impl WebhookMutation {
    /// Makes a secret for a repository's webhook. The one before is refused from then on.
    async fn rotate_git_repository_webhook(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Of the repository.")] id: ID,
    ) -> Nullable<GitRepositoryWebhook> {
        nullable(async {
            let request = request(ctx);
            let id = super::error::id(&id).into_graphql(ctx)?;
            let secret = request.app.repository_webhook_rotate(&request.op, id).await.into_graphql(ctx)?;
            Ok(Some(GitRepositoryWebhook::new(id, &secret)))
        })
        .await
    }
}
