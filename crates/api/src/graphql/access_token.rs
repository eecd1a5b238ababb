//! Access tokens.

use async_graphql::{Context, ID, Object};
use chrono::{DateTime, TimeDelta, Utc};
use plural_app::CreatedToken;
use secrecy::{ExposeSecret, SecretString};

use super::{
    error::{Nullable, Told, nullable},
    page::{connection, page_args},
    request::request,
};

/// What a program logs in with on a person's behalf.
pub(crate) struct AccessToken {
    token: plural_core::AccessToken,
    text: Option<SecretString>,
}

impl From<plural_core::AccessToken> for AccessToken {
    fn from(token: plural_core::AccessToken) -> Self {
        Self { token, text: None }
    }
}

connection!(AccessTokenConnection, AccessTokenEdge, AccessToken);

/// What a program logs in with on a person's behalf.
#[Object]
impl AccessToken {
    /// Id.
    async fn id(&self) -> Option<ID> {
        Some(self.token.id.to_string().into())
    }

    /// The token's text; told only by `createAccessToken`, once. Only its hash is kept.
    async fn token(&self) -> Option<&str> {
        self.text.as_ref().map(ExposeSecret::expose_secret)
    }

    /// The first characters behind its prefix, to tell tokens apart.
    async fn hint(&self) -> Option<&str> {
        Some(self.token.hint.as_str())
    }

    /// Made by signing in rather than on purpose.
    async fn session(&self) -> Option<bool> {
        Some(self.token.session)
    }

    /// No longer good from here on.
    async fn expires_at(&self) -> Option<DateTime<Utc>> {
        self.token.expires_at
    }

    /// When it was made.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.token.created_at)
    }
}

/// Reading access tokens.
#[derive(Default)]
pub(crate) struct AccessTokenQuery;

/// Reading access tokens.
#[Object]
impl AccessTokenQuery {
    /// One of your tokens.
    async fn access_token(&self, ctx: &Context<'_>, id: ID) -> Nullable<AccessToken> {
        nullable(async {
            let request = request(ctx);
            let id = super::error::id(&id).told(ctx)?;
            Ok(Some(request.app.token_get(&request.op, id).await.told(ctx)?.into()))
        })
        .await
    }

    /// Your tokens.
    async fn access_tokens(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
    ) -> Nullable<AccessTokenConnection> {
        nullable(async {
            let request = request(ctx);
            let page = page_args(after, first, before, last);
            Ok(Some(request.app.token_list(&request.op, &page).await.told(ctx)?.into()))
        })
        .await
    }
}

/// Changing access tokens.
#[derive(Default)]
pub(crate) struct AccessTokenMutation;

/// Changing access tokens.
#[Object]
impl AccessTokenMutation {
    /// Makes a token of yours.
    async fn create_access_token(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "It ends by itself after so long; without, it holds until it is revoked.")]
        valid_for_seconds: Option<i32>,
    ) -> Nullable<AccessToken> {
        nullable(async {
            let request = request(ctx);
            let valid_for = valid_for_seconds.map(|seconds| TimeDelta::seconds(i64::from(seconds)));
            let CreatedToken { token, text } =
                request.app.token_create(&request.op, None, valid_for).await.told(ctx)?;
            Ok(Some(AccessToken { token, text: Some(text) }))
        })
        .await
    }

    /// Revokes a token of yours.
    async fn delete_access_token(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The token's text, or its id.")] token: String,
    ) -> Nullable<AccessToken> {
        nullable(async {
            let request = request(ctx);
            Ok(Some(request.app.token_delete(&request.op, &token).await.told(ctx)?.into()))
        })
        .await
    }
}
