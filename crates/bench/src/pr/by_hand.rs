//! The same without us: a person with git and the host's API.

use std::{fs, path::Path, process::Stdio, time::Instant};

use anyhow::Context as _;
use plural_testkit::{GiteaRepository, git_remote};

use crate::samples::Samples;

/// How long it took.
#[derive(Default)]
pub(super) struct ByHand {
    /// Listing the files of the repository.
    pub(super) looked: Samples,
    /// Cloning one commit of it.
    pub(super) clone: Samples,
    /// Cloning one commit, a commit, pushing it, and opening a pull request of it.
    pub(super) cloned: Samples,
    /// A commit by the host's API, and opening a pull request of it.
    pub(super) asked: Samples,
}

pub(super) fn run(repository: &GiteaRepository<'_>, folder: &Path, times: usize) -> anyhow::Result<ByHand> {
    let mut by_hand = ByHand::default();
    for round in 0..times {
        let started = Instant::now();
        repository.paths("main")?;
        by_hand.looked.add(started.elapsed());
        by_hand.cloned(repository, &folder.join(round.to_string()), &format!("cloned-{round}"))?;

        let branch = format!("asked-{round}");
        let path = format!("by-hand/{branch}.yaml");
        let started = Instant::now();
        repository.commit(&branch, &[(path.as_str(), "made: here\n")])?;
        repository.open(&branch)?;
        by_hand.asked.add(started.elapsed());
    }
    Ok(by_hand)
}

impl ByHand {
    fn cloned(
        &mut self,
        repository: &GiteaRepository<'_>,
        folder: &Path,
        branch: &str,
    ) -> anyhow::Result<()> {
        fs::create_dir(folder)?;
        let started = Instant::now();
        git(folder, &["clone", "--quiet", "--depth=1", &repository.push_url(), "."])?;
        self.clone.add(started.elapsed());
        git(folder, &["checkout", "--quiet", "-b", branch])?;
        fs::write(folder.join(format!("{branch}.yaml")), "made: here\n")?;
        git(folder, &["add", "--all"])?;
        git(folder, &["commit", "--quiet", "--message", "By hand"])?;
        git(folder, &["push", "--quiet", "origin", branch])?;
        repository.open(branch)?;
        self.cloned.add(started.elapsed());
        Ok(())
    }
}

fn git(folder: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let output = git_remote::git(folder)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .context("cannot run git")?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "git failed: {}", said.trim());
    Ok(())
}
