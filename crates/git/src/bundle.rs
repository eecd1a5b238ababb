//! A mirror as one file, for a process that has none: [`Bundle`].

use std::path::Path;

use tempfile::TempPath;

use crate::{
    error::{Error, Result},
    mirrors::{Mirrors, blocking, hash_references},
    remote::Remote,
};

/// Everything that a mirror's branches and tags lead to, in one file that is removed when this is dropped.
#[derive(Debug)]
pub struct Bundle {
    file: TempPath,
    /// Stands for its branches and tags: the same text, the same commits.
    pub references: String,
    /// Size of the file.
    pub bytes: u64,
}

impl Bundle {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.file
    }
}

impl Mirrors {
    /// Whether there is a mirror of this remote, so that a fetch only brings what is new.
    pub fn has(&self, remote: &Remote) -> bool {
        self.reads_in_place(remote) || self.mirror(&remote.key).layout.is_filled(&remote.url.to_string())
    }

    /// Packs a mirror, unless its branches and tags are those that `known` stands for, it is empty, or it is larger than
    /// `limit` bytes. Fetches go on meanwhile.
    ///
    /// # Errors
    /// [`Error::NotFetched`] where there is no mirror; those of running git. Tidying at the same time may take a pack away:
    /// trying again helps.
    pub async fn bundle(&self, remote: &Remote, known: Option<&str>, limit: u64) -> Result<Option<Bundle>> {
        if self.reads_in_place(remote) {
            return Ok(None);
        }
        let repository = self.repository(remote).await?;
        let mirror = self.mirror(&remote.key);
        let layout = mirror.layout.clone();
        let (references, bytes) = blocking("measuring a mirror", move || {
            let some = !repository.references()?.is_empty();
            let references = some.then(|| hash_references(&repository)).transpose()?.map(hex::encode);
            Ok((references, layout.pack_bytes()))
        })
        .await?;
        let Some(references) = references.filter(|references| known != Some(references.as_str())) else {
            return Ok(None);
        };
        if bytes > limit {
            tracing::debug!(url = %remote.url, bytes, limit, "a mirror is too large to be shared");
            return Ok(None);
        }
        let file = self.bundle_file().await?.into_temp_path();
        let run = self.run(remote, &mirror.layout, self.options().clone_timeout);
        run.bundle(&file).await?;
        let bundle = blocking("measuring a bundle", move || {
            let bytes = file.metadata().map_err(|e| Error::io("cannot read", &file, e))?.len();
            Ok(Bundle { file, references, bytes })
        });
        bundle.await.map(Some)
    }

    /// A file that is written to make a bundle whole again; it is removed when this is dropped.
    ///
    /// # Errors
    /// When it cannot be made.
    pub async fn bundle_file(&self) -> Result<tempfile::NamedTempFile> {
        let folder = self.sessions().to_path_buf();
        blocking("making a file", move || {
            tempfile::Builder::new()
                .prefix("bundle-")
                .tempfile_in(&folder)
                .map_err(|e| Error::io("cannot make a file in", &folder, e))
        })
        .await
    }

    /// Makes the mirror of a remote from a bundle of it, so that the next fetch brings only what came since. Nothing happens
    /// where there is a mirror already.
    ///
    /// # Assumptions
    /// The bundle is of this remote: whoever may read the mirror may read all of it.
    ///
    /// # Errors
    /// Those of running git; the mirror is then as absent as before.
    pub async fn restore(&self, remote: &Remote, bundle: &Path) -> Result<()> {
        if self.reads_in_place(remote) {
            return Ok(());
        }
        let url = remote.url.to_string();
        let mirror = self.mirror(&remote.key);
        let _turn = mirror.turn.lock().await;
        let _lock = mirror.layout.lock(&url, self.options().timeout).await?;
        if mirror.layout.is_filled(&url) {
            return Ok(());
        }
        let (layout, name) = (mirror.layout.clone(), url.clone());
        blocking("preparing a mirror", move || layout.prepare(&name, false)).await?;
        mirror.close();
        mirror.layout.begin()?;
        let run = self.run(remote, &mirror.layout, self.options().clone_timeout);
        let restored = run.fetch_bundle(bundle).await;
        let layout = mirror.layout.clone();
        let failed = restored.is_err();
        blocking("finishing a mirror", move || {
            if failed {
                layout.sweep();
                layout.discard()?;
            }
            layout.end()
        })
        .await?;
        restored
    }
}
