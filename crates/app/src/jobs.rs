//! What runs beside requests, from start to stop. Every task has an owner here; one that ends before
//! it was asked to ends the console.
//!
//! What only one of several replicas may do runs under [`App::lead`]: its writes are refused once another does it. What
//! each replica does for itself (the feed, reports of its agents, its audit lines) runs on all of them.

mod collect_artifacts;
mod collect_mirrors;
mod fetch_turns;
mod open_windows;
mod prune_feed;
mod prune_recordings;
mod reseal;
mod share_mirrors;
mod sync_global_services;
mod sync_repository;
mod sync_sources;
mod watch_repositories;
mod watch_sources;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};

use plural_core::{Error, RepositoryId, Result};
use plural_kit::{Backoff, ShutdownSignal};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::app::App;
use crate::fleet::lock;
use fetch_turns::FetchTurns;

pub use reseal::Resealed;
pub(crate) use sync_global_services::GlobalBoard;
pub(crate) use watch_repositories::pause;
pub(crate) use watch_sources::SourceBoard;

/// Repositories that the feed told of and the job has not looked at yet. A set: many tellings are one.
#[derive(Default)]
pub(crate) struct RepositoryBoard {
    told: Mutex<HashSet<RepositoryId>>,
    all: std::sync::atomic::AtomicBool,
    wake: Notify,
    /// Whose mirror on this replica is as new as what is known of the repository.
    mirrored: Mutex<HashSet<RepositoryId>>,
    turns: FetchTurns,
    /// When sharing a mirror is tried again that could not be shared.
    unshared: Mutex<HashMap<RepositoryId, (Instant, Backoff)>>,
}

impl RepositoryBoard {
    pub(crate) fn kick(&self, ids: BTreeSet<RepositoryId>) {
        if ids.is_empty() {
            return;
        }
        lock(&self.told).extend(ids);
        self.wake.notify_one();
    }

    pub(crate) fn kick_all(&self) {
        self.all.store(true, std::sync::atomic::Ordering::Release);
        self.wake.notify_one();
    }
}

/// Runs all jobs.
pub(crate) async fn run(app: Arc<App>, stop: ShutdownSignal) -> Result<()> {
    let mut tasks: JoinSet<Result<()>> = JoinSet::new();
    // Reports must still be written while streams drain, so their writer stops last.
    let writing = plural_kit::Shutdown::new();
    let (a, s) = (Arc::clone(&app), writing.signal());
    tasks.spawn(async move { a.reports_write(&s).await });
    let (a, s) = (Arc::clone(&app), stop.clone());
    tasks.spawn(async move { a.replica_run(&s).await });
    let (a, s) = (Arc::clone(&app), stop.clone());
    tasks.spawn(async move { a.streams_run(&s).await });
    let (a, s) = (Arc::clone(&app), stop.clone());
    tasks.spawn(async move { a.feed_follow(&s).await });
    let (a, s) = (Arc::clone(&app), stop.clone());
    tasks.spawn(async move { watch_repositories::run(a, s).await });
    let (a, s) = (Arc::clone(&app), stop.clone());
    tasks.spawn(async move { a.lead("sources", &s, watch_sources::run).await });
    let (a, s) = (Arc::clone(&app), stop.clone());
    tasks.spawn(async move { Box::pin(a.lead("global_services", &s, sync_global_services::run)).await });
    let (a, s) = (Arc::clone(&app), stop.clone());
    tasks.spawn(async move { a.lead("prune_feed", &s, prune_feed::run).await });
    let (a, s) = (Arc::clone(&app), stop.clone());
    tasks.spawn(async move { a.lead("prune_recordings", &s, prune_recordings::run).await });
    let (a, s) = (Arc::clone(&app), stop.clone());
    tasks.spawn(async move { a.lead("collect_artifacts", &s, collect_artifacts::run).await });
    let (a, s) = (Arc::clone(&app), stop.clone());
    tasks.spawn(async move { a.lead("reseal", &s, reseal::run).await });
    // Each replica looks after its own mirrors.
    let (a, s) = (Arc::clone(&app), stop.clone());
    tasks.spawn(async move { collect_mirrors::run(a, s).await });
    let (a, s) = (Arc::clone(&app), stop.clone());
    tasks.spawn(async move { share_mirrors::run(a, s).await });
    let (a, s) = (Arc::clone(&app), stop.clone());
    tasks.spawn(async move { a.proxy_run(&s).await });
    let (a, s) = (Arc::clone(&app), writing.signal());
    tasks.spawn(async move { a.cluster_audit_run(&s).await });
    let (a, s) = (Arc::clone(&app), writing.signal());
    tasks.spawn(async move { a.audit_run(&s).await });
    let (a, s) = (Arc::clone(&app), stop.clone());
    tasks.spawn(async move { a.lead("open_windows", &s, open_windows::run).await });

    let mut outcome = Ok(());
    tokio::select! {
        // First: once asked to stop, a job that ends is no news.
        biased;
        () = stop.requested() => {}
        ended = tasks.join_next() => {
            outcome = match ended {
                Some(Ok(Err(error))) => Err(error),
                Some(Err(panicked)) => Err(Error::internal("running the jobs", panicked)),
                _ => Err(Error::internal("running the jobs", "one ended by itself")),
            };
        }
    }
    writing.request();
    if outcome.is_err() {
        tasks.abort_all();
    }
    while let Some(ended) = tasks.join_next().await {
        if let (Ok(()), Ok(Err(error))) = (&outcome, ended) {
            outcome = Err(error);
        }
    }
    app.replica_leave().await;
    outcome
}
