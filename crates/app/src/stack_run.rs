//! Runs of stacks: made, put together, started by an agent, approved, and ended.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::Result;
use plural_core::access::Actor;
use plural_core::ids::{ClusterId, StackId, StackRunId};
use plural_core::page::{Page, PageRequest};
use plural_core::stack::Stack;
use plural_core::stack_run::{
    JobRef, RunApproval, RunPhase, RunPlan, RunSource, RunStatus, RunStep, StackRun, StepStatus,
};

use crate::access::{Approve, Audited, Authorized, Read, Write};
use crate::seal::Sealed;
use crate::secret::TokenHash;

/// What of a stack is sealed and goes into its runs.
#[derive(Debug, Clone, Default)]
pub struct SealedInputs {
    /// `Vec<InputVariable>` as JSON, sealed for `stack:ID:environment` (a stack's) or `stack_run:ID:environment` (a run's).
    pub environment: Option<Sealed>,
    /// `BTreeMap<String, String>` as JSON, sealed for `stack:ID:files` or `stack_run:ID:files`.
    pub files: Option<Sealed>,
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

/// A part of a plan as it is stored.
#[derive(Debug)]
pub struct PlanPartWrite {
    /// Which.
    pub part: PlanPart,
    /// SHA-256 of its bytes.
    pub digest: [u8; 32],
    /// Bytes.
    pub size: u64,
    /// Its pieces in order, each with its number before its bytes (4 bytes, big endian), sealed for `stack_plan:RUN_ID:PART`.
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
#[derive(Debug, Clone, Default)]
pub struct RunMove {
    /// Only while the run stands so; otherwise nothing is written, and [`StackRunStore::stack_run_move`] answers `None`.
    pub from: Vec<RunStatus>,
    /// Only in this phase and attempt.
    pub of: Option<(RunPhase, u32)>,
    /// Where it goes.
    pub to: Option<RunStatus>,
    /// Into which phase; the attempt begins at 0 again.
    pub phase: Option<RunPhase>,
    /// One more Job: `attempt` grows by one, the credential is this one.
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
    /// Why.
    pub error: Option<String>,
    /// Where its Job is.
    pub job: Option<JobRef>,
    /// Its steps from now on that are of this phase, replacing those of this phase that there were.
    pub steps: Option<Vec<RunStep>>,
    /// Steps that are still running or pending become failed, where the run ends.
    pub at: DateTime<Utc>,
    /// The agent is told: the run's sequence grows and the feed gets an event.
    pub tells_agent: bool,
    /// Runs of the same stack that this one supersedes: waiting for approval, or queued, no dry runs, made earlier. Each becomes
    /// cancelled with the reason "superseded by run N".
    pub supersedes: bool,
    /// What the stack is told where the run ends well: the commit and its outputs.
    pub applied: Option<(String, Option<Vec<SealedOutput>>)>,
}

/// An output of a stack as it is stored.
#[derive(Debug, Clone)]
pub struct SealedOutput {
    /// Name.
    pub name: String,
    /// The tool says that it is sensitive.
    pub secret: bool,
    /// The value as JSON, sealed for `stack_output:STACK_ID:NAME`.
    pub value: Sealed,
}

/// A piece of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPiece {
    /// Place of its first byte in the log of its step.
    pub offset: u64,
    /// When it was kept.
    pub at: DateTime<Utc>,
    /// The bytes, secrets already hidden.
    pub bytes: Vec<u8>,
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
    /// they are sealed here.
    async fn stack_run_create(
        &self,
        by: Audited<'_, Stack, Write>,
        run: &StackRun,
        inputs: &SealedInputs,
    ) -> Result<StackRun>;
    /// What of a stack is sealed.
    async fn stack_inputs(&self, stack: StackId) -> Result<SealedInputs>;
    /// One run, for the console itself.
    async fn stack_run(&self, id: StackRunId) -> Result<Option<StackRun>>;
    /// What of a run is sealed.
    async fn stack_run_inputs(&self, id: StackRunId) -> Result<SealedInputs>;
    /// Runs of a stack that may be read, newest first.
    async fn stack_runs(&self, stack: &Authorized<Stack, Read>, page: &PageRequest)
    -> Result<Page<StackRun>>;
    /// Runs that are not over, of all stacks, oldest first, at most 1 000: for the loop that moves them on.
    async fn stack_runs_open(&self) -> Result<Vec<StackRun>>;
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
    /// Moves a run on, for the console, an agent or a harness. Ends of runs get a line in the audit log, by `actor`.
    async fn stack_run_move(
        &self,
        actor: &Actor,
        id: StackRunId,
        change: &RunMove,
    ) -> Result<Option<StackRun>>;
    /// Makes the next run of a stack pending where none is pending or running: of those that are queued and whose code is put
    /// together, the one in phase `Apply` first, then by trigger (later ones of [`plural_core::stack_run::RunTrigger`] first), then the
    /// oldest. In one transaction with the event for its cluster's agent. Answers the run.
    async fn stack_run_next(&self, stack: StackId, at: DateTime<Utc>) -> Result<Option<StackRun>>;
    /// The steps of a run, in order.
    async fn stack_run_steps(&self, id: StackRunId) -> Result<Vec<RunStep>>;
    /// A step of a run moves; a step that is over stays.
    async fn stack_run_step(
        &self,
        id: StackRunId,
        index: u32,
        status: StepStatus,
        exit_code: Option<i32>,
        at: DateTime<Utc>,
    ) -> Result<()>;
    /// Appends to the log of a step what lies beyond what is known, and answers how many bytes are known then. Bytes before the known
    /// end are not kept twice; a gap is refused with [`plural_core::Error::Conflict`].
    async fn stack_run_log(&self, id: StackRunId, index: u32, piece: &LogPiece) -> Result<u64>;
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
    /// The run whose running or pending Job has this credential.
    async fn stack_run_credential(&self, hash: &TokenHash) -> Result<Option<RunCredential>>;
    /// The outputs of a stack, by name; secret values are not opened for a list.
    async fn stack_outputs(&self, stack: StackId) -> Result<Vec<SealedOutput>>;
    /// These runs of a cluster that its agent has to know of: pending, running, or just over with a Job that is left.
    async fn agent_runs(&self, cluster: ClusterId, ids: &[StackRunId]) -> Result<Vec<StackRun>>;
    /// Stacks whose repository is this one, and that follow it: not paused, not deleted, for the job that looks for new commits.
    async fn stack_sources(&self, repository: plural_core::ids::RepositoryId) -> Result<Vec<Stack>>;
    /// Records the closure and commit that were looked at last for a stack, or why they cannot be.
    async fn stack_source_seen(
        &self,
        stack: StackId,
        seen: &std::result::Result<(String, String), String>,
        at: DateTime<Utc>,
    ) -> Result<()>;
    /// The closure digest that was seen last.
    async fn stack_seen(&self, stack: StackId) -> Result<Option<String>>;
    /// Removes runs that are over beyond the newest `keep` of each stack, with their plans and logs; how many.
    async fn stack_runs_prune(&self, keep: u32) -> Result<u64>;
}
