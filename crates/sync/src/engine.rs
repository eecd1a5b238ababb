//! The door of this crate: one engine per cluster.

use std::{
    collections::{BTreeSet, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use plural_core::component::ComponentState;
use plural_core::ids::ServiceId;
use plural_render::Object;
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
};

use crate::{
    api::{Api, ApiError},
    custom_health,
    discovery::Discovery,
    health::{Rule, Rules},
    inventory,
    key::{GroupKind, ObjectKey},
    lacking,
    limits::Bounds,
    prepare::Item,
    reference::Sources,
    state::{Change, State},
    target::{Component, DriftEvent, Outcome, Part, Retry, Target},
    tree,
    watch::Watching,
};

/// How long a sync waits for the first list of a kind.
const FIRST_LIST_DEADLINE: Duration = Duration::from_secs(30);

/// Settings of an engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Namespace of the inventories; created when it is missing.
    pub namespace: String,
    /// Requests to the API server at once, at most.
    pub concurrency: usize,
    /// How long one request may take.
    pub request_deadline: Duration,
    /// How often, give or take a quarter, all owned objects are listed anew.
    pub full_check_every: Duration,
    /// How long an applied CustomResourceDefinition may take to be served.
    pub definition_deadline: Duration,
}

impl EngineOptions {
    /// Settings for an agent that lives in `namespace`.
    pub fn new(namespace: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            concurrency: 32,
            request_deadline: Duration::from_secs(30),
            full_check_every: Duration::from_mins(30),
            definition_deadline: Duration::from_secs(30),
        }
    }
}

/// Plans and acts on one cluster.
///
/// Dropping it ends its watches; writes that are under way end with the future that makes them.
#[derive(Debug)]
pub struct Engine {
    inner: Arc<Inner>,
    tasks: Mutex<JoinSet<()>>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) api: Api,
    pub(crate) discovery: Discovery,
    pub(crate) options: EngineOptions,
    state: Mutex<State>,
    changed: Notify,
    /// Something happened to objects whose children are of interest.
    pub(crate) families: Notify,
    /// How health is told here.
    pub(crate) rules: watch::Sender<Arc<Rules>>,
    kinds: Mutex<HashMap<GroupKind, watch::Receiver<Watching>>>,
    /// What services read from Secrets and ConfigMaps.
    pub(crate) sources: Sources,
    seed: u64,
}

impl Inner {
    /// Runs `work` on the state and wakes whoever waits for changes, if there are any.
    pub(crate) fn with_state<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let (result, changed, families) = {
            let mut state = self.state.lock();
            let result = work(&mut state);
            (result, !state.changes.is_empty(), state.families.take_news())
        };
        if changed {
            self.changed.notify_one();
        }
        if families {
            self.families.notify_one();
        }
        result
    }

    /// Judges by these rules from now on; watches of kinds whose rules changed look at everything anew.
    pub(crate) fn set_rules(&self, rules: Vec<Rule>) {
        let rules = Rules::new(rules);
        if self.rules.borrow().is_the_same(&rules) {
            return;
        }
        let rules = Arc::new(rules);
        self.with_state(|state| state.rules = Arc::clone(&rules));
        self.rules.send_replace(rules);
    }

    /// A number in `0.0..1.0` that differs between engines and kinds, so that what is periodic does
    /// not happen everywhere at once.
    pub(crate) fn jitter(&self, kind: &GroupKind) -> f64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, kind).hash(&mut hasher);
        (hasher.finish() % 1000) as f64 / 1000.0
    }
}

impl Engine {
    /// An engine for the cluster behind `client`, knowing what earlier engines recorded there.
    ///
    /// # Errors
    /// When the records cannot be read.
    pub async fn start(client: kube::Client, options: EngineOptions) -> Result<Self, ApiError> {
        let api = Api::new(client, options.concurrency, options.request_deadline);
        let inventories = inventory::load_all(&api, &options.namespace).await?;
        let mut state = State::default();
        for (service, inventory) in inventories {
            state.adopt(service, inventory);
        }
        let mut hasher = DefaultHasher::new();
        (std::process::id(), std::time::SystemTime::now()).hash(&mut hasher);
        let inner = Inner {
            api,
            discovery: Discovery::default(),
            options,
            state: Mutex::new(state),
            changed: Notify::new(),
            families: Notify::new(),
            rules: watch::Sender::new(Arc::default()),
            kinds: Mutex::new(HashMap::new()),
            sources: Sources::default(),
            seed: hasher.finish(),
        };
        let inner = Arc::new(inner);
        // Without an answer the rules come a moment later; nothing waits for them.
        if let Err(error) = custom_health::load(&inner).await {
            tracing::debug!(%error, "cannot read the health rules of the cluster yet");
        }
        let mut tasks = JoinSet::new();
        tasks.spawn(custom_health::run(Arc::clone(&inner)));
        tasks.spawn(lacking::run(Arc::clone(&inner)));
        tasks.spawn(tree::run(Arc::clone(&inner)));
        Ok(Self { inner, tasks: Mutex::new(tasks) })
    }

    /// What a service may reach on this cluster.
    pub fn bounds(&self, target: &Target) -> Bounds {
        Bounds::of(target, &self.inner.options.namespace)
    }

    /// Services that have a record in the cluster, or were synced here.
    pub fn services(&self) -> Vec<ServiceId> {
        self.inner.with_state(|state| state.services.keys().copied().collect())
    }

    /// Whether what stands in the cluster of a service was made with values that are to be hidden, as far as is recorded.
    pub fn holds_secrets(&self, service: ServiceId) -> bool {
        self.inner.with_state(|state| state.services.get(&service).is_some_and(|known| known.run.secret))
    }

    /// Makes the cluster hold exactly `objects` for the service.
    ///
    /// Two syncs of one service must not run at once; syncs of different services may.
    pub async fn sync(&self, target: &Target, objects: Vec<Object>) -> Outcome {
        let _busy = Busy::new(&self.inner, target);
        let mut outcome = Outcome::default();
        if let Some(message) = self.bounds(target).refusal() {
            outcome.error(Part::Limits, message, String::new(), Retry::OnChange);
            return outcome;
        }
        let mut prepared = match self.prepare(target, objects, &mut outcome).await {
            Ok(prepared) => prepared,
            Err(error) => {
                failed(&mut outcome, Part::Sync, "cannot ask which kinds are served", &error);
                return outcome;
            }
        };
        self.note_lacking(target.id, std::mem::take(&mut prepared.lacking));
        let kinds = self.kinds_of(target, &prepared.items);
        if let Err(error) = self.watch_kinds(kinds.clone()).await {
            failed(&mut outcome, Part::Sync, "cannot read what the cluster holds", &error);
            return outcome;
        }
        if target.dry_run {
            self.preview(target, prepared, &mut outcome).await;
            return outcome;
        }
        self.run(target, prepared, &mut outcome).await;
        outcome.record_changes();
        self.inner.with_state(|state| {
            let now = chrono::Utc::now().timestamp_millis();
            for drift in &outcome.drift {
                state.note_drift(target.id, drift, now);
            }
        });
        // Kinds that this sync itself brought are watched from now on.
        if let Err(error) = self.watch_kinds(kinds).await {
            outcome.warn(Part::Sync, format!("cannot watch what was applied: {error}"), String::new());
            outcome.retry = outcome.retry.sooner(Retry::Soon);
        }
        outcome
    }

    /// What [`Engine::sync`] would do, with the fields that differ. Writes nothing and takes no notice.
    pub async fn plan(&self, target: &Target, objects: Vec<Object>) -> Outcome {
        let mut outcome = Outcome::default();
        if let Some(message) = self.bounds(target).refusal() {
            outcome.error(Part::Limits, message, String::new(), Retry::OnChange);
            return outcome;
        }
        let prepared = match self.prepare(target, objects, &mut outcome).await {
            Ok(prepared) => prepared,
            Err(error) => {
                failed(&mut outcome, Part::Sync, "cannot ask which kinds are served", &error);
                return outcome;
            }
        };
        let kinds = self.kinds_of(target, &prepared.items);
        if let Err(error) = self.watch_kinds(kinds).await {
            failed(&mut outcome, Part::Sync, "cannot read what the cluster holds", &error);
            return outcome;
        }
        self.preview(target, prepared, &mut outcome).await;
        outcome
    }

    /// The last foreign changes of a service, oldest first.
    pub fn drift_events(&self, service: ServiceId) -> Vec<DriftEvent> {
        self.inner.with_state(|state| {
            state.services.get(&service).into_iter().flat_map(|known| known.drift.iter().cloned()).collect()
        })
    }

    fn kinds_of(&self, target: &Target, items: &[Item]) -> BTreeSet<GroupKind> {
        let mut kinds: BTreeSet<GroupKind> = items.iter().map(|item| item.key.kind.clone()).collect();
        self.inner.with_state(|state| {
            let recorded = state.services.get(&target.id).into_iter().flat_map(|known| &known.recorded);
            kinds.extend(recorded.map(|key| key.kind.clone()));
        });
        kinds
    }

    /// Deletes all that the service owns, in reverse order. To be called again, on change or after
    /// a while, until [`Outcome::destroyed`].
    pub async fn destroy(&self, target: &Target) -> Outcome {
        let _busy = Busy::new(&self.inner, target);
        let mut outcome = Outcome::default();
        if let Some(message) = self.bounds(target).account_problem() {
            outcome.error(Part::Limits, message, String::new(), Retry::OnChange);
            return outcome;
        }
        let recorded = self.inner.with_state(|state| {
            let known = state.services.entry(target.id).or_default();
            // What a sync waited for does not matter any more, and each deletion is news.
            (known.waiting, known.missed_news) = (false, false);
            // Where things stood decides in which order they go.
            let places: Vec<_> =
                known.wanted.iter().map(|(key, wanted)| (key.clone(), wanted.place)).collect();
            known.places.extend(places);
            known.wanted.clear();
            known.recorded.clone()
        });
        let kinds: BTreeSet<GroupKind> = recorded.iter().map(|key| key.kind.clone()).collect();
        if let Err(error) = self.watch_kinds(kinds).await {
            failed(&mut outcome, Part::Prune, "cannot read what the cluster holds", &error);
            return outcome;
        }
        self.destroy_recorded(target, recorded, &mut outcome).await;
        outcome
    }

    /// Forgets a service and its record; its objects stay as they are.
    ///
    /// # Errors
    /// When the record cannot be deleted; the service is forgotten only then.
    pub async fn forget(&self, service: ServiceId) -> Result<(), ApiError> {
        inventory::remove(&self.inner.api, &self.inner.options.namespace, service).await?;
        self.drop_references(service);
        self.inner.with_state(|state| state.forget(service));
        Ok(())
    }

    /// Waits until something happened to any service, and says what.
    pub async fn changes(&self) -> HashMap<ServiceId, Change> {
        loop {
            let changed = self.inner.changed.notified();
            let changes = {
                let mut state = self.inner.state.lock();
                std::mem::take(&mut state.changes)
            };
            if !changes.is_empty() {
                return changes;
            }
            changed.await;
        }
    }

    /// The objects of a service as they are now, in key order; those on their way out included.
    pub fn components(&self, service: ServiceId) -> Vec<Component> {
        self.inner.with_state(|state| {
            let Some(known) = state.services.get(&service) else { return Vec::new() };
            let mut keys: Vec<ObjectKey> =
                known.recorded.union(&known.wanted.keys().cloned().collect()).cloned().collect();
            keys.sort();
            keys.into_iter()
                .filter_map(|key| {
                    component(state, service, key).map(|component| state.families.adorn(component))
                })
                .collect()
        })
    }

    /// Starts watches for `kinds` and waits until each has read its first list. Kinds that are not
    /// served have no objects and need no watch.
    async fn watch_kinds(&self, kinds: BTreeSet<GroupKind>) -> Result<(), ApiError> {
        let mut waits = Vec::new();
        for kind in kinds {
            let known = self.watching(&kind);
            let receiver = match known {
                Some(receiver) => receiver,
                None => match self.inner.discovery.preferred(&self.inner.api, &kind).await? {
                    Some(_) => self.start_watch(kind.clone()),
                    None => continue,
                },
            };
            waits.push((kind, receiver));
        }
        for (kind, mut receiver) in waits {
            let ready = receiver
                .wait_for(|state| matches!(state, Watching::Live | Watching::Ended | Watching::Failing(_)));
            let why = match tokio::time::timeout(FIRST_LIST_DEADLINE, ready).await {
                Ok(Ok(state)) => match &*state {
                    Watching::Failing(why) => why.clone(),
                    _ => continue,
                },
                Ok(Err(_)) => "its watch ended".to_owned(),
                Err(_) => format!("no list within {FIRST_LIST_DEADLINE:.0?}"),
            };
            return Err(ApiError::Unreachable(format!("{kind}: {why}")));
        }
        Ok(())
    }

    fn watching(&self, kind: &GroupKind) -> Option<watch::Receiver<Watching>> {
        let kinds = self.inner.kinds.lock();
        kinds.get(kind).filter(|receiver| *receiver.borrow() != Watching::Ended).cloned()
    }

    fn start_watch(&self, kind: GroupKind) -> watch::Receiver<Watching> {
        let mut kinds = self.inner.kinds.lock();
        // Two services may have asked at once.
        if let Some(receiver) = kinds.get(&kind)
            && *receiver.borrow() != Watching::Ended
        {
            return receiver.clone();
        }
        let (sender, receiver) = watch::channel(Watching::Starting);
        kinds.insert(kind.clone(), receiver.clone());
        self.spawn(crate::watch::run(Arc::clone(&self.inner), kind, sender));
        receiver
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    pub(crate) fn shared(&self) -> Arc<Inner> {
        Arc::clone(&self.inner)
    }

    /// Runs something for as long as this engine lives.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(work);
    }
}

fn component(state: &mut State, service: ServiceId, key: ObjectKey) -> Option<Component> {
    let intact = state.intact(service, &key);
    let known = state.services.get(&service)?;
    let place = known.place_of(&key);
    let live = state.live.get(&key).filter(|_| !known.blocked.contains(&key));
    let (uid, found) = match live {
        Some(live) => (live.uid.clone(), Some((live.health.state(), live.health.message.clone()))),
        None => (String::new(), None),
    };
    let mut component = Component {
        version: String::new(),
        state: Some(ComponentState::Pending),
        synced: false,
        uid,
        message: String::new(),
        children: Vec::new(),
        phase: place.phase,
        wave: place.wave,
        hook: false,
        key,
    };
    let Some(wanted) = known.wanted.get(&component.key) else {
        // What is neither wanted nor there is only waiting for its record to be cleared.
        (component.state, component.message) = found?;
        component.synced = known.kept_extra.contains(&component.key);
        return Some(component);
    };
    component.version.clone_from(&wanted.version);
    component.hook = wanted.once;
    component.synced = wanted.problem.is_none() && intact;
    (component.state, component.message) = match (found, wanted.done) {
        (Some(found), _) => found,
        // It ran, and was deleted as it should be.
        (None, true) => (Some(ComponentState::Running), String::new()),
        (None, false) => (Some(ComponentState::Pending), "it does not exist yet".to_owned()),
    };
    if let Some(problem) = &wanted.problem {
        component.state = Some(ComponentState::Failed);
        component.message.clone_from(problem);
    }
    Some(component)
}

/// Marks a service as being synced for as long as it lives.
struct Busy<'a> {
    inner: &'a Inner,
    service: ServiceId,
}

impl<'a> Busy<'a> {
    fn new(inner: &'a Inner, target: &Target) -> Self {
        inner.with_state(|state| {
            let known = state.services.entry(target.id).or_default();
            known.busy = true;
            known.dry_run = target.dry_run;
            known.name.clone_from(&target.name);
        });
        Self { inner, service: target.id }
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.inner.with_state(|state| state.sync_ended(self.service));
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.tasks.get_mut().abort_all();
    }
}

/// Adds an API error to an outcome.
pub(crate) fn failed(outcome: &mut Outcome, part: Part, doing: &str, error: &ApiError) {
    let retry = if error.is_transient() { Retry::Soon } else { Retry::Later };
    outcome.error(part, format!("{doing}: {error}"), String::new(), retry);
}
