//! Artifacts by digest: one download at a time for each, verified, kept on disk while there is room.

use std::{
    collections::HashMap,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use futures::StreamExt;
use parking_lot::Mutex;
use plural_kit::Hold;
use plural_tunnel::{ArtifactDigest, Console, TunnelError};
use sha2::{Digest, Sha256};

/// No artifact is larger; the console refuses to make such.
const MAX_BYTES: usize = 256 << 20;
/// Its bytes are moved once, from where they are collected to where they are shared.
const WHILE_MOVED: u64 = 2;
/// How long a download may be silent.
const SILENCE: Duration = Duration::from_secs(30);

/// Why an artifact cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArtifactError {
    #[error("cannot fetch the artifact {digest}: {cause}")]
    Tunnel { digest: ArtifactDigest, cause: TunnelError },
    #[error(
        "artifact {wanted} has the wrong digest ({got}) and was discarded; a proxy altered it, or the \
         console's store is damaged"
    )]
    Mismatch { wanted: ArtifactDigest, got: String },
    #[error("the artifact {digest} is larger than {} MiB", MAX_BYTES >> 20)]
    TooLarge { digest: ArtifactDigest },
    /// It does not fit into what its render may hold now; the render says what comes of that.
    #[error("the artifact {digest} needs more memory than its render may have")]
    NoRoom { digest: ArtifactDigest },
}

impl ArtifactError {
    /// Whether asking again soon may help.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Tunnel { cause, .. } => !cause.is_not_found() && !cause.is_unauthorized(),
            Self::Mismatch { .. } => true,
            Self::TooLarge { .. } | Self::NoRoom { .. } => false,
        }
    }
}

type Slot = Arc<tokio::sync::Mutex<Option<Weak<[u8]>>>>;

#[derive(Debug)]
pub(crate) struct Artifacts {
    folder: PathBuf,
    limit: u64,
    /// Bytes on disk, about: counted anew whenever room has to be made.
    kept: AtomicU64,
    /// One slot per digest that someone wants right now.
    slots: Mutex<HashMap<ArtifactDigest, Slot>>,
}

impl Artifacts {
    pub(crate) fn open(folder: PathBuf, limit: u64) -> io::Result<Self> {
        plural_kit::private_folder(&folder)?;
        // What an interrupted download left.
        let mut kept = 0;
        for entry in fs::read_dir(&folder)?.flatten() {
            if entry.path().extension().is_some_and(|ext| ext == "part") {
                let _ = fs::remove_file(entry.path());
            } else {
                kept += entry.metadata().map_or(0, |meta| meta.len());
            }
        }
        Ok(Self { folder, limit, kept: AtomicU64::new(kept), slots: Mutex::default() })
    }

    /// The tar of an artifact, verified, if `hold` covers it.
    pub(crate) async fn get(
        &self,
        console: &Console,
        digest: &ArtifactDigest,
        hold: &Hold,
    ) -> Result<Arc<[u8]>, ArtifactError> {
        let slot = {
            let mut slots = self.slots.lock();
            slots.retain(|_, slot| Arc::strong_count(slot) > 1);
            Arc::clone(slots.entry(digest.clone()).or_default())
        };
        let mut held = slot.lock().await;
        let no_room = || ArtifactError::NoRoom { digest: digest.clone() };
        if let Some(bytes) = held.as_ref().and_then(Weak::upgrade) {
            // Others hold it as well, and may be done before this render is.
            return if hold.cover(bytes.len() as u64) { Ok(bytes) } else { Err(no_room()) };
        }
        let path = self.path(digest);
        let size = fs::metadata(&path).map_or(0, |meta| meta.len());
        if !hold.cover(size.saturating_mul(WHILE_MOVED)) {
            return Err(no_room());
        }
        let bytes = if let Some(bytes) = read_verified(&path, digest) {
            bytes
        } else {
            let bytes: Arc<[u8]> = download(console, digest, hold).await?.into();
            if let Err(error) = self.keep(&path, &bytes) {
                // A full disk costs another download some day, nothing else.
                tracing::warn!(%digest, %error, "cannot keep an artifact on disk");
            }
            bytes
        };
        *held = Some(Arc::downgrade(&bytes));
        Ok(bytes)
    }

    fn path(&self, digest: &ArtifactDigest) -> PathBuf {
        self.folder.join(format!("{digest}.tar"))
    }

    fn keep(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let size = bytes.len() as u64;
        if size > self.limit {
            return Ok(());
        }
        if self.kept.fetch_add(size, Ordering::Relaxed) + size > self.limit {
            self.make_room(size)?;
        }
        let part = path.with_extension("part");
        let kept = fs::write(&part, bytes).and_then(|()| fs::rename(&part, path));
        if kept.is_err() {
            let _ = fs::remove_file(&part);
        }
        kept
    }

    /// Deletes the artifacts that were used least recently until `needed` bytes fit.
    fn make_room(&self, needed: u64) -> io::Result<()> {
        let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.folder)?.flatten() {
            if let Ok(meta) = entry.metadata() {
                files.push((meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), meta.len(), entry.path()));
            }
        }
        let mut total: u64 = files.iter().map(|(_, size, _)| size).sum();
        files.sort();
        for (_, size, path) in files {
            if total + needed <= self.limit {
                break;
            }
            if fs::remove_file(path).is_ok() {
                total -= size;
            }
        }
        self.kept.store(total + needed, Ordering::Relaxed);
        Ok(())
    }
}

fn read_verified(path: &Path, digest: &ArtifactDigest) -> Option<Arc<[u8]>> {
    let bytes = fs::read(path).ok()?;
    if hex::encode(Sha256::digest(&bytes)) != digest.as_str() {
        tracing::warn!(%digest, "an artifact on disk is damaged; fetching it again");
        let _ = fs::remove_file(path);
        return None;
    }
    // Its time of change is its time of use: the oldest go first.
    if let Ok(file) = fs::File::options().append(true).open(path) {
        let _ = file.set_modified(SystemTime::now());
    }
    Some(bytes.into())
}

/// A tar as it comes out of its compression, never larger than it may be.
struct Unpacked<'a> {
    hold: &'a Hold,
    bytes: Vec<u8>,
    hasher: Sha256,
    end: Option<End>,
}

/// Why no more is unpacked.
#[derive(Debug, Clone, Copy)]
enum End {
    TooLarge,
    NoRoom,
}

impl Write for Unpacked<'_> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let size = self.bytes.len() + piece.len();
        if size > MAX_BYTES {
            self.end = Some(End::TooLarge);
            return Err(io::Error::other("too large"));
        }
        // What collects it grows by doubling.
        if !self.hold.cover((size as u64).saturating_mul(WHILE_MOVED)) {
            self.end = Some(End::NoRoom);
            return Err(io::Error::other("no room"));
        }
        self.hasher.update(piece);
        self.bytes.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn damaged(digest: &ArtifactDigest, cause: &io::Error) -> ArtifactError {
    ArtifactError::Mismatch { wanted: digest.clone(), got: format!("not a zstd frame: {cause}") }
}

async fn download(console: &Console, digest: &ArtifactDigest, hold: &Hold) -> Result<Vec<u8>, ArtifactError> {
    let failed = |cause| ArtifactError::Tunnel { digest: digest.clone(), cause };
    let mut chunks = console.artifact(digest).await.map_err(failed)?;
    // What comes is one zstd frame, as the console's store keeps it; the digest is of the tar inside.
    let unpacked = Unpacked { hold, bytes: Vec::new(), hasher: Sha256::new(), end: None };
    let mut unpacked =
        zstd::stream::write::Decoder::new(unpacked).map_err(|cause| damaged(digest, &cause))?;
    loop {
        let chunk = match tokio::time::timeout(SILENCE, chunks.next()).await {
            Ok(Some(chunk)) => chunk.map_err(failed)?,
            Ok(None) => break,
            Err(_) => {
                let message = format!("nothing came for {SILENCE:.0?}");
                return Err(failed(TunnelError::Unavailable { message }));
            }
        };
        if let Err(cause) = unpacked.write_all(&chunk) {
            let digest = digest.clone();
            return Err(match unpacked.get_ref().end {
                Some(End::TooLarge) => ArtifactError::TooLarge { digest },
                Some(End::NoRoom) => ArtifactError::NoRoom { digest },
                None => damaged(&digest, &cause),
            });
        }
    }
    unpacked.flush().map_err(|cause| damaged(digest, &cause))?;
    let Unpacked { hold: _, bytes, hasher, end: _ } = unpacked.into_inner();
    let got = hex::encode(hasher.finalize());
    if got != digest.as_str() {
        return Err(ArtifactError::Mismatch { wanted: digest.clone(), got });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_artifacts_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let artifacts = Artifacts::open(folder.path().to_owned(), 100).unwrap();
        for (age, name) in [(3, 'a'), (2, 'b'), (1, 'c')] {
            let path = artifacts.path(&name.to_string().repeat(64).parse().unwrap());
            artifacts.keep(&path, &[0; 30]).unwrap();
            let then = SystemTime::now() - Duration::from_secs(age * 60);
            fs::File::options().append(true).open(&path).unwrap().set_modified(then).unwrap();
        }
        artifacts.keep(&artifacts.path(&"d".repeat(64).parse().unwrap()), &[0; 30]).unwrap();
        artifacts.keep(&artifacts.path(&"e".repeat(64).parse().unwrap()), &[0; 1000]).unwrap();
        let mut left: Vec<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy()[..1].to_owned())
            .collect();
        left.sort();
        assert_eq!(left, ["b", "c", "d"]);
        // What is damaged on disk is not used.
        assert!(
            read_verified(
                &artifacts.path(&"b".repeat(64).parse().unwrap()),
                &"b".repeat(64).parse().unwrap()
            )
            .is_none()
        );
    }
}
