//! Values that were read from Secrets of the cluster do not leave the agent: the console does not know them, so that they are
//! hidden here, in everything that is told of a service.
//!
//! Values of ConfigMaps are not secret.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use parking_lot::Mutex;
use plural_core::ids::ServiceId;
use plural_core::mask::{MASK, Masker, SecretValues};
use plural_tunnel::v1;

/// Values that are remembered of a service, those that were replaced included. Beyond that, every text is hidden.
const MOST_VALUES: usize = 2_000;

/// What is known of a service's secrets.
struct Known {
    /// All that it was given since the agent started: what stands in the cluster may be a former value.
    values: BTreeSet<String>,
    /// There were too many of them: every text is hidden, and none of them is needed any more.
    is_everything: bool,
    masker: Arc<Masker>,
    /// Since when what stands in the cluster was rendered from these values, in milliseconds since 1970. What was found before may hold
    /// one from before the agent started.
    settled: Option<i64>,
}

/// The secrets of all services.
#[derive(Default)]
pub(crate) struct Secrets(Mutex<HashMap<ServiceId, Known>>);

/// What hides the secrets of one service.
#[derive(Debug, Clone)]
pub(crate) struct Hider {
    masker: Arc<Masker>,
    settled: Option<i64>,
}

impl Secrets {
    /// The service is rendered with these values from now on.
    pub(crate) fn learn(&self, id: ServiceId, values: BTreeSet<String>) {
        if values.is_empty() {
            return;
        }
        let mut all = self.0.lock();
        let known = all.get(&id);
        if known.is_some_and(|known| known.is_everything || values.is_subset(&known.values)) {
            return;
        }
        let settled = known.and_then(|known| known.settled);
        let earlier = known.map(|known| known.values.clone()).unwrap_or_default();
        let mut values: BTreeSet<String> = values.into_iter().chain(earlier).collect();
        let is_everything = values.len() > MOST_VALUES;
        let secrets = if is_everything {
            values.clear();
            SecretValues::everything()
        } else {
            let mut secrets = SecretValues::default();
            for value in &values {
                secrets.add(value);
            }
            secrets
        };
        all.insert(id, Known { masker: Arc::new(Masker::new(&secrets)), values, is_everything, settled });
    }

    /// What stands in the cluster may hold values that this agent does not know, whatever the service refers to by now.
    pub(crate) fn doubt(&self, id: ServiceId) {
        let nothing = || Known {
            values: BTreeSet::new(),
            is_everything: false,
            masker: Arc::new(Masker::new(&SecretValues::default())),
            settled: None,
        };
        self.0.lock().entry(id).or_insert_with(nothing).settled = None;
    }

    /// Everything of the service was applied as it was rendered.
    pub(crate) fn settle(&self, id: ServiceId) {
        if let Some(known) = self.0.lock().get_mut(&id) {
            known.settled.get_or_insert_with(|| chrono::Utc::now().timestamp_millis());
        }
    }

    pub(crate) fn forget(&self, id: ServiceId) {
        self.0.lock().remove(&id);
    }

    /// What hides the secrets of a service; nothing where it has none.
    pub(crate) fn hider(&self, id: ServiceId) -> Option<Hider> {
        let all = self.0.lock();
        all.get(&id).map(|known| Hider { masker: Arc::clone(&known.masker), settled: known.settled })
    }
}

impl Hider {
    /// Hides secrets in all that is told of a service.
    pub(crate) fn report(&self, report: &mut v1::ServiceReport) {
        let v1::ServiceReport {
            service_id: _,
            revision_id: _,
            sequence: _,
            applied: _,
            destroyed: _,
            components_set: _,
            components,
            errors,
            commit_sha: _,
            progress,
            pending_approval,
            plan,
            drift,
            sync_request_done: _,
            promoted,
            metadata,
            candidates,
        } = report;
        for component in components.iter_mut() {
            self.component(component);
        }
        for error in errors.iter_mut() {
            self.error(error);
        }
        if let Some(v1::SyncProgress { waiting_for, hooks, .. }) = progress {
            for v1::Waiting { object, why } in waiting_for {
                if let Some(object) = object {
                    self.object(object);
                }
                self.masker.string(why);
            }
            for v1::HookResult { object, phase: _, outcome: _, message } in hooks {
                if let Some(object) = object {
                    self.object(object);
                }
                self.masker.string(message);
            }
        }
        if let Some(v1::PendingApproval { digest: _, reason, objects, count: _ }) = pending_approval {
            self.masker.string(reason);
            for object in objects.iter_mut() {
                self.object(object);
            }
        }
        if let Some(plan) = plan {
            self.plan(plan);
        }
        for candidate in candidates.iter_mut() {
            self.candidate(candidate);
        }
        for v1::DriftEvent { id: _, object, at_ms, kind: _, fields, what, count: _ } in drift {
            if let Some(object) = object {
                self.object(object);
            }
            let is_settled = self.settled.is_some_and(|since| since < *at_ms);
            for field in fields.iter_mut() {
                self.field(field, is_settled);
            }
            self.masker.string(what);
        }
        if let Some(v1::Promoted { id: _, problems }) = promoted {
            for problem in problems.iter_mut() {
                self.masker.string(problem);
            }
        }
        if let Some(v1::ServiceMetadata { images, fqdns }) = metadata {
            images.iter_mut().chain(fqdns).for_each(|text| self.masker.scalar(text));
        }
    }

    /// The same in one error.
    pub(crate) fn error(&self, error: &mut v1::ServiceError) {
        let v1::ServiceError { source: _, message, warning: _, location, terminal: _ } = error;
        self.masker.string(message);
        self.masker.string(location);
    }

    /// The same in a plan. It is hidden as soon as it is made: what it compares with may be gone when it is told.
    pub(crate) fn plan(&self, plan: &mut v1::SyncPlan) {
        let v1::SyncPlan { objects, error, .. } = plan;
        self.masker.string(error);
        for planned in objects {
            let v1::PlannedObject { object, why, fields, location, .. } = planned;
            if let Some(object) = object {
                self.object(object);
            }
            self.masker.string(why);
            self.masker.string(location);
            for field in fields.iter_mut() {
                self.field(field, self.settled.is_some());
            }
        }
    }

    /// The same in the plan of a candidate.
    pub(crate) fn candidate(&self, candidate: &mut v1::CandidatePlan) {
        let v1::CandidatePlan { plan, problems } = candidate;
        if let Some(plan) = plan {
            self.plan(plan);
        }
        for problem in problems.iter_mut() {
            self.error(problem);
        }
    }

    /// Where either value of a field holds a secret, the other one may hold a former one: both are hidden. Until the service was
    /// applied once, what stands in the cluster is hidden in any case.
    fn field(&self, field: &mut v1::FieldChange, is_settled: bool) {
        let v1::FieldChange { path, before, after, .. } = field;
        self.masker.string(path);
        let sides = [before, after];
        let mut holds = false;
        let hidden: Vec<String> = sides
            .iter()
            .map(|side| {
                let mut shown = String::clone(side);
                self.masker.json(&mut shown);
                holds |= shown.contains(MASK);
                shown
            })
            .collect();
        for (side, shown) in sides.into_iter().zip(hidden) {
            let all = holds || (!is_settled && !is_plain(side));
            *side = if side.is_empty() || !all { shown } else { format!("\"{MASK}\"") };
        }
    }

    fn object(&self, object: &mut v1::ObjectRef) {
        let v1::ObjectRef { group: _, kind: _, namespace, name } = object;
        self.masker.string(namespace);
        self.masker.string(name);
    }

    fn component(&self, component: &mut v1::Component) {
        let v1::Component { namespace, name, message, children, .. } = component;
        for text in [namespace, name, message] {
            self.masker.string(text);
        }
        for v1::ComponentChild { namespace, name, message, .. } in children {
            for text in [namespace, name, message] {
                self.masker.string(text);
            }
        }
    }
}

/// A value that is too short to be a secret worth its name: a switch, a small number, nothing.
fn is_plain(value: &str) -> bool {
    matches!(value, "true" | "false" | "null" | "{}" | "[]")
        || (value.len() < 6 && value.parse::<f64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(values: &[&str]) -> BTreeSet<String> {
        values.iter().map(|value| (*value).to_owned()).collect()
    }

    fn field(before: &str, after: &str) -> v1::FieldChange {
        v1::FieldChange { before: before.to_owned(), after: after.to_owned(), ..v1::FieldChange::default() }
    }

    fn shown(hider: &Hider, before: &str, after: &str) -> (String, String) {
        let mut field = field(before, after);
        hider.field(&mut field, hider.settled.is_some());
        (field.before, field.after)
    }

    #[test]
    fn what_a_field_was_before_is_hidden_with_what_it_is() {
        let (all, id) = (Secrets::default(), ServiceId::new());
        assert!(all.hider(id).is_none());
        all.learn(id, secrets(&["hunter2-new"]));
        let hidden = (format!("\"{MASK}\""), format!("\"{MASK}\""));
        // A value from before the agent started is known to nobody.
        let hider = all.hider(id).unwrap();
        assert_eq!(shown(&hider, "\"hunter2-old\"", "\"hunter2-new\""), hidden);
        assert_eq!(shown(&hider, "\"hunter2-old\"", ""), (hidden.0.clone(), String::new()));
        assert_eq!(shown(&hider, "2", "3"), ("2".to_owned(), "3".to_owned()));
        all.settle(id);
        let hider = all.hider(id).unwrap();
        assert_eq!(shown(&hider, "\"blue\"", "\"green\""), ("\"blue\"".to_owned(), "\"green\"".to_owned()));
        assert_eq!(shown(&hider, "\"hunter2-old\"", "\"a-hunter2-new\""), hidden);
        // Base64 of it, at any offset.
        assert_eq!(shown(&hider, "\"x\"", "\"eDpodW50ZXIyLW5ldw==\""), hidden);
        // A value that was replaced is still hidden.
        all.learn(id, secrets(&["hunter3-new"]));
        assert_eq!(shown(&all.hider(id).unwrap(), "\"hunter2-new\"", ""), (hidden.0.clone(), String::new()));
    }

    #[test]
    fn values_are_not_kept_beyond_those_that_are_looked_for() {
        let (all, id) = (Secrets::default(), ServiceId::new());
        let many = (0..=MOST_VALUES).map(|rotation| format!("hunter2-{rotation}")).collect();
        all.learn(id, many);
        all.learn(id, secrets(&["hunter2-last"]));
        assert!(all.0.lock()[&id].values.is_empty());
        let mut error = v1::ServiceError { message: "a text".to_owned(), ..v1::ServiceError::default() };
        all.hider(id).unwrap().error(&mut error);
        assert_eq!(error.message, MASK);
    }

    #[test]
    fn what_an_earlier_agent_knew_is_hidden_in_doubt() {
        let (all, id) = (Secrets::default(), ServiceId::new());
        all.doubt(id);
        let hider = all.hider(id).unwrap();
        let hidden = format!("\"{MASK}\"");
        assert_eq!(shown(&hider, "\"hunter2-old\"", "\"plain-now\""), (hidden.clone(), hidden.clone()));
        assert_eq!(shown(&hider, "2", "true"), ("2".to_owned(), "true".to_owned()));
        let drift = |at_ms| v1::DriftEvent {
            at_ms,
            fields: vec![field("\"hunter2-old\"", "\"x-plain\"")],
            ..v1::DriftEvent::default()
        };
        all.settle(id);
        let now = all.hider(id).unwrap().settled.unwrap();
        let mut report =
            v1::ServiceReport { drift: vec![drift(now), drift(now + 1)], ..v1::ServiceReport::default() };
        all.hider(id).unwrap().report(&mut report);
        let told: Vec<&str> = report.drift.iter().map(|drift| drift.fields[0].before.as_str()).collect();
        assert_eq!(told, [hidden.as_str(), "\"hunter2-old\""], "what was found before it was applied");
        // Another agent acted meanwhile.
        all.doubt(id);
        assert_eq!(shown(&all.hider(id).unwrap(), "\"a-text\"", "").0, hidden);
    }

    #[test]
    fn everything_that_is_told_is_looked_at() {
        let (all, id) = (Secrets::default(), ServiceId::new());
        all.learn(id, secrets(&["hunter2-canary"]));
        let text = || "a hunter2-canary b".to_owned();
        let object = || Some(v1::ObjectRef { namespace: text(), name: text(), ..v1::ObjectRef::default() });
        let fields = || vec![v1::FieldChange { path: text(), ..field(&text(), &text()) }];
        let mut report = v1::ServiceReport {
            components: vec![v1::Component {
                namespace: text(),
                name: text(),
                message: text(),
                children: vec![v1::ComponentChild {
                    namespace: text(),
                    name: text(),
                    message: text(),
                    ..v1::ComponentChild::default()
                }],
                ..v1::Component::default()
            }],
            errors: vec![v1::ServiceError {
                message: text(),
                location: text(),
                ..v1::ServiceError::default()
            }],
            progress: Some(v1::SyncProgress {
                waiting_for: vec![v1::Waiting { object: object(), why: text() }],
                hooks: vec![v1::HookResult {
                    object: object(),
                    message: text(),
                    ..v1::HookResult::default()
                }],
                ..v1::SyncProgress::default()
            }),
            pending_approval: Some(v1::PendingApproval {
                reason: text(),
                objects: object().into_iter().collect(),
                ..v1::PendingApproval::default()
            }),
            plan: Some(v1::SyncPlan {
                error: text(),
                objects: vec![v1::PlannedObject {
                    object: object(),
                    why: text(),
                    location: text(),
                    fields: fields(),
                    ..v1::PlannedObject::default()
                }],
                ..v1::SyncPlan::default()
            }),
            drift: vec![v1::DriftEvent {
                object: object(),
                fields: fields(),
                what: text(),
                ..v1::DriftEvent::default()
            }],
            promoted: Some(v1::Promoted { problems: vec![text()], ..v1::Promoted::default() }),
            metadata: Some(v1::ServiceMetadata { images: vec![text()], fqdns: vec![text()] }),
            ..v1::ServiceReport::default()
        };
        all.hider(id).unwrap().report(&mut report);
        let told = format!("{report:?}");
        assert!(told.contains(MASK) && !told.contains("hunter2"), "{told}");
    }
}
