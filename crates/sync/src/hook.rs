//! Objects that run once and end: Jobs and Pods that are hooks, and Jobs that delete themselves.
//!
//! A hook is run when no run of its manifest is noted and none is there. How it ended is noted in the
//! record before anything else is done because of it, so that a hook whose object is gone is known to have
//! run. What the object itself would do on its end, delete itself, waits until it is noted.

use std::time::Duration;

use plural_core::ids::ServiceId;
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    api::ApiError,
    directive::Propagation,
    inventory::HookRecord,
    judge::{Verdict, hook_id, hook_record},
    key::ObjectKey,
    ownership,
    phase::Phase,
    prepare::Item,
    run::Sync,
    target::{HookResult, Outcome, Part, Retry},
};

/// How long one call waits for an older run to be gone before it lets the next one look.
const CLEAR_DEADLINE: Duration = Duration::from_secs(5);

impl Sync<'_> {
    /// Takes an older run of a hook out of the way; tells what still stands there.
    pub(crate) async fn clear_way(&self, item: &Item, outcome: &mut Outcome) -> Option<String> {
        match self.delete_older(item).await {
            Ok(true) => None,
            Ok(false) => {
                outcome.retry = outcome.retry.sooner(Retry::Soon);
                Some("its previous run is being deleted".to_owned())
            }
            Err(error) => {
                let retry = if error.is_transient() { Retry::Soon } else { Retry::Later };
                let message = format!("cannot delete the previous run of {}: {error}", item.key.words());
                outcome.error(Part::Hook, message, crate::prepare::location(&item.origin), retry);
                Some(format!("its previous run cannot be deleted: {error}"))
            }
        }
    }

    /// True when nothing stands in the way.
    async fn delete_older(&self, item: &Item) -> Result<bool, ApiError> {
        let path = item.resource.object(&item.key);
        let deadline = Instant::now() + CLEAR_DEADLINE;
        let mut wait = Duration::from_millis(20);
        loop {
            let live = match self.api.get(&path).await {
                Ok(live) => live,
                Err(error) if error.is_not_found() => {
                    self.engine.inner().with_state(|state| state.observe_gone(&item.key, 0));
                    return Ok(true);
                }
                Err(error) => return Err(error),
            };
            if is_run_of(&live, item, self.target.id) {
                // It was created a moment ago, by us before a crash perhaps, and not seen yet.
                self.engine.inner().with_state(|state| state.observe(&item.key.kind, &live));
                return Ok(true);
            }
            if !live["metadata"]["deletionTimestamp"].is_string() {
                let uid = live["metadata"]["uid"].as_str();
                match self.api.delete(&path, uid, Propagation::Background).await {
                    Err(error) if error.is_not_found() || error.code() == 409 => {}
                    Err(error) => return Err(error),
                    Ok(_) => {}
                }
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(Duration::from_millis(500));
        }
    }

    /// Notes which hooks ended; false when the record could not be written, and then nothing may follow.
    pub(crate) async fn note_ended(&self, items: &[Item], outcome: &mut Outcome) -> bool {
        let ended: Vec<(&Item, Result<(), String>)> = self.engine.inner().with_state(|state| {
            let Some(known) = state.services.get(&self.target.id) else { return Vec::new() };
            items
                .iter()
                .filter(|item| item.once && hook_record(&known.run, item).is_none())
                .filter_map(|item| {
                    let live = state.live.get(&item.key)?;
                    let mark = live.mark.as_ref()?;
                    let this = mark.service == Some(self.target.id) && mark.hash == item.stamped.hash;
                    if !this {
                        return None;
                    }
                    Some((item, live.finished.clone()?))
                })
                .collect()
        });
        if ended.is_empty() {
            return true;
        }
        let recorded = self.engine.inner().with_state(|state| {
            let known = state.services.entry(self.target.id).or_default();
            for (item, result) in &ended {
                let record = HookRecord {
                    hash: item.stamped.hash.clone(),
                    succeeded: result.is_ok(),
                    message: result.clone().err().unwrap_or_default(),
                };
                known.run.hooks.insert(hook_id(item.place.phase, &item.key), record);
            }
            known.recorded.clone()
        });
        if !self.engine.record(self.target, recorded, outcome).await {
            self.engine.inner().with_state(|state| {
                let known = state.services.entry(self.target.id).or_default();
                for (item, _) in &ended {
                    known.run.hooks.remove(&hook_id(item.place.phase, &item.key));
                }
            });
            return false;
        }
        self.engine.inner().with_state(|state| {
            let known = state.services.entry(self.target.id).or_default();
            for (item, _) in &ended {
                if let Some(wanted) = known.wanted.get_mut(&item.key)
                    && wanted.stamped.hash == item.stamped.hash
                {
                    wanted.done = true;
                }
            }
        });
        for (item, result) in ended {
            self.after_end(item, result.is_ok(), outcome).await;
        }
        true
    }

    /// What is to be done with the object of a hook that ended and was noted.
    async fn after_end(&self, item: &Item, succeeded: bool, outcome: &mut Outcome) {
        let cleanup = item.directives.cleanup;
        let goes = if succeeded { cleanup.succeeded } else { cleanup.failed };
        let path = item.resource.object(&item.key);
        let uid = self
            .engine
            .inner()
            .with_state(|state| state.live.get(&item.key).map(|live| live.uid.clone()).unwrap_or_default());
        let done = if goes {
            self.api.delete(&path, Some(&uid), Propagation::Background).await.map(|_| ())
        } else if deletes_itself(item) {
            // Now it may.
            let patch = serde_json::json!({
                "metadata": {"uid": uid},
                "spec": {"ttlSecondsAfterFinished": manifest(item)["spec"]["ttlSecondsAfterFinished"]},
            });
            self.api.merge(&path, &patch).await.map(|_| ())
        } else {
            Ok(())
        };
        match done {
            Ok(()) => {}
            Err(error) if error.is_not_found() || error.code() == 409 => {}
            Err(error) => {
                let message = format!("cannot delete {}, which ended: {error}", item.key.words());
                outcome.warn(Part::Hook, message, crate::prepare::location(&item.origin));
            }
        }
    }

    /// Deletes hooks that were noted to have ended, but whose deletion a crash prevented.
    pub(crate) async fn clean_up(&self, items: &[(Item, Verdict)], outcome: &mut Outcome) {
        for (item, verdict) in items {
            let Verdict::Done(result) = verdict else { continue };
            let there = self.engine.inner().with_state(|state| {
                state.live.get(&item.key).is_some_and(|live| {
                    let mark = live.mark.as_ref();
                    live.deleting.is_none() && mark.is_some_and(|mark| mark.hash == item.stamped.hash)
                })
            });
            let cleanup = item.directives.cleanup;
            if there && (if result.is_ok() { cleanup.succeeded } else { cleanup.failed }) {
                self.after_end(item, result.is_ok(), outcome).await;
            }
        }
    }

    /// Tells what became of the hooks of what is wanted.
    pub(crate) fn tell_hooks(&self, outcome: &mut Outcome) {
        outcome.progress.hooks = self.engine.inner().with_state(|state| {
            let Some(known) = state.services.get(&self.target.id) else { return Vec::new() };
            let mut results: Vec<HookResult> = Vec::new();
            for (key, wanted) in known.wanted.iter().filter(|(_, wanted)| wanted.once) {
                let noted: Vec<(Phase, &HookRecord)> = Phase::ALL
                    .into_iter()
                    .filter_map(|phase| Some((phase, known.run.hooks.get(&hook_id(phase, key))?)))
                    .collect();
                let runs = !wanted.done && state.live.contains_key(key);
                if runs {
                    let phase = wanted.place.phase;
                    results.push(HookResult {
                        key: key.clone(),
                        phase,
                        succeeded: None,
                        message: String::new(),
                    });
                    continue;
                }
                results.extend(noted.into_iter().map(|(phase, record)| HookResult {
                    key: key.clone(),
                    phase,
                    succeeded: Some(record.succeeded),
                    message: record.message.clone(),
                }));
            }
            results.sort_by(|a, b| (a.phase, &a.key).cmp(&(b.phase, &b.key)));
            results
        });
    }
}

fn manifest(item: &Item) -> Value {
    serde_json::from_slice(&item.stamped.body).unwrap_or_default()
}

/// Whether its object is deleted by the cluster some time after it ended.
fn deletes_itself(item: &Item) -> bool {
    item.once && manifest(item)["spec"]["ttlSecondsAfterFinished"].is_number()
}

/// The manifest as it is sent when the hook is run: it stays until its end was noted.
pub(crate) fn running_manifest(item: &Item, mut manifest: Value) -> Value {
    if item.once
        && let Some(spec) = manifest.get_mut("spec").and_then(Value::as_object_mut)
    {
        spec.remove("ttlSecondsAfterFinished");
    }
    manifest
}

fn is_run_of(live: &Value, item: &Item, service: ServiceId) -> bool {
    is_marked(live, &item.key, service, &item.stamped.hash)
        && !live["metadata"]["deletionTimestamp"].is_string()
}

fn is_marked(live: &Value, key: &ObjectKey, service: ServiceId, hash: &str) -> bool {
    ownership::mark(live, key).is_some_and(|mark| mark.service == Some(service) && mark.hash == hash)
}
