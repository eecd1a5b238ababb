//! What runs beside requests, from start to stop: tasks, which live as long as the console, [loops], which do their work again
//! and again, and jobs, which a task runs when they were enqueued. Each has a row in a table; a task or a loop that ends before
//! it was asked to ends the console.
//!
//! What only one of several replicas may do runs under [`App::lead`]: its writes are refused once another does it. What
//! each replica does for itself (the feed, reports of its agents, its audit lines) runs on all of them.

mod collect_artifacts;
mod collect_mirrors;
mod end_stack_run;
mod fetch_turns;
mod fleet_plan_sources;
mod fleet_plans;
mod follow_definition;
mod follow_fleet_base;
mod follow_gone;
mod follow_stacks;
mod follow_upstream;
mod fresh_mirrors;
mod govern_pull_request;
mod hear_scm_webhook;
mod loops;
mod move_secrets;
mod open_pull_request;
mod plan_preview;
mod plan_pull_request;
mod prepare_stack_run;
mod pull_request_parts;
mod read_pull_request;
mod renew_fleet_plan;
mod renew_services;
mod reseal;
mod share_mirrors;
mod stack_rules;
mod sync_global_services;
mod sync_repository;
mod sync_sources;
mod tell_pull_request;
mod watch_repositories;
mod watch_sources;
mod worker;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use plural_core::ids::RepositoryId;
use plural_core::{Error, Result};
use plural_kit::{Backoff, Shutdown, ShutdownSignal};
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use crate::app::App;
use crate::job::JobEntry;
use fetch_turns::FetchTurns;
use fresh_mirrors::FreshMirrors;

pub use end_stack_run::{EndStackRun, EndedRun};
pub use fleet_plans::{
    BegunFleetPlan, EndFleetPlan, LookFleetPlan, PlanFleetOfPull, TellFleetPlan, ToldFleetPlan,
};
pub use follow_definition::{FollowDefinition, FollowedDefinition};
pub use follow_fleet_base::{FollowFleetBase, MovedBranches};
pub use follow_gone::{FollowGone, LeftStacks};
pub use follow_upstream::{FollowUpstream, FollowedRun};
pub use govern_pull_request::GovernPullRequest;
pub use hear_scm_webhook::{HearScmWebhook, HeardRepository};
pub use move_secrets::{MoveSecrets, MovedSecrets};
pub use open_pull_request::{BegunPullRequest, OpenPullRequest};
pub use plan_preview::{AskedStack, LookFleetPreview, PlanPreviewedStack};
pub use plan_pull_request::PlanPullRequest;
pub use prepare_stack_run::{PrepareStackRun, PreparedRun};
pub(crate) use pull_request_parts::Fetched;
pub use read_pull_request::{
    FollowMerge, HearPullRequest, HeardPullRequest, KnownPullRequest, MergedPullRequest, ReadPullRequest,
};
pub use renew_fleet_plan::RenewFleetPlan;
pub use renew_services::{RenewProject, RenewServices, RenewedProject, RenewedRepository};
pub(crate) use reseal::reseal_job;
pub use reseal::{Reseal, Resealed, ResealedWith};
pub(crate) use sync_global_services::GlobalServicesChanged;
pub use tell_pull_request::TellPullRequest;
pub(crate) use watch_sources::DirtySources;

/// Repositories that the feed told of and the job has not looked at yet. A set: many tellings are one.
#[derive(Default)]
pub(crate) struct DirtyRepositories {
    told: Mutex<HashSet<RepositoryId>>,
    all: std::sync::atomic::AtomicBool,
    wake: Notify,
    /// Whose mirror on this replica is as new as what is known of the repository.
    mirrored: FreshMirrors,
    turns: FetchTurns,
    /// When sharing a mirror is tried again that could not be shared.
    unshared: Mutex<HashMap<RepositoryId, (Instant, Backoff)>>,
}

impl DirtyRepositories {
    pub(crate) fn kick(&self, ids: BTreeSet<RepositoryId>) {
        if ids.is_empty() {
            return;
        }
        self.told.lock().extend(ids);
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

/// How long it runs. Streams and requests have ended before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Until the console is asked to stop.
    Stopped,
    /// Until all those have ended that run until then: what they report must still be written, and their leases and claims hold
    /// only as long as this replica counts as alive.
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
        until: Until::Drained,
        run: |app, stop| Box::pin(async move { app.replica_run(&stop).await }),
    },
    Task {
        name: "streams",
        who: Who::EachReplica,
        until: Until::Stopped,
        run: |app, stop| Box::pin(async move { app.streams_run(&stop).await }),
    },
    Task {
        name: "deltas",
        who: Who::EachReplica,
        until: Until::Stopped,
        run: |app, stop| Box::pin(async move { app.deltas_follow(&stop).await }),
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
        name: "audit_chain",
        who: Who::Leader,
        until: Until::Drained,
        run: |app, stop| Box::pin(async move { app.audit_chain_run(&stop).await }),
    },
    Task {
        name: "audit_streams",
        who: Who::Leader,
        until: Until::Stopped,
        run: |app, stop| Box::pin(async move { app.audit_streams_run(&stop).await }),
    },
    Task {
        name: "jobs",
        who: Who::EachReplica,
        until: Until::Stopped,
        run: |app, stop| Box::pin(worker::run(app, stop)),
    },
];

/// The kinds of jobs. A kind that was released is never renamed: the database may hold jobs of it.
pub(crate) const JOBS: &[JobEntry] = &[
    JobEntry::of::<RenewServices>(),
    JobEntry::of::<RenewProject>(),
    JobEntry::of::<Reseal>(),
    JobEntry::of::<MoveSecrets>(),
    JobEntry::of::<PrepareStackRun>(),
    JobEntry::of::<EndStackRun>(),
    JobEntry::of::<FollowUpstream>(),
    JobEntry::of::<FollowDefinition>(),
    JobEntry::of::<FollowGone>(),
    JobEntry::of::<HearScmWebhook>(),
    JobEntry::of::<OpenPullRequest>(),
    JobEntry::of::<LookFleetPlan>(),
    JobEntry::of::<LookFleetPreview>(),
    JobEntry::of::<PlanPreviewedStack>(),
    JobEntry::of::<EndFleetPlan>(),
    JobEntry::of::<TellFleetPlan>(),
    JobEntry::of::<PlanFleetOfPull>(),
    JobEntry::of::<FollowFleetBase>(),
    JobEntry::of::<RenewFleetPlan>(),
    JobEntry::of::<HearPullRequest>(),
    JobEntry::of::<ReadPullRequest>(),
    JobEntry::of::<FollowMerge>(),
    JobEntry::of::<PlanPullRequest>(),
    JobEntry::of::<TellPullRequest>(),
    JobEntry::of::<GovernPullRequest>(),
];

/// Which one ended, and how.
type Ended = (&'static str, Result<()>);

/// Runs all tasks and loops.
pub(crate) async fn run(app: Arc<App>, stop: ShutdownSignal) -> Result<()> {
    let mut running = Running::default();
    for task in TASKS {
        let app = Arc::clone(&app);
        match task.until {
            Until::Stopped => running.first.spawn(run_task(app, stop.clone(), task)),
            Until::Drained => running.last.spawn(run_task(app, running.drained.signal(), task)),
        };
    }
    for it in loops::LOOPS {
        let (app, stop) = (Arc::clone(&app), stop.clone());
        running.first.spawn(async move { (it.name, loops::run(app, stop, it).await) });
    }
    let outcome = running.until(&stop).await;
    app.replica_leave().await;
    outcome
}

/// The tasks of a console.
#[derive(Default)]
struct Running {
    /// Those that end when they are asked to stop.
    first: JoinSet<Ended>,
    /// Those that end after them, when this is requested.
    last: JoinSet<Ended>,
    drained: Shutdown,
}

impl Running {
    /// Waits until asked to stop, or until a task ended before that, and then for all of them.
    async fn until(self, stop: &ShutdownSignal) -> Result<()> {
        let Self { mut first, mut last, drained } = self;
        let mut outcome = Ok(());
        tokio::select! {
            // First: once asked to stop, a task that ends is no news.
            biased;
            () = stop.requested() => {}
            Some(ended) = first.join_next() => outcome = too_early(ended),
            Some(ended) = last.join_next() => outcome = too_early(ended),
        }
        if outcome.is_err() {
            first.abort_all();
            last.abort_all();
        }
        let ended = drain(first).await;
        drained.request();
        outcome.and(ended).and(drain(last).await)
    }
}

/// Waits until all have ended; the first failure.
async fn drain(mut tasks: JoinSet<Ended>) -> Result<()> {
    let mut outcome = Ok(());
    while let Some(ended) = tasks.join_next().await {
        if let (Ok(()), Ok((_, Err(error)))) = (&outcome, ended) {
            outcome = Err(error);
        }
    }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[tokio::test]
    async fn what_others_need_ends_after_them() {
        let (stop, mut running) = (Shutdown::new(), Running::default());
        let (signal, drained) = (stop.signal(), running.drained.signal());
        let has_ended = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&has_ended);
        running.first.spawn(async move {
            signal.requested().await;
            tokio::task::yield_now().await;
            ended.store(true, Ordering::Release);
            ("worker", Ok(()))
        });
        running.last.spawn(async move {
            drained.requested().await;
            let early = || Err(Error::internal("ending in order", "claims were left without a heartbeat"));
            ("heartbeat", if has_ended.load(Ordering::Acquire) { Ok(()) } else { early() })
        });
        stop.request();
        running.until(&stop.signal()).await.unwrap();
        let replica = TASKS.iter().find(|task| task.name == "replica").unwrap();
        assert_eq!(replica.until, Until::Drained);
    }

    #[tokio::test]
    async fn a_task_that_ends_by_itself_ends_the_others() {
        let (stop, mut running) = (Shutdown::new(), Running::default());
        running.first.spawn(std::future::pending());
        running.last.spawn(async { ("reports", Ok(())) });
        let error = running.until(&stop.signal()).await.unwrap_err();
        assert!(error.log_text().contains("\"reports\" ended by itself"), "{}", error.log_text());
    }
}
