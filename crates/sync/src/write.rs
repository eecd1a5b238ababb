//! Sending one object, and what its answer tells.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use plural_core::specs::NamespaceMetadata;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    api::{ApiError, Applying, FIELD_MANAGER},
    diff::differences,
    directive::Propagation,
    engine::{Engine, failed},
    fields, hook, inventory,
    judge::Verdict,
    key::ObjectKey,
    migrate,
    ownership::CREATED_BY_ANNOTATION,
    prepare::{Item, location},
    run::Sync,
    target::{Drift, DriftKind, Outcome, Part, Retry, Target},
};

/// How often the fields of another tool are asked for while others write to the object.
const TAKE_OVER_TRIES: usize = 10;

/// How long an object that is replaced may take to go.
const REPLACE_DEADLINE: Duration = Duration::from_secs(20);

/// What a write came to.
#[derive(Debug)]
pub(crate) struct Written {
    /// The object as the API server answered it.
    pub(crate) answer: Value,
    /// It was there before, made by somebody else.
    was_there: bool,
}

impl Written {
    fn new(answer: Value) -> Self {
        Self { answer, was_there: false }
    }
}

impl Sync<'_> {
    /// Makes the live object what `item` says.
    pub(crate) async fn write(&self, item: &Item) -> Result<Written, ApiError> {
        // Asked before it carries our mark: the watch may tell of that before the answer is here.
        let adopts = self.adopts(item);
        if self.target.keeps_found_namespace && item.key.kind.is("", "Namespace") {
            self.make_namespace(item).await?;
        }
        match self.send(item).await {
            // The namespace went away since we last saw it.
            Err(error)
                if namespace_missing(&error, &item.key)
                    && self.target.config.create_namespace
                    && item.key.namespace == self.target.namespace =>
            {
                inventory::create_namespace(&self.api, &self.target.namespace).await?;
                self.send(item).await.map(Written::new)
            }
            Err(error) if item.directives.force && matches!(error.code(), 409 | 422) => {
                self.recreate(item).await.map(Written::new)
            }
            Ok(answer) if adopts => {
                // Asked before other writers are gone from it.
                let was_there = migrate::was_there(&answer);
                Ok(Written { answer: self.take_over(item, answer).await?, was_there })
            }
            answer => answer.map(Written::new),
        }
    }

    /// Whether the object, if it is there, becomes ours with what other tools applied of it.
    pub(crate) fn adopts(&self, item: &Item) -> bool {
        item.directives.migrate
            && !item.directives.replace
            && self
                .engine
                .inner()
                .with_state(|state| state.live.get(&item.key).is_none_or(|live| live.mark.is_none()))
    }

    /// Creates a namespace that is not there, and notes on it for whom. One that is there stays as it was found.
    async fn make_namespace(&self, item: &Item) -> Result<(), ApiError> {
        if self.engine.inner().with_state(|state| state.live.contains_key(&item.key)) {
            return Ok(());
        }
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": item.key.name,
            "annotations": {CREATED_BY_ANNOTATION: self.target.id.to_string()},
        }});
        match self.api.create("/api/v1/namespaces", body.to_string().into()).await {
            Err(error) if error.code() != 409 => Err(error),
            _ => Ok(()),
        }
    }

    async fn send(&self, item: &Item) -> Result<Value, ApiError> {
        let path = item.resource.object(&item.key);
        if item.directives.replace {
            return self.replace(item, &path).await;
        }
        let how = Applying { validate: item.directives.validate, ..Applying::OURS };
        if item.rules.is_empty() && !item.once {
            return self.api.apply(&path, how, item.stamped.body.clone()).await;
        }
        let live = if item.rules.is_empty() { None } else { self.live(&path).await? };
        let manifest = Self::manifest(item, live.as_ref())?;
        self.api.apply(&path, how, manifest.to_string().into()).await
    }

    /// What is sent of an item when `live` is there.
    pub(crate) fn manifest(item: &Item, live: Option<&Value>) -> Result<Value, ApiError> {
        let manifest = serde_json::from_slice(&item.stamped.body)
            .map_err(|error| ApiError::Unreadable(error.to_string()))?;
        let mut manifest = hook::running_manifest(item, manifest);
        item.rules.fit(&mut manifest, live);
        Ok(manifest)
    }

    pub(crate) async fn live(&self, path: &str) -> Result<Option<Value>, ApiError> {
        match self.api.get(path).await {
            Ok(live) => Ok(Some(live)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn replace(&self, item: &Item, path: &str) -> Result<Value, ApiError> {
        let live = self.live(path).await?;
        let mut manifest = Self::manifest(item, live.as_ref())?;
        let Some(live) = live else {
            let how = Applying { validate: item.directives.validate, ..Applying::OURS };
            return self.api.apply(path, how, manifest.to_string().into()).await;
        };
        manifest["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
        self.api.replace(path, manifest.to_string().into()).await
    }

    /// Deletes the object, waits until it is gone, and creates it anew.
    async fn recreate(&self, item: &Item) -> Result<Value, ApiError> {
        let path = item.resource.object(&item.key);
        let deadline = Instant::now() + REPLACE_DEADLINE;
        let mut wait = Duration::from_millis(20);
        let mut asked = false;
        while let Some(live) = self.live(&path).await? {
            if !asked && !live["metadata"]["deletionTimestamp"].is_string() {
                let uid = live["metadata"]["uid"].as_str();
                match self.api.delete(&path, uid, Propagation::Background).await {
                    Err(error) if !error.is_not_found() => return Err(error),
                    _ => asked = true,
                }
            }
            if Instant::now() >= deadline {
                return Err(ApiError::Unreachable(
                    "it must be deleted to be created again, and is not deleted yet".to_owned(),
                ));
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(Duration::from_millis(500));
        }
        self.send(item).await
    }

    /// Takes over whole what other tools applied before it was ours, so that what they wrote and git does
    /// not hold goes.
    async fn take_over(&self, item: &Item, answer: Value) -> Result<Value, ApiError> {
        let path = item.resource.object(&item.key);
        let mut live = answer;
        let mut tries = 0;
        loop {
            let Some(patch) = migrate::patch(&live) else { return Ok(live) };
            match self.api.patch(&path, &patch).await {
                Ok(_) => {
                    tracing::info!(object = %item.key.words(), "took over fields that another tool applied");
                    return self.send(item).await;
                }
                // Somebody wrote in between, as controllers do to what has just changed.
                Err(error) if error.code() == 409 && tries < TAKE_OVER_TRIES => {
                    tries += 1;
                    live = self.api.get(&path).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn take_result(&self, item: &Item, result: Result<Written, ApiError>, outcome: &mut Outcome) {
        let inner = self.engine.inner();
        match result {
            Ok(Written { answer, was_there }) => {
                outcome.changed += 1;
                if was_there {
                    outcome.found(&item.key);
                }
                inner.with_state(|state| {
                    state.applied(self.target.id, &item.key, &answer);
                    if !item.key.namespace.is_empty() {
                        state.namespaces.insert(item.key.namespace.clone());
                    }
                });
            }
            Err(error) => {
                let error = if item.key.kind.is("", "Secret") { error.without_values() } else { error };
                let terminating = error.to_string().contains("being terminated");
                // Whoever makes the namespace may be at it.
                let missing = namespace_missing(&error, &item.key);
                let retry =
                    if error.is_transient() || terminating || missing { Retry::Soon } else { Retry::Later };
                let message =
                    format!("cannot apply {}: {error}{}", item.key.words(), hint(&error, item, self.target));
                inner.with_state(|state| {
                    state.namespaces.remove(&item.key.namespace);
                    state.set_problem(self.target.id, &item.key, &error.to_string());
                });
                outcome.error(Part::Sync, message, location(&item.origin), retry);
            }
        }
    }

    /// Which fields somebody changed, who it was and when.
    pub(crate) async fn provenance(&self, item: &Item, kind: DriftKind) -> Drift {
        let mut drift =
            Drift { key: item.key.clone(), kind, manager: None, fields: Vec::new(), what: String::new() };
        let known = self.engine.inner().with_state(|state| {
            let live = state.live.get(&item.key);
            drift.manager = live.and_then(|live| live.other.clone());
            live.is_some()
        });
        match self.live(&item.resource.object(&item.key)).await {
            Ok(Some(live)) => {
                if !known {
                    "it lost its ownership label".clone_into(&mut drift.what);
                }
                drift.fields = foreign_fields(item, &live);
                drift.manager = drift
                    .fields
                    .iter()
                    .find_map(|field| field.manager.clone())
                    .or(drift.manager)
                    .or_else(|| crate::ownership::last_other_manager(&live));
            }
            Ok(None) => "it was deleted".clone_into(&mut drift.what),
            // It is put right all the same.
            Err(error) => tracing::debug!(%error, object = %item.key.words(), "cannot see who changed it"),
        }
        drift
    }

    /// Notes what somebody changed and what is left as it is.
    pub(crate) async fn tell_left(&self, items: &[(Item, Verdict)], outcome: &mut Outcome) {
        for (item, verdict) in items {
            let Verdict::Left(why) = verdict else { continue };
            let told = self.engine.inner().with_state(|state| {
                let known = state.services.get_mut(&self.target.id);
                let wanted = known.and_then(|known| known.wanted.get_mut(&item.key));
                wanted.is_none_or(|wanted| !wanted.left || std::mem::replace(&mut wanted.left_told, true))
            });
            if !told {
                outcome.drift.push(self.provenance(item, DriftKind::Left).await);
                outcome.warn(Part::Sync, why.clone(), location(&item.origin));
            }
        }
    }

    /// Creates or decorates the service's namespace when it must. False when that failed.
    pub(crate) async fn ensure_namespace(&self, judged: &[(Item, Verdict)], outcome: &mut Outcome) -> bool {
        let target = self.target;
        let own = self.namespaces.contains(&target.namespace);
        if !target.config.create_namespace || target.namespace.is_empty() || own {
            return true;
        }
        let inner = self.engine.inner();
        let NamespaceMetadata { labels, annotations } = &target.config.namespace_metadata;
        let decorated = !labels.is_empty() || !annotations.is_empty();
        let needed = inner.with_state(|state| {
            judged.iter().any(|(item, verdict)| {
                verdict.writes()
                    && item.key.namespace == target.namespace
                    && !state.live.contains_key(&item.key)
            }) && !state.namespaces.contains(&target.namespace)
        });
        if !decorated && !needed {
            return true;
        }
        if let Some(message) = self.engine.bounds(target).namespace_problem(&target.namespace) {
            outcome.error(Part::Limits, message, String::new(), Retry::OnChange);
            return false;
        }
        let written = if decorated {
            let mut hasher = DefaultHasher::new();
            (&target.namespace, labels, annotations).hash(&mut hasher);
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
                    "labels": labels,
                    "annotations": annotations,
                },
            });
            // Several services may share a namespace: each manages its own fields, none takes another's.
            let manager = format!("{FIELD_MANAGER}-namespace-{}", target.id);
            let how = Applying { manager: &manager, force: false, validate: true, dry_run: false };
            let path = format!("/api/v1/namespaces/{}", target.namespace);
            self.api.apply(&path, how, body.to_string().into()).await.map(|_| Some(hash))
        } else {
            inventory::create_namespace(&self.api, &target.namespace).await.map(|()| None)
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
}

/// Fields that the item sets and somebody else took.
fn foreign_fields(item: &Item, live: &Value) -> Vec<crate::diff::FieldChange> {
    let desired: Value = serde_json::from_slice(item.stamped.compared()).unwrap_or_default();
    let mut found = differences(&item.key, Some(live), &desired);
    found.retain(|field| {
        let Some(path) = crate::pointer::Pointer::parse(&field.path) else { return false };
        field.after.is_some() && (field.before.is_none() || !fields::ours(live, path.segments()))
    });
    found
}

impl Engine {
    /// Waits until the API server serves what the definitions just applied define.
    pub(crate) async fn wait_for_definitions(
        &self,
        target: &Target,
        definitions: &[ObjectKey],
        outcome: &mut Outcome,
    ) {
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
        return ". This field can only be set when the object is created: delete the object to have it \
                created again"
            .to_owned();
    }
    // Webhooks, quotas and admission say 403 too; only of rights is it said who may not do what.
    if error.code() == 403 && text.contains(" cannot ") {
        return ". Give the agent's service account the right to do this".to_owned();
    }
    String::new()
}
