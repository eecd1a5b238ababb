//! Puts mirrors where other replicas find them, so that who takes a repository over need not clone it anew.

use std::collections::HashMap;
use std::time::Duration;

use chrono::TimeDelta;
use plural_core::ids::RepositoryId;
use plural_core::{Error, Result};
use plural_kit::Backoff;
use tokio::time::Instant;

use super::sync_repository::lease_name;
use crate::app::App;
use crate::ports::git::GitAccess;

/// Between two passes.
pub(super) const EVERY: Duration = Duration::from_secs(10);
/// For so long what was put there is new enough: the rest is fetched from the remote.
const KEEP: TimeDelta = TimeDelta::hours(6);
/// The longest until one is tried again that is empty or too large, or could not be shared: to find that out is work.
const RETRY: Duration = Duration::from_hours(1);

/// What came of sharing a mirror.
enum Sharing {
    /// Others find it, and it was put there now if it is new.
    Done { is_new: bool },
    /// There is nothing in it, or too much.
    Nothing,
    /// There is no mirror here yet.
    Absent,
}

impl App {
    /// Shares the mirrors of the repositories that this replica fetches, one after the other, and none more often than
    /// every six hours; how many those were.
    pub async fn mirrors_share(&self) -> Result<u64> {
        let shared: HashMap<RepositoryId, _> = self
            .store
            .mirrors_shared()
            .await?
            .into_iter()
            .map(|shared| (shared.repository_id, shared.at))
            .collect();
        let mut count = 0;
        let repositories = self.store.repository_ids().await?;
        self.repositories.unshared.lock().retain(|id, _| repositories.iter().any(|(known, _)| known == id));
        for (id, url) in repositories {
            let is_new = shared.get(&id).is_some_and(|at| self.clock.now() - *at < KEEP);
            let Some(fence) = self.replicas.held(&lease_name(id)) else { continue };
            let waits =
                self.repositories.unshared.lock().get(&id).is_some_and(|(at, _)| *at > Instant::now());
            if is_new || waits || url.is_local() {
                continue;
            }
            let shared = fence.guard(self.mirror_share(id)).await;
            let mut unshared = self.repositories.unshared.lock();
            match &shared {
                Ok(Sharing::Done { is_new }) => {
                    unshared.remove(&id);
                    count += u64::from(*is_new);
                }
                Ok(Sharing::Absent) => {}
                Ok(Sharing::Nothing) | Err(_) => {
                    let backoff = || (Instant::now(), Backoff::new(EVERY, RETRY));
                    let (at, backoff) = unshared.entry(id).or_insert_with(backoff);
                    *at = Instant::now() + backoff.next_wait();
                }
            }
            // One that cannot be read must not keep the others from being shared.
            if let Err(error) = shared {
                tracing::warn!(repository.id = %id, error = error.log_text(), "cannot share a mirror; trying again later");
            }
        }
        Ok(count)
    }

    async fn mirror_share(&self, id: RepositoryId) -> Result<Sharing> {
        let Some(work) = self.store.repository_work(id).await? else { return Ok(Sharing::Absent) };
        let access = self.git_access(&work).await?;
        if !self.git.has_mirror(&access) {
            return Ok(Sharing::Absent);
        }
        let known = self.store.mirror_shared(id, &access.url).await?;
        let shared = self.git.share_mirror(&access, known.as_ref()).await;
        let shared = shared.map_err(|error| Error::internal("sharing a mirror", error))?;
        if shared.is_none() && known.is_none() {
            return Ok(Sharing::Nothing);
        }
        self.store.mirror_share(id, &access.url, shared.as_ref(), self.clock.now()).await?;
        Ok(Sharing::Done { is_new: shared.is_some() })
    }

    /// Takes over what another replica shared, where this one has no mirror. Where that fails, the remote has everything.
    pub(super) async fn mirror_take(&self, access: &GitAccess) {
        if !self.settings.share_mirrors || access.url.is_local() || self.git.has_mirror(access) {
            return;
        }
        let shared = match self.store.mirror_shared(access.id, &access.url).await {
            Ok(Some(shared)) => shared,
            Ok(None) => return,
            Err(error) => {
                let error = error.log_text();
                tracing::warn!(repository.id = %access.id, error, "cannot look for another replica's mirror");
                return;
            }
        };
        match self.git.restore_mirror(access, &shared).await {
            Ok(()) => {
                metrics::counter!("plural_git_mirrors_restored_total").increment(1);
                tracing::info!(repository.id = %access.id, bytes = shared.bytes, "took another replica's mirror over");
            }
            Err(error) => {
                tracing::warn!(repository.id = %access.id, error = %error, "cannot take another replica's mirror over; cloning");
            }
        }
    }
}
