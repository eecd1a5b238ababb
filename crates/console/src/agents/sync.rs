//! What is asked of syncs and told of them, in the contract's words.

use chrono::{DateTime, Utc};
use plural_app::sync::NamedLimits;
use plural_core::project_limits::ProjectLimits;
use plural_core::promotion::{Promoted, Promotion, PromotionRequest};
use plural_core::sync::{
    DriftKind, FieldChange, HookOutcome, ObjectRef, PendingApproval, PlanAction, PlannedObject,
    ReportedDrift, ReportedPlan, SyncHook, SyncPhase, SyncProgress, SyncRequest, SyncStep, SyncWaiting,
};
use plural_tunnel::v1;
use tonic::Status;

use super::convert::{id, some};

pub(super) fn limits(named: NamedLimits, repository_url: String) -> v1::ProjectLimits {
    let NamedLimits { project, limits } = named;
    let ProjectLimits {
        namespaces,
        allowed_kinds,
        denied_kinds,
        no_cluster_scoped,
        cluster_kinds,
        repositories,
        service_accounts,
        require_service_account,
        // The service's own settings name it by now.
        default_service_account: _,
        reference_namespaces,
        // Of runs, each of which has them with it.
        runs: _,
    } = limits;
    v1::ProjectLimits {
        project,
        namespaces,
        allowed_kinds,
        denied_kinds,
        no_cluster_scoped,
        repositories,
        repository_url,
        cluster_kinds,
        service_accounts,
        require_service_account,
        reference_namespaces,
    }
}

pub(super) fn request(request: SyncRequest) -> v1::SyncRequest {
    let SyncRequest { id, objects, run_tests, repeat_hooks, prune } = request;
    v1::SyncRequest {
        id: id.to_string(),
        objects: objects.into_iter().map(reference).collect(),
        run_tests,
        repeat_hooks,
        prune,
    }
}

pub(super) fn promotion(request: PromotionRequest) -> v1::PromotionRequest {
    let PromotionRequest { id, promotion, objects, at: _, gates } = request;
    v1::PromotionRequest {
        id: id.to_string(),
        gates,
        promotion: match promotion {
            Promotion::Proceed => v1::Promotion::Proceed,
            Promotion::Rollback => v1::Promotion::Rollback,
        }
        .into(),
        objects: objects.into_iter().map(reference).collect(),
    }
}

pub(super) fn promoted(done: v1::Promoted) -> Promoted {
    let v1::Promoted { id, problems } = done;
    Promoted { id, problems }
}

fn reference(object: ObjectRef) -> v1::ObjectRef {
    let ObjectRef { group, kind, namespace, name } = object;
    v1::ObjectRef { group, kind, namespace, name }
}

fn object(object: Option<v1::ObjectRef>) -> ObjectRef {
    let v1::ObjectRef { group, kind, namespace, name } = object.unwrap_or_default();
    ObjectRef { group, kind, namespace, name }
}

fn phase(phase: v1::SyncPhase) -> Option<SyncPhase> {
    match phase {
        v1::SyncPhase::Unknown => None,
        v1::SyncPhase::PreSync => Some(SyncPhase::PreSync),
        v1::SyncPhase::Sync => Some(SyncPhase::Sync),
        v1::SyncPhase::PostSync => Some(SyncPhase::PostSync),
        v1::SyncPhase::SyncFail => Some(SyncPhase::SyncFail),
        v1::SyncPhase::Test => Some(SyncPhase::Test),
    }
}

pub(super) fn progress(told: v1::SyncProgress) -> SyncProgress {
    let (step, now) = (told.step(), phase(told.phase()));
    let v1::SyncProgress { step: _, phase: _, wave, waves, waves_done, waiting_for, hooks } = told;
    SyncProgress {
        step: match step {
            v1::sync_progress::Step::Unknown | v1::sync_progress::Step::Running => SyncStep::Running,
            v1::sync_progress::Step::Waiting => SyncStep::Waiting,
            v1::sync_progress::Step::Complete => SyncStep::Complete,
            v1::sync_progress::Step::Failed => SyncStep::Failed,
            v1::sync_progress::Step::Held => SyncStep::Held,
        },
        phase: now,
        wave,
        waves,
        waves_done,
        waiting_for: waiting_for
            .into_iter()
            .map(|v1::Waiting { object: of, why }| SyncWaiting { object: object(of), why })
            .collect(),
        hooks: hooks.into_iter().map(hook).collect(),
    }
}

fn hook(told: v1::HookResult) -> SyncHook {
    let (outcome, when) = (told.outcome(), phase(told.phase()));
    let v1::HookResult { object: of, phase: _, outcome: _, message } = told;
    SyncHook {
        object: object(of),
        phase: when,
        outcome: match outcome {
            v1::hook_result::Outcome::Unknown => None,
            v1::hook_result::Outcome::HookRunning => Some(HookOutcome::Running),
            v1::hook_result::Outcome::HookSucceeded => Some(HookOutcome::Succeeded),
            v1::hook_result::Outcome::HookFailed => Some(HookOutcome::Failed),
        },
        message: some(message),
    }
}

pub(super) fn pending(told: v1::PendingApproval) -> PendingApproval {
    let v1::PendingApproval { digest, reason, objects, count } = told;
    let objects = objects.into_iter().map(|of| object(Some(of))).collect();
    PendingApproval { digest, reason, objects, count }
}

pub(super) fn plan(told: v1::SyncPlan) -> Result<ReportedPlan, Status> {
    let v1::SyncPlan { request_id, revision_id, digest, objects, unchanged, omitted, error } = told;
    Ok(ReportedPlan {
        request_id: some(request_id).map(|text| id(&text)).transpose()?,
        revision_id: id(&revision_id)?,
        digest,
        objects: objects.into_iter().filter_map(planned).collect(),
        unchanged,
        omitted,
        error: some(error),
    })
}

/// An action that only a newer agent knows is left out.
fn planned(told: v1::PlannedObject) -> Option<PlannedObject> {
    let (action, when) = (told.action(), phase(told.phase()));
    let v1::PlannedObject {
        object: of,
        version,
        action: _,
        phase: _,
        wave,
        why,
        fields,
        fields_omitted,
        location,
    } = told;
    let action = match action {
        v1::planned_object::Action::Unknown => return None,
        v1::planned_object::Action::Create => PlanAction::Create,
        v1::planned_object::Action::Change => PlanAction::Change,
        v1::planned_object::Action::Unchanged => PlanAction::Unchanged,
        v1::planned_object::Action::Prune => PlanAction::Prune,
        v1::planned_object::Action::Conflict => PlanAction::Conflict,
        v1::planned_object::Action::Blocked => PlanAction::Blocked,
        v1::planned_object::Action::RunHook => PlanAction::RunHook,
    };
    Some(PlannedObject {
        object: object(of),
        version,
        action,
        phase: when,
        wave,
        why: some(why),
        fields: fields.into_iter().map(field).collect(),
        fields_omitted,
        location: some(location),
    })
}

fn field(told: v1::FieldChange) -> FieldChange {
    let v1::FieldChange { path, before, after, hidden, manager, written_ms } = told;
    let written_at = if written_ms == 0 { None } else { DateTime::from_timestamp_millis(written_ms) };
    FieldChange { path, before: some(before), after: some(after), hidden, manager: some(manager), written_at }
}

/// What became of a change that only a newer agent can say is left out.
pub(super) fn drift(told: v1::DriftEvent) -> Option<ReportedDrift> {
    let kind = match told.kind() {
        v1::drift_event::Kind::Unknown => return None,
        v1::drift_event::Kind::Repaired => DriftKind::Repaired,
        v1::drift_event::Kind::Left => DriftKind::Left,
        v1::drift_event::Kind::Fight => DriftKind::Fight,
    };
    let v1::DriftEvent { id, object: of, at_ms, kind: _, fields, what, count } = told;
    let at: DateTime<Utc> = DateTime::from_timestamp_millis(at_ms)?;
    Some(ReportedDrift {
        event: id,
        object: object(of),
        at,
        kind,
        fields: fields.into_iter().map(field).collect(),
        what: some(what),
        count,
    })
}
