//! Folders for files that live as long as one run of git, cleaned even after a crash: [`Sessions`].

use std::{fs, io, os::unix::fs::PermissionsExt as _, path::Path};

use rustix::fs::{FlockOperation, flock};

use crate::error::{Error, Result};

/// This process's folder. It holds a lock on a file in it; a folder whose lock can be taken belongs to nobody any more.
#[derive(Debug)]
pub(crate) struct Sessions {
    folder: tempfile::TempDir,
    _alive: fs::File,
}

impl Sessions {
    /// Makes this process's folder in `root` and removes those of processes that are gone, with the credentials in them.
    pub(crate) fn open(root: &Path) -> Result<Self> {
        let fail = |e: io::Error| Error::io("cannot prepare", root, e);
        fs::create_dir_all(root).map_err(fail)?;
        // Held until return, so that nobody takes a folder for abandoned between its making and its locking.
        let making = lock_file(&root.join("lock")).map_err(fail)?;
        flock(&making, FlockOperation::LockExclusive).map_err(|e| fail(e.into()))?;
        for entry in fs::read_dir(root).map_err(fail)?.filter_map(io::Result::ok) {
            let path = entry.path();
            if path.is_dir() && is_abandoned(&path) {
                fs::remove_dir_all(&path).map_err(|e| Error::io("cannot remove", &path, e))?;
            }
        }
        let folder = tempfile::Builder::new()
            .prefix("process-")
            .permissions(owner_only())
            .tempdir_in(root)
            .map_err(fail)?;
        let alive = lock_file(&folder.path().join("alive")).map_err(fail)?;
        flock(&alive, FlockOperation::NonBlockingLockExclusive).map_err(|e| fail(e.into()))?;
        Ok(Self { folder, _alive: alive })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// For folders that hold credentials.
pub(crate) fn owner_only() -> fs::Permissions {
    fs::Permissions::from_mode(0o700)
}

fn is_abandoned(folder: &Path) -> bool {
    match lock_file(&folder.join("alive")) {
        Ok(file) => flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok(),
        Err(_) => false,
    }
}

fn lock_file(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new().write(true).create(true).truncate(false).open(path)
}
