//! Periodic work: one row a loop, one function that runs them all.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use futures::future::BoxFuture;
use plural_core::Result;
use plural_kit::{ShutdownSignal, about};
use tracing::Level;

use super::{Who, collect_artifacts, collect_mirrors, move_secrets, reseal, share_mirrors};
use crate::app::App;
use crate::delta;

/// Events younger than this stay in the feed. Agents further behind get a snapshot.
const FEED_KEEP: TimeDelta = TimeDelta::hours(24);
/// As do the last so many.
const FEED_KEEP_ROWS: u64 = 10_000;
/// For so long an administrator finds a dead job.
const DEAD_KEEP: TimeDelta = TimeDelta::days(30);
/// More dead jobs than these are not kept.
const DEAD_KEEP_ROWS: u64 = 10_000;

/// Runs of a stack that are over and kept, with their plans and logs.
const RUNS_KEEP: u32 = 100;

/// Work that is done again and again for as long as the console runs.
pub(super) struct Loop {
    /// Also the lease's name, where only the leader runs it, and the metrics' label.
    pub(super) name: &'static str,
    pub(super) who: Who,
    every: Every,
    begins: Begins,
    /// Whether there is anything to do on this console, as it was started.
    wanted: fn(&App) -> bool,
    /// One pass: how many things it did something to.
    once: for<'a> fn(&'a Arc<App>, &'a ShutdownSignal) -> BoxFuture<'a, Result<u64>>,
    /// What becomes of a pass when the console stops.
    ends: Ends,
    /// What it did to them, for the log.
    did: &'static str,
    /// At which that is logged.
    level: Level,
}

impl fmt::Debug for Loop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loop").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The pause between two passes.
#[derive(Debug, Clone, Copy)]
enum Every {
    /// As said.
    Exactly(Duration),
    /// Give or take a fifth: replicas that were started together do not stay in step.
    About(Duration),
}

impl Every {
    fn pause(self) -> Duration {
        match self {
            Self::Exactly(pause) => pause,
            Self::About(pause) => about(pause),
        }
    }
}

/// When the first pass is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begins {
    AtOnce,
    AfterPause,
}

/// How a pass ends that runs when the console is asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// Where it is: the next one does its work.
    AtOnce,
    /// It is told, and ends soon: what it began outside must not be lost.
    ByItself,
}

pub(super) const LOOPS: &[Loop] = &[
    Loop {
        name: "prune_feed",
        who: Who::Leader,
        every: Every::Exactly(Duration::from_mins(10)),
        begins: Begins::AfterPause,
        wanted: always,
        once: |app, _| {
            Box::pin(async move { app.store.feed_prune(app.now() - FEED_KEEP, FEED_KEEP_ROWS).await })
        },
        ends: Ends::AtOnce,
        did: "removed old events from the feed",
        level: Level::DEBUG,
    },
    Loop {
        name: "prune_deltas",
        who: Who::Leader,
        every: Every::About(Duration::from_mins(5)),
        begins: Begins::AfterPause,
        wanted: always,
        once: |app, _| Box::pin(async move { app.store.deltas_prune(app.now() - delta::KEEP).await }),
        ends: Ends::AtOnce,
        did: "removed old rows that say what changed",
        level: Level::DEBUG,
    },
    Loop {
        name: "prune_health_changes",
        who: Who::Leader,
        every: Every::About(Duration::from_mins(10)),
        begins: Begins::AfterPause,
        wanted: always,
        once: |app, _| Box::pin(app.health_changes_forget()),
        ends: Ends::AtOnce,
        did: "removed changes of services' statuses that were kept long enough",
        level: Level::DEBUG,
    },
    Loop {
        name: "prune_audit",
        who: Who::Leader,
        every: Every::About(Duration::from_hours(1)),
        begins: Begins::AtOnce,
        wanted: always,
        once: |app, _| Box::pin(app.audit_forget()),
        ends: Ends::AtOnce,
        did: "removed lines of the audit log that were kept long enough",
        level: Level::DEBUG,
    },
    Loop {
        name: "prune_recordings",
        who: Who::Leader,
        every: Every::About(Duration::from_hours(1)),
        begins: Begins::AfterPause,
        wanted: always,
        once: |app, _| Box::pin(app.recordings_forget()),
        ends: Ends::AtOnce,
        did: "removed recordings of shells that were kept long enough",
        level: Level::INFO,
    },
    Loop {
        name: "collect_artifacts",
        who: Who::Leader,
        every: Every::About(Duration::from_hours(6)),
        begins: Begins::AfterPause,
        wanted: always,
        once: |app, _| Box::pin(app.artifacts_collect(collect_artifacts::SPARE)),
        ends: Ends::AtOnce,
        did: "removed artifacts that nothing names",
        level: Level::INFO,
    },
    Loop {
        name: "prune_jobs",
        who: Who::Leader,
        every: Every::About(Duration::from_hours(1)),
        begins: Begins::AfterPause,
        wanted: always,
        once: |app, _| {
            Box::pin(async move { app.store.jobs_prune(app.now() - DEAD_KEEP, DEAD_KEEP_ROWS).await })
        },
        ends: Ends::AtOnce,
        did: "removed jobs that were dead for long",
        level: Level::INFO,
    },
    Loop {
        name: "check_identities",
        who: Who::Leader,
        every: Every::About(Duration::from_mins(1)),
        begins: Begins::AfterPause,
        wanted: always,
        once: |app, stop| Box::pin(app.identities_check_until(stop)),
        ends: Ends::ByItself,
        did: "asked identity providers about people who signed in with them",
        level: Level::DEBUG,
    },
    Loop {
        name: "reseal",
        who: Who::Leader,
        // A replica that was started with the old key alone still seals with it.
        every: Every::About(Duration::from_mins(10)),
        begins: Begins::AtOnce,
        wanted: always,
        once: |app, _| Box::pin(reseal::enqueue(app)),
        ends: Ends::AtOnce,
        did: "enqueued the sealing of everything with the current encryption key",
        level: Level::INFO,
    },
    Loop {
        name: "keep_secrets",
        who: Who::Leader,
        // A replica that had not heard of a move yet still seals for the former backend.
        every: Every::About(Duration::from_mins(10)),
        begins: Begins::AfterPause,
        wanted: always,
        once: |app, _| Box::pin(move_secrets::pass(app)),
        ends: Ends::AtOnce,
        did: "enqueued moves of secrets, and deleted objects of secret backends that nothing names",
        level: Level::INFO,
    },
    Loop {
        name: "forget_data_keys",
        who: Who::EachReplica,
        every: Every::About(Duration::from_mins(1)),
        begins: Begins::AfterPause,
        wanted: always,
        once: |app, _| Box::pin(async move { Ok(app.sealer.sweep()) }),
        ends: Ends::AtOnce,
        did: "forgot data keys and kept secrets that were not used for long",
        level: Level::DEBUG,
    },
    Loop {
        name: "open_windows",
        who: Who::Leader,
        // Windows begin and end at full minutes.
        every: Every::Exactly(Duration::from_secs(20)),
        begins: Begins::AfterPause,
        wanted: always,
        once: |app, _| Box::pin(app.sync_windows_open()),
        ends: Ends::AtOnce,
        did: "released services whose sync windows opened",
        level: Level::INFO,
    },
    Loop {
        name: "tend_stack_runs",
        who: Who::Leader,
        every: Every::Exactly(Duration::from_secs(5)),
        begins: Begins::AfterPause,
        wanted: always,
        once: |app, _| Box::pin(app.stack_runs_tend()),
        ends: Ends::AtOnce,
        did: "moved runs of stacks on that were silent",
        level: Level::INFO,
    },
    Loop {
        name: "clock_stacks",
        who: Who::Leader,
        // Schedules name minutes.
        every: Every::Exactly(Duration::from_secs(10)),
        begins: Begins::AfterPause,
        wanted: always,
        once: |app, _| Box::pin(app.stacks_clock()),
        ends: Ends::AtOnce,
        did: "made runs of stacks that were due",
        level: Level::INFO,
    },
    Loop {
        name: "poll_pull_requests",
        who: Who::Leader,
        every: Every::About(Duration::from_secs(30)),
        begins: Begins::AfterPause,
        wanted: always,
        once: |app, _| Box::pin(app.pull_requests_tend()),
        ends: Ends::AtOnce,
        did: "listed open pull requests of repositories",
        level: Level::DEBUG,
    },
    Loop {
        name: "forget_pr_secrets",
        who: Who::Leader,
        every: Every::About(Duration::from_hours(1)),
        begins: Begins::AfterPause,
        wanted: always,
        once: |app, _| Box::pin(app.pr_secrets_expire()),
        ends: Ends::AtOnce,
        did: "forgot values of Secrets that no cluster had in time",
        level: Level::INFO,
    },
    Loop {
        name: "merge_in_windows",
        who: Who::Leader,
        // Windows begin and end at full minutes.
        every: Every::Exactly(Duration::from_secs(10)),
        begins: Begins::AfterPause,
        wanted: always,
        once: |app, _| Box::pin(app.pull_requests_merge_due()),
        ends: Ends::AtOnce,
        did: "merged pull requests whose window opened",
        level: Level::INFO,
    },
    Loop {
        name: "poll_stack_pulls",
        who: Who::Leader,
        every: Every::About(Duration::from_mins(5)),
        begins: Begins::AfterPause,
        wanted: always,
        once: |app, _| Box::pin(app.stack_pulls_poll()),
        ends: Ends::AtOnce,
        did: "had pull requests of stacks planned that no webhook told of",
        level: Level::INFO,
    },
    Loop {
        name: "prune_stack_runs",
        who: Who::Leader,
        every: Every::About(Duration::from_hours(1)),
        begins: Begins::AfterPause,
        wanted: always,
        once: |app, _| Box::pin(async move { app.store.stack_runs_prune(RUNS_KEEP).await }),
        ends: Ends::AtOnce,
        did: "removed old runs of stacks",
        level: Level::DEBUG,
    },
    Loop {
        name: "prune_fleet_previews",
        who: Who::Leader,
        every: Every::About(Duration::from_mins(1)),
        begins: Begins::AfterPause,
        wanted: always,
        once: |app, _| Box::pin(app.fleet_previews_forget()),
        ends: Ends::AtOnce,
        did: "removed plans of previews whose time is over",
        level: Level::DEBUG,
    },
    Loop {
        name: "collect_mirrors",
        who: Who::EachReplica,
        every: Every::About(Duration::from_hours(1)),
        begins: Begins::AfterPause,
        wanted: always,
        once: |app, _| Box::pin(app.mirrors_collect(collect_mirrors::SPARE, collect_mirrors::YOUNG)),
        ends: Ends::AtOnce,
        did: "removed mirrors that are not needed here",
        level: Level::INFO,
    },
    Loop {
        name: "share_mirrors",
        who: Who::EachReplica,
        every: Every::About(share_mirrors::EVERY),
        begins: Begins::AfterPause,
        wanted: |app| app.settings.share_mirrors,
        once: |app, _| Box::pin(app.mirrors_share()),
        ends: Ends::AtOnce,
        did: "shared mirrors with other replicas",
        level: Level::INFO,
    },
];

fn always(_: &App) -> bool {
    true
}

/// Runs a loop until asked to stop.
pub(super) async fn run(app: Arc<App>, stop: ShutdownSignal, it: &'static Loop) -> Result<()> {
    // Known to whoever reads the metrics before its first pass, on replicas that do not lead, too.
    for outcome in ["done", "failed"] {
        metrics::counter!("plural_loop_runs_total", "loop" => it.name, "outcome" => outcome).increment(0);
    }
    if !(it.wanted)(&app) {
        stop.requested().await;
        return Ok(());
    }
    match it.who {
        Who::EachReplica => passes_of(app, stop, it).await,
        Who::Leader => app.lead(it.name, &stop, |app, stop| passes_of(app, stop, it)).await,
    }
}

async fn passes_of(app: Arc<App>, stop: ShutdownSignal, it: &'static Loop) -> Result<()> {
    let once = || async {
        let passed = (it.once)(&app, &stop).await;
        if passed.is_ok() {
            let at = app.now().timestamp() as f64;
            metrics::gauge!("plural_loop_last_success_seconds", "loop" => it.name).set(at);
        }
        passed
    };
    passes(&stop, it, once).await;
    Ok(())
}

/// Passes one after the other. One that fails is tried again after the same pause: the next one does all of its work.
async fn passes<F>(stop: &ShutdownSignal, it: &Loop, once: impl Fn() -> F)
where
    F: Future<Output = Result<u64>>,
{
    let mut waits = it.begins == Begins::AfterPause;
    loop {
        if waits && stop.or(tokio::time::sleep(it.every.pause())).await.is_none() {
            return;
        }
        waits = true;
        let passed = match it.ends {
            Ends::AtOnce => stop.or(once()).await,
            Ends::ByItself => Some(once().await),
        };
        let Some(passed) = passed else { return };
        let outcome = match passed {
            Ok(count) => {
                log(it, count);
                "done"
            }
            Err(error) => {
                let error = error.log_text();
                tracing::warn!("loop" = it.name, error, "a pass of periodic work failed; trying again later");
                "failed"
            }
        };
        metrics::counter!("plural_loop_runs_total", "loop" => it.name, "outcome" => outcome).increment(1);
    }
}

fn log(it: &Loop, count: u64) {
    match count {
        0 => {}
        count if it.level == Level::INFO => tracing::info!("loop" = it.name, count, "{}", it.did),
        count => tracing::debug!("loop" = it.name, count, "{}", it.did),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicU64, Ordering};

    use plural_core::Error;
    use plural_kit::Shutdown;

    use super::super::TASKS;
    use super::*;

    #[test]
    fn names_are_unique() {
        let names: Vec<&str> =
            LOOPS.iter().map(|it| it.name).chain(TASKS.iter().map(|task| task.name)).collect();
        let unique: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(unique.len(), names.len(), "{names:?}");
    }

    #[tokio::test]
    async fn a_loop_continues_after_a_pass_that_failed() {
        let it = Loop {
            name: "of_a_test",
            who: Who::EachReplica,
            every: Every::Exactly(Duration::ZERO),
            begins: Begins::AtOnce,
            wanted: always,
            once: |_, _| Box::pin(async { Ok(0) }),
            ends: Ends::AtOnce,
            did: "did nothing",
            level: Level::INFO,
        };
        let (shutdown, count) = (Shutdown::new(), AtomicU64::new(0));
        passes(&shutdown.signal(), &it, || async {
            match count.fetch_add(1, Ordering::Relaxed) {
                0 => Err(Error::unavailable("the database does not answer: try again")),
                1 => Ok(3),
                _ => {
                    shutdown.request();
                    Ok(0)
                }
            }
        })
        .await;
        assert_eq!(count.load(Ordering::Relaxed), 3);
    }
}
