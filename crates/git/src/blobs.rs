//! Where artifacts are kept: the port [`BlobStore`] and its implementation on disk, [`DiskBlobs`].

use std::{
    collections::HashSet,
    fs,
    future::Future,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::{
    cache::Bounded,
    closure::Digest,
    error::{Error, Result},
};

/// What a method of [`BlobStore`] gives: a future, boxed so that stores can be chosen at run time.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Keeps bytes under their SHA-256.
///
/// # Guarantees
/// What is read has the digest it was asked for by: a blob that does not is put aside, and reading it is
/// [`Error::Corrupt`] once and nothing from then on, so that it can be stored anew.
pub trait BlobStore: Send + Sync + 'static {
    /// Stores content under its digest; nothing happens when it is there already. After a failure nothing is left behind.
    ///
    /// # Errors
    /// [`Error::DiskFull`]; [`Error::Corrupt`] when the content has another digest.
    fn put(&self, digest: Digest, content: Vec<u8>) -> Answer<'_, Stored>;

    /// The content.
    fn get(&self, digest: Digest) -> Answer<'_, Option<Vec<u8>>>;

    /// The content as one zstd frame, as it goes over the wire.
    fn get_compressed(&self, digest: Digest) -> Answer<'_, Option<Bytes>>;

    /// Whether there is such a blob, without checking its content.
    fn contains(&self, digest: Digest) -> Answer<'_, bool>;

    /// Removes every blob that is not in `live` and was stored more than `spare` ago. Choose `spare` longer than the
    /// time between storing a blob and naming it in the database.
    fn collect(&self, live: HashSet<Digest>, spare: Duration) -> Answer<'_, Collected>;

    /// Removes those of these blobs that were stored more than `spare` ago, as [`BlobStore::collect`] does.
    fn forget(&self, these: HashSet<Digest>, spare: Duration) -> Answer<'_, u64>;

    /// Keeps a note under a name. Notes are no blobs: they have no digest, are few and small, and no collection removes them. Both
    /// names are of letters, digits, `-` and `.`, and begin with none of the last two.
    ///
    /// # Errors
    /// [`Error::DiskFull`].
    fn put_note(&self, folder: &str, name: &str, content: Vec<u8>) -> Answer<'_, ()>;

    /// The notes of a folder whose names are last in order, at most `most` of them, in order: names and contents.
    fn notes(&self, folder: &str, most: usize) -> Answer<'_, Vec<(String, Vec<u8>)>>;
}

/// Whether this can be a note's name, or its folder's.
pub fn is_note_name(name: &str) -> bool {
    name.len() <= 100
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'))
}

/// Bytes of a note that are read; none of ours has more.
pub const NOTE_BYTES: u64 = 64 << 10;

/// What [`BlobStore::put`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// It is new.
    New {
        /// Bytes that it takes on disk.
        bytes: u64,
    },
    /// It was there.
    Known,
}

/// What [`BlobStore::collect`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Collected {
    /// Blobs removed.
    pub removed: u64,
    /// Bytes on disk that they took.
    pub bytes: u64,
    /// Blobs left.
    pub kept: u64,
}

/// How [`DiskBlobs`] keeps blobs.
#[derive(Debug, Clone)]
pub struct DiskOptions {
    /// The folder; made when it does not exist.
    pub folder: PathBuf,
    /// Bytes of compressed blobs kept in memory, already verified. No blob over a quarter of it is.
    pub memory: usize,
    /// Bytes of free disk space below which nothing is stored.
    pub reserve: u64,
    /// Bytes that a blob may have uncompressed. Reading a larger one counts as damage.
    pub blob_bytes: u64,
}

impl DiskOptions {
    /// The defaults, in a folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), memory: 64 << 20, reserve: 16 << 20, blob_bytes: 1 << 30 }
    }
}

/// Blobs in a folder: `ab/abcd….zst`, written to `tmp/` first; damaged ones are moved to `damaged/`.
#[derive(Clone)]
pub struct DiskBlobs {
    inner: Arc<Disk>,
}

struct Disk {
    options: DiskOptions,
    memory: Bounded<Digest, Bytes>,
}

impl DiskBlobs {
    /// Opens, or makes, the store. What a crash left half-written is removed.
    pub fn open(options: DiskOptions) -> Result<Self> {
        let tmp = options.folder.join("tmp");
        for folder in [&options.folder, &tmp, &options.folder.join("damaged")] {
            plural_kit::private_folder(folder).map_err(|e| Error::io("cannot make folder", folder, e))?;
        }
        let listing = fs::read_dir(&tmp).map_err(|e| Error::io("cannot list", &tmp, e))?;
        for entry in listing.filter_map(io::Result::ok) {
            // Another process may be writing here: what is young stays.
            if entry.metadata().is_ok_and(|m| age(&m) > Duration::from_hours(1)) {
                fs::remove_file(entry.path()).map_err(|e| Error::io("cannot remove", &entry.path(), e))?;
            }
        }
        let memory = Bounded::new(options.memory);
        Ok(Self { inner: Arc::new(Disk { options, memory }) })
    }

    fn run<T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Disk) -> Result<T> + Send + 'static,
    ) -> Answer<'_, T> {
        let disk = Arc::clone(&self.inner);
        Box::pin(async move {
            tokio::task::spawn_blocking(move || work(&disk)).await.unwrap_or(Err(Error::Stopped { doing }))
        })
    }
}

impl std::fmt::Debug for DiskBlobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiskBlobs").field("options", &self.inner.options).finish_non_exhaustive()
    }
}

impl BlobStore for DiskBlobs {
    fn put(&self, digest: Digest, content: Vec<u8>) -> Answer<'_, Stored> {
        self.run("storing a blob", move |disk| disk.put(digest, &content))
    }

    fn get(&self, digest: Digest) -> Answer<'_, Option<Vec<u8>>> {
        self.run("reading a blob", move |disk| {
            let Some(compressed) = disk.compressed(digest)? else { return Ok(None) };
            // It was verified when it was read from disk.
            zstd::decode_all(&*compressed)
                .map(Some)
                .map_err(|e| Error::io("cannot decompress", &disk.path(digest), e))
        })
    }

    fn get_compressed(&self, digest: Digest) -> Answer<'_, Option<Bytes>> {
        if let Some(known) = self.inner.memory.get(&digest) {
            return Box::pin(std::future::ready(Ok(Some(known))));
        }
        self.run("reading a blob", move |disk| disk.compressed(digest))
    }

    fn contains(&self, digest: Digest) -> Answer<'_, bool> {
        self.run("looking for a blob", move |disk| Ok(disk.path(digest).exists()))
    }

    fn collect(&self, live: HashSet<Digest>, spare: Duration) -> Answer<'_, Collected> {
        self.run("collecting blobs", move |disk| disk.collect(&live, spare))
    }

    fn forget(&self, these: HashSet<Digest>, spare: Duration) -> Answer<'_, u64> {
        self.run("removing blobs", move |disk| disk.forget(&these, spare))
    }

    fn put_note(&self, folder: &str, name: &str, content: Vec<u8>) -> Answer<'_, ()> {
        let (folder, name) = (folder.to_owned(), name.to_owned());
        self.run("keeping a note", move |disk| disk.put_note(&folder, &name, &content))
    }

    fn notes(&self, folder: &str, most: usize) -> Answer<'_, Vec<(String, Vec<u8>)>> {
        let folder = folder.to_owned();
        self.run("reading notes", move |disk| disk.notes(&folder, most))
    }
}

impl Disk {
    fn path(&self, digest: Digest) -> PathBuf {
        let hex = digest.to_string();
        self.options.folder.join(&hex[..2]).join(format!("{hex}.zst"))
    }

    fn put(&self, digest: Digest, content: &[u8]) -> Result<Stored> {
        let path = self.path(digest);
        if path.exists() {
            // Young again, so that a collection that runs now spares it.
            if let Ok(file) = fs::File::options().append(true).open(&path) {
                let _ = file.set_modified(SystemTime::now());
            }
            return Ok(Stored::Known);
        }
        let actual = Digest::of(content);
        if actual != digest {
            return Err(Error::Corrupt {
                what: format!("blob {digest}"),
                detail: format!("its content has digest {actual}"),
            });
        }
        self.check_room(content.len() as u64)?;
        write_then_move(&self.options.folder.join("tmp"), &path, |file| compress_into(file, content))?;
        let bytes = fs::metadata(&path).map_err(|e| Error::io("cannot read", &path, e))?.len();
        Ok(Stored::New { bytes })
    }

    fn check_room(&self, bytes: u64) -> Result<()> {
        let folder = &self.options.folder;
        let free = rustix::fs::statvfs(folder)
            .map(|s| s.f_bavail.saturating_mul(s.f_frsize))
            .map_err(|e| Error::io("cannot measure free space of", folder, e))?;
        if free < self.options.reserve.saturating_add(bytes) {
            return Err(Error::DiskFull {
                doing: format!("cannot store a blob of {bytes} bytes ({free} bytes are free)"),
                path: folder.display().to_string(),
            });
        }
        Ok(())
    }

    /// The compressed bytes, from memory or from disk. What comes from disk is verified first.
    fn compressed(&self, digest: Digest) -> Result<Option<Bytes>> {
        if let Some(known) = self.memory.get(&digest) {
            return Ok(Some(known));
        }
        let path = self.path(digest);
        let compressed = match fs::read(&path) {
            Ok(bytes) => Bytes::from(bytes),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io("cannot read blob", &path, e)),
        };
        if let Err(detail) = verify_blob(&compressed, digest, self.options.blob_bytes) {
            let aside = self.options.folder.join("damaged").join(format!("{digest}.zst"));
            fs::rename(&path, &aside).map_err(|e| Error::io("cannot put aside damaged blob", &path, e))?;
            return Err(Error::Corrupt {
                what: format!("blob {digest}"),
                detail: format!("{detail}; it was moved to {}", aside.display()),
            });
        }
        self.memory.put(digest, compressed.clone(), compressed.len());
        Ok(Some(compressed))
    }

    /// No shelf of blobs has such a name.
    fn notes_folder(&self, folder: &str) -> Result<PathBuf> {
        if is_note_name(folder) {
            return Ok(self.options.folder.join("notes").join(folder));
        }
        Err(Error::Io { doing: "cannot keep a note".to_owned(), detail: "its name is none".to_owned() })
    }

    fn put_note(&self, folder: &str, name: &str, content: &[u8]) -> Result<()> {
        let folder = self.notes_folder(folder)?;
        if !is_note_name(name) {
            return Err(Error::Io {
                doing: "cannot keep a note".to_owned(),
                detail: "its name is none".to_owned(),
            });
        }
        self.check_room(content.len() as u64)?;
        plural_kit::private_folder(&self.options.folder.join("notes"))
            .and_then(|()| plural_kit::private_folder(&folder))
            .map_err(|e| Error::io("cannot make folder", &folder, e))?;
        write_then_move(&self.options.folder.join("tmp"), &folder.join(name), |file| file.write_all(content))
    }

    fn notes(&self, folder: &str, most: usize) -> Result<Vec<(String, Vec<u8>)>> {
        let folder = self.notes_folder(folder)?;
        let listing = match fs::read_dir(&folder) {
            Ok(listing) => listing,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(Error::io("cannot list", &folder, e)),
        };
        let mut names: Vec<String> =
            listing.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names.drain(..names.len().saturating_sub(most));
        let mut notes = Vec::with_capacity(names.len());
        for name in names {
            let path = folder.join(&name);
            let file = fs::File::open(&path).map_err(|e| Error::io("cannot read", &path, e))?;
            let mut content = Vec::new();
            file.take(NOTE_BYTES)
                .read_to_end(&mut content)
                .map_err(|e| Error::io("cannot read", &path, e))?;
            notes.push((name, content));
        }
        Ok(notes)
    }

    fn collect(&self, live: &HashSet<Digest>, spare: Duration) -> Result<Collected> {
        let mut collected = Collected::default();
        let folder = &self.options.folder;
        let shelves = fs::read_dir(folder).map_err(|e| Error::io("cannot list", folder, e))?;
        for shelf in shelves.filter_map(io::Result::ok).filter(|s| s.file_name().len() == 2) {
            let blobs = fs::read_dir(shelf.path()).map_err(|e| Error::io("cannot list", &shelf.path(), e))?;
            for blob in blobs.filter_map(io::Result::ok) {
                let name = blob.file_name();
                let digest = name.to_str().and_then(|n| n.strip_suffix(".zst")).and_then(|n| n.parse().ok());
                let (Some(digest), Ok(metadata)) = (digest, blob.metadata()) else { continue };
                if live.contains(&digest) || age(&metadata) < spare {
                    collected.kept += 1;
                    continue;
                }
                fs::remove_file(blob.path()).map_err(|e| Error::io("cannot remove", &blob.path(), e))?;
                self.memory.remove(&digest);
                collected.removed += 1;
                collected.bytes += metadata.len();
            }
        }
        Ok(collected)
    }

    fn forget(&self, these: &HashSet<Digest>, spare: Duration) -> Result<u64> {
        let mut removed = 0;
        for digest in these {
            let path = self.path(*digest);
            let Ok(metadata) = fs::metadata(&path) else { continue };
            if age(&metadata) < spare {
                continue;
            }
            match fs::remove_file(&path) {
                Ok(()) => removed += 1,
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(Error::io("cannot remove", &path, e)),
            }
            self.memory.remove(digest);
        }
        Ok(removed)
    }
}

fn age(metadata: &fs::Metadata) -> Duration {
    // A clock that was set back makes things look young, which only keeps them longer.
    metadata.modified().ok().and_then(|m| SystemTime::now().duration_since(m).ok()).unwrap_or_default()
}

/// Writes a file beside its place, makes it durable, then moves it there. On any failure nothing stays.
fn write_then_move(
    tmp: &Path,
    path: &Path,
    write: impl FnOnce(&mut fs::File) -> io::Result<()>,
) -> Result<()> {
    let doing = "cannot store blob at";
    let fail = |e: io::Error| Error::io(doing, path, e);
    // Removes itself when it is dropped before it is moved.
    let mut file = tempfile::NamedTempFile::new_in(tmp).map_err(fail)?;
    write(file.as_file_mut()).map_err(fail)?;
    file.as_file().sync_all().map_err(fail)?;
    let folder = path.parent().unwrap_or(tmp);
    fs::create_dir_all(folder).map_err(fail)?;
    file.persist(path).map_err(|e| fail(e.error))?;
    // The name itself must survive a power cut, too.
    fs::File::open(folder).and_then(|f| f.sync_all()).map_err(fail)
}

/// A blob's content as one zstd frame, for stores of blobs.
///
/// # Errors
/// When there is no memory for it.
pub fn compress_blob(content: &[u8]) -> io::Result<Vec<u8>> {
    let mut compressed = Vec::new();
    compress_into(&mut compressed, content)?;
    Ok(compressed)
}

fn compress_into(out: impl Write, content: &[u8]) -> io::Result<()> {
    let mut encoder = zstd::Encoder::new(out, 3)?;
    encoder.include_checksum(true)?;
    encoder.set_pledged_src_size(Some(content.len() as u64))?;
    encoder.write_all(content)?;
    encoder.finish().map(|_| ())
}

/// Whether a zstd frame holds the content of this digest, and no more than `limit` bytes.
///
/// # Errors
/// What is wrong with it.
pub fn verify_blob(compressed: &[u8], digest: Digest, limit: u64) -> std::result::Result<(), String> {
    let mut content = zstd::Decoder::new(compressed).map_err(|e| e.to_string())?.take(limit + 1);
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    let mut total = 0;
    loop {
        match content.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => {
                total += n as u64;
                hash.update(&buffer[..n]);
            }
            Err(e) => return Err(format!("it cannot be decompressed: {e}")),
        }
    }
    if total > limit {
        return Err(format!("it has more than {limit} bytes"));
    }
    let actual = Digest(hash.finalize().into());
    if actual == digest { Ok(()) } else { Err(format!("its content has digest {actual}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn a_write_that_fails_half_way_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let tmp = dir.path().join("tmp");
        fs::create_dir(&tmp).unwrap();
        let path = dir.path().join("ab/abc.zst");
        let full = |file: &mut fs::File| {
            file.write_all(&[1; 5000])?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        };
        let error = write_then_move(&tmp, &path, full).unwrap_err();
        assert!(matches!(&error, Error::DiskFull { .. }), "{error:?}");
        assert!(error.to_string().contains("the disk is full"), "{error}");
        assert_eq!(files(&tmp), 0);
        assert!(!path.exists());
    }

    #[test]
    fn the_systems_error_for_a_full_disk_is_recognised() {
        for errno in [rustix::io::Errno::NOSPC, rustix::io::Errno::DQUOT] {
            let error = Error::io("cannot write", Path::new("/x"), errno);
            assert!(matches!(error, Error::DiskFull { .. }), "{error:?}");
        }
    }
}
