//! What stands beside the console's figures: the `git` program by hand, and the bare work of storing an artifact.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use plural_git::{Digest, compress_blob};
use plural_testkit::{GitRemote, git_remote};

/// A bare clone made and kept by the `git` program alone.
pub(super) struct Clone {
    folder: PathBuf,
}

impl Clone {
    /// Clones, and tells how long it took.
    pub(super) fn make(url: &str, folder: PathBuf) -> anyhow::Result<(Self, Duration)> {
        fs::create_dir_all(&folder)?;
        let started = Instant::now();
        run(&folder, ["clone", "--quiet", "--bare", url, "."])?;
        Ok((Self { folder }, started.elapsed()))
    }

    /// Brings it up to date, and tells how long that took.
    pub(super) fn fetch(&self) -> anyhow::Result<Duration> {
        let started = Instant::now();
        run(&self.folder, ["fetch", "--quiet", "--prune", "origin", "+refs/heads/*:refs/heads/*"])?;
        Ok(started.elapsed())
    }

    /// MiB on disk.
    pub(super) fn mebibytes(&self) -> f64 {
        mebibytes(&self.folder)
    }
}

/// A tar of each of these folders by `git archive`, how many a second.
pub(super) fn archives(remote: &GitRemote, folders: &[String]) -> anyhow::Result<f64> {
    let started = Instant::now();
    for folder in folders {
        let tree = format!("main:{folder}");
        run(&remote.path(), ["archive", "--format=tar", "--output=/dev/null", tree.as_str()])?;
    }
    Ok(folders.len() as f64 / started.elapsed().as_secs_f64())
}

/// These contents hashed, compressed and written to a folder, how many a second.
pub(super) fn stored(contents: &[Vec<u8>], folder: &Path) -> anyhow::Result<f64> {
    fs::create_dir_all(folder)?;
    let started = Instant::now();
    for content in contents {
        let name = Digest::of(content).to_string();
        let unfinished = folder.join("unfinished");
        fs::write(&unfinished, compress_blob(content)?)?;
        fs::rename(&unfinished, folder.join(name))?;
    }
    Ok(contents.len() as f64 / started.elapsed().as_secs_f64())
}

/// MiB of all files below a folder.
pub(super) fn mebibytes(folder: &Path) -> f64 {
    let mut bytes = 0;
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => folders.push(entry.path()),
                Ok(metadata) => bytes += metadata.len(),
                Err(_) => {}
            }
        }
    }
    bytes as f64 / f64::from(1 << 20)
}

fn run<S: AsRef<OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = S>) -> anyhow::Result<()> {
    let output = git_remote::git(folder)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .context("cannot run git")?;
    anyhow::ensure!(
        output.status.success(),
        "git failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
