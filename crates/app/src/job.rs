//! Jobs: background work that is enqueued in the transaction that asks for it, and outlives the request.
//!
//! A use case hands [`NewJob`]s to its store, which commits them with what they are about, or neither. Afterwards one replica
//! claims and runs each ([`crate::jobs`]); what it runs is an implementation of [`Job`].

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use futures::future::BoxFuture;
use plural_core::access::Scope;
use plural_core::ids::{JobId, ReplicaId};
use plural_core::job::{BackgroundJob, JobState};
use plural_core::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::access::{Audited, Write, noun};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::lease::JobClaim;
use crate::records::record;

/// A kind of background work.
///
/// # Guarantees
/// A job runs at least once after the transaction that enqueued it is committed, and never before. Two runs of one key never
/// overlap: what a run writes is refused once another replica claimed the job. A job that is enqueued while it runs, runs once
/// more.
///
/// # Assumptions
/// A run may end anywhere, with its console, and begin anew: it is idempotent. What it does outside of the database needs a key
/// of idempotence of its own, for which [`JobClaim::current`] has the job's id. The payload holds ids and settings, never a
/// secret.
pub trait Job: Send + Sync + 'static {
    /// Names it in the database: never changes.
    const KIND: &'static str;
    /// After so many failed attempts the job is dead until it is asked for again, or an administrator retries it.
    const ATTEMPTS: u32 = 10;
    /// How long an attempt may take.
    const DEADLINE: Duration = Duration::from_mins(10);
    /// What it works on.
    type Payload: Serialize + DeserializeOwned + Send + 'static;

    /// What tells jobs of this kind apart: of one key there is one job, with the newest payload.
    fn key(payload: &Self::Payload) -> String;

    /// One attempt.
    fn run(app: &Arc<App>, payload: Self::Payload) -> impl Future<Output = Result<(), JobFailure>> + Send;

    /// Tells whoever waits that it is dead, before that is recorded: an attempt that panics, takes too long or ends its console says
    /// nothing itself. `why` is what administrators read. Where this fails it comes again; so twice is once.
    fn died(_app: &Arc<App>, _payload: Self::Payload, _why: &str) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Ok(()))
    }
}

/// Attempts of about a day, for what is told to another party, or asked of it, and nobody asks for again: it may be down for long.
pub const ABOUT_A_DAY: u32 = 34;

/// Why an attempt failed.
#[derive(Debug)]
pub enum JobFailure {
    /// It may work later.
    Retry(Error),
    /// It fails every time until a person does something.
    Terminal(Error),
}

impl From<Error> for JobFailure {
    fn from(error: Error) -> Self {
        match error {
            error @ (Error::Unavailable { .. } | Error::Internal { .. } | Error::Conflict { .. }) => {
                Self::Retry(error)
            }
            error @ (Error::NotFound { .. }
            | Error::Forbidden { .. }
            | Error::Invalid { .. }
            | Error::Answers { .. }
            | Error::Unauthenticated) => Self::Terminal(error),
        }
    }
}

/// A job to enqueue. If there is one of its kind and key, that gets the payload, is no longer dead, and runs (once more).
#[derive(Debug, Clone, PartialEq)]
pub struct NewJob {
    /// [`Job::KIND`].
    pub kind: &'static str,
    /// [`Job::key`].
    pub key: String,
    /// [`Job::Payload`].
    pub payload: serde_json::Value,
    /// It does not run before. One that was to run earlier still does.
    pub after: Duration,
}

impl NewJob {
    /// Runs at once.
    ///
    /// # Errors
    /// When the payload has no JSON.
    pub fn of<J: Job>(payload: &J::Payload) -> Result<Self> {
        let json = serde_json::to_value(payload)
            .map_err(|cause| Error::internal("writing the payload of a job", cause))?;
        Ok(Self { kind: J::KIND, key: J::key(payload), payload: json, after: Duration::ZERO })
    }

    /// Runs when so much time has passed.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self { after: wait, ..self }
    }
}

/// A kind of jobs as the worker knows it.
#[derive(Debug, Clone, Copy)]
pub struct JobEntry {
    pub(crate) kind: &'static str,
    pub(crate) attempts: u32,
    pub(crate) deadline: Duration,
    pub(crate) run: Run,
    pub(crate) died: Died,
}

type Died = for<'a> fn(&'a Arc<App>, serde_json::Value, &'a str) -> BoxFuture<'a, Result<()>>;
type Run = for<'a> fn(&'a Arc<App>, serde_json::Value) -> BoxFuture<'a, Result<(), JobFailure>>;

impl JobEntry {
    /// The entry of a kind.
    pub const fn of<J: Job>() -> Self {
        Self { kind: J::KIND, attempts: J::ATTEMPTS, deadline: J::DEADLINE, run: run::<J>, died: died::<J> }
    }
}

fn run<J: Job>(app: &Arc<App>, payload: serde_json::Value) -> BoxFuture<'_, Result<(), JobFailure>> {
    Box::pin(async move {
        // Another build wrote it: trying again cannot help.
        let payload = serde_json::from_value(payload)
            .map_err(|cause| JobFailure::Terminal(Error::internal("reading the payload of a job", cause)))?;
        J::run(app, payload).await
    })
}

fn died<'a, J: Job>(
    app: &'a Arc<App>,
    payload: serde_json::Value,
    why: &'a str,
) -> BoxFuture<'a, Result<()>> {
    Box::pin(async move {
        match serde_json::from_value(payload) {
            Ok(payload) => J::died(app, payload, why).await,
            // Nobody knows whom to tell.
            Err(_) => Ok(()),
        }
    })
}

/// Who claims jobs.
#[derive(Debug, Clone, Copy)]
pub struct JobClaimer<'a> {
    /// The replica.
    pub replica: ReplicaId,
    /// The kinds that it knows.
    pub kinds: &'a [&'static str],
    /// What it runs already. A claim of this replica that is not among these was stored, but its answer was lost.
    pub running: &'a [JobId],
}

/// A job that this replica is to run.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimedJob {
    /// The right to it.
    pub claim: JobClaim,
    /// Its kind.
    pub kind: String,
    /// Its key.
    pub key: String,
    /// What it works on.
    pub payload: serde_json::Value,
    /// How often it was claimed since it was last asked for, this time included.
    pub attempts: u32,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobEnd {
    /// Well.
    Done,
    /// It was cut short by what is no fault of the job's: it does not count.
    Returned,
    /// It failed and is tried again.
    Retry {
        /// Not before so much time has passed.
        after: Duration,
        /// Why.
        error: String,
    },
    /// It failed for good.
    Dead {
        /// Why.
        error: String,
    },
}

/// How many jobs of a kind are in a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobCount {
    /// The kind.
    pub kind: String,
    /// The state.
    pub state: JobState,
    /// How many.
    pub count: u64,
    /// For how long the oldest of those that wait should have been running.
    pub overdue: Duration,
}

/// Which jobs are listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// In this state.
    pub state: Option<JobState>,
    /// Of this kind.
    pub kind: Option<String>,
}

noun!(BackgroundJob, "background job", j => Some(j.id.uuid()), format!("{} {}", j.kind, j.key));
record!(BackgroundJob, JobId, JobId, JobFilter, under: Scope::AdminOnly);

/// Jobs.
///
/// # Guarantees
/// A claim is held by one replica at a time, and its epoch grows with each claim. A job that runs is given to another replica
/// only when the one that runs it counts as gone ([`crate::replica::ReplicaStore`]). A write inside of [`JobClaim::guard`] fails, and
/// writes nothing, once the job was claimed again.
#[async_trait]
pub trait JobStore: Send + Sync + 'static {
    /// Enqueues jobs outside of any other write. Use cases enqueue in the transaction of what they change.
    async fn jobs_enqueue(&self, jobs: &[NewJob], at: DateTime<Utc>) -> Result<()>;
    /// Enqueues those of which there is none with the same payload, as periodic work does. How many it enqueued.
    ///
    /// A job that waits stays as it is. So does one that runs, which does not run once more: only who asks again in any case, as long
    /// as there is something to do, may enqueue so. One that is dead stays dead, unless it died before `died_before`.
    async fn jobs_enqueue_absent(
        &self,
        jobs: &[NewJob],
        died_before: DateTime<Utc>,
        at: DateTime<Utc>,
    ) -> Result<u64>;
    /// How long until there is a job to claim: zero when there is one, none when no job waits.
    async fn jobs_due(&self, by: &JobClaimer<'_>) -> Result<Option<Duration>>;
    /// Claims jobs that are due, at most so many, those first that are due for longest.
    async fn jobs_claim(&self, by: &JobClaimer<'_>, most: u32) -> Result<Vec<ClaimedJob>>;
    /// Records how an attempt ended; `false` when the job was claimed again meanwhile, and nothing was recorded.
    async fn job_end(&self, claim: &JobClaim, end: &JobEnd, at: DateTime<Utc>) -> Result<bool>;
    /// Changes when jobs may have been enqueued.
    fn jobs_wake(&self) -> watch::Receiver<u64>;
    /// How many there are.
    async fn jobs_count(&self) -> Result<Vec<JobCount>>;
    /// Removes dead jobs from before, and all but the newest `keep`; answers how many.
    async fn jobs_prune(&self, before: DateTime<Utc>, keep: u64) -> Result<u64>;
    /// Runs a dead job again; [`Error::Conflict`] when it is not dead.
    async fn job_retry(&self, by: Audited<'_, BackgroundJob, Write>) -> Result<BackgroundJob>;
    /// Removes a job that does not run; [`Error::Conflict`] when it runs.
    async fn job_delete(&self, by: Audited<'_, BackgroundJob, Write>) -> Result<()>;
}

impl App {
    /// Runs a dead job again; administrators of the installation only.
    pub async fn background_job_retry(&self, ctx: &OpCtx, id: JobId) -> Result<BackgroundJob> {
        let job = self.authorized::<BackgroundJob, Write>(ctx, &id).await?;
        self.store.job_retry(job.audited(ctx, "job.retry")).await
    }

    /// Removes a job that is dead or waits; administrators of the installation only.
    pub async fn background_job_delete(&self, ctx: &OpCtx, id: JobId) -> Result<BackgroundJob> {
        let job = self.authorized::<BackgroundJob, Write>(ctx, &id).await?;
        self.store.job_delete(job.audited(ctx, "job.delete")).await?;
        Ok(job.into_inner())
    }
}
