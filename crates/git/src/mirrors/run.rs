//! Runs of git on one mirror: [`OwnedRun`].

use std::{
    path::{Path, PathBuf},
    sync::atomic::Ordering,
    time::Duration,
};

use super::Mirrors;
use crate::{
    error::Result,
    fetch::Run,
    quota::{Quota, Room},
    remote::Remote,
    repair::Layout,
};

impl Mirrors {
    pub(crate) fn run<'a>(&'a self, remote: &'a Remote, layout: &'a Layout, limit: Duration) -> OwnedRun<'a> {
        OwnedRun {
            mirrors: self,
            remote,
            repo: layout.repo(),
            known_hosts: layout.known_hosts(),
            limit,
            room: Room::again(self.inner.options.quota),
            first: false,
        }
    }

    /// A run that writes what is new to a mirror, within what there is of a quota. What such runs wrote before is in no pack, and counts.
    pub(crate) fn run_within<'a>(
        &'a self,
        remote: &'a Remote,
        layout: &'a Layout,
        quota: Quota,
    ) -> Result<OwnedRun<'a>> {
        let own = layout.pack_bytes().saturating_add(layout.loose_bytes());
        let room = self.inner.sizes.room(&remote.key, own, quota, &remote.url.to_string())?;
        Ok(OwnedRun { room, ..self.run(remote, layout, self.inner.options.timeout) })
    }
}

/// A [`Run`] with paths of its own.
pub(crate) struct OwnedRun<'a> {
    pub(super) mirrors: &'a Mirrors,
    pub(super) remote: &'a Remote,
    pub(super) repo: PathBuf,
    pub(super) known_hosts: PathBuf,
    pub(super) limit: Duration,
    pub(super) room: Room,
    pub(super) first: bool,
}

impl OwnedRun<'_> {
    pub(crate) fn run(&self) -> Run<'_> {
        self.mirrors.inner.runs.fetch_add(1, Ordering::Relaxed);
        Run {
            options: &self.mirrors.inner.options,
            remote: self.remote,
            repo: &self.repo,
            known_hosts: &self.known_hosts,
            sessions: self.mirrors.sessions(),
            limit: self.limit,
            room: self.room,
            first: self.first,
        }
    }

    pub(crate) async fn bundle(&self, file: &Path) -> Result<()> {
        self.run().bundle(file).await
    }

    pub(crate) async fn fetch_bundle(&self, file: &Path) -> Result<()> {
        self.run().fetch_bundle(file).await
    }

    pub(crate) async fn import(&self, stream: &[u8]) -> Result<()> {
        self.run().import(stream).await
    }

    pub(crate) async fn push(&self, lease: &str, what: &str) -> Result<()> {
        self.run().push(lease, what).await
    }

    pub(crate) async fn forget(&self, reference: &str) -> Result<()> {
        self.run().forget(reference).await
    }

    pub(super) async fn fetch_all(&self) -> Result<()> {
        self.run().fetch_all().await
    }

    pub(super) async fn fetch_commit(&self, commit: &str) -> Result<()> {
        self.run().fetch_commit(commit).await
    }

    pub(super) async fn fetch_reference(&self, reference: &str) -> Result<()> {
        self.run().fetch_reference(reference).await
    }

    pub(super) async fn is_whole(&self) -> Result<bool> {
        Run { limit: self.mirrors.inner.options.clone_timeout, ..self.run() }.is_whole().await
    }

    pub(super) async fn tidy(&self) -> Result<()> {
        self.run().tidy().await
    }
}
