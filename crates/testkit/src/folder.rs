//! A temporary folder that does not outlive its process.

use std::{
    fs, io,
    os::unix::{
        fs::{PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
};

use crate::process::RunAs;

/// Waits for the owner's end of the pipe to close, then removes the folder. Programs that still run in it
/// are being killed at the same moment, so it tries for a while.
const SWEEPER: &str = r#"
read -r _
tries=0
while [ -e "$1" ] && [ "$tries" -lt 100 ]; do
    [ -d "$1/mounted" ] && umount -l "$1/mounted" 2>/dev/null
    rm -rf "$1" 2>/dev/null
    tries=$((tries + 1))
    [ -e "$1" ] && sleep 0.1
done
"#;

/// A file system that is mounted at this name in an [`OwnedFolder`] is unmounted before the folder goes.
pub(crate) const MOUNT: &str = "mounted";

/// A private temporary folder, removed when it is dropped and also when the process ends without
/// dropping it (a static, `process::exit`, `kill -9`).
#[derive(Debug)]
pub struct OwnedFolder {
    path: PathBuf,
    sweeper: Child,
    lifeline: Option<ChildStdin>,
}

impl OwnedFolder {
    /// A new empty folder under the system's temporary folder, readable by this user only.
    ///
    /// # Errors
    /// When the folder or its sweeper cannot be made.
    pub fn new(prefix: &str) -> io::Result<Self> {
        let path = tempfile::Builder::new().prefix(&format!("plural-{prefix}-")).tempdir()?.keep();
        let mut sweeper = Command::new("sh")
            .args(["-c", SWEEPER, "plural-testkit-sweeper"])
            .arg(&path)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let lifeline = sweeper.stdin.take();
        Ok(Self { path, sweeper, lifeline })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Give the folder to another user, for a program that refuses to run as root.
    pub(crate) fn give_to(&self, user: RunAs) -> io::Result<()> {
        chown(&self.path, Some(user.uid), Some(user.gid))
    }

    /// Let every user of this machine work in it.
    pub(crate) fn open_to_all(&self) -> io::Result<()> {
        fs::set_permissions(&self.path, fs::Permissions::from_mode(0o777))
    }

    /// Write a file that only this user may read.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        fs::write(&path, content)?;
        Ok(path)
    }
}

impl Drop for OwnedFolder {
    fn drop(&mut self) {
        // What cannot be removed here is left to the sweeper, which tries again. A mount is its business.
        if !self.path.join(MOUNT).exists() {
            drop(fs::remove_dir_all(&self.path));
        }
        drop(self.lifeline.take());
        drop(self.sweeper.wait());
    }
}
