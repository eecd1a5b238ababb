//! How much disk mirrors may take, and how much memory git.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use parking_lot::{Mutex, MutexGuard};
use tokio::process::Command;

use crate::{
    error::{Error, Result},
    mirrors::Options,
    remote::MirrorKey,
    repair::Layout,
};

/// Limits of mirrors, and of the processes that write them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of one mirror's packs.
    pub mirror_bytes: u64,
    /// Bytes of all mirrors' packs together, looked at when a fetch begins.
    pub mirrors_bytes: u64,
    /// Bytes of writable memory of each process that git starts.
    pub process_bytes: u64,
}

impl Default for Quota {
    fn default() -> Self {
        Self { mirror_bytes: 5 << 30, mirrors_bytes: 100 << 30, process_bytes: 1 << 30 }
    }
}

impl Quota {
    /// What of it there is for commits that no branch leads to. Whoever forks a repository may name any: branches and tags keep the rest.
    pub(crate) fn of_singles(self) -> Self {
        let Self { mirror_bytes, mirrors_bytes, process_bytes } = self;
        Self { mirror_bytes: mirror_bytes / 4 * 3, mirrors_bytes: mirrors_bytes / 4 * 3, process_bytes }
    }
}

/// The setting of the console that a limit comes from.
const MIRROR: &str = "--git-mirror-mib";
const MIRRORS: &str = "--git-mirrors-mib";
const MEMORY: &str = "--git-memory-mib";

/// What mirrors take on disk.
#[derive(Debug)]
pub(crate) struct Sizes(Mutex<HashMap<MirrorKey, u64>>);

impl Sizes {
    /// Of all mirrors in a folder.
    pub(crate) fn of(folder: &Path) -> Self {
        let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let sizes = names.filter_map(|name| {
            let key = MirrorKey::new(name).ok()?;
            let bytes = Layout { folder: folder.join(key.as_str()) }.pack_bytes();
            Some((key, bytes))
        });
        Self(Mutex::new(sizes.collect()))
    }

    pub(crate) fn put(&self, key: &MirrorKey, bytes: u64) {
        self.lock().insert(key.clone(), bytes);
    }

    pub(crate) fn remove(&self, key: &MirrorKey) {
        self.lock().remove(key);
    }

    /// Bytes by which a mirror of `own` bytes may grow.
    pub(crate) fn room(&self, key: &MirrorKey, own: u64, quota: Quota, url: &str) -> Result<Room> {
        let others: u64 = self.lock().iter().filter(|(other, _)| *other != key).map(|(_, bytes)| bytes).sum();
        let of_mirror = quota.mirror_bytes.saturating_sub(own);
        let of_all = quota.mirrors_bytes.saturating_sub(own.saturating_add(others));
        let room = if of_all < of_mirror {
            Room {
                bytes: of_all,
                limit: quota.mirrors_bytes,
                what: "the mirrors of all repositories",
                setting: MIRRORS,
            }
        } else {
            Room {
                bytes: of_mirror,
                limit: quota.mirror_bytes,
                what: "the repository's mirror",
                setting: MIRROR,
            }
        };
        if room.bytes == 0 { Err(room.exceeded(url)) } else { Ok(room) }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<MirrorKey, u64>> {
        self.0.lock()
    }
}

/// What a run of git may write in one file, and which limit that comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    bytes: u64,
    limit: u64,
    what: &'static str,
    setting: &'static str,
}

impl Room {
    /// For a run that writes what is there in another form.
    pub(crate) fn again(quota: Quota) -> Self {
        let limit = quota.mirror_bytes;
        Self { bytes: limit.saturating_mul(2), limit, what: "the repository's mirror", setting: MIRROR }
    }

    fn exceeded(&self, url: &str) -> Error {
        let Self { bytes: _, limit, what, setting } = *self;
        Error::Quota { url: url.to_owned(), what, limit_mib: limit >> 20, setting }
    }

    /// git, held to this in whatever it starts.
    pub(crate) fn command(&self, options: &Options) -> Command {
        // A shell sets the limits, because nothing else does before git runs and without unsafe code here. With the signal
        // ignored, a write beyond the limit is an error that git tells, and cleans up after.
        const SCRIPT: &str = "trap '' XFSZ; ulimit -f \"$1\" && ulimit -d \"$2\" && shift 2 && exec \"$@\"";
        // Units of 512 bytes and of 1 KiB; more than 2^40 is no limit that anybody reaches.
        let (blocks, kilobytes) = (self.bytes.div_ceil(512).min(1 << 40), options.quota.process_bytes >> 10);
        let mut command = Command::new(PathBuf::from("/bin/sh"));
        command.args(["-c", SCRIPT, "git", &blocks.to_string(), &kilobytes.to_string()]).arg(&options.git);
        command
    }

    /// The limit that a run reached, by what it said.
    pub(crate) fn reached(&self, said: &str, options: &Options, url: &str) -> Option<Error> {
        if said.contains("File too large") {
            return Some(self.exceeded(url));
        }
        let memory = ["Out of memory", "out of memory", "Cannot allocate memory", "cannot create thread"];
        memory.iter().any(|words| said.contains(words)).then(|| Error::Quota {
            url: url.to_owned(),
            what: "the memory that git needs for it",
            limit_mib: options.quota.process_bytes >> 20,
            setting: MEMORY,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_of_both_limits_counts() {
        let key = |name: &str| MirrorKey::new(name.to_owned()).unwrap();
        let sizes = Sizes(Mutex::default());
        sizes.put(&key("a"), 70 << 20);
        sizes.put(&key("b"), 20 << 20);
        let quota = Quota { mirror_bytes: 80 << 20, mirrors_bytes: 100 << 20, process_bytes: 1 << 30 };
        let room =
            |name: &str, own: u64| sizes.room(&key(name), own << 20, quota, "u").map(|room| room.bytes >> 20);
        assert_eq!(room("a", 75).unwrap(), 5);
        assert_eq!(room("b", 20).unwrap(), 10);
        assert_eq!(room("c", 0).unwrap(), 10);
        let full = room("a", 80).unwrap_err().to_string();
        assert!(
            full.contains("the repository's mirror") && full.contains("80 MiB") && full.contains(MIRROR),
            "{full}"
        );
        let full = room("c", 10).unwrap_err().to_string();
        assert!(
            full.contains("all repositories") && full.contains("100 MiB") && full.contains(MIRRORS),
            "{full}"
        );
        sizes.remove(&key("b"));
        assert_eq!(room("c", 10).unwrap(), 20);
    }

    #[test]
    fn branches_keep_room_that_commits_of_forks_cannot_take() {
        let key = MirrorKey::new("a".to_owned()).unwrap();
        let sizes = Sizes(Mutex::default());
        let quota = Quota { mirror_bytes: 80 << 20, mirrors_bytes: 1 << 30, process_bytes: 1 << 30 };
        let room = |quota: Quota| sizes.room(&key, 60 << 20, quota, "u").map(|room| room.bytes >> 20);
        assert_eq!(room(quota).unwrap(), 20);
        let full = room(quota.of_singles()).unwrap_err().to_string();
        assert!(full.contains("60 MiB") && full.contains(MIRROR), "{full}");
    }
}
