//! Memory that runs out. See [`crate::process::Program::within`].

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::Context as _;

use crate::missing::Missing;

/// A memory cgroup with a limit, removed on drop. The kernel kills what needs more.
///
/// Only root can make one. Version 1 is used where its memory controller is mounted, else version 2.
#[derive(Debug)]
pub struct SmallMemory {
    folder: PathBuf,
}

impl SmallMemory {
    /// A new cgroup below this process's own.
    ///
    /// # Errors
    /// When this user may not make cgroups, or there is no memory controller.
    pub fn new(bytes: u64) -> Result<Self, Missing> {
        Self::make(bytes).map_err(|error| {
            Missing::new(
                format!("a cgroup with little memory cannot be made here ({error:#})"),
                "run the tests as root, with a writable /sys/fs/cgroup that has the memory controller",
            )
        })
    }

    /// [`Self::new`], or nothing, said on stderr. Not a failure even with `CI` set: the right to make cgroups is not a
    /// backend.
    pub fn new_or_say(bytes: u64) -> Option<Self> {
        Self::new(bytes).inspect_err(Missing::say).ok()
    }

    /// The file to which a process writes its id to be held to the limit.
    pub(crate) fn processes(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    /// How often the kernel killed something for want of memory.
    ///
    /// # Errors
    /// When the cgroup does not tell.
    pub fn kills(&self) -> anyhow::Result<u64> {
        let file = ["memory.events", "memory.oom_control"].map(|file| self.folder.join(file));
        let text = file.iter().find_map(|file| fs::read_to_string(file).ok()).context("no count of kills")?;
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count
            .context("the count of kills is not there")?
            .trim()
            .parse()
            .context("the count of kills is no number")
    }

    /// Most bytes that were in use at once, with the pages of files that were read.
    ///
    /// # Errors
    /// When the cgroup does not tell.
    pub fn peak(&self) -> anyhow::Result<u64> {
        let file = ["memory.peak", "memory.max_usage_in_bytes"].map(|file| self.folder.join(file));
        let text = file.iter().find_map(|file| fs::read_to_string(file).ok()).context("no peak")?;
        text.trim().parse().context("the peak is no number")
    }

    fn make(bytes: u64) -> anyhow::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("plural-test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let (parent, file) = parent()?;
        let folder = parent.join(name);
        fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        let made = Self { folder };
        fs::write(made.folder.join(file), bytes.to_string()).context(file)?;
        Ok(made)
    }
}

impl Drop for SmallMemory {
    fn drop(&mut self) {
        // What still runs there was started by a value that is dropped after this one; it ends with the tests.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The cgroup of this process, in a hierarchy with a memory controller, and the name of the file with its limit.
fn parent() -> anyhow::Result<(PathBuf, &'static str)> {
    let own = fs::read_to_string("/proc/self/cgroup")?;
    let root = Path::new("/sys/fs/cgroup");
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let below = path.trim_start_matches('/');
        if controllers.split(',').any(|name| name == "memory") {
            let seen = root.join("memory").join(below);
            let folder = if seen.is_dir() { seen } else { root.join("memory") };
            return Ok((folder, "memory.limit_in_bytes"));
        }
        if controllers.is_empty() {
            let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
            if controllers.split_whitespace().any(|name| name == "memory") {
                // Processes and controllers of children do not go together, except at the root.
                let _ = fs::write(root.join("cgroup.subtree_control"), "+memory");
                return Ok((root.to_owned(), "memory.max"));
            }
        }
    }
    anyhow::bail!("no hierarchy has the memory controller")
}
