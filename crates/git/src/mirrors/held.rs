//! A mirror that git is run on, and nothing else meanwhile: [`Held`].

use std::sync::Arc;

use tokio::sync::{OwnedMutexGuard, SemaphorePermit};

use super::{Mirror, Mirrors, Turn, run::OwnedRun};
use crate::{
    error::{Error, Result},
    quota::Quota,
    remote::Remote,
    repair::Lock,
    repository::Repository,
};

/// A mirror that was fetched, for one who runs git on it: nobody else does, in this process or another, while this lives.
pub(crate) struct Held<'a> {
    mirrors: &'a Mirrors,
    remote: &'a Remote,
    mirror: Arc<Mirror>,
    // They go in this order: whoever comes next has its turn when all else is free.
    _lock: Lock,
    _slot: SemaphorePermit<'a>,
    _turn: OwnedMutexGuard<Option<Turn>>,
}

impl Mirrors {
    /// Waits for its turn on the mirror of a remote.
    ///
    /// # Errors
    /// [`Error::NotFetched`] where there is no mirror.
    pub(crate) async fn hold<'a>(&'a self, remote: &'a Remote) -> Result<Held<'a>> {
        let (mirror, url) = (self.mirror(&remote.key), remote.url.to_string());
        let turn = Arc::clone(&mirror.turn).lock_owned().await;
        let slot = self.slot().await?;
        let lock = mirror.layout.lock(&url, self.options().timeout).await?;
        if !mirror.layout.is_of(&url) {
            return Err(Error::NotFetched { key: remote.key.to_string() });
        }
        Ok(Held { mirrors: self, remote, mirror, _lock: lock, _slot: slot, _turn: turn })
    }

    /// A turn to run git.
    async fn slot(&self) -> Result<SemaphorePermit<'_>> {
        self.inner.processes.acquire().await.map_err(|_| Error::Stopped { doing: "running git" })
    }
}

impl Held<'_> {
    /// A run that writes nothing of its own to the mirror, or not much.
    pub(crate) fn run(&self) -> OwnedRun<'_> {
        self.mirrors.run(self.remote, &self.mirror.layout, self.mirrors.options().timeout)
    }

    /// One that writes what is new to the mirror, within what there is of a quota.
    ///
    /// # Errors
    /// [`Error::Quota`].
    pub(crate) fn run_within(&self, quota: Quota) -> Result<OwnedRun<'_>> {
        self.mirrors.run_within(self.remote, &self.mirror.layout, quota)
    }

    /// The repository.
    pub(crate) async fn repository(&self) -> Result<Repository> {
        self.mirrors.opened(self.remote, &self.mirror, self.mirror.layout.repo()).await
    }

    /// Forgets the open repository: who has it open does not know of what was made.
    pub(crate) fn close(&self) {
        self.mirror.close();
    }
}
