//! What is asked of a sync, and what its agent tells of it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::ids::{DriftId, FleetPartId, PlanId, RevisionId, ServiceId};
use crate::page::Keyed;
use crate::promotion::{Promoted, PromotionRequest};
use crate::service_error::ServiceError;

/// Fields of an object of what several syncs did in sum, as many as of one of them.
const MOST_FIELDS: usize = 50;
/// Objects that one request may choose at most.
pub const MAX_CHOSEN: usize = 500;

/// One object of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectRef {
    /// API group, "" for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace, "" for one of the cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, kind, namespace, name } = self;
        write!(f, "{kind}")?;
        if !group.is_empty() {
            write!(f, ".{group}")?;
        }
        if !namespace.is_empty() {
            write!(f, "/{namespace}")?;
        }
        write!(f, "/{name}")
    }
}

impl FromStr for ObjectRef {
    type Err = Error;

    /// `Kind/name`, `Kind/namespace/name`, with the group behind the kind: `Deployment.apps/shop/web`.
    fn from_str(text: &str) -> Result<Self> {
        let fault = || {
            Error::invalid(
                "object",
                format!("{text:?} is not an object such as Deployment.apps/NAMESPACE/NAME"),
            )
        };
        let parts: Vec<&str> = text.split('/').collect();
        let (kind, namespace, name) = match parts[..] {
            [kind, name] => (kind, "", name),
            [kind, namespace, name] if !namespace.is_empty() => (kind, namespace, name),
            _ => return Err(fault()),
        };
        let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
        let object = Self {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        object.check().map_err(|_| fault())?;
        Ok(object)
    }
}

impl ObjectRef {
    /// Checks that it can be an object's name.
    ///
    /// # Errors
    /// [`Error::Invalid`] for empty or overlong parts.
    pub fn check(&self) -> Result<()> {
        let Self { group, kind, namespace, name } = self;
        let odd = |text: &&String| {
            text.len() > 253 || text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '/')
        };
        if kind.is_empty() || name.is_empty() || [group, kind, namespace, name].iter().any(odd) {
            return Err(Error::invalid("objects", "each must have a kind and a name"));
        }
        Ok(())
    }

    /// It is a Secret: its values are never shown.
    pub fn is_secret(&self) -> bool {
        self.group.is_empty() && self.kind == "Secret"
    }
}

/// Something to do once, on top of what is wanted anyway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SyncRequest {
    /// What was done of one id is not done again.
    pub id: Uuid,
    /// Only these; all when empty.
    pub objects: Vec<ObjectRef>,
    /// Run the chart's tests after the sync.
    pub run_tests: bool,
    /// Run hooks again that were completed.
    pub repeat_hooks: bool,
    /// Delete what left git even where the policy says no.
    pub prune: bool,
}

/// Deletions that a person approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovedPrune {
    /// Of exactly these.
    pub digest: String,
    /// The service's sequence from which on its agent knows.
    pub sequence: u64,
}

/// What is asked of a service's agent besides what the service should be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SyncAsk {
    /// A sync that waits to be done.
    pub request: Option<SyncRequest>,
    /// A plan that waits to be made.
    pub plan: Option<Uuid>,
    /// Deletions that may go on.
    pub approved: Option<ApprovedPrune>,
    /// What its canaries are to be told.
    pub promotion: Option<PromotionRequest>,
    /// What somebody would like to know of other commits.
    pub candidates: Vec<PlanCandidate>,
}

/// A service at another commit of its repository, of which a plan waits to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanCandidate {
    /// Names the question.
    pub id: FleetPartId,
    /// Lower-case hex SHA-256 of the uncompressed tar.
    pub artifact_digest: String,
    /// Root of the service inside the artifact.
    pub folder: String,
    /// Folder of the repository that the artifact's root is.
    pub source_root: String,
    /// The commit.
    pub sha: String,
}

/// What is known of a service's sync.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceSync {
    /// What is asked and not done yet.
    pub ask: SyncAsk,
    /// How far it is; absent before the first.
    pub progress: Option<SyncProgress>,
    /// What waits for a person.
    pub pending: Option<PendingApproval>,
    /// The last request that was done.
    pub request_done: Option<String>,
    /// What came of the last word to its canaries.
    pub promoted: Option<Promoted>,
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$inner:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name {
            $($(#[$inner])* $variant,)*
        }

        impl $name {
            /// As it is stored.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }

            /// From [`Self::as_str`].
            pub fn parse(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

words!(/// How far a sync is.
    SyncStep {
    /// Writing, or about to.
    Running = "running",
    /// Something is not done or not healthy yet.
    Waiting = "waiting",
    /// All waves are through.
    Complete = "complete",
    /// A hook failed, a wave took too long, an object was refused.
    Failed = "failed",
    /// It waits for a person.
    Held = "held",
});

words!(/// A part of a sync.
    SyncPhase {
    /// Before everything else.
    PreSync = "pre_sync",
    /// The objects themselves.
    Sync = "sync",
    /// After they are healthy.
    PostSync = "post_sync",
    /// When something failed.
    SyncFail = "sync_fail",
    /// Tests of a chart.
    Test = "test",
});

words!(/// How a hook fares.
    HookOutcome {
    /// It runs.
    Running = "running",
    /// It ended well.
    Succeeded = "succeeded",
    /// It ended badly.
    Failed = "failed",
});

words!(/// What happens to an object.
    PlanAction {
    /// It does not exist yet.
    Create = "create",
    /// It differs.
    Change = "change",
    /// It is as it should be.
    Unchanged = "unchanged",
    /// It left git.
    Prune = "prune",
    /// Another service owns it.
    Conflict = "conflict",
    /// It cannot be applied now, or at all.
    Blocked = "blocked",
    /// A hook that has not run as it is now.
    RunHook = "run_hook",
});

words!(/// What became of a foreign change.
    DriftKind {
    /// Put right.
    Repaired = "repaired",
    /// Told and left.
    Left = "left",
    /// Somebody makes it again and again.
    Fight = "fight",
});

/// How far a sync is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncProgress {
    /// Where.
    pub step: SyncStep,
    /// In which phase.
    pub phase: Option<SyncPhase>,
    /// In which wave.
    pub wave: i32,
    /// Waves of all phases.
    pub waves: u32,
    /// Those that are through.
    pub waves_done: u32,
    /// What it waits for.
    #[serde(default)]
    pub waiting_for: Vec<SyncWaiting>,
    /// Its hooks, each with its outcome.
    #[serde(default)]
    pub hooks: Vec<SyncHook>,
}

/// Something that a sync waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncWaiting {
    /// The object.
    pub object: ObjectRef,
    /// Why it is not done, in words.
    pub why: String,
}

/// A hook of a sync.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncHook {
    /// The object.
    pub object: ObjectRef,
    /// When it runs.
    pub phase: Option<SyncPhase>,
    /// How it fares.
    pub outcome: Option<HookOutcome>,
    /// Why it failed, in words.
    pub message: Option<String>,
}

/// Deletions that wait for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingApproval {
    /// Other objects have another one.
    pub digest: String,
    /// Why they wait.
    pub reason: String,
    /// The first of them.
    pub objects: Vec<ObjectRef>,
    /// All of them.
    pub count: u32,
}

/// What a sync did, or would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncPlan {
    /// Its id; later ones sort later.
    pub id: PlanId,
    /// Of which service.
    pub service_id: ServiceId,
    /// Who asked for it; absent: what a sync did.
    pub request_id: Option<Uuid>,
    /// For which revision.
    pub revision_id: RevisionId,
    /// Equal plans have equal digests.
    pub digest: String,
    /// What happens, in order.
    pub objects: Vec<PlannedObject>,
    /// Objects that are as they should be.
    pub unchanged: u32,
    /// Objects that are not listed.
    pub omitted: u32,
    /// Why it could not be made, or not all of it can be told.
    pub error: Option<String>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

impl SyncPlan {
    /// Adds what a later sync of the same revision did: a sync whose waves wait tells what it does in pieces, and repairs come after
    /// it. Of each field, what stood there at first and what stands there now; at most `most` objects.
    pub fn then(&mut self, later: Self, most: usize) {
        let Self {
            id,
            service_id: _,
            request_id,
            revision_id,
            digest,
            objects,
            unchanged,
            omitted,
            error,
            created_at,
        } = later;
        (self.id, self.request_id, self.revision_id, self.digest) = (id, request_id, revision_id, digest);
        (self.unchanged, self.error, self.created_at) = (unchanged, error, created_at);
        self.omitted = self.omitted.max(omitted);
        let place = |planned: &PlannedObject| (planned.object.clone(), planned.phase, planned.wave);
        let mut known: HashMap<_, usize> =
            self.objects.iter().enumerate().map(|(at, planned)| (place(planned), at)).collect();
        for planned in objects {
            match known.entry(place(&planned)) {
                Entry::Occupied(at) => {
                    if let Some(first) = self.objects.get_mut(*at.get()) {
                        first.then(planned);
                    }
                }
                Entry::Vacant(new) if self.objects.len() < most => {
                    new.insert(self.objects.len());
                    self.objects.push(planned);
                }
                Entry::Vacant(_) => self.omitted = self.omitted.saturating_add(1),
            }
        }
    }
}

impl Keyed for SyncPlan {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

/// One object of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedObject {
    /// Which.
    pub object: ObjectRef,
    /// Version that it is written in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// What happens to it.
    pub action: PlanAction,
    /// In which phase.
    pub phase: Option<SyncPhase>,
    /// In which wave.
    pub wave: i32,
    /// Why, where the action does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What differs: of a plan that was asked for, and of what a sync changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
    /// Fields that differ and are not listed because there are too many.
    #[serde(default)]
    pub fields_omitted: u32,
    /// `path:line` in the artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
}

impl PlannedObject {
    /// Adds what happened to the same object later.
    fn then(&mut self, later: Self) {
        let Self { object: _, version, action, phase: _, wave: _, why, fields, fields_omitted, location } =
            later;
        // What was refused before it was written is told as it ended; what was created stays created, whatever was repaired since.
        let is_first = !matches!(self.action, PlanAction::Create | PlanAction::Change);
        if is_first || action == PlanAction::Prune {
            (self.action, self.why) = (action, why);
        }
        (self.version, self.location) = (version, location.or(self.location.take()));
        self.fields_omitted = self.fields_omitted.max(fields_omitted);
        for field in fields {
            if let Some(known) = self.fields.iter_mut().find(|known| known.path == field.path) {
                known.after = field.after;
                known.hidden |= field.hidden;
            } else if self.fields.len() < MOST_FIELDS {
                self.fields.push(field);
            } else {
                self.fields_omitted = self.fields_omitted.saturating_add(1);
            }
        }
    }
}

/// One field that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldChange {
    /// JSON pointer.
    pub path: String,
    /// JSON text; absent where there is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// JSON text; absent where there is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The values are of a Secret and not shown.
    #[serde(default)]
    pub hidden: bool,
    /// Who wrote the live value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<String>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_at: Option<DateTime<Utc>>,
}

/// A plan as an agent tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedPlan {
    /// Who asked for it; absent: the record of a sync.
    pub request_id: Option<Uuid>,
    /// For which revision.
    pub revision_id: RevisionId,
    /// Equal plans have equal digests.
    pub digest: String,
    /// What happens, in order.
    pub objects: Vec<PlannedObject>,
    /// Objects that are as they should be.
    pub unchanged: u32,
    /// Objects that are not listed.
    pub omitted: u32,
    /// Why it could not be made; it has no objects then.
    pub error: Option<String>,
}

/// What an agent tells of a sync besides components and errors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SyncReport {
    /// How far it is.
    pub progress: Option<SyncProgress>,
    /// What waits for a person.
    pub pending: Option<PendingApproval>,
    /// The last plan; absent: nothing new.
    pub plan: Option<ReportedPlan>,
    /// The last foreign changes.
    pub drift: Vec<ReportedDrift>,
    /// The last request that was done.
    pub request_done: Option<String>,
    /// What came of the last word to its canaries.
    pub promoted: Option<Promoted>,
    /// What a sync would do at other commits.
    pub candidates: Vec<ReportedCandidate>,
}

/// What a sync would do at another commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedCandidate {
    /// The plan. Its request is the question's.
    pub plan: ReportedPlan,
    /// What of it could not be sent at all, and is no object of the plan.
    pub problems: Vec<ServiceError>,
}

/// A foreign change as an agent tells it; told again with the same id when it happens again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedDrift {
    /// Unique for the service.
    pub event: String,
    /// Which object.
    pub object: ObjectRef,
    /// When it was first seen, by the agent's clock.
    pub at: DateTime<Utc>,
    /// What became of it.
    pub kind: DriftKind,
    /// What was changed: before is what was found, after what git says.
    pub fields: Vec<FieldChange>,
    /// What it was where no field tells.
    pub what: Option<String>,
    /// How often it happened.
    pub count: u32,
}

/// A foreign change of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriftEvent {
    /// Id; later ones sort later.
    pub id: DriftId,
    /// Of which service.
    pub service_id: ServiceId,
    /// What its agent told.
    pub told: ReportedDrift,
    /// When it was last told.
    pub updated_at: DateTime<Utc>,
}

impl Keyed for DriftEvent {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_as_kubectl_names_them() {
        for text in [
            "ConfigMap/shop/a",
            "Namespace/shop",
            "Deployment.apps/shop/web",
            "Role.rbac.authorization.k8s.io/a/b",
        ] {
            assert_eq!(text.parse::<ObjectRef>().unwrap().to_string(), text);
        }
        let web: ObjectRef = "Deployment.apps/shop/web".parse().unwrap();
        assert_eq!((web.group.as_str(), web.kind.as_str()), ("apps", "Deployment"));
        for wrong in ["", "a", "a/", "/a", "a//b", "a/b/c/d", "a/b c"] {
            assert!(wrong.parse::<ObjectRef>().is_err(), "{wrong}");
        }
    }

    fn planned(name: &str, action: PlanAction, fields: &[(&str, &str, &str)]) -> PlannedObject {
        let field = |(path, before, after): &(&str, &str, &str)| FieldChange {
            path: (*path).to_owned(),
            before: Some((*before).to_owned()),
            after: Some((*after).to_owned()),
            hidden: false,
            manager: None,
            written_at: None,
        };
        PlannedObject {
            object: name.parse().unwrap(),
            version: "v1".to_owned(),
            action,
            phase: Some(SyncPhase::Sync),
            wave: 0,
            why: None,
            fields: fields.iter().map(field).collect(),
            fields_omitted: 0,
            location: None,
        }
    }

    fn record(objects: Vec<PlannedObject>) -> SyncPlan {
        SyncPlan {
            id: PlanId::new(),
            service_id: ServiceId::new(),
            request_id: None,
            revision_id: RevisionId::new(),
            digest: String::new(),
            objects,
            unchanged: 0,
            omitted: 0,
            error: None,
            created_at: DateTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn syncs_of_one_revision_add_up() {
        let (create, change) = (PlanAction::Create, PlanAction::Change);
        // The first wave of two, then the second one, then a repair.
        let mut sum = record(vec![
            planned("ConfigMap/shop/a", change, &[("/data/a", "1", "2")]),
            planned("ConfigMap/shop/b", change, &[]),
            planned("ConfigMap/shop/new", create, &[]),
        ]);
        sum.then(record(vec![planned("ConfigMap/shop/b", change, &[("/data/b", "1", "2")])]), 4);
        let last = record(vec![
            planned("ConfigMap/shop/a", change, &[("/data/a", "2", "3"), ("/data/c", "1", "2")]),
            planned("ConfigMap/shop/new", change, &[]),
            planned("ConfigMap/shop/old", PlanAction::Prune, &[]),
            planned("ConfigMap/shop/more", change, &[]),
        ]);
        let id = last.id;
        sum.then(last, 4);
        let lines: Vec<String> = sum
            .objects
            .iter()
            .map(|line| {
                let fields = line.fields.iter().map(|field| {
                    let side = |side: &Option<String>| side.clone().unwrap();
                    format!(" {} {}-{}", field.path, side(&field.before), side(&field.after))
                });
                format!("{} {}{}", line.action.as_str(), line.object.name, fields.collect::<String>())
            })
            .collect();
        assert_eq!(
            lines,
            ["change a /data/a 1-3 /data/c 1-2", "change b /data/b 1-2", "create new", "prune old"]
        );
        assert_eq!((sum.id, sum.omitted), (id, 1));

        let paths: Vec<String> = (0..60).map(|at| format!("/data/{at}")).collect();
        let many: Vec<(&str, &str, &str)> = paths.iter().map(|path| (path.as_str(), "1", "2")).collect();
        let mut wide = record(vec![planned("ConfigMap/shop/a", change, &many[..40])]);
        wide.then(record(vec![planned("ConfigMap/shop/a", change, &many[30..])]), 4);
        assert_eq!((wide.objects[0].fields.len(), wide.objects[0].fields_omitted), (50, 10));
    }
}
