//! The requests of other clients' runners, mapped to the use cases of harness and agent. Runners report their status; the console decides
//! the next step, as for its own harness.

use bytes::Bytes;
use plural_core::ids::{RunStepId, StackRunId};
use plural_core::run_call::{OutputReport, PlanReport, RunReport, StepReport};
use plural_core::stack::StackTool;
use plural_core::stack_run::{JobRef, PlanSummary, RunPhase, RunStatus, RunStep, StackRun, StepStatus};
use plural_core::stack_turns::first_to_begin;
use plural_core::{Error, Page, PageRequest, Result};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

use crate::agent::AgentHandle;
use crate::agent_run::{ReportedRun, ReportedRunState};
use crate::app::App;
use crate::harness::HarnessHandle;
use crate::stack_run::PlanPart;
use crate::stack_run_policy::RunnerFinds;

/// The report of a run's Job.
#[derive(Debug)]
pub struct JobSays {
    /// Its status.
    pub status: RunStatus,
    /// Its plan.
    pub plan: Option<PlanSays>,
    /// Its findings.
    pub found: RunnerFinds,
    /// The reason of its end, in words.
    pub error: Option<String>,
    /// The outputs, after an apply; absent if they were not read.
    pub outputs: Option<Vec<OutputReport>>,
}

/// The plan of a Job without a plan file.
#[derive(Debug)]
pub struct PlanSays {
    /// As text.
    pub text: String,
    /// As JSON.
    pub json: Option<Vec<u8>>,
}

impl App {
    /// The current run of a credential.
    pub async fn runner_run(&self, by: &HarnessHandle) -> Result<StackRun> {
        self.stack_run_again(by.id()).await
    }

    /// Its commands.
    pub async fn runner_steps(&self, by: &HarnessHandle) -> Result<Vec<RunStep>> {
        self.store.stack_run_steps(by.id()).await
    }

    /// The token of its actor while it applies; absent without one.
    pub async fn runner_actor_token(&self, by: &HarnessHandle) -> Result<Option<SecretString>> {
        let run = self.stack_run_again(by.id()).await?;
        if run.status != RunStatus::Running || !run.is_at(by.phase(), by.attempt()) {
            return Ok(None);
        }
        let token = self.run_actor_begins(&run, by.actor_token()).await?;
        Ok(token.map(SecretString::from))
    }

    /// A Job reports that it runs, failed or was cancelled. It cannot report that it waits for approval, or succeeded.
    pub async fn runner_says(&self, by: &HarnessHandle, says: JobSays) -> Result<StackRun> {
        let JobSays { status, plan, found, error, outputs: _ } = says;
        match status {
            // It is running once it has its input, which comes from another endpoint. A running Job is not asked again whether its plan
            // is valid: its apply changes the state that the plan is based on.
            RunStatus::Running => {
                if by.run().status == RunStatus::Pending {
                    self.harness_input(by).await?;
                }
                self.runner_begins(by).await?;
                self.runner_plans(by, plan).await?;
                self.runner_finds(&self.runner_run(by).await?, found).await?;
                // A repeated report counts as a heartbeat.
                self.harness_beat(by).await?;
            }
            RunStatus::Failed | RunStatus::Cancelled => {
                // Its findings are often the reason of its failure.
                self.runner_found(by, found).await?;
                self.harness_done(by, ended(by, status == RunStatus::Cancelled, error)).await?;
            }
            RunStatus::Queued | RunStatus::Pending | RunStatus::PendingApproval | RunStatus::Successful => {
                return Err(Error::invalid(
                    "attributes.status",
                    "must be RUNNING, FAILED or CANCELLED: what else a run is, the console concludes",
                ));
            }
        }
        self.runner_run(by).await
    }

    /// Other clients' runners start commands even if the report of that is lost. So the steps that must not run twice count as begun with
    /// the Job: if that is lost, no other replaces it.
    async fn runner_begins(&self, by: &HarnessHandle) -> Result<()> {
        let steps = self.store.stack_run_steps(by.id()).await?;
        let Some(first) = first_to_begin(by.run(), &steps) else { return Ok(()) };
        self.harness_step(by, first, StepReport { status: StepStatus::Running, exit_code: None })
            .await
            .map(drop)
    }

    /// A Job reports its end. The next step is decided as for the console's own harness.
    pub async fn runner_completes(&self, by: &HarnessHandle, says: JobSays) -> Result<StackRun> {
        let JobSays { status, plan, found, error, outputs } = says;
        match status {
            RunStatus::Successful => {
                self.runner_plans(by, plan).await?;
                self.runner_found(by, found).await?;
                let report = RunReport {
                    succeeded: true,
                    cancelled: false,
                    error,
                    changed: by.phase() == RunPhase::Apply,
                    outputs,
                    interrupted: false,
                };
                self.harness_done(by, report).await?;
            }
            RunStatus::Failed | RunStatus::Cancelled => {
                self.runner_found(by, found).await?;
                self.harness_done(by, ended(by, status == RunStatus::Cancelled, error)).await?;
            }
            RunStatus::Queued | RunStatus::Pending | RunStatus::Running | RunStatus::PendingApproval => {
                return Err(Error::invalid("attributes.status", "must be SUCCESSFUL, FAILED or CANCELLED"));
            }
        }
        self.runner_run(by).await
    }

    /// Stores the findings of a Job that reports its end. A failure of that does not keep it from ending.
    async fn runner_found(&self, by: &HarnessHandle, found: RunnerFinds) -> Result<()> {
        let found = match by.phase() {
            RunPhase::Plan => found,
            // The other findings belong to a plan, which was checked.
            RunPhase::Apply => RunnerFinds { resources: found.resources, ..RunnerFinds::default() },
        };
        match self.runner_finds(by.run(), found).await {
            Err(error @ (Error::Conflict { .. } | Error::Invalid { .. })) => {
                let error = error.log_text();
                tracing::warn!(stack_run.id = %by.id(), error, "cannot keep what the Job of a run found; it ends");
                Ok(())
            }
            kept => kept,
        }
    }

    /// Stores the plan of a Job whose tool has no plan file. Its number of changes is unknown, so it never counts as empty.
    async fn runner_plans(&self, by: &HarnessHandle, plan: Option<PlanSays>) -> Result<()> {
        let Some(PlanSays { text, json }) = plan else { return Ok(()) };
        let run = self.runner_run(by).await?;
        match run.snapshot.tool {
            StackTool::Custom | StackTool::Ansible => {}
            StackTool::Terraform | StackTool::Terragrunt | StackTool::Pulumi => {
                return Err(Error::invalid(
                    "attributes.state",
                    "is of stacks whose tool has no plan file: upload the parts of this one's plan at /v1/runs/ID/plan, as its approval is of \
                     the digest of all of them",
                ));
            }
        }
        let digest = |bytes: &[u8]| hex::encode(Sha256::digest(bytes));
        let report = PlanReport {
            summary: PlanSummary { other: true, ..PlanSummary::default() },
            file_digest: None,
            json_digest: json.as_deref().map(digest),
            text_digest: digest(text.as_bytes()),
            lock_digest: None,
        };
        if run.plan.is_none() {
            self.harness_plan_part(by, PlanPart::Text, Bytes::from(text)).await?;
            if let Some(json) = json {
                self.harness_plan_part(by, PlanPart::Json, Bytes::from(json)).await?;
            }
        }
        self.harness_planned(by, report).await
    }

    /// A step of the Job moves.
    pub async fn runner_step(
        &self,
        by: &HarnessHandle,
        step: RunStepId,
        status: StepStatus,
    ) -> Result<RunStep> {
        let index = self.runner_step_of(by, step).await?.index;
        self.harness_step(by, index, StepReport { status, exit_code: None }).await?;
        self.runner_step_of(by, step).await
    }

    /// Appends to the log of a step.
    pub async fn runner_logs(&self, by: &HarnessHandle, step: RunStepId, text: String) -> Result<()> {
        let index = self.runner_step_of(by, step).await?.index;
        let known = self.harness_log(by, index, 0, Bytes::new()).await?;
        self.harness_log(by, index, known.offset, Bytes::from(text)).await.map(drop)
    }

    async fn runner_step_of(&self, by: &HarnessHandle, id: RunStepId) -> Result<RunStep> {
        let steps = self.store.stack_run_steps(by.id()).await?;
        let step = steps.into_iter().find(|step| step.id == id && step.phase == by.phase());
        step.ok_or(Error::not_found("run step"))
    }

    /// The runs whose Jobs the agent's cluster should have.
    pub async fn agent_run_list(&self, agent: &AgentHandle, page: &PageRequest) -> Result<Page<StackRun>> {
        agent.check()?;
        self.store.stack_runs_of_cluster(agent.cluster_id(), page).await
    }

    /// One of them.
    pub async fn agent_run_get(&self, agent: &AgentHandle, id: StackRunId) -> Result<StackRun> {
        agent.check()?;
        let found = self.store.agent_runs(agent.cluster_id(), &[id]).await?;
        found.into_iter().find(|run| run.id == id).ok_or(Error::not_found("stack run"))
    }

    /// Its commands.
    pub async fn agent_run_steps(&self, agent: &AgentHandle, id: StackRunId) -> Result<Vec<RunStep>> {
        let run = self.agent_run_get(agent, id).await?;
        self.store.stack_run_steps(run.id).await
    }

    /// An agent reports the Job of a run, or that it creates none. Its report of the Job's status is ignored: the Job reports that.
    pub async fn agent_run_says(
        &self,
        agent: &AgentHandle,
        id: StackRunId,
        (status, error): (RunStatus, Option<String>),
        job: Option<JobRef>,
    ) -> Result<StackRun> {
        let run = self.agent_run_get(agent, id).await?;
        let state = match status {
            RunStatus::Pending | RunStatus::Running => ReportedRunState::Created,
            RunStatus::Failed => ReportedRunState::Refused,
            RunStatus::Queued | RunStatus::PendingApproval | RunStatus::Successful | RunStatus::Cancelled => {
                return Err(Error::invalid(
                    "attributes.status",
                    "must be PENDING, RUNNING or FAILED: what else a run is, the console concludes",
                ));
            }
        };
        let report = ReportedRun {
            id,
            phase: run.phase,
            attempt: run.attempt,
            state,
            message: error.unwrap_or_default(),
            job,
            exit_code: 0,
        };
        self.agent_runs_report(agent, vec![report]).await?;
        self.agent_run_get(agent, id).await
    }

    /// The handle of a Job, from its credential alone.
    ///
    /// # Errors
    /// Same as [`App::harness_authenticate`].
    pub async fn runner_authenticate(&self, token: &SecretString) -> Result<HarnessHandle> {
        let run = self.run_of_credential(token.expose_secret()).await?;
        self.harness_authenticate(token.expose_secret(), run).await
    }
}

/// The refusal of a Job that did not do its work.
fn ended(by: &HarnessHandle, cancelled: bool, error: Option<String>) -> RunReport {
    let changed = by.phase() == RunPhase::Apply;
    RunReport { succeeded: false, cancelled, error, changed, outputs: None, interrupted: false }
}
