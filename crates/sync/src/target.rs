//! Which service is synced, how, and what came of it.

use std::{collections::BTreeMap, time::Duration};

use plural_core::component::ComponentState;
use plural_core::ids::ServiceId;
use plural_core::specs::{ServiceAccount, SyncConfig};
use serde::{Deserialize, Serialize};

use crate::{
    diff::{Compared, FieldChange, Room},
    inventory::Place,
    key::ObjectKey,
    limits::Limits,
    phase::Phase,
    plan::{Action, PlannedObject, SyncPlan},
    tree::Child,
};

/// Whose rights a service has that names an account which cannot be one.
const NOBODY: &str = "plural:invalid-service-account";

/// A service on this cluster.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is one setting of a service")]
pub struct Target {
    /// Which service.
    pub id: ServiceId,
    /// Its name, for messages and the record.
    pub name: String,
    /// The handle of this cluster, for messages; empty where it is not known.
    pub cluster: String,
    /// Where its namespaced objects go unless they say otherwise.
    pub namespace: String,
    /// Plan only: no write of any kind.
    pub dry_run: bool,
    /// Nothing is written for now; what changes is still seen and told.
    pub paused: bool,
    /// What is set of its sync.
    pub config: SyncConfig,
    /// What its project may touch; everything but the agent's namespace when absent.
    pub limits: Option<Limits>,
    /// It is the agent's own upgrade, as an administrator of the installation said: the agent's namespace is in reach.
    pub agent_upgrade: bool,
    /// Digest of the deletions that a person approved.
    pub approved_prune: Option<String>,
    /// Its destruction was not asked for by a person: it needs approval.
    pub destroy_needs_approval: bool,
    /// Its namespace is deleted with it only if it was made for it, and not before other services have left it.
    pub keeps_found_namespace: bool,
    /// What a person asked to be done once.
    pub request: Option<Request>,
    /// What a person said of its canaries.
    pub promotion: Option<Promotion>,
    /// Its objects were made with values that are to be hidden: that is noted in its record, for the next agent.
    pub holds_secrets: bool,
}

impl Target {
    /// A service that is synced as services are unless someone says otherwise.
    pub fn new(id: ServiceId, name: impl Into<String>, namespace: impl Into<String>) -> Self {
        Self {
            id,
            name: name.into(),
            namespace: namespace.into(),
            dry_run: false,
            paused: false,
            config: SyncConfig::default(),
            limits: None,
            agent_upgrade: false,
            approved_prune: None,
            destroy_needs_approval: false,
            keeps_found_namespace: false,
            request: None,
            promotion: None,
            holds_secrets: false,
            cluster: String::new(),
        }
    }

    /// The user whose rights count, as the API server names ServiceAccounts.
    pub fn user(&self) -> Option<String> {
        let account = self.config.service_account.as_deref().filter(|account| !account.is_empty())?;
        match ServiceAccount::parse(account, &self.namespace) {
            Ok(account) => Some(account.user()),
            // Never the agent's own rights: no account has this name.
            Err(_) => Some(NOBODY.to_owned()),
        }
    }
}

/// What a person says of canaries that wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promotion {
    /// An id that was done before is not done again.
    pub id: String,
    /// What is said; absent when it is nothing that this engine knows.
    pub action: Option<PromotionAction>,
    /// Only of these; of all when empty.
    pub objects: Vec<ObjectKey>,
    /// Canaries that hear of it elsewhere: those of Flagger ask at a gate of the console.
    pub gates: u32,
}

/// What came of a word to canaries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promoted {
    /// Of which one.
    pub id: String,
    /// Why some were not told; empty when all were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// What is said of a canary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromotionAction {
    /// It goes on.
    Proceed,
    /// What was before comes back.
    Rollback,
}

/// Something that a person asked to be done once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// An id that was done before is not done again.
    pub id: String,
    /// Only these; all when empty.
    pub objects: Vec<ObjectKey>,
    /// Run the chart's tests after the sync.
    pub run_tests: bool,
    /// Run hooks again that were completed.
    pub repeat_hooks: bool,
    /// Delete what left git although the policy says no.
    pub prune: bool,
}

/// Which part of the work a problem belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// Applying.
    Sync,
    /// Running hooks.
    Hook,
    /// Deleting what is no longer wanted.
    Prune,
    /// Staying within the limits of the project.
    Limits,
}

impl Part {
    /// The word in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Hook => "hook",
            Self::Prune => "prune",
            Self::Limits => "limits",
        }
    }
}

/// Something a person should know.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Where it happened.
    pub part: Part,
    /// What is wrong and what to do.
    pub message: String,
    /// It does not keep the service from being applied.
    pub warning: bool,
    /// Trying again does not help: somebody has to change something first.
    pub terminal: bool,
    /// `path:line` in the artifact, empty when there is none.
    pub location: String,
}

/// What became of a foreign change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DriftKind {
    /// Put right.
    Repaired,
    /// Found and left, because nothing may be put right now.
    Left,
    /// Made again and again: put right only now and then.
    Fight,
}

/// A foreign change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// Of which object.
    pub key: ObjectKey,
    /// What became of it.
    pub kind: DriftKind,
    /// Who made it, as far as `managedFields` tell.
    pub manager: Option<String>,
    /// Which fields, with who wrote each of them and when.
    pub fields: Vec<FieldChange>,
    /// What it was, where no field tells: "it was deleted", "it lost its label".
    pub what: String,
}

/// A foreign change, as it is kept for those who ask later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriftEvent {
    /// Unique for the service.
    pub id: String,
    /// When it was first seen, in milliseconds since the epoch.
    pub at_ms: i64,
    /// How often the same thing happened since.
    pub count: u32,
    /// What happened.
    pub drift: Drift,
}

/// When the same sync should be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Retry {
    /// Not before something changes.
    #[default]
    OnChange,
    /// The trouble may pass by itself: soon, with backoff.
    Soon,
    /// Only a person can help, but look now and then.
    Later,
    /// At a time that is known.
    After(Duration),
}

impl Retry {
    /// What is wrong stays wrong until somebody changes something.
    pub fn is_for_a_person(self) -> bool {
        matches!(self, Self::OnChange | Self::Later)
    }

    /// The sooner of two.
    #[must_use]
    pub fn sooner(self, other: Self) -> Self {
        let rank = |retry: Self| match retry {
            Self::Soon => Duration::ZERO,
            Self::After(wait) => wait,
            Self::Later => Duration::from_hours(1),
            Self::OnChange => Duration::MAX,
        };
        if rank(other) < rank(self) { other } else { self }
    }
}

/// What came of a sync.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Every wanted object is applied. What waits to be deleted does not matter here.
    pub applied: bool,
    /// Only for a destroy: the API server confirmed that nothing of the service is left.
    pub destroyed: bool,
    /// Objects that were written, or would be in a dry run.
    pub changed: usize,
    /// Objects that were as they should be: no request was made for them.
    pub unchanged: usize,
    /// Deletions that were confirmed.
    pub deleted: usize,
    /// Objects that are still on their way out.
    pub leaving: usize,
    /// What was put right although nothing new was wanted.
    pub drift: Vec<Drift>,
    /// What to tell.
    pub problems: Vec<Problem>,
    /// When to try again.
    pub retry: Retry,
    /// How far the sync is.
    pub progress: Progress,
    /// Deletions that wait for a person.
    pub pending: Option<PendingApproval>,
    /// What was, or would be, done.
    pub plan: Option<SyncPlan>,
    /// Id of the last request that was done.
    pub request_done: Option<String>,
    /// Objects that are left out until their kind is served.
    pub(crate) leaving_out: usize,
    /// Something failed that does not pass by itself.
    pub(crate) lasting: bool,
    /// What was changed of objects, until it is part of the plan.
    pub(crate) changed_fields: BTreeMap<(Place, ObjectKey), Compared>,
    /// How much more of that there is room for.
    pub(crate) room: Room,
}

/// How far a sync is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProgressStep {
    /// Writing, or about to.
    #[default]
    Running,
    /// A wave or a hook is not done yet.
    Waiting,
    /// All waves are through.
    Complete,
    /// A hook failed, a wave did not become healthy, an object was refused.
    Failed,
    /// A person must let it go on.
    Held,
}

/// How far a sync is, and what it waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// What it does.
    pub step: ProgressStep,
    /// In which phase; `None` before the first one.
    pub phase: Option<Phase>,
    /// In which wave.
    pub wave: i32,
    /// Waves of the whole sync.
    pub waves: usize,
    /// Waves that are through.
    pub waves_done: usize,
    /// Objects that are waited for, with why, in words.
    pub waiting_for: Vec<(ObjectKey, String)>,
    /// What became of hooks.
    pub hooks: Vec<HookResult>,
}

/// What became of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookResult {
    /// Which one.
    pub key: ObjectKey,
    /// In which phase.
    pub phase: Phase,
    /// `None` while it runs.
    pub succeeded: Option<bool>,
    /// Why it failed.
    pub message: String,
}

/// Deletions that halt until a person approves them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingApproval {
    /// Stands for exactly these objects of this service.
    pub digest: String,
    /// Why it halts.
    pub reason: String,
    /// What would be deleted.
    pub objects: Vec<ObjectKey>,
}

impl Outcome {
    pub(crate) fn error(&mut self, part: Part, message: String, location: String, retry: Retry) {
        let terminal = retry.is_for_a_person();
        self.problems.push(Problem { part, message, warning: false, terminal, location });
        self.lasting |= part != Part::Prune && retry != Retry::Soon;
        self.retry = self.retry.sooner(retry);
    }

    /// Corrects the plan where an object that was about to be created is there already: only what is ours is watched.
    pub(crate) fn found(&mut self, key: &ObjectKey) {
        let Some(plan) = &mut self.plan else { return };
        let is_it = |line: &&mut PlannedObject| line.action == Action::Create && line.key == *key;
        if let Some(line) = plan.objects.iter_mut().find(is_it) {
            line.action = Action::Change;
            "it was there already, and is adopted".clone_into(&mut line.why);
        }
    }

    pub(crate) fn warn(&mut self, part: Part, message: String, location: String) {
        self.problems.push(Problem { part, message, warning: true, terminal: false, location });
    }

    /// Whether anything went wrong.
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(|problem| !problem.warning)
    }

    pub(crate) fn sync_failed(&self) -> bool {
        self.problems.iter().any(|problem| !problem.warning && problem.part != Part::Prune)
    }
}

/// One object of a service as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Component {
    /// Which object.
    pub key: ObjectKey,
    /// The version it was written in.
    pub version: String,
    /// How it is; nothing when nobody can tell.
    pub state: Option<ComponentState>,
    /// The live object carries what was applied.
    pub synced: bool,
    /// The API server's uid, empty when it does not exist.
    pub uid: String,
    /// Why it is not running, in words; of something that runs, at most a remark.
    pub message: String,
    /// What it owns, down to Pods, each after its parent.
    pub children: Vec<Child>,
    /// In which phase of the sync it is applied.
    pub phase: Phase,
    /// In which wave of the phase.
    pub wave: i32,
    /// It runs once and ends.
    pub hook: bool,
}
