//! Deploy tokens: how agents join, and how their tokens are replaced.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::{Cluster, Result};

use crate::access::{Admin, Audited};
use crate::secret::TokenHash;

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
