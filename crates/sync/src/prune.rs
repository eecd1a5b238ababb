//! Deleting what left the desired state: guarded, in reverse order, recorded until confirmed.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    time::Duration,
};

use serde_json::Value;

use crate::{
    api::{Api, ApiError},
    budget::{self, Extent},
    directive::{Directives, Propagation, Removal},
    engine::{Engine, failed},
    inventory::{self, Place},
    key::{GroupKind, ObjectKey},
    limits::Bounds,
    order::{Step, step},
    ownership,
    target::{Outcome, Part, PendingApproval, Retry, Target},
};

/// How often the annotation by which a person approves is looked for while something waits for it.
const APPROVAL_LOOK_EVERY: Duration = Duration::from_secs(15);

/// What became of one deletion.
enum Fate {
    /// The API server confirmed that it is gone, or that it is not ours any more.
    Gone,
    /// On its way; why it takes time.
    Leaving(String),
    /// It is out of the service's reach; why.
    Refused(String),
}

/// What a review of a deletion found.
struct Review {
    /// The objects that lived by the watches' caches, and so were counted.
    live: BTreeSet<ObjectKey>,
    /// Whether these may be deleted now.
    approved: bool,
}

/// Why objects go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// They left the desired state.
    Pruned,
    /// Their service goes.
    Destroyed,
}

impl Engine {
    /// Deletes what is recorded and no longer wanted. Does nothing when applying failed: an error
    /// is no reason to believe that something should go.
    pub(crate) async fn prune(&self, target: &Target, api: &Api, outcome: &mut Outcome) {
        let (extent, mut surplus) = self.inner().with_state(|state| {
            let Some(known) = state.services.get(&target.id) else {
                return (Extent { total: 0, moved: 0, empties: false }, BTreeSet::new());
            };
            let surplus: BTreeSet<ObjectKey> = known
                .recorded
                .iter()
                .filter(|key| known.is_surplus(key) && !state.stays(key))
                .cloned()
                .collect();
            let empties = known.wanted.is_empty() && known.blocked.is_empty();
            let namesake = |key: &ObjectKey| (key.kind.clone(), key.name.clone());
            let staying: HashSet<_> = known.recorded.difference(&surplus).map(namesake).collect();
            let moved = surplus.iter().filter(|key| staying.contains(&namesake(key))).count();
            (Extent { total: known.recorded.len() - moved, moved, empties }, surplus)
        });
        if surplus.is_empty() {
            return;
        }
        if outcome.sync_failed() {
            outcome.leaving = surplus.len();
            return;
        }
        let review = self.review(target, Cause::Pruned, extent, &surplus, outcome).await;
        if !review.approved {
            // What is gone already needs nobody's approval to be forgotten.
            surplus.retain(|key| !review.live.contains(key));
            outcome.leaving = review.live.len();
        }
        let gone = self.delete_all(target, api, surplus, (Cause::Pruned, &review.live), outcome).await;
        if !gone.is_empty() {
            self.forget_gone(target, &gone, outcome).await;
        }
    }

    /// Takes what is gone out of the record.
    async fn forget_gone(&self, target: &Target, gone: &BTreeSet<ObjectKey>, outcome: &mut Outcome) {
        let left = self.inner().with_state(|state| {
            let known = state.services.entry(target.id).or_default();
            known.run.approved.retain(|key| key.parse().is_ok_and(|key| !gone.contains(&key)));
            known.recorded.difference(gone).cloned().collect()
        });
        self.record(target, left, outcome).await;
    }

    /// Deletes everything that is recorded.
    pub(crate) async fn destroy_recorded(
        &self,
        target: &Target,
        recorded: BTreeSet<ObjectKey>,
        outcome: &mut Outcome,
    ) {
        let inner = self.inner();
        if target.dry_run || target.paused {
            // Nothing is deleted; a service that was never applied has nothing.
            outcome.destroyed = recorded.is_empty();
            outcome.leaving = recorded.len();
            return;
        }
        let extent = Extent { total: recorded.len(), moved: 0, empties: true };
        let review = self.review(target, Cause::Destroyed, extent, &recorded, outcome).await;
        if !review.approved {
            outcome.leaving = recorded.len();
            return;
        }
        let api = inner.api.acting_as(target.user().as_deref());
        let before = recorded.len();
        let gone = self.delete_all(target, &api, recorded, (Cause::Destroyed, &review.live), outcome).await;
        if gone.len() < before {
            if !gone.is_empty() {
                self.forget_gone(target, &gone, outcome).await;
            }
            return;
        }
        if target.config.delete_namespace && !self.delete_namespace(target, &api, outcome).await {
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

    /// Reviews the deletion of `going`: whether it may be done now. If not, the outcome says what waits for whom.
    async fn review(
        &self,
        target: &Target,
        cause: Cause,
        extent: Extent,
        going: &BTreeSet<ObjectKey>,
        outcome: &mut Outcome,
    ) -> Review {
        let inner = self.inner();
        let (live, confirm, approved) = inner.with_state(|state| {
            let live: BTreeSet<ObjectKey> =
                going.iter().filter(|key| state.live.contains_key(*key)).cloned().collect();
            let asks = |key: &&ObjectKey| {
                state.live.get(*key).is_some_and(|live| match cause {
                    Cause::Pruned => live.keep.prune == Removal::Confirm,
                    Cause::Destroyed => live.keep.delete == Removal::Confirm,
                })
            };
            let confirm: Vec<&ObjectKey> = going.iter().filter(asks).collect();
            let approved = state.services.get(&target.id).map(|known| known.run.approved.clone());
            (live, confirm, approved.unwrap_or_default())
        });
        // A deletion that was approved goes on until it is done.
        let open: Vec<&ObjectKey> = live.iter().filter(|key| !approved.contains(&key.to_string())).collect();
        let confirm: Vec<&ObjectKey> =
            confirm.into_iter().filter(|key| !approved.contains(&key.to_string())).collect();
        let reason = match cause {
            Cause::Pruned => budget::review(&open, &confirm, extent, &target.config.policy),
            Cause::Destroyed if target.destroy_needs_approval && !open.is_empty() => Some(format!(
                "the service is to be deleted with all it has ({}), and no user requested that. Nothing was \
                 deleted: approve it, or undo what caused it",
                budget::names(&open)
            )),
            // Who deletes a service has said so.
            Cause::Destroyed if confirm.is_empty() => None,
            Cause::Destroyed => Some(format!(
                "the service holds {}, which may only be deleted after approval. Nothing was deleted: \
                 approve it",
                budget::names(&confirm)
            )),
        };
        let Some(reason) = reason else { return Review { live, approved: true } };
        let digest = budget::digest(target.id, &live);
        let named = if target.approved_prune.as_deref() == Some(&digest) {
            Ok(target.approved_prune.clone())
        } else {
            inventory::approved_by_annotation(&inner.api, &inner.options.namespace, target.id).await
        };
        if named.is_ok_and(|named| named.as_deref() == Some(&digest)) {
            let recorded = inner.with_state(|state| {
                let known = state.services.entry(target.id).or_default();
                known.run.approved = live.iter().map(ToString::to_string).collect();
                known.recorded.clone()
            });
            let approved = self.record(target, recorded, outcome).await;
            return Review { live, approved };
        }
        outcome.error(Part::Prune, reason.clone(), String::new(), Retry::After(APPROVAL_LOOK_EVERY));
        outcome.pending = Some(PendingApproval { digest, reason, objects: live.iter().cloned().collect() });
        Review { live, approved: false }
    }

    fn is_live(&self, key: &ObjectKey) -> bool {
        self.inner().with_state(|state| state.live.contains_key(key))
    }

    /// Deletes `keys`, what was applied last first; what was applied before waits until that is gone. Of these, only
    /// what a review counted is deleted. Gives back those that are confirmed gone.
    async fn delete_all(
        &self,
        target: &Target,
        api: &Api,
        keys: BTreeSet<ObjectKey>,
        (cause, reviewed): (Cause, &BTreeSet<ObjectKey>),
        outcome: &mut Outcome,
    ) -> BTreeSet<ObjectKey> {
        let mut order: BTreeMap<(Place, Step), Vec<ObjectKey>> = BTreeMap::new();
        self.inner().with_state(|state| {
            let known = state.services.get(&target.id);
            for key in keys {
                let place = known.map_or_else(|| Place::default_of(&key), |known| known.place_of(&key));
                order.entry((place, step(&key.kind))).or_default().push(key);
            }
        });
        let bounds = self.bounds(target);
        let mut gone = BTreeSet::new();
        let mut stuck = false;
        for keys in order.into_values().rev() {
            if stuck {
                outcome.leaving += keys.len();
                continue;
            }
            let mut deletions = Vec::with_capacity(keys.len());
            for key in &keys {
                deletions.push(self.delete_one((target, &bounds), api, key, (cause, reviewed)));
            }
            let fates = futures::future::join_all(deletions).await;
            for (key, fate) in keys.into_iter().zip(fates) {
                match fate {
                    Ok(Fate::Gone) => {
                        outcome.deleted += 1;
                        gone.insert(key);
                    }
                    Ok(Fate::Leaving(why)) => {
                        stuck = true;
                        outcome.leaving += 1;
                        outcome.retry = outcome.retry.sooner(Retry::Soon);
                        if !why.is_empty() {
                            outcome.warn(Part::Prune, format!("{} {why}", key.words()), String::new());
                        }
                    }
                    Ok(Fate::Refused(why)) => {
                        stuck = true;
                        outcome.leaving += 1;
                        let message = format!(
                            "{why}. It is not deleted: widen the limits, or detach the service to leave it as it is"
                        );
                        outcome.error(Part::Limits, message, String::new(), Retry::OnChange);
                    }
                    Err(error) => {
                        stuck = true;
                        outcome.leaving += 1;
                        failed(outcome, Part::Prune, &format!("cannot delete {}", key.words()), &error);
                    }
                }
            }
        }
        gone
    }

    async fn delete_one(
        &self,
        (target, bounds): (&Target, &Bounds),
        api: &Api,
        key: &ObjectKey,
        (cause, reviewed): (Cause, &BTreeSet<ObjectKey>),
    ) -> Result<Fate, ApiError> {
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
        let live = match api.get(&path).await {
            Ok(live) => live,
            Err(error) if error.is_not_found() => return Ok(self.confirmed(key)),
            // The service's account was refused this object when it was to be made, and is refused the look at it now.
            Err(error) if error.code() == 403 && !self.is_live(key) => {
                return match inner.api.get(&path).await {
                    Err(found) if found.is_not_found() => Ok(self.confirmed(key)),
                    _ => Err(error),
                };
            }
            Err(error) => return Err(error),
        };
        let ours = ownership::mark(&live, key).is_some_and(|mark| mark.service == Some(target.id));
        if !ours {
            tracing::info!(
                object = %key.words(),
                "no longer owned by this service; kept and removed from the inventory"
            );
            return Ok(Fate::Gone);
        }
        // A watch that trails behind hid it from the review: it counts in the next one.
        if !reviewed.contains(key) {
            inner.with_state(|state| state.observe(&key.kind, &live));
            return Ok(Fate::Leaving(
                "is still there, though the watch of its kind did not show it".to_owned(),
            ));
        }
        // Limits may have become narrower since it was made.
        if let Some(why) = bounds.problem(key) {
            return Ok(Fate::Refused(why));
        }
        let asked = Directives::of(&live);
        let managed = target.keeps_found_namespace && key.kind.is("", "Namespace");
        let found = managed && !ownership::was_made_for(&live, target.id);
        let stays = match cause {
            Cause::Pruned => asked.detach || found,
            Cause::Destroyed => asked.detach || asked.delete == Removal::Never || found,
        };
        if stays {
            api.merge(&path, &ownership::unmark()).await?;
            tracing::info!(
                object = %key.words(),
                "annotated to stay; kept and no longer owned by this service"
            );
            return Ok(self.confirmed(key));
        }
        if live["metadata"]["deletionTimestamp"].is_string() {
            return Ok(Fate::Leaving(why_leaving(&live)));
        }
        if managed && self.others_live_in(target, &key.name) {
            return Ok(Fate::Leaving("waits until the other services in it are deleted".to_owned()));
        }
        let uid = live["metadata"]["uid"].as_str();
        match api.delete(&path, uid, asked.propagation).await {
            Ok(answer) if answer["kind"] == "Status" => Ok(self.confirmed(key)),
            Ok(answer) if answer["metadata"]["deletionTimestamp"].is_string() => {
                inner.with_state(|state| state.observe(&key.kind, &answer));
                Ok(Fate::Leaving(why_leaving(&answer)))
            }
            // Some kinds answer with the object that they just removed.
            Ok(_) => match api.get(&path).await {
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

    /// Whether another service has objects in a namespace.
    fn others_live_in(&self, target: &Target, namespace: &str) -> bool {
        self.inner().with_state(|state| {
            state.services.iter().any(|(id, service)| {
                *id != target.id && service.recorded.iter().any(|key| key.namespace == namespace)
            })
        })
    }

    /// Deletes the service's namespace unless others live there, another service applies it, or limits refuse it: all that anybody
    /// has in a namespace goes with it, so its service needs the right to delete a Namespace. True when it is gone or stays.
    async fn delete_namespace(&self, target: &Target, api: &Api, outcome: &mut Outcome) -> bool {
        const NEVER: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
        let inner = self.inner();
        let namespace = target.namespace.as_str();
        if NEVER.contains(&namespace)
            || namespace == inner.options.namespace
            || namespace.is_empty()
            || self.others_live_in(target, namespace)
        {
            return true;
        }
        let key = ObjectKey {
            kind: GroupKind { group: String::new(), kind: "Namespace".to_owned() },
            namespace: String::new(),
            name: namespace.to_owned(),
        };
        if let Some(why) = self.bounds(target).problem(&key) {
            outcome.warn(Part::Limits, format!("{why}: the namespace is not deleted"), String::new());
            return true;
        }
        let path = format!("/api/v1/namespaces/{namespace}");
        let live = api.get(&path).await;
        // One that was only made for a service, and is applied by none, carries no mark.
        let is_others =
            |live: &Value| ownership::mark(live, &key).is_some_and(|mark| mark.service != Some(target.id));
        let answer = match live {
            Ok(live) if is_others(&live) => {
                let message =
                    format!("the namespace {namespace} belongs to another service: it is not deleted");
                outcome.warn(Part::Prune, message, String::new());
                return true;
            }
            Ok(live) if live["metadata"]["deletionTimestamp"].is_string() => Ok(live),
            Ok(live) => api.delete(&path, live["metadata"]["uid"].as_str(), Propagation::Background).await,
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
        "is being deleted since {since}, but its finalizers are not done: {}. The controller that set them \
         must finish, or an administrator must remove them",
        finalizers.join(", ")
    )
}
