//! Secrets that come with pull requests of automations. Their values are in no answer.

use async_graphql::{Context, Enum, Object};
use chrono::{DateTime, Utc};
use plural_core::pr_secret::{PrSecret, PrSecretValue};

use super::{
    cluster::Cluster,
    error::{List, Nullable, list, nullable},
    record::by_id,
};

/// The state of a Secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::pr_secret::PrSecretState")]
pub(crate) enum PullRequestSecretState {
    /// Its pull request is not merged yet.
    Waiting,
    /// The agent of its cluster has to write it.
    Due,
    /// It is in its cluster, and nowhere else.
    Written,
    /// Its values were deleted, and it was never written.
    Forgotten,
    /// The agent of its cluster has to delete it.
    Deleting,
    /// It was deleted.
    Deleted,
}

/// A Secret that comes with a pull request: written to its cluster after the merge.
pub(crate) struct PullRequestSecret(PrSecret);

impl From<PrSecret> for PullRequestSecret {
    fn from(secret: PrSecret) -> Self {
        Self(secret)
    }
}

/// A Secret that comes with a pull request: written to its cluster after the merge.
#[Object]
impl PullRequestSecret {
    /// Its cluster; also absent if you may not see it.
    async fn cluster(&self, ctx: &Context<'_>) -> Nullable<Cluster> {
        nullable(by_id::<plural_core::cluster::Cluster, _>(ctx, self.0.cluster_id)).await
    }

    /// Its namespace there.
    async fn namespace(&self) -> Option<&str> {
        Some(self.0.namespace.as_str())
    }

    /// Its name there.
    async fn name(&self) -> Option<&str> {
        Some(self.0.name.as_str())
    }

    /// Its values, by name.
    async fn entries(&self) -> List<PullRequestSecretEntry> {
        list(self.0.entries.iter().cloned().map(PullRequestSecretEntry))
    }

    /// Its state.
    async fn state(&self) -> Option<PullRequestSecretState> {
        Some(self.0.state.into())
    }

    /// Why it waits.
    async fn message(&self, ctx: &Context<'_>) -> Nullable<String> {
        nullable(async {
            if self.0.message.is_some() || !self.0.state.is_due() {
                return Ok(self.0.message.clone());
            }
            let found =
                by_id::<plural_core::cluster::Cluster, plural_core::cluster::Cluster>(ctx, self.0.cluster_id);
            Ok(found.await?.as_ref().and_then(plural_app::pr_secret::outdated))
        })
        .await
    }

    /// When it last changed.
    async fn updated_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.updated_at)
    }
}

/// The name of a Secret's value, without the value.
pub(crate) struct PullRequestSecretEntry(PrSecretValue);

/// The name of a Secret's value, without the value.
#[Object]
impl PullRequestSecretEntry {
    /// Its name.
    async fn name(&self) -> Option<&str> {
        Some(self.0.name.as_str())
    }

    /// The console generated it.
    async fn generated(&self) -> Option<bool> {
        Some(self.0.generated)
    }

    /// It is kept from the Secret that an upgrade changes: it was not given again.
    async fn kept(&self) -> Option<bool> {
        Some(self.0.kept)
    }
}
