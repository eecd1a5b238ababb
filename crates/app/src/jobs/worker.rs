//! Claims jobs that are due and runs them, on each replica.
//!
//! A claim holds for as long as its replica counts as alive, so that a job that runs writes nothing on its own account. A job whose
//! console ended with it is claimed by another replica, or by the next process in its place. What runs under a claim writes
//! only while no other claim of the job was given out.

use std::any::Any;
use std::collections::{BTreeSet, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use plural_core::ids::JobId;
use plural_core::job::JobState;
use plural_core::{Error, Result};
use plural_kit::{Backoff, Shutdown, ShutdownSignal, about};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::job::{ClaimedJob, JobClaimer, JobEnd, JobEntry, JobFailure};
use crate::lease::JobClaim;

/// Jobs that one replica runs at a time.
const AT_ONCE: usize = 4;
/// The longest between two looks on a database that replicas share: a notification may be lost with its connection.
const SAFETY: Duration = Duration::from_mins(1);
/// Until the next look when others were faster, or a write under an earlier claim has not ended.
const CONTENDED: Duration = Duration::from_secs(1);
/// Jobs are counted for the metrics no more often.
const COUNT_EVERY: Duration = Duration::from_secs(1);
/// How long jobs may go on when the console stops.
const GRACE: Duration = Duration::from_secs(5);
/// How long it then tries to return those that have not ended.
const RETURNING: Duration = Duration::from_secs(3);
/// The wait after the first failed attempt; it doubles with each.
const FIRST_RETRY: Duration = Duration::from_secs(5);
/// The longest wait after a failed attempt.
const LONGEST_RETRY: Duration = Duration::from_hours(1);
/// How long telling of a dead job may take.
const TELLING: Duration = Duration::from_secs(30);
/// Until that is tried again.
const TOLD_AGAIN: Duration = Duration::from_mins(1);
/// Bytes of an error that are stored.
const MAX_ERROR: usize = 4096;

/// Runs jobs until asked to stop.
pub(super) async fn run(app: Arc<App>, stop: ShutdownSignal) -> Result<()> {
    let (mut wake, mut moved) = (app.store.jobs_wake(), app.replicas.moved());
    let mut worker = Worker::new(Arc::clone(&app));
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
    loop {
        // What changes from here on is seen by the next look.
        wake.mark_unchanged();
        moved.mark_unchanged();
        let wait = match worker.look(&stop).await {
            Ok(wait) => {
                backoff.reset();
                wait
            }
            Err(error) => {
                tracing::warn!(error = error.log_text(), "cannot look for jobs; trying again");
                Some(backoff.next_wait())
            }
        };
        let pause = async {
            match wait {
                Some(wait) => sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = stop.requested() => break,
            Some(ended) = worker.running.join_next_with_id(), if !worker.running.is_empty() => worker.ended(ended),
            woken = wake.changed() => if woken.is_err() {
                return Err(Error::internal("looking for jobs", "the store is gone"));
            },
            // A replica that is gone leaves what it ran; and this one claims nothing before it is known to be alive.
            _ = moved.changed() => {}
            () = pause => {}
        }
    }
    worker.stop().await;
    Ok(())
}

struct Worker {
    app: Arc<App>,
    kinds: Vec<&'static str>,
    running: JoinSet<()>,
    claims: HashMap<Id, JobId>,
    /// Requested when the jobs that run have to end.
    cut: Shutdown,
    counted: Option<Instant>,
    /// What `plural_jobs` was set for: what is no more has to become 0.
    reported: BTreeSet<(String, JobState)>,
}

impl Worker {
    fn new(app: Arc<App>) -> Self {
        let kinds: Vec<&'static str> = app.settings.jobs.iter().map(|entry| entry.kind).collect();
        let reported =
            kinds.iter().flat_map(|kind| JobState::ALL.map(|state| ((*kind).to_owned(), state))).collect();
        Self {
            app,
            kinds,
            running: JoinSet::new(),
            claims: HashMap::new(),
            cut: Shutdown::new(),
            counted: None,
            reported,
        }
    }

    /// Claims what is due, as far as there is room. How long until there may be more to do; none when that will be said.
    async fn look(&mut self, stop: &ShutdownSignal) -> Result<Option<Duration>> {
        // Before the others know that this replica is alive, they would take away what it claimed.
        let Some(presence) = self.app.replicas.presence() else {
            return Ok(self.app.store.is_shared().then_some(SAFETY));
        };
        let mut next = None;
        while self.running.len() < AT_ONCE {
            let running: Vec<JobId> = self.claims.values().copied().collect();
            let by = JobClaimer { replica: self.app.replica_id(), kinds: &self.kinds, running: &running };
            let Some(due) = stop.or(self.app.store.jobs_due(&by)).await else { return Ok(None) };
            next = due?;
            if next != Some(Duration::ZERO) {
                break;
            }
            let room = u32::try_from(AT_ONCE - self.running.len()).unwrap_or(1);
            let claimed = self.app.store.jobs_claim(&by, room).await?;
            if claimed.is_empty() {
                next = Some(about(CONTENDED));
                break;
            }
            // With all places taken, an attempt that ends is what to wait for.
            next = None;
            for job in claimed {
                self.spawn(job, presence.clone());
            }
        }
        let recount = self.count().await?;
        Ok(earliest(next, recount, self.app.store.is_shared()))
    }

    fn spawn(&mut self, job: ClaimedJob, presence: CancellationToken) {
        let Some(entry) = self.app.settings.jobs.iter().find(|entry| entry.kind == job.kind).copied() else {
            return;
        };
        let (app, cut) = (Arc::clone(&self.app), self.cut.signal());
        let id = job.claim.id;
        let task = self.running.spawn(async move { attempt(&app, entry, job, presence, cut).await });
        self.claims.insert(task.id(), id);
    }

    fn ended(&mut self, ended: Result<(Id, ()), JoinError>) {
        let task = match ended {
            Ok((task, ())) => task,
            Err(error) => {
                tracing::error!(error = %error, "recording the end of a job failed unexpectedly");
                error.id()
            }
        };
        self.claims.remove(&task);
    }

    /// Brings the metrics up to date; how long until that has to be done again, if it was done a moment ago.
    async fn count(&mut self) -> Result<Option<Duration>> {
        let now = Instant::now();
        if let Some(counted) = self.counted
            && now < counted + COUNT_EVERY
        {
            return Ok(Some(counted + COUNT_EVERY - now));
        }
        self.counted = Some(now);
        let counts = self.app.store.jobs_count().await?;
        let mut oldest = Duration::ZERO;
        let found: HashMap<(&str, JobState), u64> =
            counts.iter().map(|count| ((count.kind.as_str(), count.state), count.count)).collect();
        for count in &counts {
            oldest = oldest.max(count.overdue);
            self.reported.insert((count.kind.clone(), count.state));
        }
        for (kind, state) in &self.reported {
            let count = found.get(&(kind.as_str(), *state)).copied().unwrap_or_default();
            metrics::gauge!("plural_jobs", "kind" => kind.clone(), "state" => state.as_str())
                .set(count as f64);
        }
        metrics::gauge!("plural_job_oldest_seconds").set(oldest.as_secs_f64());
        Ok(None)
    }

    /// Lets the jobs that run end, for a moment, and returns the others.
    async fn stop(mut self) {
        let _ = timeout(GRACE, self.drain()).await;
        self.cut.request();
        let _ = timeout(RETURNING, self.drain()).await;
        // What could not be returned is claimed by others, who find this replica gone.
        self.running.abort_all();
        self.drain().await;
    }

    async fn drain(&mut self) {
        while self.running.join_next().await.is_some() {}
    }
}

/// When to look again at the latest.
fn earliest(next: Option<Duration>, recount: Option<Duration>, is_shared: bool) -> Option<Duration> {
    // Where no other process writes, everything that changes is said: an idle console asks nothing.
    [next, recount, is_shared.then_some(SAFETY)].into_iter().flatten().min()
}

/// Runs a job that was claimed, and records how that ended.
async fn attempt(
    app: &Arc<App>,
    entry: JobEntry,
    job: ClaimedJob,
    presence: CancellationToken,
    cut: ShutdownSignal,
) {
    let ClaimedJob { claim, kind, key, payload, attempts } = job;
    let (began, subject) = (Instant::now(), payload.clone());
    let end = if attempts > entry.attempts {
        // A job that ends every console that runs it must not end them all, one after the other.
        let error = format!(
            "attempt {} of {} ended with its console: find out why the console ended, then retry the job",
            attempts - 1,
            entry.attempts
        );
        tracing::error!(job.id = %claim.id, job.kind = kind, job.key = key, error, "a job is dead");
        JobEnd::Dead { error }
    } else {
        let run = claim.guard(timeout(entry.deadline, (entry.run)(app, payload)));
        let failure = tokio::select! {
            biased;
            ran = AssertUnwindSafe(run).catch_unwind() => failure(ran, entry.deadline),
            // Others may run it by now, or are to.
            () = presence.cancelled() => Some(Failure::Cut),
            () = cut.requested() => Some(Failure::Cut),
        };
        let end = end_of(failure.as_ref(), entry.attempts, attempts);
        match (&end, failure) {
            (JobEnd::Done | JobEnd::Returned, _) | (_, None) => {}
            (JobEnd::Retry { after, .. }, Some(failure)) => tracing::warn!(
                job.id = %claim.id, job.kind = kind, job.key = key, attempts, after = ?after,
                error = failure.log_text(), "a job failed; trying again later"
            ),
            (JobEnd::Dead { .. }, Some(failure)) => tracing::error!(
                job.id = %claim.id, job.kind = kind, job.key = key, attempts,
                error = failure.log_text(),
                "a job failed for good: `plural cd jobs retry` runs it again"
            ),
        }
        end
    };
    let end = match end {
        JobEnd::Dead { error } => told(app, entry, &claim, subject, error).await,
        end @ (JobEnd::Done | JobEnd::Returned | JobEnd::Retry { .. }) => end,
    };
    metrics::histogram!("plural_job_seconds", "kind" => entry.kind).record(began.elapsed().as_secs_f64());
    let outcome = if record(app, &claim, &end).await { outcome(&end) } else { "lost" };
    metrics::counter!("plural_job_runs_total", "kind" => entry.kind, "outcome" => outcome).increment(1);
}

/// The end of a job that is dead, once whoever waits for it was told.
async fn told(
    app: &Arc<App>,
    entry: JobEntry,
    claim: &JobClaim,
    payload: serde_json::Value,
    error: String,
) -> JobEnd {
    let telling = claim.guard(timeout(TELLING, (entry.died)(app, payload, &error)));
    let telling = AssertUnwindSafe(telling).catch_unwind().await;
    let failed = match telling {
        Ok(Ok(Ok(()))) => return JobEnd::Dead { error },
        Ok(Ok(Err(failed))) => failed.log_text(),
        Ok(Err(_)) => format!("it took longer than {TELLING:?}"),
        Err(_) => {
            tracing::error!(job.id = %claim.id, job.kind = entry.kind, "telling of a dead job panicked");
            return JobEnd::Dead { error };
        }
    };
    tracing::warn!(
        job.id = %claim.id, job.kind = entry.kind, error = failed,
        "nobody could be told of a dead job; trying again later"
    );
    JobEnd::Retry { after: about(TOLD_AGAIN), error }
}

/// Stores how an attempt ended, however often that has to be tried; `false` when the job was claimed again.
async fn record(app: &App, claim: &JobClaim, end: &JobEnd) -> bool {
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
    loop {
        match app.store.job_end(claim, end, app.now()).await {
            Ok(true) => return true,
            Ok(false) => {
                tracing::debug!(job.id = %claim.id, "a job was claimed again before it ended here");
                return false;
            }
            Err(error) => {
                let error = error.log_text();
                tracing::warn!(job.id = %claim.id, error, "cannot record the end of a job; trying again");
                sleep(backoff.next_wait()).await;
            }
        }
    }
}

/// Why a job is not done.
#[derive(Debug)]
enum Failure {
    /// The job said so.
    Said(JobFailure),
    /// It took too long.
    Slow(Duration),
    /// It panicked.
    Panicked(String),
    /// It had to end.
    Cut,
}

impl Failure {
    /// For administrators.
    fn text(&self) -> String {
        match self {
            Self::Said(JobFailure::Retry(error) | JobFailure::Terminal(error)) => match error {
                Error::Internal { .. } => format!("{error}: the console's log says more, with the job's id"),
                _ => error.to_string(),
            },
            Self::Slow(deadline) => format!("it took longer than {deadline:?}, and was ended"),
            Self::Panicked(_) => "it panicked: the console's log says more, with the job's id".to_owned(),
            Self::Cut => "it was cut short".to_owned(),
        }
    }

    fn log_text(&self) -> String {
        match self {
            Self::Said(JobFailure::Retry(error) | JobFailure::Terminal(error)) => error.log_text(),
            Self::Panicked(message) => format!("it panicked: {message}"),
            Self::Slow(_) | Self::Cut => self.text(),
        }
    }
}

type Ran = Result<Result<Result<(), JobFailure>, Elapsed>, Box<dyn Any + Send>>;

fn failure(ran: Ran, deadline: Duration) -> Option<Failure> {
    match ran {
        Ok(Ok(Ok(()))) => None,
        Ok(Ok(Err(failure))) => Some(Failure::Said(failure)),
        Ok(Err(_)) => Some(Failure::Slow(deadline)),
        Err(panic) => {
            let message = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let message = message.or_else(|| panic.downcast_ref::<String>().cloned());
            Some(Failure::Panicked(message.unwrap_or_default()))
        }
    }
}

/// What becomes of a job after an attempt, the `attempts`-th of `most`.
fn end_of(failure: Option<&Failure>, most: u32, attempts: u32) -> JobEnd {
    let Some(failure) = failure else { return JobEnd::Done };
    let error = || cut_text(failure.text());
    match failure {
        Failure::Cut => JobEnd::Returned,
        Failure::Said(JobFailure::Terminal(_)) => JobEnd::Dead { error: error() },
        Failure::Said(JobFailure::Retry(_)) | Failure::Slow(_) | Failure::Panicked(_) if attempts >= most => {
            JobEnd::Dead { error: error() }
        }
        Failure::Said(JobFailure::Retry(_)) | Failure::Slow(_) | Failure::Panicked(_) => {
            let mut backoff = Backoff::new(FIRST_RETRY, LONGEST_RETRY).after(attempts.saturating_sub(1));
            JobEnd::Retry { after: backoff.next_wait(), error: error() }
        }
    }
}

fn outcome(end: &JobEnd) -> &'static str {
    match end {
        JobEnd::Done => "done",
        JobEnd::Returned => "returned",
        JobEnd::Retry { .. } => "retry",
        JobEnd::Dead { .. } => "dead",
    }
}

fn cut_text(text: String) -> String {
    // PostgreSQL keeps no NUL.
    let mut text = if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text };
    if text.len() > MAX_ERROR {
        let end = (0..=MAX_ERROR).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_console_that_shares_its_database_with_no_other_asks_nothing() {
        assert_eq!(earliest(None, None, false), None);
        assert_eq!(earliest(None, None, true), Some(SAFETY));
        let (hour, second) = (Duration::from_hours(1), Duration::from_secs(1));
        assert_eq!(earliest(Some(hour), None, false), Some(hour));
        assert_eq!(earliest(Some(hour), None, true), Some(SAFETY));
        assert_eq!(earliest(Some(hour), Some(second), true), Some(second));
    }

    #[test]
    fn what_becomes_of_a_job_follows_from_its_failure_and_its_attempts() {
        let retry = || Failure::Said(Error::unavailable("the remote does not answer").into());
        let terminal = Failure::Said(Error::not_found("service").into());
        assert_eq!(end_of(None, 3, 9), JobEnd::Done);
        assert_eq!(end_of(Some(&Failure::Cut), 3, 9), JobEnd::Returned);
        let dead = |error: &str| JobEnd::Dead { error: error.to_owned() };
        assert_eq!(end_of(Some(&terminal), 3, 1), dead("could not find resource"));
        assert_eq!(end_of(Some(&retry()), 3, 3), dead("the remote does not answer"));
        for (attempts, longest) in [(1, 5), (2, 10), (3, 20), (50, 3600)] {
            for failure in [retry(), Failure::Slow(GRACE), Failure::Panicked("secret".into())] {
                let JobEnd::Retry { after, error } = end_of(Some(&failure), 99, attempts) else {
                    panic!("{failure:?} is final");
                };
                assert!(after <= Duration::from_secs(longest), "{after:?}");
                assert!(!error.contains("secret"), "{error}");
            }
        }
        let internal = Failure::Said(Error::internal("reading a secret", "secret").into());
        assert!(!internal.text().contains("secret"), "{}", internal.text());
    }

    #[test]
    fn stored_errors_are_cut() {
        assert_eq!(cut_text("a\0b".into()), "a\u{fffd}b");
        let cut = cut_text("é".repeat(MAX_ERROR));
        assert!(cut.len() <= MAX_ERROR + '…'.len_utf8() && cut.ends_with('…'), "{}", cut.len());
    }
}
