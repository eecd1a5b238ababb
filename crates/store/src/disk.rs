//! The disk under an SQLite file.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use plural_core::Error;
use sea_orm::DbErr;

use crate::error::{Failure, db};

/// Nothing useful fits into so many bytes: a page of the database and its entry in the log.
const LITTLE: u64 = 64 << 10;

/// Where a database's file lies.
#[derive(Debug)]
pub(crate) struct Disk {
    file: PathBuf,
}

impl Disk {
    pub(crate) fn of(file: &Path) -> Self {
        Self { file: std::path::absolute(file).unwrap_or_else(|_| file.to_owned()) }
    }

    /// As [`db`], except that a full disk is told with its place. SQLite itself says so only of writes; a connection
    /// that finds no room for its files just fails, so the disk is asked.
    pub(crate) fn db(&self, doing: &'static str, cause: DbErr) -> Error {
        let is_full = match Failure::of(&cause) {
            Failure::Full => true,
            Failure::Connection | Failure::File => self.left().is_some_and(|left| left < LITTLE),
            Failure::Busy | Failure::Restarting | Failure::Nul | Failure::Other => false,
        };
        if !is_full {
            return db(doing)(cause);
        }
        let left = self.left().map_or_else(String::new, |left| format!(" has {} KiB left and", left >> 10));
        let reason = format!(
            "the disk is full: the file system {}{left} holds the database {}: free some space there, then try \
             again",
            self.mount().display(),
            self.file.display()
        );
        Error::Unavailable { reason: reason.into(), cause: Some(Box::new(cause)) }
    }

    /// Bytes that we may still write.
    fn left(&self) -> Option<u64> {
        let stats = rustix::fs::statvfs(self.folder()).ok()?;
        Some(stats.f_bavail.saturating_mul(stats.f_frsize))
    }

    /// Where its file system is mounted: the last folder upwards on the same device.
    fn mount(&self) -> &Path {
        let device = |path: &Path| path.metadata().map(|found| found.dev()).ok();
        let folder = self.folder();
        let ours = device(folder);
        folder.ancestors().take_while(|path| device(path) == ours).last().unwrap_or(folder)
    }

    fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(&self.file)
    }
}
