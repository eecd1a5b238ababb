//! Deploy tokens of agents: how an agent joins, and how its token is replaced.
//!
//! The agent draws each of its tokens itself and keeps it before the console hears of it. A call that was answered and
//! whose answer was lost can be repeated with the same token, so that neither side can be left with a token that the
//! other does not know.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use plural_core::access::Actor;
use plural_core::cluster::Cluster;
use plural_core::ids::ClusterId;
use plural_core::token::DEPLOY_TOKEN_PREFIX;
use plural_core::{Error, Result};
use secrecy::SecretString;

use crate::access::{Admin, Audited, Authorized};
use crate::agent::AgentHandle;
use crate::app::App;
use crate::cluster::ClusterSelector;
use crate::ctx::OpCtx;
use crate::fleet::Cell;
use crate::secret::{NewToken, TokenHash};
use crate::token::parent;

/// What became of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joined {
    /// The agent's token is the cluster's.
    Done,
    /// It was already: the answer of an earlier call was lost.
    Already,
    /// The join token was used for another token.
    Used,
    /// The join token ended before it was used.
    Expired,
    /// The join token was replaced a moment ago.
    Unknown,
}

/// What became of a token that an agent told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextToken {
    /// It is accepted beside the cluster's token, or was already.
    Accepted,
    /// The cluster's token is not to be replaced.
    NotDue,
}

/// What is written of deploy tokens. Each change reaches every replica through the feed.
#[async_trait]
pub trait DeployTokenStore: Send + Sync + 'static {
    /// A join token, in place of the one before. The deploy token stays as it is until an agent joins.
    async fn join_token_create(
        &self,
        by: Audited<'_, Cluster, Admin>,
        hash: &TokenHash,
        expires_at: DateTime<Utc>,
    ) -> Result<Cluster>;
    /// Makes `token` the cluster's deploy token if the join token is still good. The one before ends.
    async fn agent_join(
        &self,
        by: Audited<'_, Cluster, Admin>,
        join: &TokenHash,
        token: &TokenHash,
    ) -> Result<Joined>;
    /// The agent is to replace its token, however young that is.
    async fn deploy_token_ask(&self, by: Audited<'_, Cluster, Admin>) -> Result<Cluster>;
    /// Accepts `next` beside `current`, if somebody asked for another token or the cluster has had its token since `before` or
    /// longer. Nothing is written when it is accepted already.
    ///
    /// # Errors
    /// [`plural_core::Error::Unauthenticated`] when `current` is not the cluster's token any more;
    /// [`plural_core::Error::Conflict`] when `next` is a token of another cluster.
    async fn deploy_token_next(
        &self,
        by: Audited<'_, Cluster, Admin>,
        current: &TokenHash,
        next: &TokenHash,
        before: Option<DateTime<Utc>>,
    ) -> Result<NextToken>;
    /// Makes `next` the cluster's token. The one before ends.
    ///
    /// # Errors
    /// [`plural_core::Error::Unauthenticated`] when it is not the next one any more.
    async fn deploy_token_promote(&self, by: Audited<'_, Cluster, Admin>, next: &TokenHash) -> Result<()>;
}

/// How a join token begins.
pub const JOIN_TOKEN_PREFIX: &str = "join-";
/// How long a join token holds unless something else is asked for.
pub(crate) const JOIN_HOLDS: TimeDelta = TimeDelta::hours(24);
/// How long it may hold at most.
const JOIN_HOLDS_MOST: TimeDelta = TimeDelta::days(30);
/// Hexadecimal digits behind the prefix: 256 bits.
const DIGITS: usize = 64;

/// Proof that a join token is known. It opens nothing but the join itself.
#[derive(Clone)]
pub struct JoinHandle {
    cell: Arc<Cell>,
    hash: TokenHash,
}

/// A cluster with a join token that was just made: there is no second time to see it.
#[derive(Debug)]
pub struct CreatedJoinToken {
    /// The cluster.
    pub cluster: Cluster,
    /// `join-…`.
    pub join_token: SecretString,
    /// When it ends, unless an agent joined before.
    pub expires_at: DateTime<Utc>,
}

/// What a token that an agent told is to the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenStatus {
    /// The cluster's token.
    Current,
    /// Accepted beside it, until it is used.
    Next,
}

impl App {
    /// Opens the way to a join, from memory. A join token that was used or that ended opens it too: the join says what is
    /// wrong.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] for one that no cluster has.
    pub fn agent_join_authenticate(&self, token: &str) -> Result<JoinHandle> {
        if !token.starts_with(JOIN_TOKEN_PREFIX) || token.len() > 256 {
            return Err(Error::Unauthenticated);
        }
        let hash = TokenHash::of(token);
        let cell = self.fleet.join_authenticate(&hash).ok_or(Error::Unauthenticated)?;
        Ok(JoinHandle { cell, hash })
    }

    /// Makes the token that an agent drew its cluster's deploy token. Repeated with the same token, it means the same.
    ///
    /// # Errors
    /// [`Error::Forbidden`], with the command that makes another join token, when this one was used or ended;
    /// [`Error::Invalid`] for a token that is none.
    pub async fn agent_join(&self, join: &JoinHandle, token: &str) -> Result<()> {
        let hash = drawn(token)?;
        let (cluster, ctx) = self.as_agent(join.cell.id).await?;
        let handle = cluster.handle.clone();
        let joined = self.store.agent_join(cluster.audited(&ctx, "cluster.join"), &join.hash, &hash).await?;
        let refused = match joined {
            Joined::Done | Joined::Already => {
                self.feed_catch_up().await;
                return Ok(());
            }
            Joined::Unknown => return Err(Error::Unauthenticated),
            Joined::Used => "was already used (by another agent, or by this one before its Secret was lost)",
            Joined::Expired => "expired before an agent used it",
        };
        Err(Error::forbidden(format!(
            "the join token of cluster {handle} {refused}; create a new one with `plural cd clusters \
             bootstrap {handle} --rejoin`"
        )))
    }

    /// What an agent says of its next token. Sent with the token so far, the next one is accepted beside it. Sent with the
    /// next one itself, that one takes its place. Repeated, it means the same.
    ///
    /// A token is replaced when it is due, or when somebody asked for that: whoever has a copy of it cannot lock the agent out
    /// at once. What was begun can always be finished.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] when the token was replaced meanwhile; [`Error::Invalid`] for one that is none;
    /// [`Error::Conflict`] when the token is not due.
    pub async fn agent_token_rotate(&self, agent: &AgentHandle, token: &str) -> Result<TokenStatus> {
        let hash = TokenHash::of(token);
        // What was accepted once may be of an older form.
        let standing = agent.cell.standing(&hash);
        if standing == Some(TokenStatus::Current) {
            return Ok(TokenStatus::Current);
        }
        if standing == Some(TokenStatus::Next) && agent.hash() == hash {
            let (cluster, ctx) = self.as_agent(agent.cluster_id()).await?;
            let by = cluster.audited(&ctx, "cluster.token.renew");
            self.store.deploy_token_promote(by, &hash).await?;
            self.feed_catch_up().await;
            return Ok(TokenStatus::Current);
        }
        let hash = drawn(token)?;
        if standing.is_none() {
            self.token_next(agent, &hash).await?;
        }
        Ok(TokenStatus::Next)
    }

    /// A join token for a cluster, in place of the one before. An agent that has joined goes on with its own token until
    /// another one joins with this. It ends with the token that it is made with, if that ends sooner and is no fresh session:
    /// nobody notices one that is kept for later.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a time of less than a minute or more than thirty days.
    pub async fn cluster_join_token(
        &self,
        ctx: &OpCtx,
        selector: &ClusterSelector,
        valid_for: Option<TimeDelta>,
    ) -> Result<CreatedJoinToken> {
        let cluster = self.authorized::<Cluster, Admin>(ctx, selector).await?;
        let valid_for = valid_for.unwrap_or(JOIN_HOLDS);
        if valid_for < TimeDelta::minutes(1) || valid_for > JOIN_HOLDS_MOST {
            return Err(Error::invalid("validForSeconds", "must be between a minute and thirty days"));
        }
        if cluster.deleted_at.is_some() {
            return Err(Error::conflict("the cluster is being deleted"));
        }
        let token = NewToken::generate(JOIN_TOKEN_PREFIX)?;
        let now = ctx.now();
        let expires_at = parent(ctx).map_or(now + valid_for, |token| token.bound(now + valid_for, now));
        let by = cluster.audited(ctx, "cluster.join_token.create");
        let cluster = self.store.join_token_create(by, &token.hash, expires_at).await?;
        self.feed_catch_up().await;
        Ok(CreatedJoinToken { cluster, join_token: token.text, expires_at })
    }

    /// Has the cluster's agent replace its deploy token by itself, with its next poll.
    pub async fn cluster_token_renew(&self, ctx: &OpCtx, selector: &ClusterSelector) -> Result<Cluster> {
        let cluster = self.authorized::<Cluster, Admin>(ctx, selector).await?;
        let cluster = self.store.deploy_token_ask(cluster.audited(ctx, "cluster.token.ask")).await?;
        self.feed_catch_up().await;
        Ok(cluster)
    }

    /// Whether an agent is to replace its token. From memory.
    pub(crate) fn token_is_due(&self, cell: &Cell) -> bool {
        cell.token_is_due(self.due_before())
    }

    /// Tokens that are not younger are to be replaced.
    fn due_before(&self) -> Option<DateTime<Utc>> {
        self.settings.deploy_token_days.map(|days| self.clock.now() - TimeDelta::days(i64::from(days)))
    }

    /// Accepts another token beside the one in use, if that is to be replaced.
    async fn token_next(&self, agent: &AgentHandle, next: &TokenHash) -> Result<()> {
        if !self.token_is_due(&agent.cell) {
            // Another replica may have been asked a moment ago.
            self.feed_catch_up().await;
        }
        let (cluster, ctx) = self.as_agent(agent.cluster_id()).await?;
        if self.token_is_due(&agent.cell) {
            let by = cluster.audited(&ctx, "cluster.token.next");
            // Memory may be behind, and let pass what is not due any more: the store decides again.
            let told = self.store.deploy_token_next(by, &agent.hash(), next, self.due_before()).await?;
            self.feed_catch_up().await;
            match told {
                NextToken::Accepted => return Ok(()),
                NextToken::NotDue => {}
            }
        }
        // Agents replace their tokens when they are told to: somebody else may have a copy.
        tracing::warn!(
            cluster.id = %cluster.id,
            cluster.handle = %cluster.handle,
            "refused to replace a deploy token that is not due; it may have been copied"
        );
        self.audit_counted(&ctx, &cluster, "cluster.token.refused");
        Err(Error::conflict(
            "the deploy token is not due for rotation; request one with `plural cd clusters rotate-token`",
        ))
    }

    /// The cluster that an agent speaks for, as the target of what it does to its own token.
    async fn as_agent(&self, id: ClusterId) -> Result<(Authorized<Cluster, Admin>, OpCtx)> {
        let cluster = self.authorized::<Cluster, _>(&self.system_ctx(), &ClusterSelector::Id(id)).await?;
        Ok((cluster, self.ctx(Actor::Cluster(id))))
    }
}

impl std::fmt::Debug for JoinHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinHandle").field("cluster", &self.cell.id).finish_non_exhaustive()
    }
}

/// The hash of a token that an agent drew. Its form says that it was not made by hand: nothing shorter is accepted.
fn drawn(token: &str) -> Result<TokenHash> {
    let digits = token.strip_prefix(DEPLOY_TOKEN_PREFIX).unwrap_or_default();
    let well_formed = digits.len() == DIGITS
        && digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        && digits.bytes().any(|byte| Some(byte) != digits.bytes().next());
    if !well_formed {
        return Err(Error::invalid(
            "token",
            format!("must be {DEPLOY_TOKEN_PREFIX:?} and {DIGITS} random hexadecimal digits"),
        ));
    }
    Ok(TokenHash::of(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_random_tokens_are_taken() {
        let good = format!("deploy-{}", hex::encode((0..32).collect::<Vec<u8>>()));
        assert!(drawn(&good).is_ok());
        for bad in [
            String::new(),
            "deploy-".to_owned(),
            format!("deploy-{}", "0".repeat(64)),
            good.to_uppercase(),
            good.replace("deploy-", "console-"),
            good.replace("deploy-", "join-"),
            format!("{good}0"),
            format!("{good}\n"),
            good[..good.len() - 1].to_owned(),
        ] {
            assert!(matches!(drawn(&bad), Err(Error::Invalid { .. })), "{bad:?}");
        }
    }
}
