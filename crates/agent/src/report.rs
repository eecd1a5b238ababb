//! From what the engine tells to what the console is told.

use plural_core::component::ComponentState;
use plural_sync::{
    Action, Child, Component, Drift, DriftEvent, DriftKind, FieldChange, GroupKind, HookResult, ObjectKey,
    Outcome, PendingApproval, Phase, PlannedObject, Progress, ProgressStep, Promoted, SyncPlan,
};
use plural_tunnel::v1;

/// Objects of a plan that are told; the rest is counted.
const MAX_PLANNED: usize = 1_000;
/// Objects of a pending approval that are told; the rest is counted.
const MAX_PENDING: usize = 500;
/// Objects that are waited for that are told.
const MAX_WAITING: usize = 50;

/// What a sync tells besides components and errors.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told {
    pub(crate) progress: Option<v1::SyncProgress>,
    pub(crate) pending_approval: Option<v1::PendingApproval>,
    pub(crate) plan: Option<v1::SyncPlan>,
    pub(crate) sync_request_done: String,
    pub(crate) promoted: Option<v1::Promoted>,
    /// What a sync would do at other commits.
    pub(crate) candidates: Vec<v1::CandidatePlan>,
}

/// What is told of a sync. A plan that was asked for goes before the sync's own.
pub(crate) fn told(
    outcome: &Outcome,
    asked: Option<v1::SyncPlan>,
    done: Option<v1::SyncPlan>,
    promoted: Option<v1::Promoted>,
) -> Told {
    Told {
        promoted,
        progress: Some(progress(&outcome.progress)),
        pending_approval: outcome.pending.clone().map(pending),
        plan: asked.or(done),
        sync_request_done: outcome.request_done.clone().unwrap_or_default(),
        candidates: Vec::new(),
    }
}

/// What came of the last word to canaries.
pub(crate) fn promoted(done: Promoted) -> v1::Promoted {
    let Promoted { id, problems } = done;
    v1::Promoted { id, problems }
}

fn object(key: ObjectKey) -> v1::ObjectRef {
    let ObjectKey { kind: GroupKind { group, kind }, namespace, name } = key;
    v1::ObjectRef { group, kind, namespace, name }
}

fn phase(phase: Phase) -> v1::SyncPhase {
    match phase {
        Phase::PreSync => v1::SyncPhase::PreSync,
        Phase::Sync => v1::SyncPhase::Sync,
        Phase::PostSync => v1::SyncPhase::PostSync,
        Phase::SyncFail => v1::SyncPhase::SyncFail,
        Phase::Test => v1::SyncPhase::Test,
    }
}

fn progress(progress: &Progress) -> v1::SyncProgress {
    let Progress { step, phase: now, wave, waves, waves_done, waiting_for, hooks } = progress;
    let step = match step {
        ProgressStep::Running => v1::sync_progress::Step::Running,
        ProgressStep::Waiting => v1::sync_progress::Step::Waiting,
        ProgressStep::Complete => v1::sync_progress::Step::Complete,
        ProgressStep::Failed => v1::sync_progress::Step::Failed,
        ProgressStep::Held => v1::sync_progress::Step::Held,
    };
    v1::SyncProgress {
        step: step.into(),
        phase: now.map_or(v1::SyncPhase::Unknown, phase).into(),
        wave: *wave,
        waves: count(*waves),
        waves_done: count(*waves_done),
        waiting_for: waiting_for
            .iter()
            .take(MAX_WAITING)
            .map(|(key, why)| v1::Waiting { object: Some(object(key.clone())), why: why.clone() })
            .collect(),
        hooks: hooks.iter().cloned().map(hook).collect(),
    }
}

fn hook(result: HookResult) -> v1::HookResult {
    let HookResult { key, phase: when, succeeded, message } = result;
    let outcome = match succeeded {
        None => v1::hook_result::Outcome::HookRunning,
        Some(true) => v1::hook_result::Outcome::HookSucceeded,
        Some(false) => v1::hook_result::Outcome::HookFailed,
    };
    v1::HookResult { object: Some(object(key)), phase: phase(when).into(), outcome: outcome.into(), message }
}

pub(crate) fn pending(pending: PendingApproval) -> v1::PendingApproval {
    let PendingApproval { digest, reason, objects } = pending;
    v1::PendingApproval {
        digest,
        reason,
        count: count(objects.len()),
        objects: objects.into_iter().take(MAX_PENDING).map(object).collect(),
    }
}

pub(crate) fn plan(plan: SyncPlan, request_id: &str, revision_id: &str) -> v1::SyncPlan {
    let SyncPlan { digest, objects, unchanged } = plan;
    v1::SyncPlan {
        request_id: request_id.to_owned(),
        revision_id: revision_id.to_owned(),
        digest,
        unchanged: count(unchanged),
        omitted: count(objects.len().saturating_sub(MAX_PLANNED)),
        objects: objects.into_iter().take(MAX_PLANNED).map(planned).collect(),
        error: String::new(),
    }
}

/// The answer to a request for a plan that cannot be made.
pub(crate) fn no_plan(error: String, service: &v1::Service) -> v1::SyncPlan {
    v1::SyncPlan {
        request_id: service.plan_request_id.clone(),
        revision_id: service.revision_id.clone(),
        error,
        ..v1::SyncPlan::default()
    }
}

fn planned(planned: PlannedObject) -> v1::PlannedObject {
    let PlannedObject { key, version, action, phase: when, wave, why, fields, fields_omitted, location } =
        planned;
    let action = match action {
        Action::Create => v1::planned_object::Action::Create,
        Action::Change => v1::planned_object::Action::Change,
        Action::Unchanged => v1::planned_object::Action::Unchanged,
        Action::Prune => v1::planned_object::Action::Prune,
        Action::Conflict => v1::planned_object::Action::Conflict,
        Action::Blocked => v1::planned_object::Action::Blocked,
        Action::RunHook => v1::planned_object::Action::RunHook,
    };
    v1::PlannedObject {
        object: Some(object(key)),
        version,
        action: action.into(),
        phase: phase(when).into(),
        wave,
        why,
        fields: fields.into_iter().map(field).collect(),
        fields_omitted: count(fields_omitted),
        location,
    }
}

fn field(field: FieldChange) -> v1::FieldChange {
    let FieldChange { path, before, after, hidden, manager, written_ms } = field;
    v1::FieldChange {
        path,
        before: before.unwrap_or_default(),
        after: after.unwrap_or_default(),
        hidden,
        manager: manager.unwrap_or_default(),
        written_ms: written_ms.unwrap_or_default(),
    }
}

pub(crate) fn drift(event: DriftEvent) -> v1::DriftEvent {
    let DriftEvent { id, at_ms, count, drift: Drift { key, kind, manager, fields, what } } = event;
    let kind = match kind {
        DriftKind::Repaired => v1::drift_event::Kind::Repaired,
        DriftKind::Left => v1::drift_event::Kind::Left,
        DriftKind::Fight => v1::drift_event::Kind::Fight,
    };
    let what = match (what.is_empty(), fields.is_empty(), manager) {
        // No field says who it was.
        (true, true, Some(manager)) => format!("changed by {manager}"),
        _ => what,
    };
    v1::DriftEvent {
        id,
        object: Some(object(key)),
        at_ms,
        kind: kind.into(),
        fields: fields.into_iter().map(field).collect(),
        what,
        count,
    }
}

fn state_of(state: Option<ComponentState>) -> v1::ComponentState {
    match state {
        Some(ComponentState::Running) => v1::ComponentState::Running,
        Some(ComponentState::Pending) => v1::ComponentState::Pending,
        Some(ComponentState::Failed) => v1::ComponentState::Failed,
        Some(ComponentState::Paused) => v1::ComponentState::Paused,
        None => v1::ComponentState::Unknown,
    }
}

fn child(child: Child) -> v1::ComponentChild {
    let Child { key, version, uid, parent_uid, state, message } = child;
    let ObjectKey { kind, namespace, name } = key;
    v1::ComponentChild {
        uid,
        parent_uid,
        group: kind.group,
        version,
        kind: kind.kind,
        namespace,
        name,
        state: state_of(state).into(),
        message,
    }
}

pub(crate) fn component(component: Component) -> v1::Component {
    let Component { key, version, state, synced, uid, message, children, phase: when, wave, hook } =
        component;
    let ObjectKey { kind, namespace, name } = key;
    v1::Component {
        group: kind.group,
        version,
        kind: kind.kind,
        namespace,
        name,
        state: state_of(state).into(),
        synced,
        uid,
        message,
        children: children.into_iter().map(child).collect(),
        phase: phase(when).into(),
        wave,
        hook,
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
