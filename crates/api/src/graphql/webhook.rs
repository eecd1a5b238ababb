//! What git hosts sign their webhooks with.

use async_graphql::{Context, Object};
use secrecy::ExposeSecret;

use super::{
    error::{Nullable, Told, nullable},
    request::request,
};

/// Reading the webhooks' secret.
#[derive(Default)]
pub(crate) struct WebhookQuery;

/// Reading the webhooks' secret.
#[Object]
impl WebhookQuery {
    /// What webhooks to `/ext/v1/webhooks/{github,gitlab,generic}` must be signed with; for administrators.
    async fn webhook_secret(&self, ctx: &Context<'_>) -> Nullable<String> {
        nullable(async {
            let request = request(ctx);
            let secret = request.app.webhook_secret(&request.op).told(ctx)?;
            Ok(Some(secret.expose_secret().to_owned()))
        })
        .await
    }
}
