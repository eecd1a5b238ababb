//! Runs of stacks: a plan, its approvals, and the Job that applies that very plan.
//!
//! A run has at most two Jobs. The first one plans; the console stores the plan with its digest, and the Pod ends. After approval, or if
//! none is required, the second Job applies the stored plan. In between, the run holds neither the stack's queue nor its lock.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ids::{ClusterId, ProjectId, RepositoryId, RunStepId, StackId, StackRunId, UserId};
use crate::page::Keyed;
use crate::service::GitRef;
use crate::stack::StackTool;
use crate::stack_dependency::Upstream;
use crate::stack_spec::{StackSpec, Stage};

/// What a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// Plans, and applies that plan.
    Apply,
    /// Only plans: changes nothing, even with approval.
    DryRun,
    /// Plans the destruction of all resources, and carries it out.
    Destroy,
    /// Compares the tool's state with reality: changes nothing.
    Drift,
    /// Runs commands that a user gave: it is not a plan, and supersedes none.
    Commands,
}

impl RunKind {
    /// Whether it determines the stack's status: its plan is the newest one, and its result is the result of the stack.
    pub const fn is_of_stack(self) -> bool {
        match self {
            Self::Apply | Self::Destroy => true,
            Self::DryRun | Self::Drift | Self::Commands => false,
        }
    }
}

/// The Jobs of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunPhase {
    /// The Job that plans. It reads the stack's state.
    Plan,
    /// The Job that applies the plan. It writes the stack's state.
    Apply,
}

/// What triggered a run. If several runs wait, later variants go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunTrigger {
    /// A pull request. Its plan waits for all other runs of the stack, and none waits for it.
    PullRequest,
    /// The schedule.
    Cron,
    /// A change of the stack.
    Spec,
    /// A commit.
    Commit,
    /// New outputs of another stack.
    Upstream,
    /// A user.
    Manual,
}

/// Categories of a stack's runs, for lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunGroup {
    /// Plans, applies and destructions of the stack itself.
    Stack,
    /// Plans of pull requests and previews, which are never applied.
    PullRequest,
    /// Drift checks.
    Drift,
    /// Commands that a user gave.
    Commands,
}

impl RunGroup {
    /// All variants.
    pub const ALL: [Self; 4] = [Self::Stack, Self::PullRequest, Self::Drift, Self::Commands];

    /// The category of a run, by what it does and what triggered it.
    pub const fn of(kind: RunKind, trigger: RunTrigger) -> Self {
        match (kind, trigger) {
            (_, RunTrigger::PullRequest) => Self::PullRequest,
            (RunKind::Drift, _) => Self::Drift,
            (RunKind::Commands, _) => Self::Commands,
            (RunKind::Apply | RunKind::DryRun | RunKind::Destroy, _) => Self::Stack,
        }
    }
}

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// The console prepares its code, or another run of the stack goes first.
    Queued,
    /// The cluster's agent has to start its Job.
    Pending,
    /// Its Job has reported.
    Running,
    /// Its plan waits for approval.
    PendingApproval,
    /// It succeeded.
    Successful,
    /// It failed; its error has the reason.
    Failed,
    /// A user or a later run cancelled it.
    Cancelled,
}

/// The status of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Not started.
    Pending,
    /// Its command runs.
    Running,
    /// Its command succeeded.
    Successful,
    /// Its command failed.
    Failed,
}

/// Gives an enum its words in the database.
macro_rules! words {
    ($type:ident: $($variant:ident = $word:literal),+ $(,)?) => {
        impl $type {
            /// All variants.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// The word in the database.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// The variant of this word.
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
    /// Whether its plan is never applied: it needs no approval, and supersedes no other run.
    pub const fn only_plans(self) -> bool {
        matches!(self, Self::DryRun | Self::Drift)
    }

    /// Whether it waits for the stacks that its own depends on. A destruction and a drift check use what is left of the outputs that
    /// the stack was created with, and wait for nothing.
    pub const fn waits_for_others(self) -> bool {
        match self {
            Self::Apply | Self::DryRun => true,
            Self::Destroy | Self::Drift | Self::Commands => false,
        }
    }
}

impl RunStatus {
    /// Whether the run has ended.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Successful | Self::Failed | Self::Cancelled)
    }

    /// Whether it holds the stack's queue: no other Job of the stack starts.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
}

/// Everything that goes into a run, frozen when the run was created. Sealed values are elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSnapshot {
    /// The tool.
    pub tool: StackTool,
    /// The repository of its code.
    pub repository_id: RepositoryId,
    /// The revision and folder of its code.
    pub git: GitRef,
    /// All other settings.
    pub spec: StackSpec,
    /// 32 bytes, in hex, over what decides a plan besides code and state: this document, environment and files. Only the installation can
    /// compute them.
    pub inputs_digest: String,
    /// What it takes from other stacks; absent if it depends on none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<Upstream>,
}

/// The code of a run, once it is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSource {
    /// Commit.
    pub sha: String,
    /// First line of its message.
    pub message: String,
    /// Name of its author.
    pub author: String,
    /// E-mail addresses of its author and its committer, as the commit has them. If self-approval is forbidden: of the authors and
    /// committers of all commits that changed the code since the last applied commit.
    #[serde(default)]
    pub emails: Vec<String>,
    /// There are more of them than can be listed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more_emails: bool,
    /// The commits that were read for that, including those that do not change the code.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commits: Vec<String>,
    /// Digest of everything that the code reaches in the repository.
    pub closure_digest: String,
    /// SHA-256, in hex, of the artifact.
    pub artifact_digest: String,
    /// Folder of the stack inside the artifact.
    pub folder: String,
}

/// The plan of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunPlan {
    /// SHA-256, in hex, over the digests of the plan file, the plan's JSON and its text: what people approve.
    pub digest: String,
    /// SHA-256, in hex, of the plan file; absent for tools that have none.
    pub file_digest: Option<String>,
    /// Bytes of the plan file.
    pub file_size: u64,
    /// The changes in numbers.
    pub summary: PlanSummary,
    /// Serial of the state that it is based on; absent if the console holds no state.
    pub state_serial: Option<u64>,
    /// SHA-256, in hex, of the lock file of the tool's providers; absent if there is none.
    pub lock_digest: Option<String>,
    /// When it was stored.
    pub at: DateTime<Utc>,
}

/// The changes of a plan, in numbers of resources.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanSummary {
    /// Created.
    pub add: u64,
    /// Updated in place.
    pub change: u64,
    /// Destroyed; replaced resources count here and as created.
    pub destroy: u64,
    /// Replaced: destroyed and created again.
    pub replace: u64,
    /// Values of outputs change, or the tool cannot tell what it would change.
    pub other: bool,
}

impl PlanSummary {
    /// Whether there is nothing to do.
    pub const fn is_empty(&self) -> bool {
        self.add == 0 && self.change == 0 && self.destroy == 0 && !self.other
    }
}

/// An approval of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunApproval {
    /// The user.
    pub user_id: UserId,
    /// The name in the audit log.
    pub by: String,
    /// The digest of the plan that they saw.
    pub digest: String,
    /// When.
    pub at: DateTime<Utc>,
    /// A signature in hex, over all of that and the run. Only the installation can compute it: write access to the database is not enough.
    #[serde(default)]
    pub mac: String,
}

/// The Job of a run.
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
    /// The stack.
    pub stack_id: StackId,
    /// The project.
    pub project_id: ProjectId,
    /// The cluster of its Jobs.
    pub cluster_id: ClusterId,
    /// Number of the run within the stack, from 1.
    pub number: u64,
    /// What it does.
    pub kind: RunKind,
    /// What triggered it.
    pub trigger: RunTrigger,
    /// Its status.
    pub status: RunStatus,
    /// The Job that is next, runs, or ran last.
    pub phase: RunPhase,
    /// Attempt in this phase, from 1: the console rejects the harness of an earlier attempt.
    pub attempt: u32,
    /// Its frozen inputs.
    pub snapshot: RunSnapshot,
    /// Its code; absent until it is ready.
    pub source: Option<RunSource>,
    /// Its plan.
    pub plan: Option<RunPlan>,
    /// Its approvals, in order.
    pub approvals: Vec<RunApproval>,
    /// A user asked for its cancellation.
    pub cancel_asked: bool,
    /// The reason of its end, in words.
    pub error: Option<String>,
    /// Its Job.
    pub job: Option<JobRef>,
    /// Last heartbeat of its Job.
    pub heartbeat_at: Option<DateTime<Utc>>,
    /// Who created it; absent for the console itself.
    pub created_by: Option<UserId>,
    /// The name in the audit log.
    pub author: String,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When its first Job reported for the first time.
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
    /// Grows with each change: the sequence of the agent's work.
    pub sequence: u64,
}

impl StackRun {
    /// Whether the console holds the state of its tool.
    pub fn keeps_state(&self) -> bool {
        self.snapshot.spec.manage_state && self.snapshot.tool.has_state()
    }

    /// Whether outputs of other stacks are still missing.
    pub fn is_held(&self) -> bool {
        self.status == RunStatus::Queued && self.snapshot.upstream.as_ref().is_some_and(Upstream::is_held)
    }

    /// Whether it waits for other stacks, however long that takes.
    pub fn waits_for_others(&self) -> bool {
        self.kind.waits_for_others() && self.is_held()
    }

    /// Since when the console may prepare its code: nothing else holds it back.
    pub fn free_since(&self) -> DateTime<Utc> {
        let settled = self.snapshot.upstream.as_ref().and_then(|upstream| upstream.settled_at);
        settled.unwrap_or(self.created_at)
    }

    /// Whether this is its current Job.
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
    /// The run.
    pub run_id: StackRunId,
    /// The Job that runs it.
    pub phase: RunPhase,
    /// Its position among all steps of the run, from 0.
    pub index: u32,
    /// Its stage.
    pub stage: Stage,
    /// Its name, such as "plan".
    pub name: String,
    /// Program.
    pub cmd: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its status.
    pub status: StepStatus,
    /// Exit code of the command.
    pub exit_code: Option<i32>,
    /// When it started.
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
}

/// A value that a stack gives to others.
#[derive(Clone, PartialEq, Eq)]
pub struct StackOutput {
    /// Name.
    pub name: String,
    /// JSON; absent if it is secret and the reader may not see it.
    pub value: Option<serde_json::Value>,
    /// The tool marks it as sensitive.
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
