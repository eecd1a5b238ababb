//! A mirror's files: made, checked after a crash, made anew when damaged.
//!
//! Layout of a mirror's folder:
//! - `repo.git`: the bare repository;
//! - `remote`: the URL it mirrors; another URL means another repository, so the mirror starts over;
//! - `lock`: held (flock) by who writes, across processes;
//! - `fetching`: there while git writes. Found by a later writer, it means that the earlier one was killed;
//! - `known_hosts`: ssh host keys accepted so far;
//! - `trash-*`: damaged repositories on their way out.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::fs::{FlockOperation, flock};

use crate::error::{Error, Result};

/// The paths of one mirror.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) folder: PathBuf,
}

impl Layout {
    pub(crate) fn repo(&self) -> PathBuf {
        self.folder.join("repo.git")
    }

    pub(crate) fn known_hosts(&self) -> PathBuf {
        self.folder.join("known_hosts")
    }

    fn remote(&self) -> PathBuf {
        self.folder.join("remote")
    }

    fn marker(&self) -> PathBuf {
        self.folder.join("fetching")
    }

    /// Whether there is a repository of this remote.
    pub(crate) fn is_of(&self, url: &str) -> bool {
        fs::read_to_string(self.remote()).is_ok_and(|found| found == url) && self.repo().join("HEAD").exists()
    }

    /// Whether there is a repository of this remote that holds anything: not one whose first fetch failed.
    pub(crate) fn is_filled(&self, url: &str) -> bool {
        self.is_of(url) && self.has_references()
    }

    fn has_references(&self) -> bool {
        let packed = fs::metadata(self.repo().join("packed-refs")).is_ok_and(|file| file.len() > 0);
        packed || holds_files(&self.repo().join("refs"))
    }

    /// Waits for the right to write.
    pub(crate) async fn lock(&self, url: &str, limit: Duration) -> Result<Lock> {
        fs::create_dir_all(&self.folder).map_err(|e| Error::io("cannot make folder", &self.folder, e))?;
        let path = self.folder.join("lock");
        let file = open_lock(&path)?;
        let started = Instant::now();
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Lock { _file: file }),
                Err(rustix::io::Errno::WOULDBLOCK) if started.elapsed() < limit => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(Error::TimedOut {
                        url: url.to_owned(),
                        after: started.elapsed(),
                        detail: "another process of this machine is fetching it".to_owned(),
                    });
                }
                Err(e) => return Err(Error::io("cannot lock", &path, e)),
            }
        }
    }

    /// Takes the right to write, if nobody has it.
    pub(crate) fn try_lock(&self) -> Result<Option<Lock>> {
        let path = self.folder.join("lock");
        let file = open_lock(&path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(e) => Err(Error::io("cannot lock", &path, e)),
        }
    }

    /// Makes the repository ready to be fetched into: made when there is none, mended after a crash, made anew when it is
    /// damaged or of another remote. The lock must be held. Tells whether it is empty.
    pub(crate) fn prepare(&self, url: &str, damaged: bool) -> Result<bool> {
        self.empty_trash();
        let repo = self.repo();
        let crashed = self.marker().exists();
        if crashed {
            tracing::info!(url, "a fetch was interrupted; checking its mirror");
            self.sweep();
        }
        let usable = !damaged && self.is_of(url) && (!crashed || references_hold(&repo));
        if usable {
            return Ok(!self.has_references());
        }
        if repo.exists() {
            tracing::warn!(url, "the mirror is damaged or of another remote; making it anew");
            self.discard()?;
        }
        self.create(url)?;
        Ok(true)
    }

    /// Ends what still writes to the repository and removes what it left half done. The lock must be held, and no run of git
    /// of ours be under way.
    pub(crate) fn sweep(&self) {
        stop_orphans(&self.repo());
        remove_leftovers(&self.repo());
    }

    /// Moves the repository aside and removes it. Readers that have its files open go on.
    pub(crate) fn discard(&self) -> Result<()> {
        let repo = self.repo();
        let trash = tempfile::Builder::new()
            .prefix("trash-")
            .tempdir_in(&self.folder)
            .map_err(|e| Error::io("cannot make a folder in", &self.folder, e))?;
        match fs::rename(&repo, trash.path().join("repo.git")) {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(Error::io("cannot move aside", &repo, e)),
        }
    }

    fn empty_trash(&self) {
        let Ok(listing) = fs::read_dir(&self.folder) else { return };
        for entry in listing.filter_map(io::Result::ok) {
            let name = entry.file_name();
            if name.to_str().is_some_and(|n| n.starts_with("trash-") || n.starts_with("new-")) {
                // What cannot be removed now is tried again next time.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// An empty bare repository, written without git: its templates and defaults are not wanted.
    fn create(&self, url: &str) -> Result<()> {
        let fail = |e: io::Error| Error::io("cannot make a mirror in", &self.folder, e);
        let new = tempfile::Builder::new().prefix("new-").tempdir_in(&self.folder).map_err(fail)?;
        let repo = new.path().join("repo.git");
        for folder in ["objects/info", "objects/pack", "refs/heads", "refs/tags"] {
            fs::create_dir_all(repo.join(folder)).map_err(fail)?;
        }
        // git wants a branch here; what the remote's HEAD names is kept elsewhere.
        fs::write(repo.join("HEAD"), "ref: refs/heads/plural-no-such-branch\n").map_err(fail)?;
        fs::write(repo.join("config"), "[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
            .map_err(fail)?;
        fs::rename(&repo, self.repo()).map_err(fail)?;
        fs::write(self.remote(), url).map_err(fail)
    }

    /// Notes that git is about to write.
    pub(crate) fn begin(&self) -> Result<()> {
        fs::write(self.marker(), "").map_err(|e| Error::io("cannot write", &self.marker(), e))
    }

    /// Notes that git has ended by itself.
    pub(crate) fn end(&self) -> Result<()> {
        match fs::remove_file(self.marker()) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(Error::io("cannot remove", &self.marker(), e))
            }
            _ => Ok(()),
        }
    }

    /// Bytes of all packs together.
    pub(crate) fn pack_bytes(&self) -> u64 {
        bytes_in(&self.repo().join("objects/pack"))
    }

    /// Bytes of all objects together that are in no pack: of commits that were made here.
    pub(crate) fn loose_bytes(&self) -> u64 {
        let Ok(folders) = fs::read_dir(self.repo().join("objects")) else { return 0 };
        // The others are not named by the first byte of an id.
        let folders = folders.filter_map(io::Result::ok).filter(|folder| folder.file_name().len() == 2);
        folders.map(|folder| bytes_in(&folder.path())).sum()
    }

    /// Number of packs, which says when to tidy.
    pub(crate) fn packs(&self) -> usize {
        let listing = fs::read_dir(self.repo().join("objects/pack"));
        listing.map_or(0, |l| {
            l.filter_map(io::Result::ok).filter(|e| e.path().extension().is_some_and(|x| x == "pack")).count()
        })
    }
}

/// Bytes of the files that lie in a folder.
fn bytes_in(folder: &Path) -> u64 {
    let listing = fs::read_dir(folder);
    listing
        .map_or(0, |l| l.filter_map(io::Result::ok).filter_map(|e| e.metadata().ok()).map(|m| m.len()).sum())
}

fn holds_files(folder: &Path) -> bool {
    let Ok(listing) = fs::read_dir(folder) else { return false };
    listing.filter_map(io::Result::ok).any(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => holds_files(&entry.path()),
        Ok(_) => entry.path().extension().is_none_or(|extension| extension != "lock"),
        Err(_) => false,
    })
}

/// The right to write to a mirror; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: fs::File,
}

fn open_lock(path: &Path) -> Result<fs::File> {
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(|e| Error::io("cannot open", path, e))
}

/// Kills git programs that a killed process of ours left behind in this mirror: they are the ones that work in its folder.
#[cfg(target_os = "linux")]
fn stop_orphans(repo: &Path) {
    use rustix::process::{Pid, Signal, kill_process};
    let Ok(repo) = repo.canonicalize() else { return };
    let ours = || -> Vec<Pid> {
        let Ok(listing) = fs::read_dir("/proc") else { return Vec::new() };
        listing
            .filter_map(io::Result::ok)
            .filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok())
            .filter(|pid| {
                let at = |name: &str| PathBuf::from(format!("/proc/{pid}/{name}"));
                fs::read_link(at("cwd")).is_ok_and(|cwd| cwd == repo)
                    && fs::read_to_string(at("comm"))
                        .is_ok_and(|c| c.starts_with("git") || c.starts_with("ssh"))
            })
            .filter_map(Pid::from_raw)
            .collect()
    };
    let started = Instant::now();
    loop {
        let left = ours();
        if left.is_empty() || started.elapsed() > Duration::from_secs(5) {
            return;
        }
        for pid in left {
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Elsewhere they cannot be told apart safely; lock files that they hold are removed once they are old.
#[cfg(not(target_os = "linux"))]
fn stop_orphans(_repo: &Path) {}

/// Removes lock files and half-received packs. Nobody else is writing: the mirror's lock is held, orphans are gone.
fn remove_leftovers(repo: &Path) {
    let mut folders = vec![repo.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let Ok(listing) = fs::read_dir(&folder) else { continue };
        for entry in listing.filter_map(io::Result::ok) {
            let path = entry.path();
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                if name.starts_with("incoming-") || name.starts_with("tmp_objdir") {
                    let _ = fs::remove_dir_all(&path);
                } else {
                    folders.push(path);
                }
                continue;
            }
            let half = name.starts_with("tmp_") || name.starts_with(".tmp-");
            let lock = path.extension().is_some_and(|x| x == "lock" || x == "keep") || name == "gc.pid";
            let dead = cfg!(target_os = "linux") || is_old(&entry);
            if (half || lock) && dead {
                let _ = fs::remove_file(&path);
            }
        }
    }
}

fn is_old(entry: &fs::DirEntry) -> bool {
    let modified = entry.metadata().and_then(|m| m.modified()).ok();
    modified.and_then(|m| m.elapsed().ok()).is_some_and(|age| age > Duration::from_hours(1))
}

/// Whether every reference can be read and names an object that is there.
fn references_hold(repo: &Path) -> bool {
    let Ok(repo) = gix::open::Options::isolated().open(repo) else { return false };
    let repo = repo.to_thread_local();
    let Ok(all) = repo.references() else { return false };
    let Ok(mut all) = all.all() else { return false };
    all.all(|r| r.is_ok_and(|r| r.try_id().is_some_and(|id| repo.find_object(id).is_ok())))
}
