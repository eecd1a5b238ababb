//! Runs of stacks: a plan, the people who agree to it, and the Job that applies that very plan.
//!
//! A run has two Jobs at most. The first plans; what it plans is stored with its digest, and its Pod ends. When it is approved, or needs
//! no approval, the second applies the stored plan. Between them the run holds nothing: neither the stack's queue nor its lock.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ids::{ClusterId, ProjectId, RepositoryId, RunStepId, StackId, StackRunId, UserId};
use crate::page::Keyed;
use crate::service::GitRef;
use crate::stack::StackTool;
use crate::stack_dependency::Upstream;
use crate::stack_spec::{StackSpec, Stage};

/// What a run is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// Plan, and apply that plan.
    Apply,
    /// Plan only: nothing is changed, whatever anybody approves.
    DryRun,
    /// Plan the destruction of everything, and do it.
    Destroy,
    /// Compare what the tool knows with what there is: nothing is changed.
    Drift,
    /// Run the commands that somebody gave it: it is no plan, and supersedes none.
    Commands,
}

impl RunKind {
    /// It is about what the stack is: its plan is the newest, and how it ends is how the stack stands.
    pub const fn is_of_stack(self) -> bool {
        match self {
            Self::Apply | Self::Destroy => true,
            Self::DryRun | Self::Drift | Self::Commands => false,
        }
    }
}

/// Which Job of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunPhase {
    /// The one that plans. It reads the stack's state.
    Plan,
    /// The one that applies what was planned. It writes the stack's state.
    Apply,
}

/// What made a run. The later ones go first where several wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunTrigger {
    /// A pull request. Its plan waits for all others of the stack, and none waits for it.
    PullRequest,
    /// The clock.
    Cron,
    /// The stack was changed.
    Spec,
    /// A commit.
    Commit,
    /// Another stack gives other outputs.
    Upstream,
    /// A person.
    Manual,
}

/// What the runs of a stack are of, in lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunGroup {
    /// The stack itself: its plans, applies and destructions.
    Stack,
    /// Pull requests and previews of them: plans that nothing comes of.
    PullRequest,
    /// Looks for drift.
    Drift,
    /// Commands that somebody gave it.
    Commands,
}

impl RunGroup {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Stack, Self::PullRequest, Self::Drift, Self::Commands];

    /// Of which a run is, by what it is to do and what made it.
    pub const fn of(kind: RunKind, trigger: RunTrigger) -> Self {
        match (kind, trigger) {
            (_, RunTrigger::PullRequest) => Self::PullRequest,
            (RunKind::Drift, _) => Self::Drift,
            (RunKind::Commands, _) => Self::Commands,
            (RunKind::Apply | RunKind::DryRun | RunKind::Destroy, _) => Self::Stack,
        }
    }
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Its code is being put together, or another run of the stack goes first.
    Queued,
    /// The cluster's agent is to start its Job.
    Pending,
    /// Its Job has spoken.
    Running,
    /// Its plan waits for people.
    PendingApproval,
    /// Done.
    Successful,
    /// It ended otherwise; its error says how.
    Failed,
    /// A person or a later run ended it.
    Cancelled,
}

/// How far a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Not begun.
    Pending,
    /// Its command runs.
    Running,
    /// Its command ended well.
    Successful,
    /// It did not.
    Failed,
}

/// Gives an enum its words in the database.
macro_rules! words {
    ($type:ident: $($variant:ident = $word:literal),+ $(,)?) => {
        impl $type {
            /// All of them.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// The word in the database.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// The one of this word.
            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.as_str() == word)
            }
        }
    };
}

words!(RunKind: Apply = "apply", DryRun = "dry_run", Destroy = "destroy", Drift = "drift", Commands = "commands");
words!(RunPhase: Plan = "plan", Apply = "apply");
words!(RunTrigger: PullRequest = "pull_request", Cron = "cron", Spec = "spec", Commit = "commit", Upstream = "upstream",
    Manual = "manual");
words!(RunStatus: Queued = "queued", Pending = "pending", Running = "running", PendingApproval = "pending_approval",
    Successful = "successful", Failed = "failed", Cancelled = "cancelled");
words!(StepStatus: Pending = "pending", Running = "running", Successful = "successful", Failed = "failed");

impl RunKind {
    /// Nothing comes of its plan: it is applied by nobody, waits for nobody, and takes nobody's place.
    pub const fn only_plans(self) -> bool {
        matches!(self, Self::DryRun | Self::Drift)
    }

    /// It waits for the stacks that its own depends on. What is destroyed, or looked at, needs what it was made with, as far as that is
    /// left, and waits for nothing.
    pub const fn waits_for_others(self) -> bool {
        match self {
            Self::Apply | Self::DryRun => true,
            Self::Destroy | Self::Drift | Self::Commands => false,
        }
    }
}

impl RunStatus {
    /// Nothing follows.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Successful | Self::Failed | Self::Cancelled)
    }

    /// It has the stack's queue: no other Job of the stack begins.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
}

/// All that goes into a run, as it was when the run was made. What is sealed is elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSnapshot {
    /// The tool.
    pub tool: StackTool,
    /// Where its code is.
    pub repository_id: RepositoryId,
    /// What of it.
    pub git: GitRef,
    /// Everything else.
    pub spec: StackSpec,
    /// 32 bytes, in hex, of what decides a plan besides code and state: this document, environment and files. Only the installation can
    /// make them.
    pub inputs_digest: String,
    /// What it takes from other stacks; absent where it depends on none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<Upstream>,
}

/// The code of a run, once it is put together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSource {
    /// Commit.
    pub sha: String,
    /// First line of its message.
    pub message: String,
    /// Name of its author.
    pub author: String,
    /// E-mail addresses of its author and of whoever committed it, as the commit says. Where people may not approve what is their own: of all
    /// whose commits change the code since the commit that was applied last.
    #[serde(default)]
    pub emails: Vec<String>,
    /// There are more of them than can be told.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more_emails: bool,
    /// The commits that were looked at for that, also those that do not change the code.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commits: Vec<String>,
    /// Digest of everything that the code reaches in the repository.
    pub closure_digest: String,
    /// SHA-256, in hex, of the artifact.
    pub artifact_digest: String,
    /// Folder of the stack inside the artifact.
    pub folder: String,
}

/// What a run planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunPlan {
    /// SHA-256, in hex, over the digests of the plan file, the plan's JSON and its text: what people approve.
    pub digest: String,
    /// SHA-256, in hex, of the plan file; absent for tools that have none.
    pub file_digest: Option<String>,
    /// Bytes of the plan file.
    pub file_size: u64,
    /// What it would do.
    pub summary: PlanSummary,
    /// The serial of the state that it was made from; absent without a state here.
    pub state_serial: Option<u64>,
    /// SHA-256, in hex, of the lock file of the tool's providers; absent where there is none.
    pub lock_digest: Option<String>,
    /// When it was stored.
    pub at: DateTime<Utc>,
}

/// What a plan would do, by resources.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanSummary {
    /// Made.
    pub add: u64,
    /// Changed in their place.
    pub change: u64,
    /// Destroyed; those that are replaced count here and among the made ones.
    pub destroy: u64,
    /// Destroyed, and made again.
    pub replace: u64,
    /// Values of outputs change, or the tool cannot say what it would do.
    pub other: bool,
}

impl PlanSummary {
    /// Nothing is to be done.
    pub const fn is_empty(&self) -> bool {
        self.add == 0 && self.change == 0 && self.destroy == 0 && !self.other
    }
}

/// Somebody agreed to a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunApproval {
    /// Who.
    pub user_id: UserId,
    /// As the audit log names them.
    pub by: String,
    /// The digest of the plan that they saw.
    pub digest: String,
    /// When.
    pub at: DateTime<Utc>,
    /// In hex, over all of that and the run. Only the installation can make it: whoever writes the database agrees to nothing.
    #[serde(default)]
    pub mac: String,
}

/// Where the Job of a run is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobRef {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackRun {
    /// Id.
    pub id: StackRunId,
    /// Of this stack.
    pub stack_id: StackId,
    /// In this project.
    pub project_id: ProjectId,
    /// Where its Jobs run.
    pub cluster_id: ClusterId,
    /// Counts the runs of the stack, from 1.
    pub number: u64,
    /// What it is to do.
    pub kind: RunKind,
    /// What made it.
    pub trigger: RunTrigger,
    /// How far it is.
    pub status: RunStatus,
    /// Which Job is next, or runs, or ran last.
    pub phase: RunPhase,
    /// Counts the Jobs that were begun in this phase, from 1: a harness of an earlier one is refused.
    pub attempt: u32,
    /// What goes in.
    pub snapshot: RunSnapshot,
    /// Its code; absent until it is put together.
    pub source: Option<RunSource>,
    /// What it planned.
    pub plan: Option<RunPlan>,
    /// Who agreed, in order.
    pub approvals: Vec<RunApproval>,
    /// Somebody asked for its end.
    pub cancel_asked: bool,
    /// Why it ended as it did, in words.
    pub error: Option<String>,
    /// Where its Job is.
    pub job: Option<JobRef>,
    /// When its Job was last heard of.
    pub heartbeat_at: Option<DateTime<Utc>>,
    /// Who made it; absent for the console itself.
    pub created_by: Option<UserId>,
    /// As the audit log names them.
    pub author: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When its first Job spoke.
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
    /// Grows with each change: the sequence of the agent's work.
    pub sequence: u64,
}

impl StackRun {
    /// The console keeps the state of its tool.
    pub fn keeps_state(&self) -> bool {
        self.snapshot.spec.manage_state && self.snapshot.tool.has_state()
    }

    /// It does not have yet what it takes from other stacks.
    pub fn is_held(&self) -> bool {
        self.status == RunStatus::Queued && self.snapshot.upstream.as_ref().is_some_and(Upstream::is_held)
    }

    /// It waits for other stacks, however long that takes.
    pub fn waits_for_others(&self) -> bool {
        self.kind.waits_for_others() && self.is_held()
    }

    /// Since when its code may be put together: it waits for nothing else.
    pub fn free_since(&self) -> DateTime<Utc> {
        let settled = self.snapshot.upstream.as_ref().and_then(|upstream| upstream.settled_at);
        settled.unwrap_or(self.created_at)
    }

    /// It is this Job that counts.
    pub fn is_at(&self, phase: RunPhase, attempt: u32) -> bool {
        self.phase == phase && self.attempt == attempt
    }
}

impl Keyed for StackRun {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

/// A command of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunStep {
    /// Id.
    pub id: RunStepId,
    /// Of this run.
    pub run_id: StackRunId,
    /// In which Job.
    pub phase: RunPhase,
    /// Its place among all steps of the run, from 0.
    pub index: u32,
    /// What it is for.
    pub stage: Stage,
    /// "plan".
    pub name: String,
    /// Program.
    pub cmd: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// How far it is.
    pub status: StepStatus,
    /// How the command ended.
    pub exit_code: Option<i32>,
    /// When it began.
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
}

/// A value that a stack gives to others.
#[derive(Clone, PartialEq, Eq)]
pub struct StackOutput {
    /// Name.
    pub name: String,
    /// JSON; absent where it is secret and the reader may not see it.
    pub value: Option<serde_json::Value>,
    /// The tool says that it is sensitive.
    pub secret: bool,
}

impl std::fmt::Debug for StackOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, value: _, secret } = self;
        f.debug_struct("StackOutput").field("name", name).field("secret", secret).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod samples;
