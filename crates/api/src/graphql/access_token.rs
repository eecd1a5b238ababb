//! Access tokens.

use async_graphql::{Context, ID, InputObject, Object};
use chrono::{DateTime, TimeDelta, Utc};
use plural_app::token::{CreatedToken, TokenRequest};
use plural_core::token::{TokenScope, TokenScopes};
use secrecy::{ExposeSecret, SecretString};

use super::{
    error::{IntoGraphql, List, Nullable, items, list, nullable},
    page::{connection, page_args},
    request::request,
};

/// What a program logs in with on a person's behalf.
pub(crate) struct AccessToken {
    token: plural_core::token::AccessToken,
    text: Option<SecretString>,
}

impl From<plural_core::token::AccessToken> for AccessToken {
    fn from(token: plural_core::token::AccessToken) -> Self {
        Self { token, text: None }
    }
}

impl AccessToken {
    /// One that was just made, with its text.
    pub(crate) fn made(token: plural_core::token::AccessToken, text: SecretString) -> Self {
        Self { token, text: Some(text) }
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

    /// The token's text; told only by the mutation that makes it, once. Only its hash is kept.
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

    /// What it reaches: `*` everything that its user reaches, `k8s:CLUSTER_ID` the Kubernetes API of one cluster, `k8s:*` that
    /// of every cluster.
    async fn scopes(&self) -> List<String> {
        list(self.token.scopes.iter().map(|scope| scope.to_string()))
    }

    /// Id of the token that it was made with, and with which it ends.
    async fn made_with(&self) -> Option<ID> {
        self.token.made_with.map(|id| id.to_string().into())
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

/// What a token reaches.
#[derive(Debug, InputObject)]
pub(crate) struct ScopeAttributes {
    /// `k8s`: the Kubernetes API of clusters, and nothing else. `*`: everything.
    api: Option<String>,
    /// The same, several at once.
    apis: Option<Vec<String>>,
    /// Id of the cluster that is reached; all without.
    identifier: Option<String>,
    /// The same, several at once.
    ids: Option<Vec<ID>>,
}

impl ScopeAttributes {
    fn parse(self) -> plural_core::Result<Vec<TokenScope>> {
        let Self { api, apis, identifier, ids } = self;
        let apis: Vec<String> = api.into_iter().chain(apis.unwrap_or_default()).collect();
        let ids: Vec<String> = identifier
            .into_iter()
            .chain(ids.unwrap_or_default().into_iter().map(|id| id.to_string()))
            .collect();
        let told = "must be \"k8s\", with the ids of clusters or without, or \"*\" without ids";
        match &apis.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["*"] if ids.is_empty() => Ok(vec![TokenScope::All]),
            ["k8s"] if ids.is_empty() => Ok(vec![TokenScope::EveryKubernetes]),
            ["k8s"] => ids
                .iter()
                .map(|id| id.parse().map(TokenScope::Kubernetes))
                .collect::<Result<_, _>>()
                .map_err(|_| plural_core::Error::invalid("scopes.identifier", "must be a cluster's id")),
            _ => Err(plural_core::Error::invalid("scopes.api", told)),
        }
    }
}

pub(crate) fn scopes(given: List<ScopeAttributes>) -> plural_core::Result<Option<TokenScopes>> {
    let Some(given) = items(given) else { return Ok(None) };
    let mut scopes = Vec::new();
    for scope in given {
        scopes.extend(scope.parse()?);
    }
    TokenScopes::new(scopes).map(Some)
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
            let id = super::error::id(&id).into_graphql(ctx)?;
            Ok(Some(request.app.token_get(&request.op, id).await.into_graphql(ctx)?.into()))
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
            Ok(Some(request.app.token_list(&request.op, &page).await.into_graphql(ctx)?.into()))
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
    /// Makes a token of yours. One that reaches and lasts no longer than the token you ask with needs nothing more, and ends
    /// with it. One that outlasts it needs your password, or a session of a moment ago.
    async fn create_access_token(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Lifetime of the token; by default it is valid until it is revoked.")]
        valid_for_seconds: Option<i32>,
        #[graphql(desc = "Scopes of the token; by default all that you have.")] scopes: List<ScopeAttributes>,
        #[graphql(desc = "Your password; required for a token that outlives the one of this request.")]
        current_password: Option<String>,
    ) -> Nullable<AccessToken> {
        nullable(async {
            let request = request(ctx);
            let wish = TokenRequest {
                valid_for: valid_for_seconds.map(|seconds| TimeDelta::seconds(i64::from(seconds))),
                scopes: self::scopes(scopes).into_graphql(ctx)?,
                password: current_password.map(SecretString::from),
            };
            let CreatedToken { token, text } =
                request.app.token_create_as(&request.op, None, wish).await.into_graphql(ctx)?;
            Ok(Some(AccessToken::made(token, text)))
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
            Ok(Some(request.app.token_delete(&request.op, &token).await.into_graphql(ctx)?.into()))
        })
        .await
    }
}
