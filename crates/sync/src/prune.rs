//! Deleting what left the desired state: guarded, in reverse order, recorded until confirmed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{
    api::ApiError,
    engine::{Engine, failed},
    inventory,
    key::ObjectKey,
    order::{Step, is_precious, step},
    ownership,
    target::{Outcome, Part, Retry, Target},
};

/// Objects that a message names before it only counts.
const NAMED: usize = 5;

/// What became of one deletion.
enum Fate {
    /// The API server confirmed that it is gone, or that it is not ours any more.
    Gone,
    /// On its way; why it takes time.
    Leaving(String),
}

impl Engine {
    /// Deletes what is recorded and no longer wanted. Does nothing when applying failed: an error
    /// is no reason to believe that something should go.
    pub(crate) async fn prune(&self, target: &Target, outcome: &mut Outcome) {
        let (wanted_none, surplus) = self.inner().with_state(|state| {
            let known = state.services.entry(target.id).or_default();
            let surplus: BTreeSet<ObjectKey> =
                known.recorded.iter().filter(|key| !known.wanted.contains_key(key)).cloned().collect();
            (known.wanted.is_empty() && known.blocked.is_empty(), surplus)
        });
        if surplus.is_empty() {
            return;
        }
        if outcome.sync_failed() {
            outcome.leaving = surplus.len();
            return;
        }
        let held = self.hold(&surplus, wanted_none, outcome);
        // What is gone already needs nobody's approval to be forgotten.
        let surplus = surplus.into_iter().filter(|key| !held || !self.is_live(key)).collect();
        let gone = self.delete_all(target, surplus, outcome).await;
        if !gone.is_empty() {
            let left = self.inner().with_state(|state| {
                let known = state.services.entry(target.id).or_default();
                known.recorded.difference(&gone).cloned().collect()
            });
            self.record(target, left, outcome).await;
        }
    }

    /// Deletes everything that is recorded; a person asked for it.
    pub(crate) async fn destroy_recorded(
        &self,
        target: &Target,
        recorded: BTreeSet<ObjectKey>,
        outcome: &mut Outcome,
    ) {
        let inner = self.inner();
        if target.dry_run {
            // A dry run deletes nothing; a service that was never applied has nothing.
            outcome.destroyed = recorded.is_empty();
            outcome.leaving = recorded.len();
            return;
        }
        let before = recorded.len();
        let gone = self.delete_all(target, recorded.clone(), outcome).await;
        let left: BTreeSet<ObjectKey> = recorded.difference(&gone).cloned().collect();
        if !left.is_empty() {
            if left.len() != before {
                self.record(target, left, outcome).await;
            }
            return;
        }
        if target.delete_namespace && !self.delete_namespace(target, outcome).await {
            return;
        }
        match inventory::remove(&inner.api, &inner.options.namespace, target.id).await {
            Ok(()) => {
                inner.with_state(|state| state.forget(target.id));
                outcome.destroyed = true;
            }
            Err(error) => failed(outcome, Part::Prune, "cannot delete the record of the service", &error),
        }
    }

    /// Whether the plan must wait for a person; says so in the outcome.
    fn hold(&self, surplus: &BTreeSet<ObjectKey>, empties: bool, outcome: &mut Outcome) -> bool {
        let live: Vec<&ObjectKey> = surplus.iter().filter(|key| self.is_live(key)).collect();
        let precious: Vec<&ObjectKey> = live.iter().copied().filter(|key| is_precious(&key.kind)).collect();
        let message = if empties && !live.is_empty() {
            format!(
                "the service renders to nothing, which would delete all it has ({}). Nothing was deleted: correct its \
                 folder or files, or delete the service if that is what you want",
                names(&live)
            )
        } else if !precious.is_empty() {
            format!(
                "git no longer holds {}, whose deletion loses data. Nothing was deleted: put it back, or delete it \
                 by hand with kubectl if that is what you want",
                names(&precious)
            )
        } else {
            return false;
        };
        outcome.leaving = live.len();
        outcome.error(Part::Prune, message, String::new(), Retry::OnChange);
        true
    }

    fn is_live(&self, key: &ObjectKey) -> bool {
        self.inner().with_state(|state| state.live.contains_key(key))
    }

    /// Deletes `keys`, the last step first; gives back those that are confirmed gone.
    async fn delete_all(
        &self,
        target: &Target,
        keys: BTreeSet<ObjectKey>,
        outcome: &mut Outcome,
    ) -> BTreeSet<ObjectKey> {
        let mut steps: BTreeMap<Step, Vec<ObjectKey>> = BTreeMap::new();
        for key in keys {
            steps.entry(step(&key.kind)).or_default().push(key);
        }
        let mut gone = BTreeSet::new();
        let mut held_by_failure = false;
        for (step, keys) in steps.into_iter().rev() {
            // A definition takes its objects with it, a namespace all it holds: not before those
            // are gone in good order.
            if matches!(step, Step::Definitions | Step::Namespaces)
                && (outcome.leaving > 0 || held_by_failure)
            {
                outcome.leaving += keys.len();
                continue;
            }
            let fates = futures::future::join_all(keys.iter().map(|key| self.delete_one(target, key))).await;
            for (key, fate) in keys.into_iter().zip(fates) {
                match fate {
                    Ok(Fate::Gone) => {
                        outcome.deleted += 1;
                        gone.insert(key);
                    }
                    Ok(Fate::Leaving(why)) => {
                        outcome.leaving += 1;
                        outcome.retry = outcome.retry.sooner(Retry::Soon);
                        if !why.is_empty() {
                            outcome.warn(Part::Prune, format!("{} {why}", key.words()), String::new());
                        }
                    }
                    Err(error) => {
                        held_by_failure = true;
                        outcome.leaving += 1;
                        failed(outcome, Part::Prune, &format!("cannot delete {}", key.words()), &error);
                    }
                }
            }
        }
        gone
    }

    async fn delete_one(&self, target: &Target, key: &ObjectKey) -> Result<Fate, ApiError> {
        let inner = self.inner();
        let Some(resource) = inner.discovery.preferred(&inner.api, &key.kind).await? else {
            // Said by an API server that was asked just now, not by an old answer.
            inner.discovery.refresh_now(&inner.api).await?;
            if inner.discovery.known(&key.kind).is_none() {
                return Ok(Fate::Gone);
            }
            return Ok(Fate::Leaving("is of a kind that just came back".to_owned()));
        };
        let path = resource.object(key);
        // Looked at once more: a watch may trail behind.
        let live = match inner.api.get(&path).await {
            Ok(live) => live,
            Err(error) if error.is_not_found() => return Ok(self.confirmed(key)),
            Err(error) => return Err(error),
        };
        let ours = ownership::mark(&live, key).is_some_and(|mark| mark.service == Some(target.id));
        if !ours {
            tracing::info!(object = %key.words(), "it is not ours any more: it stays, its record goes");
            return Ok(Fate::Gone);
        }
        if live["metadata"]["deletionTimestamp"].is_string() {
            return Ok(Fate::Leaving(why_leaving(&live)));
        }
        let uid = live["metadata"]["uid"].as_str();
        match inner.api.delete(&path, uid).await {
            Ok(answer) if answer["kind"] == "Status" => Ok(self.confirmed(key)),
            Ok(answer) if answer["metadata"]["deletionTimestamp"].is_string() => {
                inner.with_state(|state| state.observe(&key.kind, &answer));
                Ok(Fate::Leaving(why_leaving(&answer)))
            }
            // Some kinds answer with the object that they just removed.
            Ok(_) => match inner.api.get(&path).await {
                Err(error) if error.is_not_found() => Ok(self.confirmed(key)),
                Ok(live) if live["metadata"]["uid"].as_str() != uid => Ok(self.confirmed(key)),
                Ok(live) => Ok(Fate::Leaving(why_leaving(&live))),
                Err(error) => Err(error),
            },
            Err(error) if error.is_not_found() => Ok(self.confirmed(key)),
            Err(error) => Err(error),
        }
    }

    fn confirmed(&self, key: &ObjectKey) -> Fate {
        self.inner().with_state(|state| state.observe_gone(key, 0));
        Fate::Gone
    }

    /// Deletes the service's namespace unless others live there. True when it is gone or stays.
    async fn delete_namespace(&self, target: &Target, outcome: &mut Outcome) -> bool {
        const NEVER: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
        let inner = self.inner();
        let namespace = target.namespace.as_str();
        let shared = inner.with_state(|state| {
            state.services.iter().any(|(id, service)| {
                *id != target.id && service.recorded.iter().any(|key| key.namespace == namespace)
            })
        });
        if NEVER.contains(&namespace)
            || namespace == inner.options.namespace
            || namespace.is_empty()
            || shared
        {
            return true;
        }
        let path = format!("/api/v1/namespaces/{namespace}");
        let answer = match inner.api.get(&path).await {
            Ok(live) if live["metadata"]["deletionTimestamp"].is_string() => Ok(live),
            Ok(live) => inner.api.delete(&path, live["metadata"]["uid"].as_str()).await,
            Err(error) => Err(error),
        };
        match answer {
            Err(error) if error.is_not_found() => return true,
            Err(error) => {
                failed(outcome, Part::Prune, &format!("cannot delete namespace {namespace}"), &error);
            }
            Ok(answer) if answer["kind"] == "Status" => return true,
            Ok(_) => {
                outcome.leaving += 1;
                outcome.retry = outcome.retry.sooner(Retry::Soon);
            }
        }
        false
    }
}

fn why_leaving(live: &Value) -> String {
    let list = live["metadata"]["finalizers"].as_array().into_iter().flatten();
    let finalizers: Vec<&str> = list.filter_map(Value::as_str).collect();
    let since = live["metadata"]["deletionTimestamp"].as_str().unwrap_or_default();
    // Background deletion shows this finalizer for a moment; it is nobody's fault.
    if finalizers.is_empty() || finalizers == ["foregroundDeletion"] || finalizers == ["orphan"] {
        return String::new();
    }
    format!(
        "is being deleted since {since}, but its finalizers are not done: {}. The controller that set them must \
         finish, or a person must remove them",
        finalizers.join(", ")
    )
}

fn names(keys: &[&ObjectKey]) -> String {
    let mut words: Vec<String> = keys.iter().take(NAMED).map(|key| key.words()).collect();
    if keys.len() > NAMED {
        words.push(format!("{} more", keys.len() - NAMED));
    }
    words.join(", ")
}
