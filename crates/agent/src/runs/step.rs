//! One reconciliation of one run: its desired state, its observed state, and the next step between them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use plural_core::{ids::StackRunId, stack_run::RunPhase};
use plural_kit::Backoff;
use plural_tunnel::{
    TunnelError,
    v1::{self, stack_run_report::State},
};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    kube_api::{RunsApi, StepFailure},
    limits::{self, Place},
    look::{Seen, is_at_work, is_leaving, is_over, is_suspended, seen, shortened},
    objects::{self, At, Making},
};
use crate::{agent::Core, desired::WantedRun};

/// Interval of reconciliation as a safety net under the watches.
const REST: Duration = Duration::from_secs(10);
/// Interval for a Job that was just created, or is ending.
const SOON: Duration = Duration::from_secs(2);
/// How long the Pod of an ended run may stop by itself before it is told to.
const LEAVE: Duration = Duration::from_secs(10);

/// When to reconcile again.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    In(Duration),
    /// Nothing of the run is left.
    Gone,
}

/// A credential that is in no Secret yet.
struct Taken {
    at: At,
    token: String,
}

impl std::fmt::Debug for Taken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Taken").field("at", &self.at).finish_non_exhaustive()
    }
}

/// The memory of a run between two reconciliations. None of it has to survive the agent.
#[derive(Debug)]
pub(super) struct Track {
    /// The place of its Jobs.
    namespace: Option<String>,
    taken: Option<Taken>,
    /// Its latest known Job.
    at: Option<At>,
    /// The Job whose end was reported, and the desired sequence at that time.
    ended: Option<(At, u64)>,
    /// What was known when the console refused a credential.
    refused: Option<WantedRun>,
    /// Since when it is no longer desired.
    left: Option<Instant>,
    /// The agent reported that it has stopped entirely.
    told_gone: bool,
    backoff: Backoff,
}

impl Default for Track {
    fn default() -> Self {
        Self {
            namespace: None,
            taken: None,
            at: None,
            ended: None,
            refused: None,
            left: None,
            told_gone: false,
            backoff: Backoff::new(Duration::from_millis(500), Duration::from_secs(30)),
        }
    }
}

impl Track {
    /// For a run that an earlier agent created objects for.
    pub(super) fn of_remains(namespace: String) -> Self {
        Self { namespace: Some(namespace), ..Self::default() }
    }
}

/// Carries out steps.
pub(super) struct Stepper {
    core: Arc<Core>,
    api: RunsApi,
    /// The namespace for runs is up to date.
    ready: AtomicBool,
}

impl Stepper {
    pub(super) fn new(core: Arc<Core>, client: kube::Client) -> Self {
        let api = RunsApi::new(client, &core.runs.settings.agent_namespace);
        Self { core, api, ready: AtomicBool::new(false) }
    }

    /// The runs that this agent, or the one before it, created objects for, and their places. Retries until it can be listed.
    pub(super) async fn remains(&self) -> Vec<(StackRunId, String)> {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));
        loop {
            match self.api.all_made(&self.core.runs.settings.config.namespace).await {
                Ok(made) => {
                    let namespace =
                        |object: &Value| object["metadata"]["namespace"].as_str().map(str::to_owned);
                    return made
                        .iter()
                        .filter_map(|object| Some((objects::run_of(object)?, namespace(object)?)))
                        .collect();
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot look for the Jobs of runs that are over");
                    tokio::time::sleep(backoff.next_wait()).await;
                }
            }
        }
    }

    /// Reconciles one run: carries out its next step.
    pub(super) async fn step(&self, id: StackRunId, wanted: Option<&WantedRun>, track: &mut Track) -> Next {
        let done = match wanted {
            Some(wanted) => {
                (track.left, track.told_gone) = (None, false);
                self.advance(id, wanted, track).await
            }
            None => self.remove(id, track).await,
        };
        match done {
            Ok(next) => {
                track.backoff.reset();
                next
            }
            Err(error) => {
                tracing::warn!(run.id = %id, %error, "cannot look after a run; trying again");
                Next::In(track.backoff.next_wait() + Duration::from_millis(100))
            }
        }
    }

    async fn advance(
        &self,
        id: StackRunId,
        wanted: &WantedRun,
        track: &mut Track,
    ) -> Result<Next, StepFailure> {
        let run = &wanted.job;
        let settings = &self.core.runs.settings;
        let place = match limits::place(run, settings) {
            Ok(place) => place,
            Err(reason) => {
                self.tell(id, &Told { attempt: run.attempt, ..Told::of(run, State::Refused, reason) });
                return Ok(Next::In(REST));
            }
        };
        track.namespace = Some(place.namespace.clone());
        let known = At { phase: place.phase, attempt: run.attempt };
        if track.taken.as_ref().is_some_and(|taken| taken.at < known) {
            track.taken = None;
        }
        let jobs = self.api.jobs(&place.namespace, id).await?;
        let there = jobs.iter().filter_map(At::of).max();
        let at = [Some(known), track.taken.as_ref().map(|taken| taken.at), there].into_iter().flatten().max();
        let at = at.unwrap_or(known);
        track.at = Some(at);
        let mut current = None;
        for job in &jobs {
            if At::of(job) == Some(at) {
                current = Some(job);
            } else if !is_leaving(job) {
                self.api.delete_job(job).await?;
            }
        }
        if at != known {
            // A Job or its credential exists that the desired state does not have yet: it is valid, and never ended by older information.
            self.ask(id);
        }
        if run.cancel {
            return self.cancel(id, run, &place, at, current).await;
        }
        let has_spoken = run.spoken && at == known;
        // Also if the console has decided something since the report of a Job's end that it had not known.
        let is_behind = |(ended, sequence): (At, u64)| ended == at && sequence < wanted.sequence;
        let wants_another =
            at == known && !run.spoken && (wanted.again || track.ended.is_some_and(is_behind));
        let Some(job) = current else {
            if has_spoken {
                if self.is_at_work(&place.namespace, id, Some(at)).await? {
                    return Ok(Next::In(SOON));
                }
                let message =
                    "the Job is not in the cluster any more: somebody deleted it, or its time was over";
                self.tell_of(id, run, &place, at, State::Gone, message);
                return Ok(Next::In(REST));
            }
            return self.begin(id, wanted, track, &place, at).await;
        };
        if is_leaving(job) {
            return Ok(Next::In(SOON));
        }
        if wants_another {
            self.api.delete_job(job).await?;
            return self.begin(id, wanted, track, &place, at).await;
        }
        if is_suspended(job) {
            return self.go_on(id, wanted, track, &place, at, job).await;
        }
        let pods = self.api.pods(&place.namespace, id).await?;
        match seen(job, &pods) {
            Seen::Made => self.tell_of(id, run, &place, at, State::Created, ""),
            Seen::Waiting(why) => self.tell_of(id, run, &place, at, State::Waiting, &why),
            Seen::NoPod => {
                if let Some(why) = self.api.warning(&place.namespace, job).await? {
                    self.tell_of(id, run, &place, at, State::Waiting, &why);
                } else {
                    self.tell_of(id, run, &place, at, State::Created, "");
                }
                return Ok(Next::In(SOON));
            }
            // Reported after the console's answer to its start: whatever it wants after that is an answer to this.
            Seen::Ended { .. } if at != known => return Ok(Next::In(SOON)),
            Seen::Ended { code, message } => {
                if track.ended.is_none_or(|(ended, _)| ended != at) {
                    track.ended = Some((at, wanted.sequence));
                }
                self.tell(
                    id,
                    &Told {
                        attempt: at.attempt,
                        place: Some((place.namespace.as_str(), objects::name(id, at))),
                        code,
                        ..Told::of(run, State::Ended, message)
                    },
                );
            }
        }
        Ok(Next::In(REST))
    }

    /// Ends the Job of a run that has to end.
    async fn cancel(
        &self,
        id: StackRunId,
        run: &v1::StackRunJob,
        place: &Place,
        at: At,
        current: Option<&Value>,
    ) -> Result<Next, StepFailure> {
        match current {
            Some(job) if is_leaving(job) => {}
            Some(job) => self.api.delete_job(job).await?,
            None if self.is_at_work(&place.namespace, id, Some(at)).await? => {}
            None => {
                self.tell_of(id, run, place, at, State::Gone, "its Job was ended, as somebody asked");
                return Ok(Next::In(REST));
            }
        }
        Ok(Next::In(SOON))
    }

    /// Creates the next Job, with its own credential.
    async fn begin(
        &self,
        id: StackRunId,
        wanted: &WantedRun,
        track: &mut Track,
        place: &Place,
        at: At,
    ) -> Result<Next, StepFailure> {
        let run = &wanted.job;
        if let Some(missing) = self.lacks_namespace(place).await? {
            self.tell_of(id, run, place, at, State::Waiting, &missing);
            return Ok(Next::In(REST));
        }
        if track.taken.as_ref().is_none_or(|taken| taken.at != at) {
            if track.refused.as_ref() == Some(wanted) {
                self.ask(id);
                return Ok(Next::In(REST));
            }
            match self.take(id, at).await {
                Ok(taken) => track.taken = Some(taken),
                Err(error) if error.is_outdated() || error.is_not_found() => {
                    tracing::info!(run.id = %id, reason = %error, "the console gives no credential for a run");
                    track.refused = Some(wanted.clone());
                    self.ask(id);
                    return Ok(Next::In(REST));
                }
                Err(error) => return Err(StepFailure::Console(error.to_string())),
            }
            // The console counts further than the agent knows.
            self.ask(id);
        }
        let Some(taken) = &track.taken else { return Ok(Next::In(SOON)) };
        let at = taken.at;
        let making = Making { id, at, run, place, settings: &self.core.runs.settings };
        let made = async {
            if at.phase == RunPhase::Apply {
                self.api.create_secret(&place.namespace, &objects::note(&making)).await?;
            }
            self.api.create_job(&place.namespace, &objects::job(&making)).await
        };
        match made.await {
            Ok(job) => self.go_on(id, wanted, track, place, at, &job).await,
            Err(failure) if failure.code() == 409 => {
                // It was created, and the answer was lost: the next reconciliation finds it. Or it is somebody else's.
                let message = "a Job of this name is there already";
                self.tell_of(id, run, place, at, State::Waiting, message);
                Ok(Next::In(SOON))
            }
            Err(StepFailure::Status { code: 400 | 422, message }) => {
                self.tell_of(id, run, place, at, State::Refused, &message);
                Ok(Next::In(REST))
            }
            // A used-up quota, or a refusal by admission: it may be temporary.
            Err(StepFailure::Status { code: 403, message }) => {
                self.tell_of(id, run, place, at, State::Waiting, &message);
                Ok(Next::In(REST))
            }
            Err(failure) => {
                if failure.code() == 404 {
                    // Somebody deleted the namespace: it is created again.
                    self.ready.store(false, Ordering::Release);
                }
                Err(failure)
            }
        }
    }

    /// Gives a suspended Job its Secret, and resumes it.
    async fn go_on(
        &self,
        id: StackRunId,
        wanted: &WantedRun,
        track: &mut Track,
        place: &Place,
        at: At,
        job: &Value,
    ) -> Result<Next, StepFailure> {
        let (run, name) = (&wanted.job, objects::name(id, at));
        if let Some(taken) = track.taken.as_ref().filter(|taken| taken.at == at) {
            let making = Making { id, at, run, place, settings: &self.core.runs.settings };
            let secret = objects::secret(&making, job, &taken.token);
            self.api.create_secret(&place.namespace, &secret).await?;
        } else if !self.api.has_secret(&place.namespace, &name).await? {
            // The agent that created it was killed before its credential was in the cluster. That credential is lost.
            self.api.delete_job(job).await?;
            return Ok(Next::In(Duration::ZERO));
        }
        self.api.begin(&place.namespace, &name).await?;
        track.taken = None;
        self.tell_of(id, run, place, at, State::Created, "");
        Ok(Next::In(SOON))
    }

    /// A credential for the Job after the last known one.
    async fn take(&self, id: StackRunId, at: At) -> Result<Taken, TunnelError> {
        let request = v1::TakeRunRequest {
            run_id: id.to_string(),
            phase: at.phase.as_str().to_owned(),
            attempt: at.attempt,
        };
        let v1::TakeRunResponse { token, attempt } = self.core.console.take_run(request).await?;
        Ok(Taken { at: At { attempt, ..at }, token })
    }

    /// Why a Job cannot be created in its namespace. The namespace for runs is created if it is missing; no other one is.
    async fn lacks_namespace(&self, place: &Place) -> Result<Option<String>, StepFailure> {
        let settings = &self.core.runs.settings;
        let name = &place.namespace;
        if *name != settings.config.namespace {
            let there = self.api.namespace(name).await?.is_some();
            return Ok((!there).then(|| format!("the namespace {name} does not exist in this cluster")));
        }
        if self.ready.load(Ordering::Acquire) {
            return Ok(None);
        }
        let found = if let Some(found) = self.api.namespace(name).await? {
            found
        } else {
            let namespace = objects::namespace(settings);
            self.api.create_namespace(&namespace).await?;
            namespace
        };
        if let Some(quota) = objects::quota(settings).filter(|_| objects::is_ours(&found)) {
            self.api.keep_quota(name, &quota).await?;
        }
        self.ready.store(true, Ordering::Release);
        Ok(None)
    }

    /// Removes the objects of an ended run.
    async fn remove(&self, id: StackRunId, track: &mut Track) -> Result<Next, StepFailure> {
        track.taken = None;
        let Some(namespace) = &track.namespace else {
            self.core.reports.forget_run(id);
            return Ok(Next::Gone);
        };
        let left = *track.left.get_or_insert_with(Instant::now);
        let jobs = self.api.jobs(namespace, id).await?;
        track.at = track.at.max(jobs.iter().filter_map(At::of).max());
        let mut stays = Duration::ZERO;
        for job in jobs.iter().filter(|job| !is_leaving(job)) {
            let rest = LEAVE.saturating_sub(left.elapsed());
            if is_over(job) || is_suspended(job) || rest.is_zero() {
                self.api.delete_job(job).await?;
            } else {
                stays = rest;
            }
        }
        if !jobs.is_empty() {
            return Ok(Next::In(if stays.is_zero() { SOON } else { stays }));
        }
        let secrets = self.api.secrets(namespace, id).await?;
        track.at = track.at.max(secrets.iter().filter_map(At::of).max());
        let (notes, secrets): (Vec<Value>, Vec<Value>) = secrets.into_iter().partition(objects::is_note);
        for secret in secrets {
            self.api.delete_secret(&secret).await?;
        }
        let last = track.at.filter(|at| at.phase == RunPhase::Apply && at.attempt > 0);
        if last.is_some() && !track.told_gone && self.is_at_work(namespace, id, None).await? {
            return Ok(Next::In(SOON));
        }
        // Its Pods are gone, too: the console may release what such a Job still locks of its stack's state. The notes stay until it knows
        // that.
        if let Some(at) = last.filter(|_| !track.told_gone) {
            let gone = Told {
                phase: at.phase.as_str(),
                attempt: at.attempt,
                state: State::Gone,
                message: "its Job was removed, as its run is over".to_owned(),
                place: Some((namespace.as_str(), objects::name(id, at))),
                code: 0,
            };
            self.core.reports.submit_last_run(id, gone.report(id));
            track.told_gone = true;
        }
        if last.is_none() {
            self.core.reports.forget_run(id);
        } else if self.core.reports.owes_last_run(id) {
            return Ok(Next::In(SOON));
        }
        for note in notes {
            self.api.delete_secret(&note).await?;
        }
        Ok(Next::Gone)
    }

    /// Whether a Pod of a run, or of one of its Jobs, may still be at work. A deleted Job may disappear before its Pod.
    async fn is_at_work(&self, namespace: &str, id: StackRunId, of: Option<At>) -> Result<bool, StepFailure> {
        let pods = self.api.pods(namespace, id).await?;
        Ok(pods.iter().any(|pod| (of.is_none() || At::of(pod) == of) && is_at_work(pod)))
    }

    /// Polls the console for the state of a run.
    fn ask(&self, id: StackRunId) {
        self.core.desired.miss_run(id);
        self.core.runs.ask();
    }

    fn tell_of(
        &self,
        id: StackRunId,
        run: &v1::StackRunJob,
        place: &Place,
        at: At,
        state: State,
        message: &str,
    ) {
        self.tell(
            id,
            &Told {
                attempt: at.attempt,
                place: Some((place.namespace.as_str(), objects::name(id, at))),
                ..Told::of(run, state, message.to_owned())
            },
        );
    }

    fn tell(&self, id: StackRunId, told: &Told<'_>) {
        self.core.reports.submit_run(id, told.report(id));
    }
}

/// The report of a run.
struct Told<'a> {
    phase: &'a str,
    attempt: u32,
    state: State,
    message: String,
    /// Namespace and name of its Job.
    place: Option<(&'a str, String)>,
    code: i32,
}

impl<'a> Told<'a> {
    fn of(run: &'a v1::StackRunJob, state: State, message: String) -> Self {
        Self { phase: &run.phase, attempt: run.attempt, state, message, place: None, code: 0 }
    }

    fn report(&self, id: StackRunId) -> v1::StackRunReport {
        let (namespace, job) = match &self.place {
            Some((namespace, job)) => ((*namespace).to_owned(), job.clone()),
            None => (String::new(), String::new()),
        };
        v1::StackRunReport {
            run_id: id.to_string(),
            phase: self.phase.to_owned(),
            attempt: self.attempt,
            state: self.state.into(),
            message: shortened(self.message.clone()),
            namespace,
            job,
            exit_code: self.code,
        }
    }
}
