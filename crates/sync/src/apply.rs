//! Plan and apply: what differs is sent, in order, many at a time.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use futures::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    api::{ApiError, FIELD_MANAGER},
    engine::{Engine, failed},
    inventory::{self, Inventory},
    key::ObjectKey,
    order::Step,
    prepare::{Item, Prepared, location},
    state::{State, Wanted},
    target::{Drift, Outcome, Part, Retry, Target},
};

/// Requests of one service at once; the engine's own limit holds for all services together.
const PER_SERVICE: usize = 32;

impl Engine {
    /// Sends what differs, then deletes what left.
    pub(crate) async fn apply(&self, target: &Target, prepared: Prepared, outcome: &mut Outcome) {
        let inner = self.inner();
        let Prepared { items, namespaces } = prepared;
        let todo = inner.with_state(|state| plan(state, target, items, outcome));
        if target.dry_run {
            outcome.changed = todo.len();
            return;
        }
        let (recorded, union) = inner.with_state(|state| {
            let known = state.services.entry(target.id).or_default();
            let mut union = known.recorded.clone();
            union.extend(known.wanted.keys().cloned());
            (known.recorded.clone(), union)
        });
        // Whatever is written from here on is already recorded: whoever comes after a crash knows.
        if union != recorded && !self.record(target, union, outcome).await {
            return;
        }
        if !self.ensure_namespace(target, &todo, &namespaces, outcome).await {
            return;
        }
        let mut steps: BTreeMap<Step, Vec<Item>> = BTreeMap::new();
        for item in todo {
            steps.entry(item.step).or_default().push(item);
        }
        for (step, items) in steps {
            let definitions: Vec<ObjectKey> = if step == Step::Definitions {
                items.iter().map(|item| item.key.clone()).collect()
            } else {
                Vec::new()
            };
            let mut results = stream::iter(items.into_iter().map(|item| async move {
                let result = self.apply_one(target, &item).await;
                (item, result)
            }))
            .buffer_unordered(PER_SERVICE);
            while let Some((item, result)) = results.next().await {
                self.take_result(target, &item, result, outcome);
            }
            drop(results);
            if !definitions.is_empty() {
                self.wait_for_definitions(target, &definitions, outcome).await;
            }
        }
        outcome.applied = !outcome.sync_failed();
        self.prune(target, outcome).await;
    }

    /// Writes the record of what the service owns. False when it could not be written.
    pub(crate) async fn record(
        &self,
        target: &Target,
        entries: BTreeSet<ObjectKey>,
        outcome: &mut Outcome,
    ) -> bool {
        let inner = self.inner();
        let inventory = Inventory { service: target.id, name: target.name.clone(), entries };
        let written = inventory::store(&inner.api, &inner.options.namespace, &inventory).await;
        match written {
            Ok(()) => {
                inner.with_state(|state| state.set_recorded(target.id, inventory.entries));
                true
            }
            Err(error) => {
                failed(outcome, Part::Sync, "cannot record what the service owns", &error);
                false
            }
        }
    }

    async fn apply_one(&self, target: &Target, item: &Item) -> Result<Value, ApiError> {
        let inner = self.inner();
        let path = item.resource.object(&item.key);
        let send = || inner.api.apply(&path, FIELD_MANAGER, true, item.stamped.body.clone());
        match send().await {
            // The namespace went away since we last saw it.
            Err(error)
                if namespace_missing(&error, &item.key)
                    && target.create_namespace
                    && item.key.namespace == target.namespace =>
            {
                inventory::create_namespace(&inner.api, &target.namespace).await?;
                send().await
            }
            answer => answer,
        }
    }

    fn take_result(
        &self,
        target: &Target,
        item: &Item,
        result: Result<Value, ApiError>,
        outcome: &mut Outcome,
    ) {
        match result {
            Ok(answer) => {
                outcome.changed += 1;
                self.inner().with_state(|state| {
                    state.applied(target.id, &item.key, &answer);
                    if !item.key.namespace.is_empty() {
                        state.namespaces.insert(item.key.namespace.clone());
                    }
                });
            }
            Err(error) => {
                let error = if item.key.kind.is("", "Secret") { error.without_values() } else { error };
                let terminating = error.to_string().contains("being terminated");
                let retry = if error.is_transient() || terminating { Retry::Soon } else { Retry::Later };
                let message =
                    format!("cannot apply {}: {error}{}", item.key.words(), hint(&error, item, target));
                self.inner().with_state(|state| {
                    state.namespaces.remove(&item.key.namespace);
                    state.set_problem(target.id, &item.key, &error.to_string());
                });
                outcome.error(Part::Sync, message, location(&item.origin), retry);
            }
        }
    }

    /// Creates or decorates the service's namespace when it must. False when that failed.
    async fn ensure_namespace(
        &self,
        target: &Target,
        todo: &[Item],
        own: &std::collections::HashSet<String>,
        outcome: &mut Outcome,
    ) -> bool {
        if !target.create_namespace || target.namespace.is_empty() || own.contains(&target.namespace) {
            return true;
        }
        let inner = self.inner();
        let decorated = !target.namespace_labels.is_empty() || !target.namespace_annotations.is_empty();
        let written = if decorated {
            let mut hasher = DefaultHasher::new();
            (&target.namespace, &target.namespace_labels, &target.namespace_annotations).hash(&mut hasher);
            let hash = hasher.finish();
            let known = inner
                .with_state(|state| state.services.get(&target.id).and_then(|known| known.namespace_hash));
            if known == Some(hash) {
                return true;
            }
            let body = json!({
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {
                    "name": target.namespace,
                    "labels": target.namespace_labels,
                    "annotations": target.namespace_annotations,
                },
            });
            // Several services may share a namespace: each manages its own fields, none takes another's.
            let manager = format!("{FIELD_MANAGER}-namespace-{}", target.id);
            let path = format!("/api/v1/namespaces/{}", target.namespace);
            inner.api.apply(&path, &manager, false, body.to_string().into()).await.map(|_| Some(hash))
        } else {
            let needed = inner.with_state(|state| {
                todo.iter()
                    .any(|item| item.key.namespace == target.namespace && !state.live.contains_key(&item.key))
                    && !state.namespaces.contains(&target.namespace)
            });
            if !needed {
                return true;
            }
            inventory::create_namespace(&inner.api, &target.namespace).await.map(|()| None)
        };
        match written {
            Ok(hash) => {
                inner.with_state(|state| {
                    state.namespaces.insert(target.namespace.clone());
                    state.services.entry(target.id).or_default().namespace_hash = hash;
                });
                true
            }
            Err(error) => {
                let doing = format!("cannot prepare namespace {}", target.namespace);
                failed(outcome, Part::Sync, &doing, &error);
                false
            }
        }
    }

    /// Waits until the API server serves what the definitions just applied define.
    async fn wait_for_definitions(&self, target: &Target, definitions: &[ObjectKey], outcome: &mut Outcome) {
        let inner = self.inner();
        let deadline = Instant::now() + inner.options.definition_deadline;
        for key in definitions {
            let body = inner.with_state(|state| {
                let wanted = state.services.get(&target.id)?.wanted.get(key)?;
                wanted.problem.is_none().then(|| wanted.stamped.body.clone())
            });
            let Some(manifest) = body.and_then(|body| serde_json::from_slice::<Value>(&body).ok()) else {
                continue;
            };
            let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}", key.name);
            let mut wait = Duration::from_millis(20);
            loop {
                let why = match inner.api.get(&path).await {
                    Ok(live) => {
                        let health = crate::health::health(&key.kind, &live);
                        if health.message.is_empty() && self.serves(&manifest).await {
                            break;
                        }
                        if health.message.is_empty() {
                            "it is not served yet".to_owned()
                        } else {
                            health.message
                        }
                    }
                    Err(error) => error.to_string(),
                };
                if Instant::now() >= deadline {
                    let message = format!("{} was applied but cannot be used: {why}", key.words());
                    outcome.error(Part::Sync, message, String::new(), Retry::Soon);
                    break;
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(Duration::from_millis(500));
            }
        }
        if let Err(error) = inner.discovery.refresh_now(&inner.api).await {
            tracing::debug!(%error, "cannot ask for kinds after a definition was applied");
        }
    }

    /// Whether every served version of a definition answers.
    async fn serves(&self, definition: &Value) -> bool {
        let spec = &definition["spec"];
        let (Some(group), Some(plural)) = (spec["group"].as_str(), spec["names"]["plural"].as_str()) else {
            return true;
        };
        for version in spec["versions"].as_array().into_iter().flatten() {
            let (Some(name), true) = (version["name"].as_str(), version["served"] == true) else { continue };
            let path = format!("/apis/{group}/{name}/{plural}");
            if self.inner().api.list(&path, "limit=1", crate::api::View::Metadata).await.is_err() {
                return false;
            }
        }
        true
    }
}

/// Decides which items must be sent; takes claims, notes conflicts and drift.
fn plan(state: &mut State, target: &Target, items: Vec<Item>, outcome: &mut Outcome) -> Vec<Item> {
    let mut wanted: HashMap<ObjectKey, Wanted> = HashMap::new();
    let mut mine: Vec<Item> = Vec::new();
    let mut blocked = std::collections::HashSet::new();
    for item in items {
        if let Some(owner) = other_owner(state, target, &item.key) {
            let message = format!(
                "{} belongs to service {owner}: it was not touched. Remove it from one of the two services",
                item.key.words()
            );
            blocked.insert(item.key.clone());
            // Definitions are often brought by several services alike.
            let definition = item.step == Step::Definitions;
            if definition || !target.require_ownership {
                outcome.warn(Part::Sync, message, location(&item.origin));
            } else {
                outcome.error(Part::Sync, message, location(&item.origin), Retry::OnChange);
            }
            continue;
        }
        if !target.dry_run {
            state.claims.insert(item.key.clone(), target.id);
        }
        let new = Wanted::new(item.version.clone(), item.stamped.clone());
        wanted.insert(item.key.clone(), new);
        mine.push(item);
    }
    state.replace_wanted(target.id, wanted);
    state.services.entry(target.id).or_default().blocked = blocked;
    let mut todo = Vec::new();
    for item in mine {
        if state.intact(target.id, &item.key) {
            outcome.unchanged += 1;
            continue;
        }
        let live = state.live.get(&item.key);
        if live.is_some_and(|live| live.deleting.is_some()) {
            let held = live.and_then(|live| live.deleting.clone()).unwrap_or_default();
            let message = format!(
                "{} is being deleted{}: it is applied again once it is gone",
                item.key.words(),
                if held.is_empty() {
                    String::new()
                } else {
                    format!(", held by its finalizers {}", held.join(", "))
                }
            );
            state.set_problem(target.id, &item.key, "the old object is still being deleted");
            outcome.error(Part::Sync, message, location(&item.origin), Retry::Soon);
            continue;
        }
        if !target.dry_run && state.was_applied(target.id, &item.key) {
            let manager = live.and_then(|live| live.other.clone());
            if let Err(wait) = state.may_repair(&item.key) {
                let who = manager.as_deref().unwrap_or("someone");
                let message = format!(
                    "{} is changed again and again by {who}: it is put right at most once in 30 s. \
                     Stop {who}, or leave the fields that it writes out of git",
                    item.key.words()
                );
                state.set_problem(target.id, &item.key, &message);
                outcome.warn(Part::Sync, message, location(&item.origin));
                outcome.retry = outcome.retry.sooner(Retry::After(wait));
                continue;
            }
            outcome.drift.push(Drift { key: item.key.clone(), manager });
        }
        todo.push(item);
    }
    todo
}

/// Name and id of the other service that owns the object, if one does.
fn other_owner(state: &State, target: &Target, key: &ObjectKey) -> Option<String> {
    let marked = state.live.get(key).and_then(|live| live.mark.as_ref()).and_then(|mark| mark.service);
    let owner = state.claims.get(key).copied().or(marked).filter(|owner| *owner != target.id)?;
    // The mark of a service that nobody knows binds nobody.
    let known = state.services.get(&owner)?;
    Some(format!("{} ({owner})", known.name))
}

fn namespace_missing(error: &ApiError, key: &ObjectKey) -> bool {
    error.is_not_found() && error.to_string().contains(&format!("namespaces \"{}\" not found", key.namespace))
}

/// What to do about some errors that everybody meets.
fn hint(error: &ApiError, item: &Item, target: &Target) -> String {
    let text = error.to_string();
    if namespace_missing(error, &item.key) {
        return if item.key.namespace == target.namespace {
            ". Create the namespace in git, or let the service create it (syncConfig.createNamespace)"
                .to_owned()
        } else {
            ". Create the namespace in git".to_owned()
        };
    }
    if text.contains("field is immutable") || text.contains("may not be changed") {
        return ". This field can only be set when the object is created: delete the object to have it created anew"
            .to_owned();
    }
    if error.code() == 403 && !text.contains("being terminated") {
        return ". Give the agent's service account the right to do this".to_owned();
    }
    String::new()
}
