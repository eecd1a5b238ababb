//! Artifacts as the use cases need them, out of the blob store of `plural-git`.

use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use plural_app::{BlobStream, Blobs};
use plural_core::{Error, Result};
use plural_git::{BlobStore, Digest};

/// Bytes handed out at a time.
const PIECE: usize = 256 << 10;

/// The adapter.
pub(crate) struct Artifacts {
    store: Arc<dyn BlobStore>,
}

impl Artifacts {
    pub(crate) fn new(store: Arc<dyn BlobStore>) -> Self {
        Self { store }
    }
}

#[async_trait]
impl Blobs for Artifacts {
    async fn open(&self, digest: &str) -> Result<BlobStream> {
        let digest: Digest = digest.parse().map_err(|_| Error::not_found("artifact"))?;
        match self.store.get_compressed(digest).await {
            Ok(Some(bytes)) => {
                let pieces = stream::unfold(bytes, |mut rest| async move {
                    (!rest.is_empty()).then(|| (Ok(rest.split_to(rest.len().min(PIECE))), rest))
                });
                Ok(pieces.boxed())
            }
            Ok(None) => Err(Error::not_found("artifact")),
            Err(error) => Err(Error::internal("reading an artifact", error)),
        }
    }
}
