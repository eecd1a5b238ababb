//! Syncs: how far they are, their plans, foreign changes, and what a person asks of them.

use std::fmt;

use chrono::{DateTime, Utc};
use plural_specs::DiffNormalizer;
use serde::{Deserialize, Serialize};

use crate::{
    document::operations,
    page::Connection,
    secret::Secret,
    service::{ServiceDeployment, service_fields},
    shared::list,
};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$inner:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "SCREAMING_SNAKE_CASE")]
        pub enum $name {
            $($(#[$inner])* $variant,)*
            /// One that a newer console knows and this client does not.
            #[serde(other)]
            Unknown,
        }

        impl $name {
            /// For people.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                    Self::Unknown => "unknown",
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
    /// It went wrong.
    Failed = "failed",
    /// It waits for a person.
    Held = "held",
});

words!(/// A part of a sync.
    SyncPhase {
    /// Before everything else.
    PreSync = "pre-sync",
    /// The objects themselves.
    Sync = "sync",
    /// After they are healthy.
    PostSync = "post-sync",
    /// When something failed.
    SyncFail = "sync-fail",
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
    RunHook = "run hook",
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

/// One object of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectRef {
    /// API group, empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace; absent for one of the cluster.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, kind, namespace, name } = self;
        let dot = if group.is_empty() { "" } else { "." };
        match namespace {
            Some(namespace) => write!(f, "{kind}{dot}{group}/{namespace}/{name}"),
            None => write!(f, "{kind}{dot}{group}/{name}"),
        }
    }
}

/// How far the sync of a service is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceSync {
    /// Where; absent before the first.
    #[serde(default)]
    pub step: Option<SyncStep>,
    /// In which phase.
    #[serde(default)]
    pub phase: Option<SyncPhase>,
    /// In which wave.
    #[serde(default)]
    pub wave: Option<i32>,
    /// Waves of all phases.
    #[serde(default)]
    pub waves: Option<u32>,
    /// Waves that are through.
    #[serde(default)]
    pub waves_done: Option<u32>,
    /// What it waits for.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub waiting_for: Vec<SyncWaiting>,
    /// Its hooks.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<SyncHook>,
    /// The last request that was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_done: Option<String>,
    /// A plan that was asked for and is not made yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_request: Option<String>,
    /// What came of the last word to canaries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promoted: Option<Promoted>,
}

/// What came of a word to canaries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promoted {
    /// Of which one.
    pub id: String,
    /// Why some were not told; empty when all were.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// Something that a sync waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncWaiting {
    /// The object.
    pub object: ObjectRef,
    /// Why it is not done.
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
    /// Why it failed.
    pub message: Option<String>,
}

/// Deletions that wait for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingApproval {
    /// Approve exactly these with it.
    pub digest: String,
    /// Why they wait.
    pub reason: String,
    /// How many there are.
    pub count: u32,
    /// The first of them, where asked for.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectRef>,
}

/// One field that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldChange {
    /// JSON pointer.
    pub path: String,
    /// JSON text; absent where there is nothing.
    pub before: Option<String>,
    /// JSON text; absent where there is nothing.
    pub after: Option<String>,
    /// The values are of a Secret and not shown.
    pub hidden: Option<bool>,
    /// The field manager that wrote the live value.
    pub manager: Option<String>,
    /// When it did.
    pub written_at: Option<DateTime<Utc>>,
}

/// One object of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedObject {
    /// Which.
    pub object: ObjectRef,
    /// What happens to it.
    pub action: PlanAction,
    /// In which phase.
    pub phase: Option<SyncPhase>,
    /// In which wave.
    pub wave: Option<i32>,
    /// Why, where the action does not say it.
    pub why: Option<String>,
    /// What differs.
    #[serde(default, deserialize_with = "list")]
    pub fields: Vec<FieldChange>,
    /// File and line, where known.
    pub location: Option<String>,
}

/// What a sync did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePlan {
    /// Opaque id.
    pub id: String,
    /// The request that it answers; absent: what a sync did.
    pub request_id: Option<String>,
    /// The revision that it is of.
    pub revision_id: String,
    /// Equal plans have equal digests.
    pub digest: String,
    /// What happens, in order.
    #[serde(default, deserialize_with = "list")]
    pub objects: Vec<PlannedObject>,
    /// Objects that are as they should be.
    pub unchanged: Option<u32>,
    /// Objects that are not listed.
    pub omitted: Option<u32>,
    /// When it was made.
    pub inserted_at: Option<DateTime<Utc>>,
}

/// A foreign change of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DriftEvent {
    /// Opaque id.
    pub id: String,
    /// Of which object.
    pub object: ObjectRef,
    /// What became of it.
    pub kind: DriftKind,
    /// What was changed, and who wrote it.
    #[serde(default, deserialize_with = "list")]
    pub fields: Vec<FieldChange>,
    /// What it was where no field tells.
    pub what: Option<String>,
    /// How often it happened.
    pub count: Option<u32>,
    /// When it happened first.
    pub inserted_at: Option<DateTime<Utc>>,
    /// When it was last told.
    pub updated_at: Option<DateTime<Utc>>,
}

/// A service with foreign changes of its objects, the newest last.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServiceDrift {
    /// What lists show.
    #[serde(flatten)]
    pub service: ServiceDeployment,
    /// The changes.
    pub drift: Connection<DriftEvent>,
}

/// Something that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requested {
    /// The request's id.
    pub request_id: String,
}

/// What a sync does.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SyncServiceAttributes {
    /// Only these objects; empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectRef>,
    /// Run tests of the chart afterwards.
    pub run_tests: bool,
    /// Run hooks again that were completed.
    pub repeat_hooks: bool,
    /// Delete what left git even where the policy says no.
    pub prune: bool,
}

/// What canaries that wait are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ServicePromotion {
    /// Go on.
    Proceed,
    /// Go back to what was before.
    Rollback,
}

operations! {
    /// Syncs a service now, or chosen objects of it.
    Mutation SyncService {
        /// Its id.
        id: String,
        /// What is done.
        attributes: SyncServiceAttributes,
    } => "syncService": Requested,
    "mutation SyncService($id: ID!, $attributes: SyncServiceAttributes) {
  syncService(id: $id, attributes: $attributes) { requestId }
}";

    /// Tells canaries that wait to go on, or to go back.
    Mutation PromoteService {
        /// The service's id.
        id: String,
        /// What they are told.
        promotion: ServicePromotion,
        /// Only these; empty: all.
        objects: Vec<ObjectRef>,
    } => "promoteService": Requested,
    "mutation PromoteService($id: ID!, $promotion: ServicePromotion!, $objects: [ObjectRefAttributes]) {
  promoteService(id: $id, promotion: $promotion, objects: $objects) { requestId }
}";

    /// The address of a service's gates for canaries of Flagger.
    Query GetServiceGateUrl {
        /// The service's id.
        id: String,
    } => "serviceGateUrl": Secret,
    "query GetServiceGateUrl($id: ID!) {
  serviceGateUrl(id: $id)
}";

    /// Asks what a sync would do.
    Mutation PlanService {
        /// Its id.
        id: String,
    } => "planService": Requested,
    "mutation PlanService($id: ID!) {
  planService(id: $id) { requestId }
}";

    /// The plan that answers a request, once it is there; without a request the newest.
    Query GetServicePlan {
        /// The service's id.
        service_id: String,
        /// The request's id.
        request_id: Option<String>,
    } => "servicePlan": Option<ServicePlan>,
    "query GetServicePlan($serviceId: ID!, $requestId: ID) {
  servicePlan(serviceId: $serviceId, requestId: $requestId) {
    id requestId revisionId digest unchanged omitted insertedAt
    objects {
      object { group kind namespace name } action phase wave why location
      fields { path before after hidden manager writtenAt }
    }
  }
}";

    /// Lets deletions go on that wait for a person.
    Mutation ApproveServicePrune {
        /// The service's id.
        id: String,
        /// Of exactly these.
        digest: String,
    } => "approveServicePrune": ServiceDeployment,
    concat!("mutation ApproveServicePrune($id: ID!, $digest: String!) {
  approveServicePrune(id: $id, digest: $digest) { ...ServiceFields }
}
", service_fields!());

    /// One service with the last foreign changes: by id, or by its cluster's handle and its name.
    Query ListServiceDrift {
        /// Its id, or
        id: Option<String>,
        /// its cluster's handle and
        cluster: Option<String>,
        /// its name.
        name: Option<String>,
        /// How many.
        last: i64,
    } => "serviceDeployment": ServiceDrift,
    concat!("query ListServiceDrift($id: ID, $cluster: String, $name: String, $last: Int) {
  serviceDeployment(id: $id, cluster: $cluster, name: $name) {
    ...ServiceFields
    drift(last: $last) {
      pageInfo { hasNextPage endCursor }
      edges { node {
        id object { group kind namespace name } kind what count insertedAt updatedAt
        fields { path before after hidden manager writtenAt }
      } }
    }
  }
}
", service_fields!());

    /// Leaves fields of an object to others from now on.
    Mutation IgnoreServiceDrift {
        /// The service's id.
        id: String,
        /// Which fields of what.
        attributes: DiffNormalizer,
    } => "ignoreServiceDrift": ServiceDeployment,
    concat!("mutation IgnoreServiceDrift($id: ID!, $attributes: DiffNormalizerAttributes!) {
  ignoreServiceDrift(id: $id, attributes: $attributes) { ...ServiceFields }
}
", service_fields!());
}
