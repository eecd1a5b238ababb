//! A disk that fills up.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;

use crate::{
    folder::{MOUNT, OwnedFolder},
    missing::Missing,
    process::isolate,
};

/// A file system of a few megabytes in memory, unmounted on drop. Only root can mount one.
#[derive(Debug)]
pub struct SmallDisk {
    mount: PathBuf,
    _folder: OwnedFolder,
}

impl SmallDisk {
    /// A new empty disk of this size.
    ///
    /// # Errors
    /// When this user may not mount.
    ///
    /// # Panics
    /// When mounting goes wrong for another reason than rights.
    #[expect(clippy::panic, reason = "a broken test machine fails the test")]
    pub fn new(bytes: u64) -> Result<Self, Missing> {
        if !rustix::process::geteuid().is_root() {
            return Err(Missing::new(
                "a disk that fills up is mounted by root only",
                "run the tests as root",
            ));
        }
        Self::mount(bytes).map_err(|e| {
            if format!("{e:#}").contains("ermission denied") {
                return Missing::new(
                    "this root may not mount",
                    "run the tests with the right to mount (CAP_SYS_ADMIN)",
                );
            }
            panic!("cannot mount a small disk: {e:#}")
        })
    }

    /// [`Self::new`], or nothing, said on stderr. Not a failure even with `CI` set: the right to mount is
    /// not a backend.
    pub fn new_or_say(bytes: u64) -> Option<Self> {
        Self::new(bytes).inspect_err(Missing::say).ok()
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.mount
    }

    /// Write a file until the disk is full, leaving less than one block. Returns the file; removing it makes
    /// room again.
    ///
    /// # Errors
    /// When writing fails for another reason than a full disk.
    pub fn fill(&self) -> anyhow::Result<PathBuf> {
        let path = self.mount.join("filler");
        let mut file = fs::File::create(&path)?;
        let block = vec![0_u8; 4096];
        loop {
            match std::io::Write::write_all(&mut file, &block) {
                Ok(()) => {}
                Err(e) if e.kind() == std::io::ErrorKind::StorageFull => return Ok(path),
                Err(e) => return Err(e).context("cannot fill the disk"),
            }
        }
    }

    fn mount(bytes: u64) -> anyhow::Result<Self> {
        let folder = OwnedFolder::new("disk")?;
        let mount = folder.path().join(MOUNT);
        fs::create_dir(&mount)?;
        let mut command = Command::new("mount");
        isolate(&mut command, Path::new("/"));
        let output = command
            .args(["-t", "tmpfs", "-o", &format!("size={bytes},mode=0700"), "plural-testkit"])
            .arg(&mount)
            .output()
            .context("cannot run mount")?;
        anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(Self { mount, _folder: folder })
    }
}
