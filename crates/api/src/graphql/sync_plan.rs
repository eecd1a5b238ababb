//! Plans and foreign changes, object by object and field by field.

use async_graphql::{Enum, ID, SimpleObject};
use chrono::{DateTime, Utc};

use super::{
    error::{List, list},
    page::connection,
};

/// A part of a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::sync::SyncPhase")]
pub(crate) enum SyncPhase {
    /// Before everything else.
    PreSync,
    /// The objects themselves.
    Sync,
    /// After they are healthy.
    PostSync,
    /// When something failed.
    SyncFail,
    /// Tests of a chart.
    Test,
}

/// What happens to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::sync::PlanAction")]
pub(crate) enum PlanAction {
    /// It does not exist yet.
    Create,
    /// It differs.
    Change,
    /// It is as it should be.
    Unchanged,
    /// It left git.
    Prune,
    /// Another service owns it.
    Conflict,
    /// It cannot be applied now, or at all.
    Blocked,
    /// A hook that has not run as it is now.
    RunHook,
}

/// What became of a foreign change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::sync::DriftKind")]
pub(crate) enum DriftKind {
    /// Put right.
    Repaired,
    /// Reported and left as it is.
    Left,
    /// Somebody makes it again and again.
    Fight,
}

/// One object of a cluster.
#[derive(SimpleObject)]
pub(crate) struct ObjectRef {
    /// API group; empty for the core group.
    group: String,
    /// Kind.
    kind: String,
    /// Namespace; absent for one of the cluster.
    namespace: Option<String>,
    /// Name.
    name: String,
}

impl From<plural_core::sync::ObjectRef> for ObjectRef {
    fn from(object: plural_core::sync::ObjectRef) -> Self {
        let plural_core::sync::ObjectRef { group, kind, namespace, name } = object;
        Self { group, kind, namespace: Some(namespace).filter(|text| !text.is_empty()), name }
    }
}

/// One field that differs. Values of Secrets are never here.
#[derive(SimpleObject)]
pub(crate) struct FieldChange {
    /// JSON pointer.
    path: String,
    /// JSON text; absent where there is nothing.
    before: Option<String>,
    /// JSON text; absent where there is nothing.
    after: Option<String>,
    /// The values are of a Secret and not shown.
    hidden: Option<bool>,
    /// The field manager that wrote the live value.
    manager: Option<String>,
    /// When it did.
    written_at: Option<DateTime<Utc>>,
}

impl From<plural_core::sync::FieldChange> for FieldChange {
    fn from(field: plural_core::sync::FieldChange) -> Self {
        let plural_core::sync::FieldChange { path, before, after, hidden, manager, written_at } = field;
        Self { path, before, after, hidden: Some(hidden), manager, written_at }
    }
}

/// One object of a plan.
#[derive(SimpleObject)]
pub(crate) struct PlannedObject {
    /// Which.
    object: ObjectRef,
    /// Version that it is written in.
    version: Option<String>,
    /// What happens to it.
    action: PlanAction,
    /// In which phase.
    phase: Option<SyncPhase>,
    /// In which wave.
    wave: Option<i32>,
    /// Why, where the action does not say it.
    why: Option<String>,
    /// What differs: of a plan that was asked for, and of what a sync changed. Values of Secrets are never here.
    fields: List<FieldChange>,
    /// Fields that differ and are not listed because there are too many.
    fields_omitted: Option<u32>,
    /// File and line, where known.
    location: Option<String>,
}

impl From<plural_core::sync::PlannedObject> for PlannedObject {
    fn from(planned: plural_core::sync::PlannedObject) -> Self {
        let plural_core::sync::PlannedObject {
            object,
            version,
            action,
            phase,
            wave,
            why,
            fields,
            fields_omitted,
            location,
        } = planned;
        Self {
            object: object.into(),
            version: Some(version).filter(|text| !text.is_empty()),
            action: action.into(),
            phase: phase.map(Into::into),
            wave: Some(wave),
            why,
            fields: list(fields.into_iter().map(Into::into)),
            fields_omitted: Some(fields_omitted),
            location,
        }
    }
}

/// What a sync did, or would do.
#[derive(SimpleObject)]
pub(crate) struct ServicePlan {
    /// Id.
    id: ID,
    /// The request that it answers; absent: what a sync did.
    request_id: Option<ID>,
    /// The revision that it is of.
    revision_id: ID,
    /// Equal plans have equal digests.
    digest: String,
    /// What happens, in order; what is as it should be is not listed.
    objects: List<PlannedObject>,
    /// Objects that are as they should be.
    unchanged: Option<u32>,
    /// Objects that are not listed because there are too many.
    omitted: Option<u32>,
    /// Why it could not be made; it has no objects then.
    error: Option<String>,
    /// When it was made.
    inserted_at: Option<DateTime<Utc>>,
}

impl From<plural_core::sync::SyncPlan> for ServicePlan {
    fn from(plan: plural_core::sync::SyncPlan) -> Self {
        let plural_core::sync::SyncPlan {
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
        } = plan;
        Self {
            id: id.to_string().into(),
            request_id: request_id.map(|id| id.to_string().into()),
            revision_id: revision_id.to_string().into(),
            digest,
            objects: list(objects.into_iter().map(Into::into)),
            unchanged: Some(unchanged),
            omitted: Some(omitted),
            error,
            inserted_at: Some(created_at),
        }
    }
}

connection!(ServicePlanConnection, ServicePlanEdge, ServicePlan);

/// A foreign change of an object.
#[derive(SimpleObject)]
pub(crate) struct DriftEvent {
    /// Id.
    id: ID,
    /// Of which object.
    object: ObjectRef,
    /// What became of it.
    kind: DriftKind,
    /// What was changed and who wrote it: before is what was found, after what git says.
    fields: List<FieldChange>,
    /// What it was where no field tells.
    what: Option<String>,
    /// How often it happened.
    count: Option<u32>,
    /// When it happened first.
    inserted_at: Option<DateTime<Utc>>,
    /// When it was last told.
    updated_at: Option<DateTime<Utc>>,
}

impl From<plural_core::sync::DriftEvent> for DriftEvent {
    fn from(event: plural_core::sync::DriftEvent) -> Self {
        let plural_core::sync::DriftEvent { id, service_id: _, told, updated_at } = event;
        let plural_core::sync::ReportedDrift { event: _, object, at, kind, fields, what, count } = told;
        Self {
            id: id.to_string().into(),
            object: object.into(),
            kind: kind.into(),
            fields: list(fields.into_iter().map(Into::into)),
            what,
            count: Some(count),
            inserted_at: Some(at),
            updated_at: Some(updated_at),
        }
    }
}

connection!(DriftEventConnection, DriftEventEdge, DriftEvent);
