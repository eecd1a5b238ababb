//! The requests and reports of a cluster's agent about the Jobs of runs.

use std::time::Duration;

use plural_core::access::Actor;
use plural_core::ids::StackRunId;
use plural_core::project::Project;
use plural_core::run_call::{RUN_TOKEN_PREFIX, state_token};
use plural_core::run_limits::RunLimits;
use plural_core::stack::Stack;
use plural_core::stack_run::{JobRef, RunPhase, RunStatus, StackRun};
use plural_core::stack_steps::image;
use plural_core::stack_turns::Turn;
use plural_core::{Error, Result};
use secrecy::{ExposeSecret as _, SecretString};

use crate::agent::AgentHandle;
use crate::app::App;
use crate::harness::cut;
use crate::job::NewJob;
use crate::jobs::{EndStackRun, EndedRun};
use crate::project::ProjectSelector;
use crate::secret::{NewToken, TokenHash};
use crate::stack::StackSelector;
use crate::stack_run::RunMove;
use crate::stack_run_turns::Proof;

/// Limit of Jobs per phase, including those whose agent was killed before it created them: beyond that, something other than the
/// kills is wrong.
const MOST_TAKES: u32 = 20;
/// How long the harness of an ended container may take to report.
const GRACE: Duration = Duration::from_secs(15);

/// The Job of a run, as an agent needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunJob {
    /// The run.
    pub run: StackRun,
    /// The stack's name.
    pub stack: String,
    /// The project's name.
    pub project: String,
    /// Its limits; absent: anything in the agent's namespace for runs.
    pub limits: Option<RunLimits>,
    /// The image of the tool; empty: the agent's own.
    pub image: String,
}

/// What an agent observes of a Job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportedRunState {
    /// It was created.
    Created,
    /// Its Pod cannot start yet, or never will.
    Waiting,
    /// Its container ended.
    Ended,
    /// The Job or its Pod no longer exists.
    Gone,
    /// The agent refuses to create it.
    Refused,
}

/// An agent's report about the Job of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedRun {
    /// The run.
    pub id: StackRunId,
    /// The phase.
    pub phase: RunPhase,
    /// The attempt.
    pub attempt: u32,
    /// The observation.
    pub state: ReportedRunState,
    /// The reason, in words.
    pub message: String,
    /// The Job.
    pub job: Option<JobRef>,
    /// Exit code of its container.
    pub exit_code: i32,
}

impl App {
    /// These runs of the agent's cluster, as far as they are work of its agent.
    pub async fn agent_run_jobs(&self, agent: &AgentHandle, ids: &[StackRunId]) -> Result<Vec<RunJob>> {
        agent.check()?;
        let system = self.system_ctx();
        let mut jobs = Vec::with_capacity(ids.len());
        for run in self.store.agent_runs(agent.cluster_id(), ids).await? {
            if !run.status.is_active() {
                continue;
            }
            let stack = match self.get::<Stack>(&system, &StackSelector::Id(run.stack_id)).await {
                Ok(stack) => stack,
                // It was deleted since the run was read.
                Err(Error::NotFound { .. }) => continue,
                Err(error) => return Err(error),
            };
            let project = self.get::<Project>(&system, &ProjectSelector::Id(run.project_id)).await?;
            jobs.push(RunJob {
                stack: stack.name.to_string(),
                limits: run_limits(&project).map(|limits| limits_of(&run, limits)),
                project: project.name.to_string(),
                image: image(run.snapshot.tool, &run.snapshot.spec.configuration),
                run,
            });
        }
        Ok(jobs)
    }

    /// The agent is about to create a Job: counts the attempt, and returns its credential and number.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the run has moved: of two concurrent requests, one succeeds.
    pub async fn agent_run_take(
        &self,
        agent: &AgentHandle,
        id: StackRunId,
        phase: RunPhase,
        attempt: u32,
    ) -> Result<(SecretString, u32)> {
        agent.check()?;
        let moved_on = || Error::conflict("the run is not at this attempt any more: poll again");
        let found = self.store.agent_runs(agent.cluster_id(), &[id]).await?;
        let run = found.into_iter().find(|run| run.id == id).ok_or_else(|| Error::not_found("stack run"))?;
        if run.status != RunStatus::Pending || !run.is_at(phase, attempt) {
            return Err(moved_on());
        }
        if attempt >= MOST_TAKES {
            // Each Job restarts the agent's time limit: without a limit of Jobs, the run would be pending for ever.
            return Err(Error::conflict(format!(
                "{attempt} Jobs of the run were started, and none has reported: no further one is created"
            )));
        }
        let NewToken { text: token, .. } = NewToken::generate(RUN_TOKEN_PREFIX)?;
        let change = RunMove {
            from: vec![RunStatus::Pending],
            of: Some((phase, attempt)),
            begins: Some(TokenHash::of(&state_token(token.expose_secret()))),
            tells_agent: true,
            ..RunMove::at(self.now())
        };
        let by = Actor::Cluster(agent.cluster_id());
        let run = self.store.stack_run_move(&by, id, &change).await?.ok_or_else(moved_on)?;
        Ok((token, run.attempt))
    }

    /// An agent's observations of the Jobs of runs. Reports about other clusters' runs, and about outdated Jobs, change nothing.
    pub async fn agent_runs_report(&self, agent: &AgentHandle, runs: Vec<ReportedRun>) -> Result<()> {
        agent.check()?;
        let mut away = None;
        for reported in runs {
            let id = reported.id;
            let is_last = matches!(reported.state, ReportedRunState::Ended | ReportedRunState::Gone);
            match self.agent_run_heard(agent, reported).await {
                Ok(()) => {}
                // The agent repeats its whole report.
                Err(error @ Error::Unavailable { .. }) => away = Some(error),
                // It reports the end of a Job once, and a lock may wait for that.
                Err(error @ (Error::Internal { .. } | Error::Conflict { .. })) if is_last => {
                    let text = error.log_text();
                    tracing::warn!(stack_run.id = %id, error = text, "cannot take the end of a Job; it is said again");
                    away = Some(Error::unavailable("the end of the Job of a run cannot be taken now"));
                }
                // A persistent failure of one must keep neither the others nor the reports about services from being stored.
                Err(error) => {
                    let error = error.log_text();
                    tracing::warn!(stack_run.id = %id, error, "cannot take what an agent says of a run");
                }
            }
        }
        away.map_or(Ok(()), Err)
    }

    async fn agent_run_heard(&self, agent: &AgentHandle, reported: ReportedRun) -> Result<()> {
        for run in self.store.agent_runs(agent.cluster_id(), &[reported.id]).await? {
            self.agent_run_reported(agent, &run, reported.clone()).await?;
        }
        Ok(())
    }

    async fn agent_run_reported(
        &self,
        agent: &AgentHandle,
        run: &StackRun,
        reported: ReportedRun,
    ) -> Result<()> {
        let ReportedRun { id, phase, attempt, state, message, job, exit_code } = reported;
        if !run.is_at(phase, attempt) {
            return Ok(());
        }
        let by = Actor::Cluster(agent.cluster_id());
        let message = cut(message);
        let change = RunMove { of: Some((phase, attempt)), job, ..RunMove::at(self.now()) };
        match state {
            ReportedRunState::Created => {
                let change = RunMove { from: vec![RunStatus::Pending, RunStatus::Running], ..change };
                self.store.stack_run_move(&by, id, &change).await?;
            }
            ReportedRunState::Waiting => {
                let change = RunMove { from: vec![RunStatus::Pending], error: Some(message), ..change };
                self.store.stack_run_move(&by, id, &change).await?;
            }
            ReportedRunState::Refused if run.status == RunStatus::Pending => {
                let handle = agent.cluster_handle();
                let error = format!("the agent of cluster {handle} refused to start it: {message}");
                let turn = Turn::Over(RunStatus::Failed, Some(error));
                self.run_turns(&by, run, turn, (None, Proof::Ended)).await?;
            }
            ReportedRunState::Refused => {}
            ReportedRunState::Ended | ReportedRunState::Gone => {
                let why = ended(state, exit_code, &message);
                match run.status {
                    RunStatus::Running => {
                        // The harness's last report may still be on its way.
                        let ended = EndedRun { run: id, phase, attempt, why };
                        let end = NewJob::of::<EndStackRun>(&ended)?.after(GRACE);
                        self.store.jobs_enqueue(&[end], self.now()).await?;
                    }
                    RunStatus::Pending if attempt > 0 => {
                        let why = format!("{why}, before the harness reported");
                        self.run_lost(run, &why, Proof::Ended).await?;
                    }
                    // Now its Job is known to have stopped.
                    RunStatus::Queued | RunStatus::Successful | RunStatus::Failed | RunStatus::Cancelled => {
                        self.run_unlocks(run).await?;
                    }
                    RunStatus::Pending | RunStatus::PendingApproval => {}
                }
            }
        }
        Ok(())
    }
}

fn run_limits(project: &Project) -> Option<RunLimits> {
    Some(project.limits.of_runs()).filter(|limits| !limits.is_of_no_job())
}

/// Code from a fork runs as nobody, whoever plans the rest of the project.
fn limits_of(run: &StackRun, limits: RunLimits) -> RunLimits {
    if run.is_checked_only() { RunLimits { plan_account: None, ..limits } } else { limits }
}

fn ended(state: ReportedRunState, exit_code: i32, message: &str) -> String {
    let what = match state {
        ReportedRunState::Gone => "its Pod is gone".to_owned(),
        ReportedRunState::Ended
        | ReportedRunState::Created
        | ReportedRunState::Waiting
        | ReportedRunState::Refused => format!("its Pod ended with exit code {exit_code}"),
    };
    if message.is_empty() { what } else { format!("{what} ({message})") }
}
