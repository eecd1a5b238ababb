//! Mirrors that a replica put where the others find them.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::Result;
use plural_core::ids::RepositoryId;
use plural_core::repository::RepositoryUrl;

use crate::ports::git::MirrorBundle;

/// A mirror in the store that replicas share, without its pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedMirror {
    /// Of this repository.
    pub repository_id: RepositoryId,
    /// When it was put there.
    pub at: DateTime<Utc>,
}

/// Mirrors that a replica put where the others find them.
#[async_trait]
pub trait MirrorStore: Send + Sync + 'static {
    /// All of them.
    async fn mirrors_shared(&self) -> Result<Vec<SharedMirror>>;
    /// The mirror of a repository as it was while it had this address.
    async fn mirror_shared(&self, id: RepositoryId, url: &RepositoryUrl) -> Result<Option<MirrorBundle>>;
    /// Remembers one in place of an earlier one, or that an earlier one is as new as the repository. Nothing happens where
    /// there is no such repository any more.
    async fn mirror_share(
        &self,
        id: RepositoryId,
        url: &RepositoryUrl,
        bundle: Option<&MirrorBundle>,
        at: DateTime<Utc>,
    ) -> Result<()>;
}
