//! The requests of a run's Job: its credential opens a [`HarnessHandle`], which reaches this one run, in this phase and attempt.

use bytes::Bytes;
use plural_core::access::{Actor, RunActor};
use plural_core::data_key::KeyOwner;
use plural_core::ids::StackRunId;
use plural_core::run_call::{
    InputPlan, InputStep, LogsKept, MAX_LOG_CHUNK, MAX_STEP_LOG, OutputReport, PlanReport, RunBeat, RunInput,
    RunReport, StepReport, actor_token, is_run_token, is_state_token, state_token,
};
use plural_core::stack::Stack;
use plural_core::stack_plan::plan_digest;
use plural_core::stack_run::{
    RunKind, RunPhase, RunPlan, RunSource, RunStatus, RunStep, StackRun, StepStatus,
};
use plural_core::stack_steps::steps;
use plural_core::stack_turns::{Turn, after_job};
use plural_core::{Error, Result};
use secrecy::SecretString;

use crate::app::App;
use crate::ports::blobs::BlobStream;
use crate::secret::TokenHash;
use crate::stack::StackSelector;
use crate::stack_inputs::OpenInputs;
use crate::stack_run::{LogPiece, PlanPart, RunCredential, RunMove, SealedOutput, output_context};
use crate::stack_run_turns::Proof;

/// Limit of outputs of a stack.
const MAX_OUTPUTS: usize = 1000;
/// Limit of the bytes of all of them.
const MAX_OUTPUT_BYTES: usize = 4 << 20;
/// Limit of a harness's error, in bytes; the rest is cut.
const MAX_ERROR: usize = 4096;

/// Proof of a valid credential of a run. Gives access to that run.
#[derive(Debug, Clone)]
pub struct HarnessHandle {
    /// The run at that time.
    run: StackRun,
    /// The stack's name.
    stack: String,
    /// The token for its commands, if the stack has an actor.
    actor_token: SecretString,
}

impl HarnessHandle {
    /// The run.
    pub fn id(&self) -> StackRunId {
        self.run.id
    }

    /// The phase of its Job.
    pub(crate) fn phase(&self) -> RunPhase {
        self.run.phase
    }

    /// The attempt of its Job in that phase.
    pub(crate) fn attempt(&self) -> u32 {
        self.run.attempt
    }

    /// The token for its commands, if the stack has an actor.
    pub(crate) fn actor_token(&self) -> &SecretString {
        &self.actor_token
    }

    /// The run when the handle was made.
    pub(crate) fn run(&self) -> &StackRun {
        &self.run
    }

    /// The actor of its requests.
    fn actor(&self) -> Actor {
        actor(&self.run)
    }

    /// A move of the run that only applies while this Job is current, and running.
    fn change(&self, app: &App) -> RunMove {
        let of = Some((self.run.phase, self.run.attempt));
        RunMove { from: vec![RunStatus::Running], of, ..RunMove::at(app.now()) }
    }
}

fn actor(run: &StackRun) -> Actor {
    Actor::Run(Box::new(RunActor { run: run.id, stack: run.stack_id, phase: run.phase }))
}

impl App {
    /// Opens a handle with the credential of the run in the URL.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] if the credential is wrong, of another run, for the state only, or has ended.
    pub async fn harness_authenticate(&self, token: &str, id: StackRunId) -> Result<HarnessHandle> {
        let RunCredential { run, stack } = self.run_credential_of(token).await?;
        if run.id != id {
            return Err(Error::Unauthenticated);
        }
        Ok(HarnessHandle { run, stack, actor_token: SecretString::from(actor_token(token)) })
    }

    /// The run of a credential.
    pub(crate) async fn run_of_credential(&self, token: &str) -> Result<StackRunId> {
        Ok(self.run_credential_of(token).await?.run.id)
    }

    /// The actor that the credential of a run stands for.
    ///
    /// # Errors
    /// Same as [`App::harness_authenticate`].
    pub async fn run_authenticate(&self, token: &str) -> Result<Actor> {
        Ok(actor(&self.run_credential_of(token).await?.run))
    }

    /// The actor that the credential of a run for the state of its stack stands for.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] if it is wrong, or has ended, and for the credential of the run itself: a tool never has that.
    pub async fn run_state_authenticate(&self, token: &str) -> Result<Actor> {
        if !is_state_token(token) || token.len() > 256 {
            return Err(Error::Unauthenticated);
        }
        let run = self.run_credential(token).await?.run;
        // Code from a fork has no access to the state, whatever it finds in its Job.
        if run.is_checked_only() {
            return Err(Error::Unauthenticated);
        }
        Ok(actor(&run))
    }

    /// By the credential of the run itself, which is not stored in any form.
    async fn run_credential_of(&self, token: &str) -> Result<RunCredential> {
        if !is_run_token(token) || token.len() > 256 {
            return Err(Error::Unauthenticated);
        }
        self.run_credential(&state_token(token)).await
    }

    /// By the credential for the state.
    async fn run_credential(&self, state_token: &str) -> Result<RunCredential> {
        let found = self.store.stack_run_credential(&TokenHash::of(state_token)).await?;
        // The store checks the same: an ended run has no current Job.
        found.filter(|found| found.run.status.is_active()).ok_or(Error::Unauthenticated)
    }

    /// All inputs of a harness. The run is running from now on. The same Job may ask again: the answer may have been lost.
    pub async fn harness_input(&self, by: &HarnessHandle) -> Result<RunInput> {
        let stack = self.get::<Stack>(&self.system_ctx(), &StackSelector::Id(by.run.stack_id)).await?;
        let Some(source) = by.run.source.clone() else {
            return Err(Error::conflict("the code of the run is not put together yet"));
        };
        if by.run.phase == RunPhase::Apply
            && let Some(why) = self.plan_refusal(&by.run).await?
        {
            let turn = Turn::Over(RunStatus::Failed, Some(why.clone()));
            self.run_turns(&by.actor(), &by.run, turn, (None, Proof::Ended)).await?;
            return Err(Error::conflict(why));
        }
        let snapshot = &by.run.snapshot;
        let steps = steps(snapshot.tool, &snapshot.spec, by.run.kind, by.run.phase)?;
        if by.run.status == RunStatus::Pending {
            let change = RunMove {
                from: vec![RunStatus::Pending],
                to: Some(RunStatus::Running),
                // The steps of this build, without the logs of an earlier attempt.
                steps: Some(run_steps(&by.run, by.run.phase, &steps)),
                tells_agent: true,
                ..by.change(self)
            };
            if self.store.stack_run_move(&by.actor(), by.run.id, &change).await?.is_none() {
                // Its first call may have succeeded, although the client no longer waited for the answer.
                let run = self.stack_run_again(by.run.id).await?;
                if run.status != RunStatus::Running || !run.is_at(by.run.phase, by.run.attempt) {
                    return Err(Error::Unauthenticated);
                }
            }
        }
        let actor_token = self.run_actor_begins(&by.run, &by.actor_token).await?;
        let OpenInputs { environment, files, taken } = self.run_inputs_of(&by.run).await?;
        let mut spec = snapshot.spec.clone();
        spec.variables.extend(taken);
        // Part of the Job, and not of what runs in it.
        spec.job_defaults = None;
        let RunSource { sha, artifact_digest, folder, .. } = source;
        let plan = by.run.plan.as_ref().filter(|_| by.run.phase == RunPhase::Apply);
        Ok(RunInput {
            id: by.run.id,
            number: by.run.number,
            stack: by.stack.clone(),
            kind: by.run.kind,
            phase: by.run.phase,
            tool: snapshot.tool,
            artifact_digest,
            folder,
            sha,
            spec,
            steps,
            environment,
            files,
            state_path: by.run.keeps_state().then(|| format!("/v1/stacks/{}/state", stack.id)),
            plan: plan.map(|plan| InputPlan {
                digest: plan.digest.clone(),
                file_digest: plan.file_digest.clone(),
                lock_digest: plan.lock_digest.clone(),
            }),
            actor_token,
            takes_cost: true,
        })
    }

    /// The code of a run.
    pub async fn harness_artifact(&self, by: &HarnessHandle) -> Result<BlobStream> {
        let source = by.run.source.as_ref().ok_or_else(|| Error::not_found("artifact"))?;
        self.blobs.open(&source.artifact_digest).await
    }

    /// The plan file to be applied.
    pub async fn harness_plan_file(&self, by: &HarnessHandle) -> Result<Vec<u8>> {
        let expected = by.run.plan.as_ref().and_then(|plan| plan.file_digest.as_ref());
        let (RunPhase::Apply, Some(expected)) = (by.run.phase, expected) else {
            return Err(Error::not_found("plan file"));
        };
        let part = self.plan_part(&by.run, PlanPart::File).await?;
        let part = part.ok_or_else(|| Error::not_found("plan file"))?;
        if part.digest != *expected {
            return Err(Error::conflict("the plan file in the store is not the one that was planned"));
        }
        Ok(part.body)
    }

    /// A heartbeat.
    pub async fn harness_beat(&self, by: &HarnessHandle) -> Result<RunBeat> {
        let run = self.store.stack_run_beat(by.run.id, self.now()).await?;
        let counts =
            |run: &StackRun| run.status == RunStatus::Running && run.is_at(by.run.phase, by.run.attempt);
        let run = run.filter(counts).ok_or(Error::Unauthenticated)?;
        Ok(RunBeat { cancel: run.cancel_asked })
    }

    /// A step starts, or ends.
    pub async fn harness_step(&self, by: &HarnessHandle, index: u32, report: StepReport) -> Result<RunBeat> {
        let beat = self.harness_beat(by).await?;
        check_step(by, index)?;
        let StepReport { status, exit_code } = report;
        if status == StepStatus::Pending {
            return Err(Error::invalid("status", "must be running, successful or failed"));
        }
        // Serialised with whoever finds that nothing of the Job has begun, and replaces it.
        let of = (by.run.phase, by.run.attempt);
        let step = self.store.stack_run_step(by.run.id, of, index, (status, exit_code), self.now());
        if step.await? { Ok(beat) } else { Err(Error::Unauthenticated) }
    }

    /// A piece of the log of a step. The harness counts the bytes beyond the limit, which are not stored.
    pub async fn harness_log(
        &self,
        by: &HarnessHandle,
        index: u32,
        offset: u64,
        bytes: Bytes,
    ) -> Result<LogsKept> {
        if bytes.len() > MAX_LOG_CHUNK {
            let told = format!("must not exceed {} KiB", MAX_LOG_CHUNK >> 10);
            return Err(Error::invalid("log", told));
        }
        check_step(by, index)?;
        if offset >= MAX_STEP_LOG {
            self.harness_beat(by).await?;
            return Ok(LogsKept { offset: offset.saturating_add(bytes.len() as u64) });
        }
        let piece = LogPiece { offset, at: self.now(), bytes: bytes.to_vec() };
        let of = (by.run.phase, by.run.attempt);
        let known = self.store.stack_run_log(by.run.id, of, index, &piece).await?;
        Ok(LogsKept { offset: known.ok_or(Error::Unauthenticated)? })
    }

    /// A part of the plan; may be repeated until the plan is accepted.
    pub async fn harness_plan_part(&self, by: &HarnessHandle, part: PlanPart, body: Bytes) -> Result<()> {
        self.harness_beat(by).await?;
        if by.run.phase != RunPhase::Plan || by.run.plan.is_some() {
            return Err(Error::conflict("the run has its plan already"));
        }
        self.plan_part_put(&by.run, part, body).await
    }

    /// The plan is complete.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the parts are not those that the harness names.
    pub async fn harness_planned(&self, by: &HarnessHandle, report: PlanReport) -> Result<()> {
        self.harness_beat(by).await?;
        let PlanReport { summary, file_digest, json_digest, text_digest, lock_digest } = report;
        let digest = plan_digest(file_digest.as_deref(), json_digest.as_deref(), &text_digest);
        match &by.run.plan {
            // The answer to an earlier call may have been lost.
            Some(plan) if plan.digest == digest => return Ok(()),
            Some(_) => return Err(Error::conflict("the run has another plan already")),
            None if by.run.phase != RunPhase::Plan => {
                return Err(Error::conflict("the run is not at its plan"));
            }
            None => {}
        }
        if self.plan_stored_digest(&by.run).await? != digest {
            return Err(Error::conflict(
                "the parts of the plan that were uploaded have other digests: upload them again",
            ));
        }
        let file = self.store.stack_plan_get(by.run.id, PlanPart::File).await?;
        let stack = self.get::<Stack>(&self.system_ctx(), &StackSelector::Id(by.run.stack_id)).await?;
        let plan = RunPlan {
            digest,
            file_digest,
            file_size: file.map_or(0, |file| file.size),
            summary,
            state_serial: stack.state.filter(|_| by.run.keeps_state()).map(|state| state.serial),
            lock_digest,
            at: self.now(),
        };
        let supersedes = by.run.kind.is_of_stack();
        let change = RunMove { plan: Some(plan), supersedes, ..by.change(self) };
        self.store.stack_run_move(&by.actor(), by.run.id, &change).await?.ok_or(Error::Unauthenticated)?;
        Ok(())
    }

    /// The result of the Job. The credential ends with it.
    pub async fn harness_done(&self, by: &HarnessHandle, report: RunReport) -> Result<()> {
        let report = RunReport { error: report.error.map(cut), ..report };
        let outputs = match &report.outputs {
            Some(outputs) if by.run.phase == RunPhase::Apply && by.run.kind == RunKind::Apply => {
                let sealed = self.outputs_sealed(&by.run, outputs).await?;
                // Unchanged outputs are not written, and nothing that reads them is rendered anew.
                self.outputs_are_news(by.run.stack_id, outputs).await?.then_some(sealed)
            }
            Some(_) | None => None,
        };
        // The current run: a user may have asked for its cancellation.
        let run = self.stack_run_again(by.run.id).await?;
        if run.status != RunStatus::Running || !run.is_at(by.run.phase, by.run.attempt) {
            return Err(Error::Unauthenticated);
        }
        if run.kind == RunKind::Drift {
            let moved = Box::pin(self.drift_done(&by.actor(), &run, report)).await?;
            return moved.map(drop).ok_or(Error::Unauthenticated);
        }
        // Before the next step: a plan that is refused, or that cannot be checked, ends the run.
        let report = match self.run_refused_by_policy(&run, &report).await? {
            Some(why) => RunReport { succeeded: false, error: Some(cut(why)), ..report },
            None => report,
        };
        let turn = after_job(&run, &report);
        let moved = self.run_turns(&by.actor(), &run, turn, (outputs, Proof::Ended)).await?;
        moved.map(drop).ok_or(Error::Unauthenticated)
    }

    async fn outputs_sealed(&self, run: &StackRun, outputs: &[OutputReport]) -> Result<Vec<SealedOutput>> {
        if outputs.len() > MAX_OUTPUTS {
            return Err(Error::invalid("outputs", format!("must be at most {MAX_OUTPUTS}")));
        }
        let sealing = self.sealer.sealing(KeyOwner::Project(run.project_id)).await?;
        let (context, mut bytes, mut all) = (output_context(run.stack_id), 0, Vec::new());
        for OutputReport { name, value, secret } in outputs {
            if name.is_empty() || name.len() > 255 || name.chars().any(char::is_control) {
                return Err(Error::invalid("outputs", "must have names of at most 255 bytes"));
            }
            // The cause could contain a part of the value.
            let json = serde_json::to_vec(&(name, value))
                .map_err(|_| Error::internal("sealing an output", "it has no JSON"))?;
            bytes += json.len();
            if bytes > MAX_OUTPUT_BYTES {
                let told = format!("must not exceed {} MiB together", MAX_OUTPUT_BYTES >> 20);
                return Err(Error::invalid("outputs", told));
            }
            all.push(SealedOutput {
                name: name.clone(),
                secret: *secret,
                value: sealing.seal(&context, &json)?,
            });
        }
        Ok(all)
    }
}

fn check_step(by: &HarnessHandle, index: u32) -> Result<()> {
    let snapshot = &by.run.snapshot;
    let steps = steps(snapshot.tool, &snapshot.spec, by.run.kind, by.run.phase)?;
    if steps.iter().any(|step| step.index == index) {
        Ok(())
    } else {
        Err(Error::invalid("step", "must be one of the steps of this Job"))
    }
}

/// The steps of a Job as they are stored.
pub(crate) fn run_steps(run: &StackRun, phase: RunPhase, steps: &[InputStep]) -> Vec<RunStep> {
    let row = |step: &InputStep| RunStep {
        id: plural_core::ids::RunStepId::new(),
        run_id: run.id,
        phase,
        index: step.index,
        stage: step.stage,
        name: step.name.clone(),
        cmd: step.cmd.clone(),
        args: step.args.clone(),
        status: StepStatus::Pending,
        exit_code: None,
        started_at: None,
        finished_at: None,
    };
    steps.iter().map(row).collect()
}

/// A text, cut to the limit.
pub(crate) fn cut(mut text: String) -> String {
    if text.len() > MAX_ERROR {
        let end = text.floor_char_boundary(MAX_ERROR);
        text.truncate(end);
        text.push('…');
    }
    text.retain(|c| c == '\n' || c == '\t' || !c.is_control());
    text
}
