//! Everything that is sealed with the installation's key, for when that key changes.

use async_trait::async_trait;
use plural_core::{RecordingId, Result};
use uuid::Uuid;

use super::recordings::RecordingPiece;
use crate::seal::Sealed;

/// A place of the database that holds sealed values. One that is not among these keeps an old key in use for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealedColumn {
    /// What tells whether the key is the right one.
    KeyCheck,
    /// The key that agents know this console by.
    ProxyKey,
    /// Credentials of git repositories.
    RepositoryCredentials,
    /// Proxies, certificates, host keys and signers of git repositories.
    RepositoryReach,
    /// Secrets of repositories' webhooks.
    RepositoryWebhook,
    /// Credentials of chart repositories.
    HelmRepositoryAccess,
    /// What a service's random values are made from.
    ServiceSeed,
    /// Configuration of revisions.
    Configuration,
    /// Helm values of revisions.
    HelmValues,
    /// Values of revisions' renderers.
    RendererValues,
    /// Secrets of global services' templates.
    GlobalServiceSecrets,
    /// Secrets of contexts.
    ContextSecrets,
    /// Command lines of recordings.
    RecordingCommand,
}

impl SealedColumn {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::KeyCheck,
        Self::ProxyKey,
        Self::RepositoryCredentials,
        Self::RepositoryReach,
        Self::RepositoryWebhook,
        Self::HelmRepositoryAccess,
        Self::ServiceSeed,
        Self::Configuration,
        Self::HelmValues,
        Self::RendererValues,
        Self::GlobalServiceSecrets,
        Self::ContextSecrets,
        Self::RecordingCommand,
    ];
}

/// A sealed value, and the thing that it belongs to: the nil id where there is one only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedValue {
    /// The thing.
    pub of: Uuid,
    /// The value.
    pub sealed: Sealed,
}

/// Sealed values by the key that they are sealed with. Nobody's questions: values stay sealed.
#[async_trait]
pub trait SealStore: Send + Sync + 'static {
    /// Values of a column whose key has another id than `key`, the first `skip` of them left out.
    async fn sealed_otherwise(
        &self,
        column: SealedColumn,
        key: [u8; 8],
        skip: u64,
        limit: u64,
    ) -> Result<Vec<SealedValue>>;
    /// Puts values in the place of others; one that was changed meanwhile stays.
    async fn sealed_replace(&self, column: SealedColumn, changes: &[(SealedValue, Sealed)]) -> Result<()>;
    /// Pieces of recordings that are not known to be sealed with this key.
    async fn pieces_otherwise(
        &self,
        key: [u8; 8],
        skip: u64,
        limit: u64,
    ) -> Result<Vec<(RecordingId, RecordingPiece)>>;
    /// A piece is in the blob `digest` by now, sealed with this key.
    async fn piece_resealed(
        &self,
        id: RecordingId,
        piece: &RecordingPiece,
        digest: [u8; 32],
        key: [u8; 8],
    ) -> Result<()>;
}
