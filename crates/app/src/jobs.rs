//! What runs beside requests, from start to stop: tasks, which live as long as the console, [loops], which do their work again
//! and again, and jobs, which a task runs when they were enqueued. Each has a row in a table; a task or a loop that ends before
//! it was asked to ends the console.
//!
//! What only one of several replicas may do runs under [`App::lead`]: its writes are refused once another does it. What
//! each replica does for itself (the feed, reports of its agents, its audit lines) runs on all of them.

mod collect_artifacts;
mod collect_mirrors;
mod fetch_turns;
mod loops;
mod renew_services;
mod reseal;
mod share_mirrors;
mod sync_global_services;
mod sync_repository;
mod sync_sources;
mod watch_repositories;
mod watch_sources;
mod worker;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use plural_core::{Error, RepositoryId, Result};
use plural_kit::{Backoff, Shutdown, ShutdownSignal};
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use crate::app::App;
use crate::fleet::lock;
use crate::job::JobEntry;
use fetch_turns::FetchTurns;

pub use renew_services::{RenewServices, RenewedRepository};
pub use reseal::{Reseal, Resealed, ResealedWith};
pub(crate) use sync_global_services::GlobalBoard;
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

type Work = fn(Arc<App>, ShutdownSignal) -> BoxFuture<'static, Result<()>>;

/// Work that lives as long as the console.
struct Task {
    /// Also the lease's name, where only the leader runs it.
    name: &'static str,
    who: Who,
    until: Until,
    run: Work,
}

/// Which replicas run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    EachReplica,
    /// The one that holds the lease of its name.
    Leader,
}

/// How long it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Until the console is asked to stop.
    Stopped,
    /// Until streams and requests have ended, too: what they report must still be written.
    Drained,
}

const TASKS: &[Task] = &[
    Task {
        name: "reports",
        who: Who::EachReplica,
        until: Until::Drained,
        run: |app, stop| Box::pin(async move { app.reports_write(&stop).await }),
    },
    Task {
        name: "replica",
        who: Who::EachReplica,
        until: Until::Stopped,
        run: |app, stop| Box::pin(async move { app.replica_run(&stop).await }),
    },
    Task {
        name: "streams",
        who: Who::EachReplica,
        until: Until::Stopped,
        run: |app, stop| Box::pin(async move { app.streams_run(&stop).await }),
    },
    Task {
        name: "feed",
        who: Who::EachReplica,
        until: Until::Stopped,
        run: |app, stop| Box::pin(async move { app.feed_follow(&stop).await }),
    },
    Task {
        name: "repositories",
        who: Who::EachReplica,
        until: Until::Stopped,
        run: |app, stop| Box::pin(watch_repositories::run(app, stop)),
    },
    Task {
        name: "sources",
        who: Who::Leader,
        until: Until::Stopped,
        run: |app, stop| Box::pin(watch_sources::run(app, stop)),
    },
    Task {
        name: "global_services",
        who: Who::Leader,
        until: Until::Stopped,
        run: |app, stop| Box::pin(sync_global_services::run(app, stop)),
    },
    Task {
        name: "proxy",
        who: Who::EachReplica,
        until: Until::Stopped,
        run: |app, stop| Box::pin(async move { app.proxy_run(&stop).await }),
    },
    Task {
        name: "cluster_audit",
        who: Who::EachReplica,
        until: Until::Drained,
        run: |app, stop| Box::pin(async move { app.cluster_audit_run(&stop).await }),
    },
    Task {
        name: "audit",
        who: Who::EachReplica,
        until: Until::Drained,
        run: |app, stop| Box::pin(async move { app.audit_run(&stop).await }),
    },
    Task {
        name: "jobs",
        who: Who::EachReplica,
        until: Until::Stopped,
        run: |app, stop| Box::pin(worker::run(app, stop)),
    },
];

/// The kinds of jobs. A kind that was released is never renamed: the database may hold jobs of it.
pub(crate) const JOBS: &[JobEntry] = &[JobEntry::of::<RenewServices>(), JobEntry::of::<Reseal>()];

/// Which one ended, and how.
type Ended = (&'static str, Result<()>);

/// Runs all tasks and loops.
pub(crate) async fn run(app: Arc<App>, stop: ShutdownSignal) -> Result<()> {
    let mut tasks: JoinSet<Ended> = JoinSet::new();
    let drained = Shutdown::new();
    for task in TASKS {
        let stop = match task.until {
            Until::Stopped => stop.clone(),
            Until::Drained => drained.signal(),
        };
        tasks.spawn(run_task(Arc::clone(&app), stop, task));
    }
    for it in loops::LOOPS {
        let (app, stop) = (Arc::clone(&app), stop.clone());
        tasks.spawn(async move { (it.name, loops::run(app, stop, it).await) });
    }

    let mut outcome = Ok(());
    tokio::select! {
        // First: once asked to stop, a task that ends is no news.
        biased;
        () = stop.requested() => {}
        ended = tasks.join_next() => outcome = ended.map_or(Ok(()), too_early),
    }
    drained.request();
    if outcome.is_err() {
        tasks.abort_all();
    }
    while let Some(ended) = tasks.join_next().await {
        if let (Ok(()), Ok((_, Err(error)))) = (&outcome, ended) {
            outcome = Err(error);
        }
    }
    app.replica_leave().await;
    outcome
}

async fn run_task(app: Arc<App>, stop: ShutdownSignal, task: &'static Task) -> Ended {
    let ended = match task.who {
        Who::EachReplica => (task.run)(app, stop).await,
        Who::Leader => app.lead(task.name, &stop, task.run).await,
    };
    (task.name, ended)
}

/// What ended though it should not have.
fn too_early(ended: Result<Ended, JoinError>) -> Result<()> {
    let doing = "running the console's tasks";
    match ended {
        Ok((_, Err(error))) => Err(error),
        Ok((name, Ok(()))) => Err(Error::internal(doing, format!("{name:?} ended by itself"))),
        Err(panicked) => Err(Error::internal(doing, panicked)),
    }
}
