//! Runs of stacks: made, put together, started by an agent, approved, and ended.

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

/// What of a stack is sealed and goes into its runs.
#[derive(Debug, Clone, Default)]
pub struct SealedInputs {
    /// `Vec<InputVariable>` as JSON, sealed for `stack:ID:environment` (a stack's) or `stack_run:ID:environment` (a run's).
    pub environment: Option<Sealed>,
    /// `BTreeMap<String, String>` as JSON, sealed for `stack:ID:files` or `stack_run:ID:files`.
    pub files: Option<Sealed>,
    /// Variables that a run takes from other stacks, as a map in JSON, sealed for `stack_run:ID:taken`; a stack has none.
    pub taken: Option<Sealed>,
}

/// A part of a plan that is stored in sealed pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PlanPart {
    /// The tool's own file.
    File,
    /// The same as JSON.
    Json,
    /// What the tool printed of it.
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

/// What is found of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FindingKind {
    /// What it was checked by, and what that said: `CheckedPlan`.
    Policy,
    /// What Trivy said: findings of rules.
    Trivy,
    /// What it would cost: `PlanCost`.
    Cost,
    /// What the runner of another client found: findings of rules.
    Runner,
    /// Resources that the runner of another client names, also when it has applied.
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

/// A part of a plan as it is stored.
#[derive(Debug)]
pub struct PlanPartWrite {
    /// Which.
    pub part: PlanPart,
    /// SHA-256 of its bytes.
    pub digest: [u8; 32],
    /// Bytes.
    pub size: u64,
    /// Its pieces in order, each sealed for `stack_plan:RUN_ID` with its part (one byte) and its number (4 bytes, big endian) before its
    /// bytes.
    pub pieces: Vec<Sealed>,
}

/// A part of a plan as it was stored.
#[derive(Debug, Clone)]
pub struct PlanPartRead {
    /// SHA-256 of its bytes.
    pub digest: [u8; 32],
    /// Bytes.
    pub size: u64,
    /// Its pieces in order.
    pub pieces: Vec<Sealed>,
}

/// What changes of a run: decided by a use case, written in one transaction with the feed's event of its cluster.
///
/// A move into a status sets the error to what `error` says, absent or not. Into `Running` it sets when the run started, unless it had;
/// into one that is over, when it finished, and the credential ends; into `Queued`, the credential ends. Into `Running`, and with a
/// credential that begins, the run was heard of at `at`.
#[derive(Debug, Clone, Default)]
pub struct RunMove {
    /// Only while the run stands so; otherwise nothing is written, and [`StackRunStore::stack_run_move`] answers `None`.
    pub from: Vec<RunStatus>,
    /// Only in this phase and attempt.
    pub of: Option<(RunPhase, u32)>,
    /// Only as long as nothing of its Job has begun that may not be done twice ([`plural_core::stack_turns::has_begun`]).
    pub unbegun: bool,
    /// Where it goes.
    pub to: Option<RunStatus>,
    /// Into which phase; the attempt begins at 0 again, and the credential ends.
    pub phase: Option<RunPhase>,
    /// One more Job: `attempt` grows by one, the credential is this one. This is the hash of the credential for the state, which follows
    /// from that of the Job ([`plural_core::run_call::state_token`]): so one hash is enough for both.
    pub begins: Option<TokenHash>,
    /// The credential ends.
    pub ends_credential: bool,
    /// Its code is put together.
    pub source: Option<RunSource>,
    /// Its plan is stored.
    pub plan: Option<RunPlan>,
    /// One more approval.
    pub approval: Option<RunApproval>,
    /// Somebody asked for its end.
    pub cancel: bool,
    /// Why; without a status to go to, a note.
    pub error: Option<String>,
    /// Where its Job is.
    pub job: Option<JobRef>,
    /// Its steps from now on of the phases that these are of, replacing those of these phases that there were, with their logs.
    pub steps: Option<Vec<RunStep>>,
    /// When. Steps that are still running or pending become failed, where the run ends.
    pub at: DateTime<Utc>,
    /// The agent is told: the run's sequence grows and the feed gets an event.
    pub tells_agent: bool,
    /// Nothing of its Job goes on: the lock of the stack's state that it holds is released. That of anybody else stays.
    pub unlocks: bool,
    /// Runs of the same stack that this one supersedes: waiting for approval, or queued, no dry runs, made earlier. Each becomes
    /// cancelled with the reason "superseded by run N".
    pub supersedes: bool,
    /// What a look for drift found, where it ends well: all that there is of drift from then on.
    pub drift: Option<DriftWrite>,
    /// What the stack is told where the run ends well: the commit, and its outputs where they are others than before.
    pub applied: Option<(String, Option<Vec<SealedOutput>>)>,
    /// Work that comes after it, enqueued with it.
    pub follows: Vec<NewJob>,
}

/// An output of a stack as it is stored.
#[derive(Debug, Clone)]
pub struct SealedOutput {
    /// Name.
    pub name: String,
    /// The tool says that it is sensitive.
    pub secret: bool,
    /// `[name, value]` as JSON, sealed for `stack_output:STACK_ID`.
    pub value: Sealed,
}

/// A piece of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPiece {
    /// Place of its first byte in the log of its step.
    pub offset: u64,
    /// When its last byte was kept, or one behind it.
    pub at: DateTime<Utc>,
    /// The bytes, secrets already hidden.
    pub bytes: Vec<u8>,
}

/// A page of the runs that are not over, for the loop that moves them on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenRuns {
    /// The runs, oldest first, without those that cannot be read.
    pub runs: Vec<OpenRun>,
    /// The next page begins behind this one; none where this is the last.
    pub next: Option<StackRunId>,
    /// Stacks that are to be deleted and were destroyed, in the first page: their newest run that is no dry run destroyed them. They go as
    /// soon as their run is over; one that is still there has outlived the console that was to remove it.
    pub destroyed: Vec<StackId>,
}

/// Who presents the credential of a run.
#[derive(Debug, Clone)]
pub struct RunCredential {
    /// The run.
    pub run: StackRun,
    /// The stack's name.
    pub stack: String,
}

/// Runs of stacks.
///
/// Every method that changes a run also says so in the feed where the agent has to know, and to the deltas of the stack.
#[async_trait]
pub trait StackRunStore: Send + Sync + 'static {
    /// A new run, queued: `run.number` and `run.sequence` are chosen by the store. Environment and files are those of the stack, copied as
    /// they are sealed here. The job that puts its code together is enqueued with it.
    async fn stack_run_create(&self, by: Audited<'_, Stack, Write>, run: &MadeRun) -> Result<StackRun>;
    /// The same of a run of commands, for whoever may run their own.
    async fn stack_run_exec(&self, by: Audited<'_, Stack, ExecStack>, run: &MadeRun) -> Result<StackRun>;
    /// What of a stack is sealed.
    async fn stack_inputs(&self, stack: StackId) -> Result<SealedInputs>;
    /// One run, for the console itself.
    async fn stack_run(&self, id: StackRunId) -> Result<Option<StackRun>>;
    /// The newest run of a stack of those that do not only plan.
    async fn stack_run_newest(&self, stack: StackId) -> Result<Option<StackRun>>;
    /// The newest run of a stack that applied its code. One that found that there was nothing to apply is none: nobody agreed to its code.
    async fn stack_run_applied(&self, stack: StackId) -> Result<Option<StackRun>>;
    /// What a queued run takes from other stacks is known, before its code is put together: what goes into it is this from now on, and
    /// its note is gone. `None` where it is elsewhere by now.
    async fn stack_run_settle(
        &self,
        id: StackRunId,
        snapshot: &RunSnapshot,
        inputs: &SealedInputs,
    ) -> Result<Option<StackRun>>;
    /// What of a run is sealed.
    async fn stack_run_inputs(&self, id: StackRunId) -> Result<SealedInputs>;
    /// Runs of a stack that may be read, newest first: of these groups, or, where none is named, all.
    async fn stack_runs(
        &self,
        stack: &Authorized<Stack, Read>,
        of: &[RunGroup],
        page: &PageRequest,
    ) -> Result<Page<StackRun>>;
    /// Runs that are not over, of all stacks, oldest first, from behind `after`: a page of them, in one statement.
    async fn stack_runs_open(&self, after: Option<StackRunId>) -> Result<OpenRuns>;
    /// All runs of a stack that are not over, oldest first.
    async fn stack_runs_open_of(&self, stack: StackId) -> Result<Vec<StackRun>>;
    /// Runs that wait for approval, of all stacks, in the direction of the page: at most its limit, and the key behind which there may be
    /// more.
    async fn stack_runs_waiting(&self, page: &PageRequest) -> Result<(Vec<StackRun>, Option<Uuid>)>;
    /// Moves a run on, for a person: with their line in the audit log.
    async fn stack_run_decide(
        &self,
        by: Audited<'_, Stack, Approve>,
        id: StackRunId,
        change: &RunMove,
    ) -> Result<Option<StackRun>>;
    /// The same for who may write the stack: cancel, restart.
    async fn stack_run_change(
        &self,
        by: Audited<'_, Stack, Write>,
        id: StackRunId,
        change: &RunMove,
    ) -> Result<Option<StackRun>>;
    /// The same for whoever may run commands of their own: they end a run that has some.
    async fn stack_run_exec_change(
        &self,
        by: Audited<'_, Stack, ExecStack>,
        id: StackRunId,
        change: &RunMove,
    ) -> Result<Option<StackRun>>;
    /// Moves a run on, for the console, an agent or a harness. Ends of runs get a line in the audit log, by `actor`.
    async fn stack_run_move(
        &self,
        actor: &Actor,
        id: StackRunId,
        change: &RunMove,
    ) -> Result<Option<StackRun>>;
    /// Makes the next run of a stack pending where none is pending or running: of those that are queued and whose code is put
    /// together, the one in phase `Apply` first, then by trigger (later ones of [`plural_core::stack_run::RunTrigger`] first), then the
    /// oldest. In one transaction with the event for its cluster's agent. It counts as heard of at `at`: from then on the agent has its
    /// time. Answers the run.
    async fn stack_run_next(&self, stack: StackId, at: DateTime<Utc>) -> Result<Option<StackRun>>;
    /// The steps of a run, in order.
    async fn stack_run_steps(&self, id: StackRunId) -> Result<Vec<RunStep>>;
    /// A step of a run moves, with its exit code; a step that is over stays. It is a sign of life, too, kept in the same write: where the
    /// run is not running, in this phase and attempt, nothing is kept, and the answer is `false`.
    async fn stack_run_step(
        &self,
        id: StackRunId,
        of: (RunPhase, u32),
        index: u32,
        to: (StepStatus, Option<i32>),
        at: DateTime<Utc>,
    ) -> Result<bool>;
    /// Appends to the log of a step what lies beyond what is known, and answers how many bytes are known then. Bytes before the known
    /// end are not kept twice; a gap is refused with [`plural_core::Error::Conflict`]. A step that says something runs, where it was
    /// pending. It is a sign of life, too, kept in the same write, also of a piece that is refused; where the run is not running, in this phase and attempt, nothing is kept, and the answer
    /// is `None`.
    async fn stack_run_log(
        &self,
        id: StackRunId,
        of: (RunPhase, u32),
        index: u32,
        piece: &LogPiece,
    ) -> Result<Option<u64>>;
    /// The log of a step from a place on, at most so many bytes.
    async fn stack_run_logs(
        &self,
        id: StackRunId,
        index: u32,
        from: u64,
        bytes: u64,
    ) -> Result<Vec<LogPiece>>;
    /// A sign of life; answers the run as it stands.
    async fn stack_run_beat(&self, id: StackRunId, at: DateTime<Utc>) -> Result<Option<StackRun>>;
    /// Stores a part of a plan in place of what was stored of it, while the run is running in phase plan and has no plan yet.
    async fn stack_plan_put(&self, id: StackRunId, write: &PlanPartWrite) -> Result<()>;
    /// A part of the plan of a run.
    async fn stack_plan_get(&self, id: StackRunId, part: PlanPart) -> Result<Option<PlanPartRead>>;
    /// Stores what was found of a plan in place of what was found before. It is sealed for `stack_run_finding:RUN_ID`, with the word of its
    /// kind and a NUL before its JSON.
    async fn stack_finding_put(&self, id: StackRunId, kind: FindingKind, found: &Sealed) -> Result<()>;
    /// What was found of the plan of a run.
    async fn stack_findings(&self, id: StackRunId) -> Result<Vec<(FindingKind, Sealed)>>;
    /// The run whose running or pending Job has this credential for the state.
    async fn stack_run_credential(&self, hash: &TokenHash) -> Result<Option<RunCredential>>;
    /// The token of the actor of a run that applies holds from now on, until its Job is over. Whether that Job runs.
    async fn stack_run_actor_begins(&self, id: StackRunId, attempt: u32, hash: &TokenHash) -> Result<bool>;
    /// Runs of a cluster whose Jobs its agent is to make, or has made and that go on.
    async fn stack_runs_of_cluster(&self, cluster: ClusterId, page: &PageRequest) -> Result<Page<StackRun>>;
    /// The user that the token of a run's actor speaks for while its Job runs, with what the token reaches.
    async fn stack_run_actor(&self, hash: &TokenHash) -> Result<Option<UserActor>>;
    /// The outputs of a stack, by name; secret values are not opened for a list.
    async fn stack_outputs(&self, stack: StackId) -> Result<Vec<SealedOutput>>;
    /// These runs of a cluster that its agent has to know of: pending, running, or just over or queued again with a Job that may be left.
    async fn agent_runs(&self, cluster: ClusterId, ids: &[StackRunId]) -> Result<Vec<StackRun>>;
    /// Stacks whose repository is this one, and that follow it: not paused, not deleted, for the job that looks for new commits.
    async fn stack_sources(&self, repository: RepositoryId) -> Result<Vec<Stack>>;
    /// Records the closure and commit that were looked at last for a stack, or why they cannot be.
    async fn stack_source_seen(
        &self,
        stack: StackId,
        seen: &std::result::Result<(String, String), String>,
        at: DateTime<Utc>,
    ) -> Result<()>;
    /// The closure digest that was seen last.
    async fn stack_seen(&self, stack: StackId) -> Result<Option<String>>;
    /// Removes runs that are over beyond the newest `keep` of each stack, with their plans and logs; how many. Each is gone for whoever asks
    /// before the first of its pieces goes, and these go in small writes; what one pass leaves, the next one takes.
    async fn stack_runs_prune(&self, keep: u32) -> Result<u64>;
}

/// A run that is ready to be stored.
#[derive(Debug)]
pub struct MadeRun {
    /// The run; its number and sequence are chosen by the store.
    pub run: StackRun,
    /// What of it is sealed.
    pub inputs: SealedInputs,
    /// The job that puts its code together.
    pub prepare: NewJob,
}

/// A run that somebody asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewRun {
    /// What it is to do.
    pub kind: RunKind,
    /// What asks.
    pub trigger: RunTrigger,
}

impl App {
    /// A new run of a stack as it is now; needs write access to it.
    pub async fn stack_run_create(&self, ctx: &OpCtx, stack: StackId, new: NewRun) -> Result<StackRun> {
        let stack = self.authorized::<Stack, Write>(ctx, &StackSelector::Id(stack)).await?;
        if stack.deleted_at.is_some() && new.kind != RunKind::Destroy {
            return Err(Error::conflict("the stack is being deleted: restore it first"));
        }
        self.stack_has_room(stack.id).await?;
        // Of one that is being deleted that was decided with its deletion.
        if new.kind == RunKind::Destroy && stack.deleted_at.is_none() {
            self.stack_is_unneeded(ctx, &stack).await?;
        }
        self.stack_run_of(ctx, &stack, new).await
    }

    /// A run of a stack that may be read.
    pub async fn stack_run_get(&self, ctx: &OpCtx, id: StackRunId) -> Result<StackRun> {
        Ok(self.stack_run_for::<Read>(ctx, id).await?.1)
    }

    /// Runs of a stack, newest first: of these groups, or, where none is named, all.
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

    /// The commands of a run, in order.
    pub async fn stack_run_steps(&self, ctx: &OpCtx, id: StackRunId) -> Result<Vec<RunStep>> {
        let (_, run) = self.stack_run_for::<Read>(ctx, id).await?;
        self.store.stack_run_steps(run.id).await
    }

    /// The log of a step from a place on, and the place behind it.
    pub async fn stack_run_log(
        &self,
        ctx: &OpCtx,
        id: StackRunId,
        index: u32,
        from: u64,
        bytes: u64,
    ) -> Result<(Vec<LogPiece>, u64)> {
        /// Bytes of one answer.
        const MOST: u64 = 1 << 20;
        let (_, run) = self.stack_run_for::<Read>(ctx, id).await?;
        let pieces = self.store.stack_run_logs(run.id, index, from, bytes.clamp(1, MOST)).await?;
        let next = pieces.last().map_or(from, |piece| piece.offset + piece.bytes.len() as u64);
        Ok((pieces, next))
    }

    /// Agrees to the plan of this digest; needs the right to approve on the stack.
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
        // Where it has to wait, it stays approved.
        Box::pin(self.run_applies(&run)).await?;
        self.stack_run_again(id).await
    }

    /// Refuses the plan: nothing is applied. Needs the right to approve on the stack.
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

    /// Ends a run: at once where its Job has not begun, else as soon as the tool has stopped. Needs write access to the stack; whoever
    /// gave a run its commands ends it as long as they may run some.
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

    /// A new run of the same kind of the stack as it is now; needs write access to it.
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

    /// What a stack gives to others; secret values only to whoever may read its state.
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

    /// A run, and its stack to do `A` to.
    pub(crate) async fn stack_run_for<A: Act>(
        &self,
        ctx: &OpCtx,
        id: StackRunId,
    ) -> Result<(Authorized<Stack, A>, StackRun)> {
        // Whoever may not see the stack must not know of the run.
        let hidden = |error| match error {
            Error::NotFound { .. } => Error::not_found("stack run"),
            error => error,
        };
        // What the token of a run's actor reaches, its stack decides below.
        plural_core::access::check_scopes(&ctx.actor().beyond_run())?;
        if matches!(ctx.actor(), Actor::Nobody) {
            return Err(Error::Unauthenticated);
        }
        let run = self.store.stack_run(id).await?.ok_or_else(|| Error::not_found("stack run"))?;
        let stack = self.authorized::<Stack, A>(ctx, &StackSelector::Id(run.stack_id)).await;
        Ok((stack.map_err(hidden)?, run))
    }

    /// A run as it stands by now.
    pub(crate) async fn stack_run_again(&self, id: StackRunId) -> Result<StackRun> {
        self.store.stack_run(id).await?.ok_or_else(|| Error::not_found("stack run"))
    }
}

impl RunMove {
    /// Nothing but the moment.
    pub fn at(at: DateTime<Utc>) -> Self {
        Self { at, ..Self::default() }
    }
}

/// Which user asks; none where it is the console.
pub(crate) fn user_of(ctx: &OpCtx) -> Option<plural_core::ids::UserId> {
    match ctx.actor() {
        Actor::User(user) => Some(user.id),
        Actor::Nobody | Actor::Cluster(_) | Actor::Registration(_) | Actor::Run(_) | Actor::System => None,
    }
}

/// What outputs of a stack are sealed for.
pub(crate) fn output_context(stack: StackId) -> String {
    format!("stack_output:{stack}")
}

/// The value of an output; the name was sealed with it, so that values cannot be exchanged.
pub(crate) fn output_opened(name: &str, opened: &[u8]) -> Result<serde_json::Value> {
    let failed = |why: &'static str| Error::internal(format!("opening output {name} of a stack"), why);
    let (sealed, value): (String, serde_json::Value) =
        serde_json::from_slice(opened).map_err(|_| failed("it is no name and value"))?;
    if sealed == name { Ok(value) } else { Err(failed("it is the value of another one")) }
}
