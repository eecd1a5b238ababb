//! Runs of stacks: created, prepared, started by an agent, approved, and ended.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::access::{Action, Actor, UserActor};
use plural_core::ids::{ClusterId, RepositoryId, StackId, StackRunId};
use plural_core::page::{Page, PageRequest};
use plural_core::stack::Stack;
use plural_core::stack_run::{
    JobRef, RunApproval, RunGroup, RunKind, RunPhase, RunPlan, RunSnapshot, RunSource, RunStatus, RunStep,
    RunTrigger, StackOutput, StackRun, StepStatus,
};
use plural_core::stack_turns::{Approver, OpenRun, check_approver, is_approved};
use plural_core::{Error, Result};
use uuid::Uuid;

use crate::access::{Act, Approve, Audited, Authorized, ExecStack, Read, Write, actor_name};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::job::NewJob;
use crate::seal::Sealed;
use crate::secret::TokenHash;
use crate::stack::StackSelector;
use crate::stack_drift::DriftWrite;
use crate::stack_run_turns::follows;

/// The sealed inputs of a stack, which go into its runs.
#[derive(Debug, Clone, Default)]
pub struct SealedInputs {
    /// `Vec<InputVariable>` as JSON, sealed for `stack:ID:environment` (a stack's) or `stack_run:ID:environment` (a run's).
    pub environment: Option<Sealed>,
    /// `BTreeMap<String, String>` as JSON, sealed for `stack:ID:files` or `stack_run:ID:files`.
    pub files: Option<Sealed>,
    /// Variables that a run takes from other stacks, as a map in JSON, sealed for `stack_run:ID:taken`; a stack has none.
    pub taken: Option<Sealed>,
}

/// A part of a plan, stored in sealed pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PlanPart {
    /// The tool's own file.
    File,
    /// The plan as JSON.
    Json,
    /// The text that the tool printed.
    Text,
}

impl PlanPart {
    /// All parts.
    pub const ALL: [Self; 3] = [Self::File, Self::Json, Self::Text];

    /// The word in the database and in addresses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Json => "json",
            Self::Text => "text",
        }
    }

    /// The part of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.as_str() == word)
    }
}

/// Findings of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FindingKind {
    /// The rules that checked it, with their result: `CheckedPlan`.
    Policy,
    /// Trivy's findings.
    Trivy,
    /// The estimated cost: `PlanCost`.
    Cost,
    /// Findings of the runner of another client.
    Runner,
    /// Resources that the runner of another client reported, also after an apply.
    Resources,
}

impl FindingKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Policy, Self::Trivy, Self::Cost, Self::Runner, Self::Resources];

    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Trivy => "trivy",
            Self::Cost => "cost",
            Self::Runner => "runner",
            Self::Resources => "resources",
        }
    }

    /// The kind of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// Its number in the database.
    pub const fn number(self) -> i64 {
        match self {
            Self::Policy => 0,
            Self::Trivy => 1,
            Self::Cost => 2,
            Self::Runner => 3,
            Self::Resources => 4,
        }
    }

    /// The kind of this number.
    pub fn numbered(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

/// A part of a plan to be stored.
#[derive(Debug)]
pub struct PlanPartWrite {
    /// The part.
    pub part: PlanPart,
    /// SHA-256 of its bytes.
    pub digest: [u8; 32],
    /// Size in bytes.
    pub size: u64,
    /// Its pieces in order, each sealed for `stack_plan:RUN_ID`; before its bytes are its part (one byte) and its number (4 bytes,
    /// big endian).
    pub pieces: Vec<Sealed>,
}

/// A part of a plan as it was stored.
#[derive(Debug, Clone)]
pub struct PlanPartRead {
    /// SHA-256 of its bytes.
    pub digest: [u8; 32],
    /// Size in bytes.
    pub size: u64,
    /// Its pieces in order.
    pub pieces: Vec<Sealed>,
}

/// A change of a run: decided by a use case, written in one transaction with the feed's event for its cluster.
///
/// A move into a status sets the error to `error`, absent or not. A move into `Running` sets the start time, unless it is set; a move
/// into a final status sets the end time and ends the credential; a move into `Queued` ends the credential. A move into `Running`, and one
/// with a new credential, set the heartbeat to `at`.
#[derive(Debug, Clone, Default)]
pub struct RunMove {
    /// Only if the run has this status; otherwise nothing is written, and [`StackRunStore::stack_run_move`] returns `None`.
    pub from: Vec<RunStatus>,
    /// Only in this phase and attempt.
    pub of: Option<(RunPhase, u32)>,
    /// Only if no step of its Job that must not run twice has begun ([`plural_core::stack_turns::has_begun`]).
    pub unbegun: bool,
    /// The new status.
    pub to: Option<RunStatus>,
    /// The new phase; the attempt starts at 0 again, and the credential ends.
    pub phase: Option<RunPhase>,
    /// A new Job: `attempt` grows by one, and this is its credential. Stored is the hash of the credential for the state, which is derived
    /// from that of the Job ([`plural_core::run_call::state_token`]): so one hash serves both.
    pub begins: Option<TokenHash>,
    /// The credential ends.
    pub ends_credential: bool,
    /// Its code is ready.
    pub source: Option<RunSource>,
    /// Its plan is stored.
    pub plan: Option<RunPlan>,
    /// One more approval.
    pub approval: Option<RunApproval>,
    /// A user asked for its cancellation.
    pub cancel: bool,
    /// The reason; without a new status, a note.
    pub error: Option<String>,
    /// Its Job.
    pub job: Option<JobRef>,
    /// New steps, which replace all steps of the same phases, with their logs.
    pub steps: Option<Vec<RunStep>>,
    /// The time. If the run ends, steps that are still running or pending become failed.
    pub at: DateTime<Utc>,
    /// Notifies the agent: the run's sequence grows and the feed gets an event.
    pub tells_agent: bool,
    /// Its Job has stopped: the lock of the stack's state that it holds is released. A lock of anybody else stays.
    pub unlocks: bool,
    /// Supersedes older runs of the same stack that wait for approval or are queued, except dry runs. Each becomes cancelled with the
    /// reason "superseded by run N".
    pub supersedes: bool,
    /// The drift that a successful drift detection found: it replaces all earlier drift of the stack.
    pub drift: Option<DriftWrite>,
    /// What a successful run writes to the stack: the commit, and its outputs if they changed.
    pub applied: Option<(String, Option<Vec<SealedOutput>>)>,
    /// Follow-up jobs, enqueued in the same transaction.
    pub follows: Vec<NewJob>,
}

/// An output of a stack to be stored.
#[derive(Debug, Clone)]
pub struct SealedOutput {
    /// Name.
    pub name: String,
    /// The tool marks it as sensitive.
    pub secret: bool,
    /// `[name, value]` as JSON, sealed for `stack_output:STACK_ID`.
    pub value: Sealed,
}

/// A piece of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPiece {
    /// Offset of its first byte in the log of its step.
    pub offset: u64,
    /// When its last byte was stored, or a later one.
    pub at: DateTime<Utc>,
    /// The bytes, with secrets masked.
    pub bytes: Vec<u8>,
}

/// A page of the open runs, for the loop that tends them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenRuns {
    /// The runs, oldest first, without unreadable ones.
    pub runs: Vec<OpenRun>,
    /// The cursor of the next page; `None` on the last page.
    pub next: Option<StackRunId>,
    /// On the first page: stacks to be deleted whose newest run other than a dry run destroyed them. They are normally deleted when
    /// that run ends; one that is still there has outlived the console that should have deleted it.
    pub destroyed: Vec<StackId>,
}

/// The owner of a run's credential.
#[derive(Debug, Clone)]
pub struct RunCredential {
    /// The run.
    pub run: StackRun,
    /// The stack's name.
    pub stack: String,
}

/// Runs of stacks.
///
/// Every method that changes a run also publishes the event that its agent needs, and the deltas of the stack.
#[async_trait]
pub trait StackRunStore: Send + Sync + 'static {
    /// Creates a queued run; the store chooses `run.number` and `run.sequence`. Environment and files are the stack's, copied as they are
    /// sealed here. The job that prepares its code is enqueued in the same transaction.
    async fn stack_run_create(&self, by: Audited<'_, Stack, Write>, run: &MadeRun) -> Result<StackRun>;
    /// The same for a run of commands, for a user who may run their own.
    async fn stack_run_exec(&self, by: Audited<'_, Stack, ExecStack>, run: &MadeRun) -> Result<StackRun>;
    /// The sealed inputs of a stack.
    async fn stack_inputs(&self, stack: StackId) -> Result<SealedInputs>;
    /// One run, for the console itself.
    async fn stack_run(&self, id: StackRunId) -> Result<Option<StackRun>>;
    /// The newest run of a stack that does not only plan.
    async fn stack_run_newest(&self, stack: StackId) -> Result<Option<StackRun>>;
    /// The newest run of a stack that applied its code. A run without changes does not count: nobody approved its code.
    async fn stack_run_applied(&self, stack: StackId) -> Result<Option<StackRun>>;
    /// Sets what a queued run takes from other stacks, before its code is prepared: replaces its snapshot, and clears its
    /// note. `None` if it is no longer queued like that.
    async fn stack_run_settle(
        &self,
        id: StackRunId,
        snapshot: &RunSnapshot,
        inputs: &SealedInputs,
    ) -> Result<Option<StackRun>>;
    /// The sealed inputs of a run.
    async fn stack_run_inputs(&self, id: StackRunId) -> Result<SealedInputs>;
    /// Runs of a stack, for its readers, newest first: of these groups, or of all if none is given.
    async fn stack_runs(
        &self,
        stack: &Authorized<Stack, Read>,
        of: &[RunGroup],
        page: &PageRequest,
    ) -> Result<Page<StackRun>>;
    /// Open runs of all stacks, oldest first, after `after`: a page, in one statement.
    async fn stack_runs_open(&self, after: Option<StackRunId>) -> Result<OpenRuns>;
    /// All open runs of a stack, oldest first.
    async fn stack_runs_open_of(&self, stack: StackId) -> Result<Vec<StackRun>>;
    /// Runs that wait for approval, of all stacks, in the direction of the page: at most its limit, and the key after which there may be
    /// more.
    async fn stack_runs_waiting(&self, page: &PageRequest) -> Result<(Vec<StackRun>, Option<Uuid>)>;
    /// Moves a run for a user, with their audit line.
    async fn stack_run_decide(
        &self,
        by: Audited<'_, Stack, Approve>,
        id: StackRunId,
        change: &RunMove,
    ) -> Result<Option<StackRun>>;
    /// The same for a user who may write the stack: cancel, restart.
    async fn stack_run_change(
        &self,
        by: Audited<'_, Stack, Write>,
        id: StackRunId,
        change: &RunMove,
    ) -> Result<Option<StackRun>>;
    /// The same for a user who may run their own commands: they may end a run of commands.
    async fn stack_run_exec_change(
        &self,
        by: Audited<'_, Stack, ExecStack>,
        id: StackRunId,
        change: &RunMove,
    ) -> Result<Option<StackRun>>;
    /// Moves a run for the console, an agent or a harness. The end of a run gets an audit line, by `actor`.
    async fn stack_run_move(
        &self,
        actor: &Actor,
        id: StackRunId,
        change: &RunMove,
    ) -> Result<Option<StackRun>>;
    /// Makes the next run of a stack pending if none is pending or running. Candidates are queued with their code ready: first the one in
    /// phase `Apply`, then by trigger (later ones of [`plural_core::stack_run::RunTrigger`] first), then the oldest. In one transaction
    /// with the event for its cluster's agent. Sets the heartbeat to `at`: the agent's time limit starts then. Returns the run.
    async fn stack_run_next(&self, stack: StackId, at: DateTime<Utc>) -> Result<Option<StackRun>>;
    /// The steps of a run, in order.
    async fn stack_run_steps(&self, id: StackRunId) -> Result<Vec<RunStep>>;
    /// Moves a step of a run, with its exit code; a finished step stays as it is. Counts as a heartbeat, in the same write. If the
    /// run is not running, in this phase and attempt, nothing is written, and the result is `false`.
    async fn stack_run_step(
        &self,
        id: StackRunId,
        of: (RunPhase, u32),
        index: u32,
        to: (StepStatus, Option<i32>),
        at: DateTime<Utc>,
    ) -> Result<bool>;
    /// Appends the bytes beyond the stored end to the log of a step, and returns the new end. Bytes before it are not stored
    /// twice; a gap is refused with [`plural_core::Error::Conflict`]. A pending step becomes running. Counts as a heartbeat, in the same
    /// write, also for a piece that is refused. If the run is not running, in this phase and attempt, nothing is written, and the
    /// result is `None`.
    async fn stack_run_log(
        &self,
        id: StackRunId,
        of: (RunPhase, u32),
        index: u32,
        piece: &LogPiece,
    ) -> Result<Option<u64>>;
    /// The log of a step from an offset on, at most that many bytes.
    async fn stack_run_logs(
        &self,
        id: StackRunId,
        index: u32,
        from: u64,
        bytes: u64,
    ) -> Result<Vec<LogPiece>>;
    /// Records a heartbeat, and returns the current run.
    async fn stack_run_beat(&self, id: StackRunId, at: DateTime<Utc>) -> Result<Option<StackRun>>;
    /// Stores a part of a plan, replacing an earlier one, while the run is running in phase plan and has no plan yet.
    async fn stack_plan_put(&self, id: StackRunId, write: &PlanPartWrite) -> Result<()>;
    /// A part of the plan of a run.
    async fn stack_plan_get(&self, id: StackRunId, part: PlanPart) -> Result<Option<PlanPartRead>>;
    /// Stores findings of a plan, replacing earlier ones. They are sealed for `stack_run_finding:RUN_ID`, with the word of their
    /// kind and a NUL before their JSON.
    async fn stack_finding_put(&self, id: StackRunId, kind: FindingKind, found: &Sealed) -> Result<()>;
    /// Findings of the plan of a run.
    async fn stack_findings(&self, id: StackRunId) -> Result<Vec<(FindingKind, Sealed)>>;
    /// The run whose running or pending Job has this credential for the state.
    async fn stack_run_credential(&self, hash: &TokenHash) -> Result<Option<RunCredential>>;
    /// Makes the token of an applying run's actor valid until its Job ends. Returns whether that Job runs.
    async fn stack_run_actor_begins(&self, id: StackRunId, attempt: u32, hash: &TokenHash) -> Result<bool>;
    /// Runs of a cluster whose Jobs its agent has to create, or has created and that still run.
    async fn stack_runs_of_cluster(&self, cluster: ClusterId, page: &PageRequest) -> Result<Page<StackRun>>;
    /// The user behind the token of a run's actor while its Job runs, with the scope of the token.
    async fn stack_run_actor(&self, hash: &TokenHash) -> Result<Option<UserActor>>;
    /// The outputs of a stack, by name; a list does not open secret values.
    async fn stack_outputs(&self, stack: StackId) -> Result<Vec<SealedOutput>>;
    /// Those of these runs that the agent of a cluster needs: pending, running, or just ended or queued again with a Job that may be left.
    async fn agent_runs(&self, cluster: ClusterId, ids: &[StackRunId]) -> Result<Vec<StackRun>>;
    /// Stacks that follow this repository, neither paused nor deleted, for the job that looks for new commits.
    async fn stack_sources(&self, repository: RepositoryId) -> Result<Vec<Stack>>;
    /// Records the last closure and commit of a stack that were checked, or why they cannot be.
    async fn stack_source_seen(
        &self,
        stack: StackId,
        seen: &std::result::Result<(String, String), String>,
        at: DateTime<Utc>,
    ) -> Result<()>;
    /// The last closure digest that was checked.
    async fn stack_seen(&self, stack: StackId) -> Result<Option<String>>;
    /// Removes ended runs beyond the newest `keep` of each stack, with their plans and logs; returns the number. Each disappears for
    /// readers before its first piece is deleted, and pieces are deleted in small writes; the next pass takes what is left.
    async fn stack_runs_prune(&self, keep: u32) -> Result<u64>;
}

/// A run to be stored.
#[derive(Debug)]
pub struct MadeRun {
    /// The run; the store chooses its number and sequence.
    pub run: StackRun,
    /// Its sealed inputs.
    pub inputs: SealedInputs,
    /// The job that prepares its code.
    pub prepare: NewJob,
}

/// A user's request for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewRun {
    /// What it does.
    pub kind: RunKind,
    /// Its trigger.
    pub trigger: RunTrigger,
}

impl App {
    /// Creates a run of a stack in its current form; needs write access to it.
    pub async fn stack_run_create(&self, ctx: &OpCtx, stack: StackId, new: NewRun) -> Result<StackRun> {
        let stack = self.authorized::<Stack, Write>(ctx, &StackSelector::Id(stack)).await?;
        if stack.deleted_at.is_some() && new.kind != RunKind::Destroy {
            return Err(Error::conflict("the stack is being deleted: restore it first"));
        }
        self.stack_has_room(stack.id).await?;
        // If the stack is being deleted, this was checked when its deletion began.
        if new.kind == RunKind::Destroy && stack.deleted_at.is_none() {
            self.stack_is_unneeded(ctx, &stack).await?;
        }
        self.stack_run_of(ctx, &stack, new).await
    }

    /// A run of a stack, for its readers.
    pub async fn stack_run_get(&self, ctx: &OpCtx, id: StackRunId) -> Result<StackRun> {
        Ok(self.stack_run_for::<Read>(ctx, id).await?.1)
    }

    /// Runs of a stack, newest first: of these groups, or of all if none is given.
    pub async fn stack_runs(
        &self,
        ctx: &OpCtx,
        stack: StackId,
        of: &[RunGroup],
        page: &PageRequest,
    ) -> Result<Page<StackRun>> {
        let stack = self.authorized::<Stack, Read>(ctx, &StackSelector::Id(stack)).await?;
        self.store.stack_runs(&stack, of, page).await
    }

    /// The steps of a run, in order.
    pub async fn stack_run_steps(&self, ctx: &OpCtx, id: StackRunId) -> Result<Vec<RunStep>> {
        let (_, run) = self.stack_run_for::<Read>(ctx, id).await?;
        self.store.stack_run_steps(run.id).await
    }

    /// The log of a step from an offset on, and the offset after it.
    pub async fn stack_run_log(
        &self,
        ctx: &OpCtx,
        id: StackRunId,
        index: u32,
        from: u64,
        bytes: u64,
    ) -> Result<(Vec<LogPiece>, u64)> {
        /// Limit of one answer, in bytes.
        const MOST: u64 = 1 << 20;
        let (_, run) = self.stack_run_for::<Read>(ctx, id).await?;
        let pieces = self.store.stack_run_logs(run.id, index, from, bytes.clamp(1, MOST)).await?;
        let next = pieces.last().map_or(from, |piece| piece.offset + piece.bytes.len() as u64);
        Ok((pieces, next))
    }

    /// Approves the plan with this digest; needs the right to approve on the stack.
    pub async fn stack_run_approve(
        &self,
        ctx: &OpCtx,
        id: StackRunId,
        digest: Option<&str>,
    ) -> Result<StackRun> {
        let (stack, run) = self.stack_run_for::<Approve>(ctx, id).await?;
        let Some(user) = user_of(ctx) else {
            return Err(Error::forbidden("only people and service accounts approve plans"));
        };
        let name = actor_name(ctx.actor());
        let is_own = self.is_who_changed(ctx, stack.changed_by, stack.changed_as.as_deref());
        let changed_by = Box::pin(is_own).await?.then_some(user);
        let approver = Approver { user, name: &name, digest, changed_by };
        check_approver(&run, &approver, ctx.now())?;
        Box::pin(self.run_is_of_others(&run, &name)).await?;
        self.stack_definition_approvable(ctx, &run).await?;
        let approval = self.approval_signed(
            id,
            RunApproval {
                user_id: user,
                by: name,
                digest: digest.unwrap_or_default().to_owned(),
                at: ctx.now(),
                mac: String::new(),
            },
        );
        let change = RunMove {
            from: vec![RunStatus::PendingApproval],
            of: Some((run.phase, run.attempt)),
            approval: Some(approval),
            ..RunMove::at(ctx.now())
        };
        let by = stack.audited(ctx, "stack.run.approve");
        let Some(run) = self.store.stack_run_decide(by, id, &change).await? else {
            return Err(Error::conflict("the run does not wait for approval any more"));
        };
        if !is_approved(&run) {
            return Ok(run);
        }
        // If it has to wait, it stays approved.
        Box::pin(self.run_applies(&run)).await?;
        self.stack_run_again(id).await
    }

    /// Rejects the plan: nothing is applied. Needs the right to approve on the stack.
    pub async fn stack_run_reject(&self, ctx: &OpCtx, id: StackRunId, reason: &str) -> Result<StackRun> {
        if reason.len() > 1024 || reason.chars().any(|c| c.is_control() && c != '\n') {
            return Err(Error::invalid("reason", "must be a text of at most 1024 bytes"));
        }
        let (stack, run) = self.stack_run_for::<Approve>(ctx, id).await?;
        let mut error = format!("rejected by {}", actor_name(ctx.actor()));
        if !reason.trim().is_empty() {
            error.push_str(": ");
            error.push_str(reason.trim());
        }
        let change = RunMove {
            from: vec![RunStatus::PendingApproval],
            to: Some(RunStatus::Cancelled),
            error: Some(error),
            ends_credential: true,
            tells_agent: true,
            follows: follows(&run)?,
            ..RunMove::at(ctx.now())
        };
        let by = stack.audited(ctx, "stack.run.reject");
        match self.store.stack_run_decide(by, id, &change).await? {
            Some(run) => {
                Box::pin(self.run_over(&run)).await?;
                Ok(run)
            }
            None => Err(Error::conflict(format!(
                "the run is {}: it does not wait for approval",
                run.status.as_str()
            ))),
        }
    }

    /// Cancels a run: at once if its Job has not begun, else as soon as the tool has stopped. Needs write access to the stack; for a run
    /// of commands, the user who gave them may cancel it while they may run some.
    pub async fn stack_run_cancel(&self, ctx: &OpCtx, id: StackRunId) -> Result<StackRun> {
        let canceller = self.stack_run_canceller(ctx, id).await?;
        let follows = follows(&self.stack_run_again(id).await?)?;
        let at_once = RunMove {
            from: vec![RunStatus::Queued, RunStatus::Pending, RunStatus::PendingApproval],
            to: Some(RunStatus::Cancelled),
            error: Some(format!("cancelled by {}", actor_name(ctx.actor()))),
            ends_credential: true,
            tells_agent: true,
            follows,
            ..RunMove::at(ctx.now())
        };
        if let Some(run) = self.stack_run_cancelled(ctx, &canceller, id, &at_once).await? {
            Box::pin(self.run_over(&run)).await?;
            return Ok(run);
        }
        let asks = RunMove {
            from: vec![RunStatus::Running],
            cancel: true,
            tells_agent: true,
            ..RunMove::at(ctx.now())
        };
        match self.stack_run_cancelled(ctx, &canceller, id, &asks).await? {
            Some(run) => Ok(run),
            None => Err(Error::conflict("the run is over")),
        }
    }

    /// Creates a run of the same kind of a stack in its current form; needs write access to it.
    pub async fn stack_run_restart(&self, ctx: &OpCtx, id: StackRunId) -> Result<StackRun> {
        let (stack, run) = self.stack_run_for::<Write>(ctx, id).await?;
        if !run.status.is_over() {
            return Err(Error::conflict(format!("the run is {}: cancel it first", run.status.as_str())));
        }
        if run.kind == RunKind::Commands {
            return Err(Error::conflict("it ran commands that somebody gave it: give them to a new run"));
        }
        if run.pull_request().is_some() {
            return Err(Error::conflict("the run planned a pull request: plan the pull request again"));
        }
        if run.preview().is_some() {
            return Err(Error::conflict("the run planned a preview: plan the preview again"));
        }
        self.stack_run_create(ctx, stack.id, NewRun { kind: run.kind, trigger: RunTrigger::Manual }).await
    }

    /// The outputs of a stack; secret values only for users who may read its state.
    pub async fn stack_outputs(&self, ctx: &OpCtx, stack: StackId) -> Result<Vec<StackOutput>> {
        let stack = self.authorized::<Stack, Read>(ctx, &StackSelector::Id(stack)).await?;
        let reads_state = stack.held().allow(Action::ReadState);
        let mut outputs = Vec::new();
        for SealedOutput { name, secret, value } in self.store.stack_outputs(stack.id).await? {
            let value = if secret && !reads_state {
                None
            } else {
                let opened = self.sealer.open(&output_context(stack.id), &value).await?;
                Some(output_opened(&name, &opened)?)
            };
            outputs.push(StackOutput { name, value, secret });
        }
        Ok(outputs)
    }

    /// A run, with its stack authorised for `A`.
    pub(crate) async fn stack_run_for<A: Act>(
        &self,
        ctx: &OpCtx,
        id: StackRunId,
    ) -> Result<(Authorized<Stack, A>, StackRun)> {
        // A user who may not see the stack must not learn of the run.
        let hidden = |error| match error {
            Error::NotFound { .. } => Error::not_found("stack run"),
            error => error,
        };
        // The stack, below, decides what the token of a run's actor reaches.
        plural_core::access::check_scopes(&ctx.actor().beyond_run())?;
        if matches!(ctx.actor(), Actor::Nobody) {
            return Err(Error::Unauthenticated);
        }
        let run = self.store.stack_run(id).await?.ok_or_else(|| Error::not_found("stack run"))?;
        let stack = self.authorized::<Stack, A>(ctx, &StackSelector::Id(run.stack_id)).await;
        Ok((stack.map_err(hidden)?, run))
    }

    /// The current state of a run.
    pub(crate) async fn stack_run_again(&self, id: StackRunId) -> Result<StackRun> {
        self.store.stack_run(id).await?.ok_or_else(|| Error::not_found("stack run"))
    }
}

impl RunMove {
    /// An empty move at this time.
    pub fn at(at: DateTime<Utc>) -> Self {
        Self { at, ..Self::default() }
    }
}

/// The user who asks; `None` for the console itself.
pub(crate) fn user_of(ctx: &OpCtx) -> Option<plural_core::ids::UserId> {
    match ctx.actor() {
        Actor::User(user) => Some(user.id),
        Actor::Nobody | Actor::Cluster(_) | Actor::Registration(_) | Actor::Run(_) | Actor::System => None,
    }
}

/// The associated data of a stack's sealed outputs.
pub(crate) fn output_context(stack: StackId) -> String {
    format!("stack_output:{stack}")
}

/// The value of an output; the name was sealed with it, so that values cannot be swapped.
pub(crate) fn output_opened(name: &str, opened: &[u8]) -> Result<serde_json::Value> {
    let failed = |why: &'static str| Error::internal(format!("opening output {name} of a stack"), why);
    let (sealed, value): (String, serde_json::Value) =
        serde_json::from_slice(opened).map_err(|_| failed("it is no name and value"))?;
    if sealed == name { Ok(value) } else { Err(failed("it is the value of another one")) }
}
