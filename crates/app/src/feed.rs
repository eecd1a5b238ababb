//! Follows the feed into the fleet snapshot.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use plural_core::Result;
use plural_core::ids::{ClusterId, RepositoryId};
use plural_core::work::{WorkChange, WorkRef, WorkSummary};
use plural_kit::{Backoff, ShutdownSignal};
use tokio::time::{Instant, timeout, timeout_at};

use crate::app::App;
use crate::fleet::{Entry, Fleet};
use crate::ports::agents::{EventFingerprint, FeedBatch, FeedEvent, FeedPosition, FeedSubject};

/// Reads even when nobody woke us: a notification may be lost with its connection.
const SAFETY: Duration = Duration::from_secs(30);
/// How soon to ask again for what is written but not yet safe to read.
const PENDING: Duration = Duration::from_millis(5);
/// How rarely, when it goes on.
const LONG_PENDING: Duration = Duration::from_millis(250);
/// Work whose summaries one statement reads.
const SUMMARIES: usize = 500;
/// Longest wait for this replica to come as far as an agent already is.
const CATCH_UP: Duration = Duration::from_secs(2);

impl App {
    /// Reads the feed until asked to stop. A failing database is tried again for ever: agents are answered
    /// from what is known meanwhile.
    pub(crate) async fn feed_follow(&self, stop: &ShutdownSignal) -> Result<()> {
        let mut wake = self.store.feed_wake();
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
        let mut pending = PENDING;
        loop {
            let wait = match self.feed_step().await {
                Ok(true) => {
                    // An old transaction somewhere in the database may keep us waiting: ask less and less often.
                    let wait = pending;
                    pending = (pending * 2).min(LONG_PENDING);
                    wait
                }
                Ok(false) => {
                    backoff.reset();
                    pending = PENDING;
                    SAFETY
                }
                Err(error) => {
                    tracing::warn!(error = error.log_text(), "cannot read the feed; trying again");
                    tokio::select! {
                        () = stop.requested() => return Ok(()),
                        () = tokio::time::sleep(backoff.next_wait()) => {}
                    }
                    continue;
                }
            };
            tokio::select! {
                () = stop.requested() => return Ok(()),
                woken = timeout(wait, wake.changed()) => {
                    if matches!(woken, Ok(Err(_))) {
                        return Err(plural_core::Error::internal("following the feed", "the store is gone"));
                    }
                }
            }
        }
    }

    /// Reads once; `true` when more is written but not yet safe to read.
    pub(crate) async fn feed_step(&self) -> Result<bool> {
        // One reader at a time: two would apply a batch twice, in any order.
        let _reading = self.feed_lock.lock().await;
        loop {
            let before = self.fleet.head();
            let FeedBatch { events, position, pending, truncated } = self.store.feed_read(before).await?;
            if truncated {
                tracing::warn!(
                    position = before,
                    "the feed no longer reaches back to here; loading the whole fleet"
                );
                self.fleet.reload(self.store.fleet_load().await?);
                self.repositories.kick_all();
                self.mirrors_are_old();
                self.sources.everything();
                self.globals.wake();
                continue;
            }
            if events.is_empty() {
                if position > before {
                    self.fleet.advance(position);
                }
                return Ok(pending);
            }
            let marks: Vec<EventFingerprint> = events.iter().map(FeedEvent::mark).collect();
            self.feed_apply(events.into_iter().map(|event| (event.position, event.subject)), marks, position)
                .await?;
            if pending {
                return Ok(true);
            }
        }
    }

    /// Makes sure that what was written before this call is in the snapshot, so that a caller who
    /// acts on an answer finds the agents' side agreeing with it.
    pub(crate) async fn feed_catch_up(&self) {
        let deadline = Instant::now() + CATCH_UP;
        loop {
            match self.feed_step().await {
                Ok(true) if Instant::now() < deadline => tokio::time::sleep(PENDING).await,
                // The feed will get there, and what was written stays written: the caller must get its answer,
                // which may hold a token that is shown only once.
                Ok(_) => return,
                Err(error) => {
                    tracing::warn!(
                        error = error.log_text(),
                        "cannot read the feed after a write; it follows later"
                    );
                    return;
                }
            }
        }
    }

    /// Waits until the snapshot is as far as `position`; `false` when it does not get there in time,
    /// which after a restored backup it never does.
    pub(crate) async fn feed_reach(&self, position: FeedPosition) -> bool {
        if self.feed_step().await.is_ok_and(|pending| !pending) {
            return self.fleet.head() >= position;
        }
        let mut head = self.fleet.head_watch();
        let deadline = Instant::now() + CATCH_UP;
        loop {
            if *head.borrow_and_update() >= position {
                return true;
            }
            match timeout_at(deadline, head.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return false,
            }
        }
    }

    async fn feed_apply(
        &self,
        events: impl Iterator<Item = (FeedPosition, Option<FeedSubject>)>,
        marks: Vec<EventFingerprint>,
        position: FeedPosition,
    ) -> Result<()> {
        // One entry for all events of one piece of work: it is read once.
        let mut work: BTreeMap<WorkRef, (ClusterId, Entry)> = BTreeMap::new();
        let mut clusters: BTreeMap<ClusterId, FeedPosition> = BTreeMap::new();
        let mut repositories: BTreeSet<RepositoryId> = BTreeSet::new();
        let mut refs_moved: BTreeSet<RepositoryId> = BTreeSet::new();
        for (at, subject) in events {
            let Some(subject) = subject else {
                tracing::warn!(
                    position = at,
                    "skipping an event of a kind that only a later release of the console knows"
                );
                continue;
            };
            match subject {
                FeedSubject::Work { cluster_id, work: changed, sequence, change } => {
                    let event = Entry::of(at, changed, sequence, change);
                    work.entry(changed)
                        .and_modify(|(_, entry)| *entry = entry.and(event))
                        .or_insert((cluster_id, event));
                }
                FeedSubject::Cluster { cluster_id } => {
                    clusters.insert(cluster_id, at);
                }
                FeedSubject::Repository { repository_id } => {
                    repositories.insert(repository_id);
                }
                FeedSubject::RepositoryMoved { repository_id } => {
                    refs_moved.insert(repository_id);
                }
            }
        }
        if !clusters.is_empty() {
            // One that came or changed may be meant by a global service.
            self.globals.wake();
            let ids: Vec<ClusterId> = clusters.keys().copied().collect();
            let mut found: HashMap<_, _> =
                self.store.cluster_credentials(&ids).await?.into_iter().map(|c| (c.id, c)).collect();
            for (id, at) in clusters {
                match found.remove(&id) {
                    Some(credential) => {
                        self.fleet.cluster_upsert(credential, at);
                    }
                    None => self.fleet.cluster_remove(id),
                }
            }
        }
        let refs: Vec<WorkRef> = work.keys().copied().collect();
        let mut found: HashMap<WorkRef, WorkSummary> = HashMap::with_capacity(refs.len());
        for chunk in refs.chunks(SUMMARIES) {
            let summaries = self.store.work_summaries(chunk).await?;
            found.extend(summaries.into_iter().map(|summary| (summary.work, summary)));
        }
        // In the order of the feed: a cell's log and its last change must not run backwards.
        let mut ordered: Vec<(ClusterId, Entry)> = work.into_values().collect();
        ordered.sort_by_key(|(_, entry)| entry.at);
        self.sources.services(ordered.iter().filter_map(|(_, entry)| {
            entry.work.as_service().map(|id| (id, entry.change == WorkChange::Kicked))
        }));
        let mut touched = BTreeMap::new();
        for (cluster_id, entry) in ordered {
            let Some(cell) = self.fleet.cell(cluster_id) else { continue };
            Fleet::work_changed(&cell, entry, found.remove(&entry.work));
            touched.insert(cluster_id, cell);
        }
        self.fleet.mark(marks.into_iter());
        self.fleet.advance(position);
        // Hints last: whoever polls on one must find the head moved.
        for cell in touched.values() {
            Fleet::wake(cell);
        }
        self.repositories.kick(repositories);
        if !refs_moved.is_empty() {
            // A rollout may wait for the commit.
            self.globals.wake();
        }
        for id in refs_moved {
            self.mirror_is_old(id);
            self.sources.repository(id);
        }
        Ok(())
    }
}
