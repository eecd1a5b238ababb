//! Registration tokens, which the original calls bootstrap tokens.

use async_graphql::{Context, ID, InputObject, Object};
use chrono::{DateTime, Utc};
use plural_app::machine_account::parse_expiry;
use plural_app::registration_token::{CreatedRegistrationToken, RegistrationTokenFilter};
use plural_core::Error;
use plural_core::registration_token::{HOLDS, NewRegistrationToken, RegistrationTerms, RegistrationToken};
use secrecy::{ExposeSecret, SecretString};

use super::{
    error::{IntoGraphql, List, Nullable, id, id_in, id_option, list, nullable, parse_option},
    page::{connection, page_args},
    project::Project,
    record::{by_id, one, page_of},
    request::request,
    shared::{Tag, TagAttributes, tags},
    user::User,
};

/// What machines make clusters of one project with.
pub(crate) struct BootstrapToken {
    token: RegistrationToken,
    text: Option<SecretString>,
}

impl From<RegistrationToken> for BootstrapToken {
    fn from(token: RegistrationToken) -> Self {
        Self { token, text: None }
    }
}

impl From<CreatedRegistrationToken> for BootstrapToken {
    fn from(created: CreatedRegistrationToken) -> Self {
        let CreatedRegistrationToken { token, text } = created;
        Self { token, text: Some(text) }
    }
}

connection!(BootstrapTokenConnection, BootstrapTokenEdge, BootstrapToken);

/// What machines make clusters of one project with, and do nothing else. It stands for whoever made it: what they may not do any more,
/// it does not do either.
#[Object]
impl BootstrapToken {
    /// Id.
    async fn id(&self) -> ID {
        self.token.id.to_string().into()
    }

    /// The token's text; told only by the mutation that makes it, once. Only its hash is kept.
    async fn token(&self) -> Option<&str> {
        self.text.as_ref().map(ExposeSecret::expose_secret)
    }

    /// For people.
    async fn name(&self) -> Option<&str> {
        self.token.name.as_ref().map(plural_core::specs::Name::as_str)
    }

    /// The first characters behind its prefix, to tell tokens apart.
    async fn hint(&self) -> Option<&str> {
        Some(self.token.hint.as_str())
    }

    /// Where it makes clusters.
    async fn project(&self, ctx: &Context<'_>) -> Nullable<Project> {
        nullable(by_id::<plural_core::project::Project, _>(ctx, self.token.project_id)).await
    }

    /// In whose name: a user or a service account.
    async fn user(&self, ctx: &Context<'_>) -> Nullable<User> {
        nullable(by_id::<plural_core::user::User, _>(ctx, self.token.user_id)).await
    }

    /// How the handles of its clusters begin.
    async fn prefix(&self) -> Option<&str> {
        self.token.terms.prefix.as_deref()
    }

    /// Tags that its clusters get.
    async fn tags(&self) -> List<Tag> {
        let tags = self.token.terms.tags.iter();
        list(tags.map(|(name, value)| Tag { name: name.clone(), value: value.clone() }))
    }

    /// Clusters that it makes at most.
    async fn limit(&self) -> Option<u32> {
        self.token.terms.limit
    }

    /// Clusters that were made with it.
    async fn uses(&self) -> Option<u32> {
        Some(self.token.uses)
    }

    /// When the last of them was made.
    async fn last_used_at(&self) -> Option<DateTime<Utc>> {
        self.token.last_used_at
    }

    /// Id of the access token that it was made with, and with which it ends.
    async fn made_with(&self) -> Option<ID> {
        self.token.made_with.map(|id| id.to_string().into())
    }

    /// No longer good from here on.
    async fn expires_at(&self) -> Option<DateTime<Utc>> {
        Some(self.token.expires_at)
    }

    /// When it was made.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.token.created_at)
    }
}

/// What a new registration token is made from.
#[derive(Debug, InputObject)]
pub(crate) struct BootstrapTokenAttributes {
    /// Where it makes clusters.
    project_id: ID,
    /// In whose name: a service account that you may assume; yours when absent.
    user_id: Option<ID>,
    /// For people.
    name: Option<String>,
    /// How long it holds, as `1h`, `30d` or `2w`; thirty days when absent, 366 days at most.
    expiry: Option<String>,
    /// Clusters that it makes at most; any number when absent.
    limit: Option<i32>,
    /// How the handles of its clusters begin: put before those that do not.
    prefix: Option<String>,
    /// Tags that its clusters get.
    tags: List<TagAttributes>,
}

impl BootstrapTokenAttributes {
    fn parse(self) -> plural_core::Result<NewRegistrationToken> {
        let Self { project_id, user_id, name, expiry, limit, prefix, tags: tag_list } = self;
        let limit = limit.map(|limit| {
            u32::try_from(limit).map_err(|_| Error::invalid("attributes.limit", "must be a positive number"))
        });
        Ok(NewRegistrationToken {
            project_id: id(&project_id)?,
            user_id: id_in("attributes.userId", user_id.as_deref())?,
            name: parse_option("attributes.name", name.as_deref())?,
            valid_for: expiry.as_deref().map_or(Ok(HOLDS), parse_expiry)?,
            terms: RegistrationTerms {
                limit: limit.transpose()?,
                prefix,
                tags: tags("attributes.tags", tag_list)?.unwrap_or_default(),
            },
        })
    }
}

/// Reading registration tokens.
#[derive(Default)]
pub(crate) struct RegistrationTokenQuery;

/// Reading registration tokens.
#[Object]
impl RegistrationTokenQuery {
    /// One registration token, without its text.
    async fn bootstrap_token(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] token: ID,
    ) -> Nullable<BootstrapToken> {
        one::<RegistrationToken, _>(ctx, id(&token)).await
    }

    /// The registration tokens of the projects that you may see, without their texts.
    async fn bootstrap_tokens(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only of this project.")] project_id: Option<ID>,
    ) -> Nullable<BootstrapTokenConnection> {
        let filter =
            id_option(project_id.as_deref()).map(|project_id| RegistrationTokenFilter { project_id });
        page_of::<RegistrationToken, _>(ctx, filter, page_args(after, first, before, last)).await
    }
}

/// Changing registration tokens.
#[derive(Default)]
pub(crate) struct RegistrationTokenMutation;

/// Changing registration tokens.
#[Object]
impl RegistrationTokenMutation {
    /// Makes a token with which machines make clusters of a project, and tells it, once; for those who may make clusters there.
    async fn create_bootstrap_token(
        &self,
        ctx: &Context<'_>,
        attributes: BootstrapTokenAttributes,
        #[graphql(
            desc = "Your own password; not needed a moment after you signed in, nor for a token that ends with the one that you ask with."
        )]
        current_password: Option<String>,
    ) -> Nullable<BootstrapToken> {
        nullable(async {
            let request = request(ctx);
            let new = attributes.parse().into_graphql(ctx)?;
            let password = current_password.map(SecretString::from);
            let made = request.app.registration_token_create(&request.op, new, password).await;
            Ok(Some(made.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Revokes a registration token. The clusters that were made with it stay.
    async fn delete_bootstrap_token(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] token: ID,
    ) -> Nullable<BootstrapToken> {
        nullable(async {
            let request = request(ctx);
            let token = id(&token).into_graphql(ctx)?;
            let gone = request.app.registration_token_delete(&request.op, token).await;
            Ok(Some(gone.into_graphql(ctx)?.into()))
        })
        .await
    }
}
