//! What agents tell of syncs, within bounds and without what no answer may hold.

use chrono::{DateTime, Utc};
use plural_core::promotion::Promoted;
use plural_core::service_error::ServiceError;
use plural_core::sync::{
    FieldChange, ObjectRef, PendingApproval, PlannedObject, ReportedCandidate, ReportedDrift, ReportedPlan,
    SyncHook, SyncProgress, SyncReport, SyncWaiting,
};

/// Objects of one plan.
const MAX_PLANNED: usize = 1_000;
/// Fields of one object.
const MAX_FIELDS: usize = 50;
/// Bytes of all fields of one plan, half as much again as agents tell.
const MAX_FIELD_BYTES: usize = 384 * 1024;
/// Objects that wait for approval; the rest is counted.
const MAX_PENDING: usize = 500;
/// Objects that a sync waits for.
const MAX_WAITING: usize = 50;
/// Hooks of a sync.
const MAX_HOOKS: usize = 200;
/// Foreign changes of one report.
const MAX_DRIFT: usize = 50;
/// Plans of other commits in one report.
const MAX_CANDIDATES: usize = 8;
/// What of such a plan cannot be sent.
const MAX_PROBLEMS: usize = 100;
/// Why canaries were not told.
const MAX_PROMOTION_PROBLEMS: usize = 50;
/// The end of the year 9999: beyond it, databases and clients no longer agree on how a time is written.
const LATEST: DateTime<Utc> = match DateTime::from_timestamp(253_402_300_799, 0) {
    Some(at) => at,
    None => DateTime::UNIX_EPOCH,
};
/// What stands for a value of a Secret.
const HIDDEN: &str = "(hidden)";

/// The report as it may be stored.
pub(crate) fn bounded(report: SyncReport, cut: fn(String) -> String) -> SyncReport {
    let SyncReport { progress, pending, plan, drift, request_done, promoted, candidates } = report;
    SyncReport {
        progress: progress.map(|told| progress_of(told, cut)),
        pending: pending.map(|told| {
            let PendingApproval { digest, reason, objects, count } = told;
            let objects =
                objects.into_iter().take(MAX_PENDING).map(|object| object_of(object, cut)).collect();
            PendingApproval { digest: cut(digest), reason: cut(reason), objects, count }
        }),
        plan: plan.map(|told| plan_of(told, cut)),
        drift: drift.into_iter().take(MAX_DRIFT).map(|told| drift_of(told, cut)).collect(),
        request_done: request_done.map(cut),
        promoted: promoted.map(|Promoted { id, problems }| Promoted {
            id: cut(id),
            problems: problems.into_iter().take(MAX_PROMOTION_PROBLEMS).map(cut).collect(),
        }),
        candidates: candidates.into_iter().take(MAX_CANDIDATES).map(|told| candidate_of(told, cut)).collect(),
    }
}

fn candidate_of(told: ReportedCandidate, cut: fn(String) -> String) -> ReportedCandidate {
    let ReportedCandidate { plan, problems } = told;
    let problem = |ServiceError { source, message, warning, terminal, location }| ServiceError {
        source: cut(source),
        message: cut(message),
        warning,
        terminal,
        location: location.map(cut),
    };
    ReportedCandidate {
        plan: plan_of(plan, cut),
        problems: problems.into_iter().take(MAX_PROBLEMS).map(problem).collect(),
    }
}

fn progress_of(progress: SyncProgress, cut: fn(String) -> String) -> SyncProgress {
    let SyncProgress { step, phase, wave, waves, waves_done, waiting_for, hooks } = progress;
    let waiting = |SyncWaiting { object, why }| SyncWaiting { object: object_of(object, cut), why: cut(why) };
    let hook = |SyncHook { object, phase, outcome, message }| SyncHook {
        object: object_of(object, cut),
        phase,
        outcome,
        message: message.map(cut),
    };
    SyncProgress {
        step,
        phase,
        wave,
        waves,
        waves_done,
        waiting_for: waiting_for.into_iter().take(MAX_WAITING).map(waiting).collect(),
        hooks: hooks.into_iter().take(MAX_HOOKS).map(hook).collect(),
    }
}

fn plan_of(plan: ReportedPlan, cut: fn(String) -> String) -> ReportedPlan {
    let ReportedPlan { request_id, revision_id, digest, objects, unchanged, omitted, error } = plan;
    let dropped = u32::try_from(objects.len().saturating_sub(MAX_PLANNED)).unwrap_or(u32::MAX);
    let mut left = MAX_FIELD_BYTES;
    let planned = |told: PlannedObject| {
        let PlannedObject { object, version, action, phase, wave, why, fields, fields_omitted, location } =
            told;
        let secret = object.is_secret();
        let all = fields.len();
        let mut fields = fields_of(fields, secret, cut);
        let room = fields.iter().take_while(|field| has_room(&mut left, field)).count();
        fields.truncate(room);
        let dropped = u32::try_from(all - room).unwrap_or(u32::MAX);
        PlannedObject {
            object: object_of(object, cut),
            version: cut(version),
            action,
            phase,
            wave,
            why: why.map(cut),
            fields,
            fields_omitted: fields_omitted.saturating_add(dropped),
            location: location.map(cut),
        }
    };
    ReportedPlan {
        request_id,
        revision_id,
        digest: cut(digest),
        objects: objects.into_iter().take(MAX_PLANNED).map(planned).collect(),
        unchanged,
        omitted: omitted.saturating_add(dropped),
        error: error.map(cut),
    }
}

fn drift_of(drift: ReportedDrift, cut: fn(String) -> String) -> ReportedDrift {
    let ReportedDrift { event, object, at, kind, fields, what, count } = drift;
    let secret = object.is_secret();
    ReportedDrift {
        event: cut(event),
        object: object_of(object, cut),
        at: time_of(at),
        kind,
        fields: fields_of(fields, secret, cut),
        what: what.map(cut),
        count,
    }
}

fn fields_of(fields: Vec<FieldChange>, secret: bool, cut: fn(String) -> String) -> Vec<FieldChange> {
    let field = |told: FieldChange| {
        let FieldChange { path, before, after, hidden, manager, written_at } = told;
        // Agents hide these themselves; an older or wrong one must not get through.
        let hidden = hidden || secret;
        let value = |text: String| if hidden { HIDDEN.to_owned() } else { cut(text) };
        FieldChange {
            path: cut(path),
            before: before.map(value),
            after: after.map(value),
            hidden,
            manager: manager.map(cut),
            written_at: written_at.map(time_of),
        }
    };
    fields.into_iter().take(MAX_FIELDS).map(field).collect()
}

/// Takes the room of a field; false where there is none left for it.
fn has_room(left: &mut usize, field: &FieldChange) -> bool {
    let side = |side: &Option<String>| side.as_ref().map_or(0, String::len);
    let bytes = field.path.len() + side(&field.before) + side(&field.after) + side(&field.manager);
    let rest = left.checked_sub(bytes);
    // The first that does not fit ends it.
    *left = rest.unwrap_or_default();
    rest.is_some()
}

/// A time by the agent's clock, which may be wrong by any amount.
fn time_of(at: DateTime<Utc>) -> DateTime<Utc> {
    at.clamp(DateTime::UNIX_EPOCH, LATEST)
}

fn object_of(object: ObjectRef, cut: fn(String) -> String) -> ObjectRef {
    let ObjectRef { group, kind, namespace, name } = object;
    ObjectRef { group: cut(group), kind: cut(kind), namespace: cut(namespace), name: cut(name) }
}

#[cfg(test)]
mod tests {
    use plural_core::ids::RevisionId;
    use plural_core::sync::PlanAction;

    use super::*;

    #[test]
    fn values_of_secrets_are_hidden_whoever_tells_them() {
        let field = FieldChange {
            path: "/data/password".to_owned(),
            before: Some("\"aHVudGVyMg==\"".to_owned()),
            after: None,
            hidden: false,
            manager: Some("kubectl".to_owned()),
            written_at: None,
        };
        let object = |kind: &str| PlannedObject {
            object: ObjectRef { kind: kind.to_owned(), name: "a".to_owned(), ..ObjectRef::default() },
            version: "v1".to_owned(),
            action: PlanAction::Change,
            phase: None,
            wave: 0,
            why: None,
            fields: vec![field.clone()],
            fields_omitted: 0,
            location: None,
        };
        let plan = ReportedPlan {
            request_id: None,
            revision_id: RevisionId::new(),
            digest: "d".to_owned(),
            objects: vec![object("Secret"), object("ConfigMap")],
            unchanged: 0,
            omitted: 0,
            error: None,
        };
        let told = bounded(SyncReport { plan: Some(plan), ..SyncReport::default() }, |text| text);
        let objects = told.plan.unwrap().objects;
        assert_eq!(objects[0].fields[0].before.as_deref(), Some("(hidden)"));
        assert!(objects[0].fields[0].hidden && objects[0].fields[0].after.is_none());
        assert_eq!(objects[1].fields[0].before, field.before);
    }

    #[test]
    fn fields_of_a_plan_have_so_much_room() {
        let field = |value: usize| FieldChange {
            path: "/data/a".to_owned(),
            before: None,
            after: Some("x".repeat(value)),
            hidden: false,
            manager: None,
            written_at: None,
        };
        let object = |fields: Vec<FieldChange>| PlannedObject {
            object: ObjectRef { kind: "ConfigMap".to_owned(), name: "a".to_owned(), ..ObjectRef::default() },
            version: "v1".to_owned(),
            action: PlanAction::Change,
            phase: None,
            wave: 0,
            why: None,
            fields,
            fields_omitted: 1,
            location: None,
        };
        let plan = ReportedPlan {
            request_id: None,
            revision_id: RevisionId::new(),
            digest: "d".to_owned(),
            objects: vec![
                object((0..60).map(|_| field(100)).collect()),
                object((0..50).map(|_| field(10_000)).collect()),
                object(vec![field(1)]),
            ],
            unchanged: 0,
            omitted: 0,
            error: None,
        };
        let told = bounded(SyncReport { plan: Some(plan), ..SyncReport::default() }, |text| text);
        let kept: Vec<(usize, u32)> =
            told.plan.unwrap().objects.iter().map(|it| (it.fields.len(), it.fields_omitted)).collect();
        // Fifty of an object; of the rest as many as fit, and none after the first that does not.
        assert_eq!(kept, [(50, 11), (38, 13), (0, 2)]);
    }
}
