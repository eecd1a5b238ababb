//! Webhooks of git hosts.

use async_graphql::{Context, ID, InputObject, Object};
use chrono::{DateTime, Utc};
use plural_app::records::Search;
use plural_app::scm_webhook::ScmWebhookSelector;
use plural_core::scm_webhook::{NewScmWebhook, ScmWebhookScope};
use secrecy::SecretString;

use super::{
    error::{IntoGraphql, Nullable, exactly_one, id_in, nullable},
    page::{connection, page_args},
    record::{by_id, one, page_of},
    request::request,
    scm_connection::{ScmConnection, ScmType},
};

/// What a git host sends to when something happens. It belongs to one connection, and is believed for what that may touch. Its secret is
/// never told.
pub(crate) struct ScmWebhook(plural_core::scm_webhook::ScmWebhook);

impl From<plural_core::scm_webhook::ScmWebhook> for ScmWebhook {
    fn from(webhook: plural_core::scm_webhook::ScmWebhook) -> Self {
        Self(webhook)
    }
}

connection!(ScmWebhookConnection, ScmWebhookEdge, ScmWebhook);

/// What a git host sends to when something happens. It belongs to one connection, and is believed for what that may touch. Its secret is
/// never told.
#[Object]
impl ScmWebhook {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Type and owner: `github/acme`.
    async fn name(&self) -> String {
        self.0.name()
    }

    /// What its address ends with.
    async fn external_id(&self) -> &str {
        &self.0.external_id
    }

    /// What kind of host sends it.
    #[graphql(name = "type")]
    async fn kind(&self) -> ScmType {
        self.0.kind.into()
    }

    /// The organization, group or user whose repositories it tells of.
    async fn owner(&self) -> &str {
        &self.0.owner
    }

    /// Where the host sends to; without the console's own address where nobody told the console that.
    async fn url(&self, ctx: &Context<'_>) -> String {
        let console = request(ctx).options.public_url.as_deref().unwrap_or_default();
        format!("{}{}", console.trim_end_matches('/'), self.0.path())
    }

    /// The connection that it is believed for.
    async fn connection(&self, ctx: &Context<'_>) -> Nullable<ScmConnection> {
        nullable(async {
            by_id::<plural_core::scm_connection::ScmConnection, _>(ctx, self.0.connection_id).await
        })
        .await
    }

    /// When it was made.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.created_at)
    }

    /// When it was last changed.
    async fn updated_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.updated_at)
    }
}

/// What a webhook is given that is made at the host by hand.
#[derive(InputObject)]
pub(crate) struct ScmWebhookAttributes {
    /// The secret that the host signs with, or sends: at least 16 characters.
    hmac: String,
    /// What kind of host sends it.
    #[graphql(name = "type")]
    kind: ScmType,
    /// The organization, group or user whose repositories it tells of.
    owner: String,
    /// The connection that it is believed for; by default the only one of this type and owner.
    connection_id: Option<ID>,
}

/// What a webhook is registered for.
fn scope(repository: Option<String>, organization: Option<String>) -> plural_core::Result<ScmWebhookScope> {
    match (repository, organization) {
        (Some(slug), None) => Ok(ScmWebhookScope::Repository(slug)),
        (None, Some(owner)) => Ok(ScmWebhookScope::Organization(owner)),
        _ => Err(exactly_one("repository and organization")),
    }
}

/// Reading webhooks of git hosts.
#[derive(Default)]
pub(crate) struct ScmWebhookQuery;

/// Reading webhooks of git hosts.
#[Object]
impl ScmWebhookQuery {
    /// One webhook of a git host, by id or by what its address ends with.
    async fn scm_webhook(
        &self,
        ctx: &Context<'_>,
        id: Option<ID>,
        external_id: Option<String>,
    ) -> Nullable<ScmWebhook> {
        let by = match (id, external_id) {
            (Some(id), None) => super::error::id(&id).map(ScmWebhookSelector::Id),
            (None, Some(text)) => Ok(ScmWebhookSelector::ExternalId(text)),
            _ => Err(exactly_one("id and externalId")),
        };
        one::<plural_core::scm_webhook::ScmWebhook, _>(ctx, by).await
    }

    /// The webhooks of the connections that you may see.
    async fn scm_webhooks(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only with this in their owner.")] q: Option<String>,
    ) -> Nullable<ScmWebhookConnection> {
        page_of::<plural_core::scm_webhook::ScmWebhook, _>(
            ctx,
            Ok(Search { q }),
            page_args(after, first, before, last),
        )
        .await
    }
}

/// Changing webhooks of git hosts.
#[derive(Default)]
pub(crate) struct ScmWebhookMutation;

/// Changing webhooks of git hosts.
#[Object]
impl ScmWebhookMutation {
    /// Makes the address that a webhook of a git host sends to; at the host you make it yourself, with this address and secret.
    async fn create_scm_webhook_pointer(
        &self,
        ctx: &Context<'_>,
        attributes: ScmWebhookAttributes,
    ) -> Nullable<ScmWebhook> {
        nullable(async {
            let request = request(ctx);
            let ScmWebhookAttributes { hmac, kind, owner, connection_id } = attributes;
            let connection_id =
                id_in("attributes.connectionId", connection_id.as_deref()).into_graphql(ctx)?;
            let new = NewScmWebhook { connection_id, kind: kind.into(), owner };
            let made = request.app.scm_webhook_create(&request.op, new, SecretString::from(hmac)).await;
            Ok(Some(made.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// `registerScmWebhook` of an organization, by the name that the original console's clients know.
    async fn create_scm_webhook(
        &self,
        ctx: &Context<'_>,
        connection_id: ID,
        #[graphql(desc = "Of all repositories of this organization, group, workspace or project.")]
        owner: String,
    ) -> Nullable<ScmWebhook> {
        nullable(async {
            let request = request(ctx);
            let connection = super::error::id(&connection_id).into_graphql(ctx)?;
            let scope = ScmWebhookScope::Organization(owner);
            let console = request.options.public_url.as_deref().unwrap_or_default();
            let made = request.app.scm_webhook_register(&request.op, console, connection, scope);
            Ok(Some(Box::pin(made).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Makes a webhook at the host of a connection, or gives the one that is there its secret again: of one repository, or of all of an
    /// organization, a group or a project. It sends to the address of the connection's webhook for that owner, which is made where there is
    /// none. The connection has to be allowed all repositories that it tells of.
    async fn register_scm_webhook(
        &self,
        ctx: &Context<'_>,
        connection_id: ID,
        #[graphql(desc = "Of this repository: its slug, such as acme/shop.")] repository: Option<String>,
        #[graphql(desc = "Of all repositories of this organization, group, workspace or project.")]
        organization: Option<String>,
    ) -> Nullable<ScmWebhook> {
        nullable(async {
            let request = request(ctx);
            let connection = super::error::id(&connection_id).into_graphql(ctx)?;
            let scope = scope(repository, organization).into_graphql(ctx)?;
            let console = request.options.public_url.as_deref().unwrap_or_default();
            let made = request.app.scm_webhook_register(&request.op, console, connection, scope);
            Ok(Some(Box::pin(made).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Removes a webhook at the host of a connection, of one repository or of an organization, a group or a project. The address stays, for
    /// others that send to it.
    async fn unregister_scm_webhook(
        &self,
        ctx: &Context<'_>,
        connection_id: ID,
        #[graphql(desc = "Of this repository: its slug, such as acme/shop.")] repository: Option<String>,
        #[graphql(desc = "Of all repositories of this organization, group, workspace or project.")]
        organization: Option<String>,
    ) -> Nullable<ScmWebhook> {
        nullable(async {
            let request = request(ctx);
            let connection = super::error::id(&connection_id).into_graphql(ctx)?;
            let scope = scope(repository, organization).into_graphql(ctx)?;
            let console = request.options.public_url.as_deref().unwrap_or_default();
            let removed = request.app.scm_webhook_unregister(&request.op, console, connection, scope);
            Ok(Some(Box::pin(removed).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Deletes a webhook of a git host: what is sent to its address is refused from then on.
    async fn delete_scm_webhook(&self, ctx: &Context<'_>, id: ID) -> Nullable<ScmWebhook> {
        nullable(async {
            let request = request(ctx);
            let id = super::error::id(&id).into_graphql(ctx)?;
            Ok(Some(request.app.scm_webhook_delete(&request.op, id).await.into_graphql(ctx)?.into()))
        })
        .await
    }
}
