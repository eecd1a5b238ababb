//! Artifacts by digest.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use plural_core::Result;

/// The bytes of one blob, in order.
pub type BlobStream = BoxStream<'static, std::io::Result<Bytes>>;

/// A store of blobs named by their SHA-256.
#[async_trait]
pub trait Blobs: Send + Sync + 'static {
    /// The artifact of this digest (lower-case hex SHA-256 of the uncompressed tar), compressed with zstd.
    /// The reader verifies what it unpacks.
    ///
    /// # Errors
    /// [`plural_core::Error::NotFound`] when there is none.
    async fn open(&self, digest: &str) -> Result<BlobStream>;

    /// The files of an artifact below a folder of it, as a gzipped tar in which they lie in a folder of this name.
    ///
    /// # Errors
    /// [`plural_core::Error::NotFound`] when there is none.
    async fn archive(&self, digest: &str, folder: &str, name: &str) -> Result<Vec<u8>>;

    /// Stores bytes of ours and answers the digest by which [`Blobs::read`] gives them back.
    ///
    /// # Errors
    /// [`plural_core::Error::Unavailable`] while the store does not answer, or is full.
    async fn keep(&self, content: Vec<u8>) -> Result<[u8; 32]>;

    /// What was stored, as it was.
    ///
    /// # Errors
    /// [`plural_core::Error::NotFound`] when there is none.
    async fn read(&self, digest: [u8; 32]) -> Result<Vec<u8>>;

    /// Removes what is not among `live` and was stored more than `spare` ago; how many those were.
    ///
    /// # Assumptions
    /// `spare` is longer than any time between storing a blob and naming it in the database.
    async fn collect(&self, live: HashSet<[u8; 32]>, spare: Duration) -> Result<u64>;

    /// Removes those of these that were stored more than `spare` ago; how many those were.
    ///
    /// # Assumptions
    /// Nothing names them, and that of [`Blobs::collect`].
    async fn forget(&self, these: HashSet<[u8; 32]>, spare: Duration) -> Result<u64>;

    /// Keeps a note under a name, beside the blobs: no collection removes it. Both names are of letters, digits, `-` and `.`.
    ///
    /// # Errors
    /// As of [`Blobs::keep`].
    async fn note_keep(&self, folder: &str, name: &str, content: Vec<u8>) -> Result<()>;

    /// The notes of a folder whose names are last in order, at most `most` of them: names and contents.
    ///
    /// # Errors
    /// As of [`Blobs::keep`].
    async fn notes(&self, folder: &str, most: usize) -> Result<Vec<(String, Vec<u8>)>>;
}
