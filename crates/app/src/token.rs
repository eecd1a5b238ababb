//! Access tokens of users.

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use plural_core::access::{Actor, UserActor};
use plural_core::ids::TokenId;
use plural_core::ids::{FederatedCredentialId, UserId, UserIdentityId};
use plural_core::registration_token::REGISTRATION_TOKEN_PREFIX;
use plural_core::run_call::is_actor_token;
use plural_core::token::{
    AccessToken, DEPLOY_TOKEN_PREFIX, PresentedToken, TokenScopes, USER_TOKEN_PREFIX, issue_token,
};
use plural_core::user::User;
use plural_core::{Error, Page, PageArgs, PageRequest, Result};
use secrecy::SecretString;

use crate::access::{Audited, Authorized, Guarded, Read, Write, actor_name, noun};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::secret::{NewToken, TokenHash};
use crate::user::{Proof, UserSelector, Verified};

/// A token to keep.
#[derive(Debug)]
pub struct TokenCreate {
    /// Id.
    pub id: TokenId,
    /// Of its text.
    pub hash: TokenHash,
    /// First characters.
    pub hint: String,
    /// Made by a login.
    pub session: bool,
    /// What it reaches.
    pub scopes: TokenScopes,
    /// End.
    pub expires_at: Option<DateTime<Utc>>,
    /// The token that it ends with, too, whether that is revoked or expires.
    pub made_with: Option<TokenId>,
    /// Who makes it, of a service account's token.
    pub assumed_by: Option<String>,
    /// What allowed it; absent for one that the console itself makes.
    pub proof: Option<Proof>,
    /// The login with a provider that it is of. One that is made with another token is of the same.
    pub identity: Option<UserIdentityId>,
    /// The federated credential that it was given for, as that was when the other token was looked at.
    pub federated: Option<(FederatedCredentialId, DateTime<Utc>)>,
}

/// Which token.
#[derive(Debug, Clone)]
pub enum TokenSelector {
    /// By id.
    Id(TokenId),
    /// By its text's hash.
    Hash(TokenHash),
}

// No record: the list is a user's, for whoever may change that user, and a token is also found by its text.
noun!(AccessToken, "access token", t => Some(t.id.uuid()), t.hint.clone());

/// Access tokens.
#[async_trait]
pub trait TokenStore: Send + Sync + 'static {
    /// The user that an unexpired token speaks for.
    async fn token_actor(&self, hash: &TokenHash, now: DateTime<Utc>) -> Result<Option<UserActor>>;
    /// One token.
    async fn token_for(&self, selector: &TokenSelector) -> Result<Guarded<AccessToken>>;
    /// Tokens of a user.
    async fn token_list(
        &self,
        user: &Authorized<User, Write>,
        page: &PageRequest,
    ) -> Result<Page<AccessToken>>;
    /// A new token; removes the user's expired ones on the way.
    ///
    /// # Errors
    /// [`plural_core::Error::Unauthenticated`] when what allowed it is gone: another password, or a token that was revoked;
    /// [`plural_core::Error::Forbidden`] when an administrator who makes it for somebody else is none any more.
    async fn token_create(&self, by: Audited<'_, User, Write>, token: &TokenCreate) -> Result<AccessToken>;
    /// Revokes a token.
    async fn token_delete(&self, by: Audited<'_, AccessToken, Write>) -> Result<()>;
}

/// A token that was just made, with its text: there is no second time to see it.
#[derive(Debug)]
pub struct CreatedToken {
    /// What is kept.
    pub token: AccessToken,
    /// `console-…`.
    pub text: SecretString,
}

/// What is asked of a new token.
#[derive(Debug, Default)]
pub struct TokenRequest {
    /// How long it holds; absent: until it is revoked.
    pub valid_for: Option<TimeDelta>,
    /// What it reaches; absent: all that its user reaches.
    pub scopes: Option<TokenScopes>,
    /// The caller's password, where it has to be proven that it is them.
    pub password: Option<SecretString>,
}

/// What kind of token is made.
#[derive(Debug)]
pub(crate) struct TokenKind {
    pub(crate) session: bool,
    pub(crate) scopes: TokenScopes,
    /// What was typed for it.
    pub(crate) verified: Option<Verified>,
    /// The login with a provider that it is of.
    pub(crate) identity: Option<UserIdentityId>,
}

/// The token that the caller came with.
pub(crate) fn parent(ctx: &OpCtx) -> Option<&PresentedToken> {
    match ctx.actor() {
        Actor::User(user) => user.token.as_ref(),
        Actor::Nobody | Actor::Cluster(_) | Actor::Registration(_) | Actor::Run(_) | Actor::System => None,
    }
}

/// What a change of the caller stands on; nothing where the console itself asks.
pub(crate) fn proof_of(ctx: &OpCtx, verified: Option<Verified>) -> Option<Proof> {
    match ctx.actor() {
        Actor::User(user) => {
            let asked_with = user.token.as_ref().map(|token| token.id);
            Some(Proof { caller: user.id, asked_with, verified, as_admin: false })
        }
        Actor::Nobody | Actor::Cluster(_) | Actor::Registration(_) | Actor::Run(_) | Actor::System => None,
    }
}

impl App {
    /// Who a token speaks for: `console-…` a user, `deploy-…` the agent of a cluster,
    /// `register-…` a machine that makes clusters.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] for one that is wrong, expired or revoked.
    pub async fn actor_authenticate(&self, token: &str) -> Result<Actor> {
        if token.starts_with(DEPLOY_TOKEN_PREFIX) {
            return Ok(Actor::Cluster(self.agent_authenticate(token)?.cluster_id()));
        }
        if token.starts_with(REGISTRATION_TOKEN_PREFIX) {
            return self.registration_authenticate(token).await;
        }
        if is_actor_token(token) {
            return self.run_actor_authenticate(token).await;
        }
        if !token.starts_with(USER_TOKEN_PREFIX) || token.len() > 256 {
            return Err(Error::Unauthenticated);
        }
        let user = self.store.token_actor(&TokenHash::of(token), self.clock.now()).await?;
        user.map(Actor::User).ok_or(Error::Unauthenticated)
    }

    /// The caller's tokens.
    pub async fn token_list(&self, ctx: &OpCtx, page: &PageArgs) -> Result<Page<AccessToken>> {
        let user = self.token_owner(ctx, None).await?;
        self.store.token_list(&user, &page.request()?).await
    }

    /// One token of the caller.
    pub async fn token_get(&self, ctx: &OpCtx, id: TokenId) -> Result<AccessToken> {
        let token = self.store.token_for(&TokenSelector::Id(id)).await?;
        Ok(token.authorize::<Read>(ctx)?.into_inner())
    }

    /// Tokens of a user who has just got another password; for themselves and administrators.
    pub async fn token_list_of(
        &self,
        ctx: &OpCtx,
        user: UserId,
        page: &PageArgs,
    ) -> Result<Page<AccessToken>> {
        let user = self.token_owner(ctx, Some(user)).await?;
        self.store.token_list(&user, &page.request()?).await
    }

    /// A new token that reaches all that its user reaches.
    pub async fn token_create(
        &self,
        ctx: &OpCtx,
        user: Option<UserId>,
        valid_for: Option<TimeDelta>,
    ) -> Result<CreatedToken> {
        let wish = TokenRequest { valid_for, ..TokenRequest::default() };
        self.token_create_as(ctx, user, wish).await
    }

    /// A new token, for the caller unless an administrator names another user. One that outlasts the token that it is
    /// made with needs the caller's password or a fresh session; any other ends with that token.
    ///
    /// # Errors
    /// [`Error::Forbidden`] without the proof, or for more than the caller's own token reaches.
    pub async fn token_create_as(
        &self,
        ctx: &OpCtx,
        user: Option<UserId>,
        wish: TokenRequest,
    ) -> Result<CreatedToken> {
        let TokenRequest { valid_for, scopes, password } = wish;
        let scopes = scopes.unwrap_or_else(TokenScopes::all);
        let user = self.token_owner(ctx, user).await?;
        let verified = self.password_verified(ctx, password).await?;
        let issue = issue_token(parent(ctx), &scopes, valid_for, verified.is_some(), ctx.now())?;
        let kind = TokenKind { session: false, scopes, verified, identity: None };
        self.token_issue(ctx, &user, kind, issue.expires_at, issue.made_with).await
    }

    /// Revokes a token, given its text or its id.
    pub async fn token_delete(&self, ctx: &OpCtx, token: &str) -> Result<AccessToken> {
        let selector = match token.parse::<TokenId>() {
            Ok(id) => TokenSelector::Id(id),
            Err(_) => TokenSelector::Hash(TokenHash::of(token)),
        };
        let token = self.store.token_for(&selector).await?.authorize::<Write>(ctx)?;
        self.store.token_delete(token.audited(ctx, "token.delete")).await?;
        self.proxy.access_changed();
        Ok(token.into_inner())
    }

    pub(crate) async fn token_issue(
        &self,
        ctx: &OpCtx,
        user: &Authorized<User, Write>,
        kind: TokenKind,
        expires_at: Option<DateTime<Utc>>,
        made_with: Option<TokenId>,
    ) -> Result<CreatedToken> {
        let NewToken { text, hash, hint } = NewToken::generate(USER_TOKEN_PREFIX)?;
        let TokenKind { session, scopes, verified, identity } = kind;
        let proof = proof_of(ctx, verified).map(|proof| Proof { as_admin: proof.caller != user.id, ..proof });
        // What a service account makes, whoever assumed it makes.
        let assumed = || parent(ctx).and_then(|token| token.assumed_by.clone());
        let assumed_by = user.machine_of.map(|_| assumed().unwrap_or_else(|| actor_name(ctx.actor())));
        let create = TokenCreate {
            id: TokenId::new(),
            hash,
            hint,
            session,
            scopes,
            expires_at,
            made_with,
            assumed_by,
            proof,
            identity,
            federated: None,
        };
        let action = if session { "session.create" } else { "token.create" };
        let by = user.audited_new(ctx, action, "access token", create.id, &create.hint);
        let token = self.store.token_create(by, &create).await?;
        Ok(CreatedToken { token, text })
    }

    async fn token_owner(&self, ctx: &OpCtx, user: Option<UserId>) -> Result<Authorized<User, Write>> {
        let id = match (user, ctx.actor()) {
            (Some(id), _) => id,
            (None, Actor::User(actor)) => actor.id,
            (None, _) => return Err(Error::Unauthenticated),
        };
        self.authorized::<User, _>(ctx, &UserSelector::Id(id)).await
    }
}
