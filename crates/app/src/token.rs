//! Access tokens of users.

use chrono::TimeDelta;
use plural_core::access::Actor;
use plural_core::{
    AccessToken, DEPLOY_TOKEN_PREFIX, Error, Page, PageArgs, Result, TokenId, USER_TOKEN_PREFIX, User, UserId,
};
use secrecy::SecretString;

use crate::access::{Authorized, Read, Write};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::ports::{TokenCreate, TokenSelector, UserSelector};
use crate::secret::{NewToken, TokenHash};

/// A token that was just made, with its text: there is no second time to see it.
#[derive(Debug)]
pub struct CreatedToken {
    /// What is kept.
    pub token: AccessToken,
    /// `console-…`.
    pub text: SecretString,
}

impl App {
    /// Who a token speaks for: `console-…` a user, `deploy-…` the agent of a cluster.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] for one that is wrong, expired or revoked.
    pub async fn actor_authenticate(&self, token: &str) -> Result<Actor> {
        if token.starts_with(DEPLOY_TOKEN_PREFIX) {
            return Ok(Actor::Cluster(self.agent_authenticate(token)?.cluster_id()));
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

    /// A new token, for the caller unless an administrator names another user. One of the caller's own that
    /// ends by itself also ends with the token that it is made with.
    pub async fn token_create(
        &self,
        ctx: &OpCtx,
        user: Option<UserId>,
        valid_for: Option<TimeDelta>,
    ) -> Result<CreatedToken> {
        let user = self.token_owner(ctx, user).await?;
        self.token_issue(ctx, &user, false, valid_for).await
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
        session: bool,
        valid_for: Option<TimeDelta>,
    ) -> Result<CreatedToken> {
        let NewToken { text, hash, hint } = NewToken::generate(USER_TOKEN_PREFIX)?;
        let expires_at = match valid_for {
            None => None,
            Some(time) if time <= TimeDelta::zero() => {
                return Err(Error::invalid("expiry", "must lie in the future"));
            }
            Some(time) => Some(
                ctx.now()
                    .checked_add_signed(time)
                    .ok_or_else(|| Error::invalid("expiry", "lies too far in the future"))?,
            ),
        };
        // One that somebody made for an hour's work does not outlive the login that it was made with.
        let made_with = match ctx.actor() {
            Actor::User(actor) if actor.id == user.id && expires_at.is_some() => actor.token,
            _ => None,
        };
        let create = TokenCreate { id: TokenId::new(), hash, hint, session, expires_at, made_with };
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
        self.user_for(ctx, &UserSelector::Id(id)).await
    }
}
