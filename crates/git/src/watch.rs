//! Hearing of pushes to a repository on this machine: [`RefWatch`].

use std::{
    collections::hash_map::DefaultHasher,
    fs,
    hash::{Hash, Hasher},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use futures::Stream;

/// Where the system tells of changes, references are still looked at this often: network file systems tell nothing.
const SAFETY: Duration = Duration::from_secs(2);

/// How often references are looked at where the system tells of nothing.
const POLL: Duration = Duration::from_millis(50);

/// After a first change, how long to wait for the rest of the same push.
const SETTLE: Duration = Duration::from_millis(2);

/// Tells when branches, tags or `HEAD` of a local repository move. Look at the references once after making it: what moved
/// before is not told of.
#[derive(Debug)]
pub struct RefWatch {
    /// Holds `refs`, `packed-refs`, `reftable`.
    common: PathBuf,
    /// Holds `HEAD`; another folder for a linked working tree.
    own: PathBuf,
    fingerprint: u64,
    source: Source,
}

#[derive(Debug)]
enum Source {
    #[cfg(target_os = "linux")]
    System(system::Inotify),
    Polling,
}

impl RefWatch {
    pub(crate) fn new(common: PathBuf, own: PathBuf) -> Self {
        #[cfg(target_os = "linux")]
        let source = match system::Inotify::new(&common, &own) {
            Ok(inotify) => Source::System(inotify),
            Err(e) => {
                // The number of watches per user is limited by the system.
                tracing::warn!(error = %e, path = %own.display(), "cannot watch references, so they are polled");
                Source::Polling
            }
        };
        #[cfg(not(target_os = "linux"))]
        let source = Source::Polling;
        let fingerprint = fingerprint(&common, &own);
        Self { common, own, fingerprint, source }
    }

    /// Waits until some reference has moved since the last time (or since the watch was made). Moves that come together are
    /// told of once. Nothing is lost when the future is dropped.
    pub async fn changed(&mut self) {
        loop {
            match &mut self.source {
                #[cfg(target_os = "linux")]
                Source::System(inotify) => {
                    match tokio::time::timeout(SAFETY, inotify.changed()).await {
                        // Time for the regular look.
                        Err(_) => {}
                        Ok(Ok(())) => {
                            // A push writes several files; wait until it is quiet, but not for ever.
                            for _ in 0..10 {
                                if tokio::time::timeout(SETTLE, inotify.changed()).await.is_err() {
                                    break;
                                }
                            }
                            inotify.watch_all(&self.common, &self.own);
                        }
                        Ok(Err(e)) => {
                            tracing::warn!(error = %e, path = %self.own.display(), "watching references failed, so they are polled");
                            self.source = Source::Polling;
                        }
                    }
                }
                Source::Polling => tokio::time::sleep(POLL).await,
            }
            let now = fingerprint(&self.common, &self.own);
            if now != self.fingerprint {
                self.fingerprint = now;
                return;
            }
        }
    }

    /// The same as a stream that never ends.
    pub fn into_stream(self) -> impl Stream<Item = ()> + Send {
        futures::stream::unfold(self, |mut watch| async move {
            watch.changed().await;
            Some(((), watch))
        })
    }
}

/// Changes when a reference does: git replaces files of references, so at least their inodes and times differ.
fn fingerprint(common: &Path, own: &Path) -> u64 {
    let mut hash = DefaultHasher::new();
    let mut file = |path: &Path, metadata: io::Result<fs::Metadata>| {
        let Ok(m) = metadata else { return };
        (path, m.ino(), m.len(), m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec()).hash(&mut hash);
    };
    for path in [own.join("HEAD"), common.join("packed-refs")] {
        file(&path, fs::metadata(&path));
    }
    let mut folders = vec![common.join("refs"), common.join("reftable")];
    while let Some(folder) = folders.pop() {
        let Ok(listing) = fs::read_dir(&folder) else { continue };
        let mut entries: Vec<fs::DirEntry> = listing.filter_map(io::Result::ok).collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                folders.push(path);
            } else if path.extension().is_none_or(|x| x != "lock") {
                file(&path, entry.metadata());
            }
        }
    }
    hash.finish()
}

#[cfg(target_os = "linux")]
mod system {
    use std::{
        fs, io,
        mem::MaybeUninit,
        os::fd::OwnedFd,
        path::{Path, PathBuf},
    };

    use rustix::{
        fs::inotify::{self, CreateFlags, Reader, WatchFlags},
        io::Errno,
    };
    use tokio::io::unix::AsyncFd;

    /// The kernel's notices about the folders that hold references.
    #[derive(Debug)]
    pub(super) struct Inotify {
        fd: AsyncFd<OwnedFd>,
    }

    impl Inotify {
        pub(super) fn new(common: &Path, own: &Path) -> io::Result<Self> {
            let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
            #[expect(
                deprecated,
                reason = "its successor is unsafe; what it asks for, an OwnedFd gives by itself"
            )]
            let fd = AsyncFd::new(fd)?;
            let inotify = Self { fd };
            inotify.add(common)?;
            inotify.watch_all(common, own);
            Ok(inotify)
        }

        fn add(&self, folder: &Path) -> io::Result<()> {
            let flags = WatchFlags::CREATE
                | WatchFlags::DELETE
                | WatchFlags::MOVED_TO
                | WatchFlags::MOVED_FROM
                | WatchFlags::CLOSE_WRITE
                | WatchFlags::ONLYDIR;
            inotify::add_watch(self.fd.get_ref(), folder, flags)?;
            Ok(())
        }

        /// Watches every folder that holds references; those that are watched already stay so. What cannot be watched
        /// is seen by the regular look.
        pub(super) fn watch_all(&self, common: &Path, own: &Path) {
            let _ = self.add(own);
            let _ = self.add(common);
            let mut folders: Vec<PathBuf> = vec![common.join("refs"), common.join("reftable")];
            while let Some(folder) = folders.pop() {
                let _ = self.add(&folder);
                let Ok(listing) = fs::read_dir(&folder) else { continue };
                let inner =
                    listing.filter_map(io::Result::ok).filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
                folders.extend(inner.map(|e| e.path()));
            }
        }

        /// Waits for a notice that may be about a reference.
        pub(super) async fn changed(&mut self) -> io::Result<()> {
            loop {
                let mut ready = self.fd.readable().await?;
                let mut buffer = [MaybeUninit::uninit(); 4096];
                let mut reader = Reader::new(self.fd.get_ref(), &mut buffer);
                let mut relevant = false;
                loop {
                    match reader.next() {
                        Ok(event) => {
                            let name = event.file_name().map(|n| n.to_bytes().to_vec()).unwrap_or_default();
                            // Lock files come before the change itself; these others change with every `git add`.
                            relevant |= !(name.ends_with(b".lock")
                                || name.starts_with(b"index")
                                || name == b"COMMIT_EDITMSG"
                                || name == b"FETCH_HEAD");
                        }
                        Err(Errno::WOULDBLOCK) => {
                            ready.clear_ready();
                            break;
                        }
                        Err(Errno::INTR) => {}
                        Err(e) => return Err(e.into()),
                    }
                }
                if relevant {
                    return Ok(());
                }
            }
        }
    }
}
