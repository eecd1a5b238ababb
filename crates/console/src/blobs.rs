//! Artifacts as the use cases need them, out of a blob store: on disk (`plural-git`), or S3-compatible.

mod s3;

use std::{collections::HashSet, io, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{StreamExt, stream};
use plural_app::ports::blobs::{BlobStream, Blobs};
use plural_core::{Error, Result};
use plural_git::{BlobStore, Digest};
use plural_render::{Tree, TreeLimits};

pub(crate) use self::s3::S3Blobs;
use crate::previews::gzipped;

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
            Err(error @ plural_git::Error::StoreAway { .. }) => Err(Error::Unavailable {
                reason: "the blob store does not answer; retry".into(),
                cause: Some(Box::new(error)),
            }),
            Err(error) => Err(Error::internal("reading an artifact", error)),
        }
    }

    async fn archive(&self, digest: &str, folder: &str, name: &str) -> Result<Vec<u8>> {
        let digest: Digest = digest.parse().map_err(|_| Error::not_found("artifact"))?;
        let artifact = match self.store.get(digest).await {
            Ok(Some(artifact)) => artifact,
            Ok(None) => return Err(Error::not_found("artifact")),
            Err(error) => return Err(away("reading an artifact", error)),
        };
        let (folder, name) = (folder.to_owned(), name.to_owned());
        let doing = "packing an artifact";
        let packed = tokio::task::spawn_blocking(move || packed(&artifact, &folder, &name)).await;
        packed.map_err(|error| Error::internal(doing, error))?.map_err(|error| Error::internal(doing, error))
    }

    async fn keep(&self, content: Vec<u8>) -> Result<[u8; 32]> {
        let digest = Digest::of(&content);
        match self.store.put(digest, content).await {
            Ok(_) => Ok(*digest.as_bytes()),
            Err(error @ (plural_git::Error::StoreAway { .. } | plural_git::Error::DiskFull { .. })) => {
                Err(Error::Unavailable {
                    reason: "the blob store does not accept writes; retry".into(),
                    cause: Some(Box::new(error)),
                })
            }
            Err(error) => Err(Error::internal("keeping a blob", error)),
        }
    }

    async fn read(&self, digest: [u8; 32]) -> Result<Vec<u8>> {
        match self.store.get(Digest::from(digest)).await {
            Ok(Some(content)) => Ok(content),
            Ok(None) => Err(Error::not_found("blob")),
            Err(error) => Err(Error::internal("reading a blob", error)),
        }
    }

    async fn collect(&self, live: HashSet<[u8; 32]>, spare: Duration) -> Result<u64> {
        let live = live.into_iter().map(Digest::from).collect();
        let collected = self.store.collect(live, spare).await;
        collected.map(|done| done.removed).map_err(|error| Error::internal("removing old artifacts", error))
    }

    async fn forget(&self, these: HashSet<[u8; 32]>, spare: Duration) -> Result<u64> {
        let these = these.into_iter().map(Digest::from).collect();
        self.store.forget(these, spare).await.map_err(|error| away("removing artifacts", error))
    }

    async fn note_keep(&self, folder: &str, name: &str, content: Vec<u8>) -> Result<()> {
        self.store.put_note(folder, name, content).await.map_err(|error| away("keeping a note", error))
    }

    async fn notes(&self, folder: &str, most: usize) -> Result<Vec<(String, Vec<u8>)>> {
        self.store.notes(folder, most).await.map_err(|error| away("reading notes", error))
    }
}

/// The files of a tar below a folder of it, in a folder of this name.
fn packed(artifact: &[u8], folder: &str, name: &str) -> io::Result<Vec<u8>> {
    let tree = Tree::from_tar(artifact, &TreeLimits::default()).map_err(io::Error::other)?;
    gzipped(tree.walk(folder).map(|(path, content)| {
        let below = path.strip_prefix(folder).unwrap_or(path).trim_start_matches('/');
        (format!("{name}/{below}"), content)
    }))
}

fn away(doing: &'static str, error: plural_git::Error) -> Error {
    match error {
        error @ (plural_git::Error::StoreAway { .. } | plural_git::Error::DiskFull { .. }) => {
            Error::Unavailable {
                reason: "the blob store does not answer; retry".into(),
                cause: Some(Box::new(error)),
            }
        }
        error => Error::internal(doing, error),
    }
}
