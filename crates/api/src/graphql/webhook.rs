//! What git hosts sign their webhooks with.

use async_graphql::{Context, Object, Result};
use secrecy::ExposeSecret;

use super::{error::Told, request::request};

/// Reading the webhooks' secret.
#[derive(Default)]
pub(crate) struct WebhookQuery;

/// Reading the webhooks' secret.
#[Object]
#[expect(clippy::unused_async, reason = "resolvers are async")]
impl WebhookQuery {
    /// What webhooks to `/ext/v1/webhooks/{github,gitlab,generic}` must be signed with; for administrators.
    async fn webhook_secret(&self, ctx: &Context<'_>) -> Result<Option<String>> {
        let request = request(ctx);
        let secret = request.app.webhook_secret(&request.op).told(ctx)?;
        Ok(Some(secret.expose_secret().to_owned()))
    }
}
