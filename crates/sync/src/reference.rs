//! Values that services read from Secrets and ConfigMaps of the cluster.
//!
//! One list and one watch per namespace, kind and account, whatever the number of references: what was read is kept while a
//! service refers to it, and a service is synced again when that changes. Of other objects nothing is kept.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use parking_lot::Mutex;
use plural_core::ids::ServiceId;
use plural_core::service::Reference;
use plural_kit::Backoff;
use serde_json::Value;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

use crate::{
    api::{Api, ApiError, View, encode},
    engine::{Engine, Inner},
    key::GroupKind,
    limits::Bounds,
    target::{Retry, Target},
};

/// How long a service waits for the first list.
const DEADLINE: Duration = Duration::from_secs(30);
/// How long a watch lasts before the API server ends it.
const WATCH_SECONDS: u64 = 290;

/// Values by name, and why the others are missing.
#[derive(Debug, Default)]
pub struct Resolved {
    /// What was read.
    pub values: BTreeMap<String, String>,
    /// What is wrong; nothing is to be rendered then.
    pub problems: Vec<String>,
    /// When to try again. Not before something changes where an object or a key is missing: that is noticed.
    pub retry: Retry,
}

/// What is read together: the objects of one kind in one namespace, with the rights of one account.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Place {
    /// The agent itself when absent.
    user: Option<String>,
    is_secret: bool,
    namespace: String,
}

impl Place {
    const fn kinds(&self) -> &'static str {
        if self.is_secret { "Secrets" } else { "ConfigMaps" }
    }

    fn path(&self) -> String {
        let plural = if self.is_secret { "secrets" } else { "configmaps" };
        format!("/api/v1/namespaces/{}/{plural}", encode(&self.namespace))
    }

    /// What is wrong when they cannot be read, in words.
    fn unreadable(&self, error: &ApiError) -> String {
        let Self { user, namespace, .. } = self;
        let kinds = self.kinds();
        let who = user.as_ref().map(|user| format!(" as {user}")).unwrap_or_default();
        let help = match (error.code(), user) {
            (401 | 403, Some(_)) => "; allow the service's account to get, list and watch them",
            (401 | 403, None) => "; allow the agent to get, list and watch them",
            _ => "",
        };
        format!("cannot read {kinds} of namespace {namespace}{who}: {error}{help}")
    }
}

/// Data of an object; `None` for what is no text.
type Data = BTreeMap<String, Option<String>>;

/// How far the reading of a place is.
#[derive(Debug, Clone, Default)]
enum Standing {
    #[default]
    Starting,
    Live,
    Failing(String, Retry),
}

#[derive(Debug, Default)]
struct Source {
    /// Who refers to which object.
    names: BTreeMap<String, BTreeSet<ServiceId>>,
    /// The objects that were looked for when they were last listed.
    covered: BTreeSet<String>,
    /// Those of them that exist.
    objects: HashMap<String, Data>,
    standing: Standing,
    /// Its task runs.
    running: bool,
    /// Somebody refers to something new, or nobody to anything any more.
    asked: Arc<Notify>,
}

/// All that services of a cluster read.
#[derive(Debug)]
pub(crate) struct Sources {
    places: Mutex<HashMap<Place, Source>>,
    of: Mutex<HashMap<ServiceId, BTreeSet<(Place, String)>>>,
    /// Changes with every list and every failure.
    told: watch::Sender<u64>,
}

impl Default for Sources {
    fn default() -> Self {
        Self { places: Mutex::default(), of: Mutex::default(), told: watch::Sender::new(0) }
    }
}

impl Sources {
    /// What a service refers to from now on.
    fn expect(&self, service: ServiceId, wanted: &BTreeSet<(Place, String)>) {
        let mut of = self.of.lock();
        let before = if wanted.is_empty() {
            of.remove(&service).unwrap_or_default()
        } else {
            of.insert(service, wanted.clone()).unwrap_or_default()
        };
        let mut places = self.places.lock();
        for (place, name) in before.difference(wanted) {
            let Some(source) = places.get_mut(place) else { continue };
            if let Some(services) = source.names.get_mut(name) {
                services.remove(&service);
                if services.is_empty() {
                    source.names.remove(name);
                    source.objects.remove(name);
                    source.covered.remove(name);
                }
            }
            if source.names.is_empty() {
                if source.running {
                    source.asked.notify_one();
                } else {
                    places.remove(place);
                }
            }
        }
        for (place, name) in wanted.difference(&before) {
            let source = places.entry(place.clone()).or_default();
            source.names.entry(name.clone()).or_default().insert(service);
            if source.running && !source.covered.contains(name) {
                source.asked.notify_one();
            }
        }
    }

    /// Takes what a list or an event says; answers the services that have to be looked at again.
    fn changed(source: &mut Source, name: &str, data: Option<Data>) -> BTreeSet<ServiceId> {
        if source.objects.get(name) == data.as_ref() {
            return BTreeSet::new();
        }
        match data {
            Some(data) => drop(source.objects.insert(name.to_owned(), data)),
            None => drop(source.objects.remove(name)),
        }
        source.names.get(name).cloned().unwrap_or_default()
    }

    fn tell(&self) {
        self.told.send_modify(|round| *round = round.wrapping_add(1));
    }
}

impl Engine {
    /// Says what a service refers to before it is synced, so that one list serves all that are about to be.
    pub fn expect_references<'r>(
        &self,
        target: &Target,
        references: impl IntoIterator<Item = &'r Reference>,
    ) {
        let bounds = self.bounds(target);
        let allowed =
            references.into_iter().filter(|reference| bounds.reference_problem(reference).is_none());
        let wanted = allowed.filter_map(|reference| wanted(target, reference)).collect();
        self.inner().sources.expect(target.id, &wanted);
    }

    /// A service refers to nothing any more.
    pub fn drop_references(&self, service: ServiceId) {
        self.inner().sources.expect(service, &BTreeSet::new());
    }

    /// Reads the Secrets and ConfigMaps that a service refers to, with the rights of its account where it has one. From now on the
    /// service is synced again when any of it changes. References to anything else are only checked.
    pub async fn read_references(
        &self,
        target: &Target,
        references: &BTreeMap<String, Reference>,
    ) -> Resolved {
        let bounds = self.bounds(target);
        let mut resolved = Resolved::default();
        let refused = |(name, reference): (&String, &Reference)| {
            Some(format!("configuration value {name:?}: {}", bounds.reference_problem(reference)?))
        };
        resolved.problems.extend(references.iter().filter_map(refused));
        if !resolved.problems.is_empty() {
            return resolved;
        }
        self.expect_references(target, references.values());
        let wanted = |(name, reference): (_, &Reference)| {
            let ((place, object), (_, key)) = (wanted(target, reference)?, reference.object()?);
            Some((name, place, object, key.key.clone()))
        };
        let all: Vec<(&String, Place, String, String)> = references.iter().filter_map(wanted).collect();
        let places: BTreeSet<&Place> = all.iter().map(|(_, place, ..)| place).collect();
        for place in places {
            self.read(place);
        }
        let deadline = Instant::now() + DEADLINE;
        for (name, place, object, key) in &all {
            match self.value(place, object, key, deadline).await {
                Ok(value) => drop(resolved.values.insert((*name).clone(), value)),
                Err((problem, retry)) => {
                    resolved.problems.push(format!("configuration value {name:?}: {problem}"));
                    resolved.retry = resolved.retry.sooner(retry);
                }
            }
        }
        resolved
    }

    async fn value(
        &self,
        place: &Place,
        name: &str,
        key: &str,
        deadline: Instant,
    ) -> Result<String, (String, Retry)> {
        let sources = &self.inner().sources;
        let mut told = sources.told.subscribe();
        loop {
            told.borrow_and_update();
            if let Some(source) = sources.places.lock().get(place) {
                match &source.standing {
                    Standing::Live if source.covered.contains(name) => {
                        let found = value_of(place, name, source.objects.get(name), key);
                        return found.map_err(|problem| (problem, Retry::OnChange));
                    }
                    Standing::Failing(problem, retry) => return Err((problem.clone(), *retry)),
                    Standing::Starting | Standing::Live => {}
                }
            }
            let late = || {
                let (kinds, namespace) = (place.kinds(), &place.namespace);
                (
                    format!("no list of the {kinds} of namespace {namespace} within {DEADLINE:.0?}"),
                    Retry::Soon,
                )
            };
            match tokio::time::timeout_at(deadline, told.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return Err(late()),
            }
        }
    }

    /// Starts the watch of a place, unless it runs.
    fn read(&self, place: &Place) {
        if let Some(source) = self.inner().sources.places.lock().get_mut(place) {
            if source.running {
                return;
            }
            source.running = true;
            source.standing = Standing::Starting;
        } else {
            return;
        }
        self.spawn(run(self.shared(), place.clone()));
    }
}

impl Bounds {
    /// Why a service may not read what a reference names, if so.
    pub fn reference_problem(&self, reference: &Reference) -> Option<String> {
        let limits = self.limits.as_ref().map(|limits| (limits.project.as_str(), &limits.rules));
        if let Some(refusal) = reference.refusal(&self.namespace, limits) {
            return Some(refusal);
        }
        let (kind, key) = reference.object()?;
        let group_kind = GroupKind { group: String::new(), kind: kind.to_owned() };
        // What templates may not look up they do not read this way either.
        self.kind_problem(&group_kind, true).or_else(|| {
            let namespace = key.namespace(&self.namespace);
            (self.reserved.as_deref() == Some(namespace))
                .then(|| format!("namespace {namespace} is the agent's own: no service reads its {kind}s"))
        })
    }
}

fn wanted(target: &Target, reference: &Reference) -> Option<(Place, String)> {
    let (_, key) = reference.object()?;
    let namespace = key.namespace(&target.namespace).to_owned();
    Some((Place { user: target.user(), is_secret: reference.is_secret(), namespace }, key.name.clone()))
}

fn value_of(place: &Place, name: &str, data: Option<&Data>, key: &str) -> Result<String, String> {
    let kind = place.kinds().trim_end_matches('s');
    let object = format!("{kind} {}/{name}", place.namespace);
    match data.map(|data| data.get(key)) {
        None => Err(format!("{object} does not exist")),
        Some(None) => Err(format!("{object} has no key {key:?}")),
        Some(Some(None)) => Err(format!("key {key:?} of {object} is no text")),
        Some(Some(Some(value))) => Ok(value.clone()),
    }
}

/// Reads one place until nobody refers to it any more.
async fn run(inner: Arc<Inner>, place: Place) {
    let api = inner.api.acting_as(place.user.as_deref());
    let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));
    loop {
        let Some(asked) = leave_or_go_on(&inner.sources, &place) else { return };
        let Err(error) = list_and_watch(&inner, &api, &place, &asked, &mut backoff).await else { continue };
        tracing::debug!(namespace = %place.namespace, kinds = place.kinds(), %error, "cannot read what services refer to");
        let retry = if error.is_transient() { Retry::Soon } else { Retry::Later };
        // While it was read it is believed: a moment without API server makes no service fail.
        if !error.is_transient() || backoff.attempts() > 2 {
            fail(&inner, &place, place.unreadable(&error), retry);
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.next_wait()) => {}
            // Only to end: what fails does not fail less because more is asked of it.
            () = nobody(&inner.sources, &place, &asked) => {}
        }
    }
}

/// Resolves when nobody refers to the place any more.
async fn nobody(sources: &Sources, place: &Place, asked: &Notify) {
    while sources.places.lock().get(place).is_some_and(|source| !source.names.is_empty()) {
        asked.notified().await;
    }
}

fn leave_or_go_on(sources: &Sources, place: &Place) -> Option<Arc<Notify>> {
    let mut places = sources.places.lock();
    let source = places.get(place)?;
    if source.names.is_empty() {
        places.remove(place);
        return None;
    }
    Some(Arc::clone(&source.asked))
}

fn fail(inner: &Inner, place: &Place, problem: String, retry: Retry) {
    let services = {
        let mut places = inner.sources.places.lock();
        let Some(source) = places.get_mut(place) else { return };
        let was_live = matches!(source.standing, Standing::Live);
        source.standing = Standing::Failing(problem, retry);
        if was_live { source.names.values().flatten().copied().collect() } else { BTreeSet::new() }
    };
    inner.sources.tell();
    resync(inner, services);
}

fn resync(inner: &Inner, services: BTreeSet<ServiceId>) {
    if services.is_empty() {
        return;
    }
    inner.with_state(|state| {
        for service in services {
            state.changes.entry(service).or_default().resync = true;
        }
    });
}

/// Lists once, and follows until the list has to be repeated.
async fn list_and_watch(
    inner: &Inner,
    api: &Api,
    place: &Place,
    asked: &Notify,
    backoff: &mut Backoff,
) -> Result<(), ApiError> {
    let path = place.path();
    let mut names: BTreeSet<String> = names_of(inner, place);
    let list = api.list(&path, "resourceVersion=0", View::Whole).await?;
    let mut version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    take_list(inner, place, &names, list);
    backoff.reset();
    loop {
        let mut follows = pin!(follow(inner, api, place, &path, &mut version));
        // A watch goes on while what is asked was listed: who asked before the list began left a permit.
        let followed = loop {
            tokio::select! {
                followed = &mut follows => break followed,
                () = asked.notified() => {
                    let now = names_of(inner, place);
                    if now.is_empty() || !now.is_subset(&names) {
                        return Ok(());
                    }
                    names = now;
                }
            }
        };
        match followed {
            Ok(()) => {}
            Err(error) if error.code() == 410 => return Ok(()),
            Err(error) if error.is_transient() && backoff.attempts() < 5 => {
                tokio::time::sleep(backoff.next_wait()).await;
            }
            Err(error) => return Err(error),
        }
    }
}

fn names_of(inner: &Inner, place: &Place) -> BTreeSet<String> {
    let places = inner.sources.places.lock();
    places.get(place).map(|source| source.names.keys().cloned().collect()).unwrap_or_default()
}

fn take_list(inner: &Inner, place: &Place, names: &BTreeSet<String>, mut list: Value) {
    let mut found: HashMap<String, Data> = HashMap::new();
    let items = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
    for mut item in items {
        let Some(name) = item["metadata"]["name"].as_str().map(str::to_owned) else { continue };
        if names.contains(&name) {
            found.insert(name, data_of(place, &mut item));
        }
    }
    let mut services = BTreeSet::new();
    {
        let mut places = inner.sources.places.lock();
        let Some(source) = places.get_mut(place) else { return };
        let failed = matches!(source.standing, Standing::Failing(..));
        for name in names.iter().filter(|name| source.names.contains_key(*name)).cloned().collect::<Vec<_>>()
        {
            let was_known = source.covered.contains(&name);
            let touched = Sources::changed(source, &name, found.remove(&name));
            // Who refers to something for the first time waits for this list.
            if was_known || failed {
                services.extend(touched);
            }
            source.covered.insert(name);
        }
        if failed {
            services.extend(source.names.values().flatten());
        }
        source.standing = Standing::Live;
    }
    inner.sources.tell();
    resync(inner, services);
}

async fn follow(
    inner: &Inner,
    api: &Api,
    place: &Place,
    path: &str,
    version: &mut String,
) -> Result<(), ApiError> {
    let query = format!("resourceVersion={version}&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}");
    let mut lines = api.watch(path, &query, View::Whole).await?;
    let deadline = Instant::now() + Duration::from_secs(WATCH_SECONDS + 15);
    loop {
        let Ok(line) = tokio::time::timeout_at(deadline, lines.next()).await else {
            return Err(ApiError::Unreachable("a watch went silent".to_owned()));
        };
        let Some(mut event) = line? else { return Ok(()) };
        let mut object = event["object"].take();
        let kind = event["type"].as_str().unwrap_or_default();
        if !matches!(kind, "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK") {
            return Err(ApiError::Status {
                code: object["code"].as_u64().map_or(500, |code| code as u16),
                reason: object["reason"].as_str().unwrap_or_default().to_owned(),
                message: object["message"].as_str().unwrap_or("a watch failed").to_owned(),
                fields: Vec::new(),
                retry_after: None,
            });
        }
        if let Some(seen) = object["metadata"]["resourceVersion"].as_str().filter(|seen| !seen.is_empty()) {
            seen.clone_into(version);
        }
        if kind == "BOOKMARK" {
            continue;
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let services = {
            let mut places = inner.sources.places.lock();
            let Some(source) = places.get_mut(place) else { return Ok(()) };
            if !source.covered.contains(&name) {
                continue;
            }
            let data = (kind != "DELETED").then(|| data_of(place, &mut object));
            Sources::changed(source, &name, data)
        };
        resync(inner, services);
    }
}

/// The data of an object as texts.
fn data_of(place: &Place, object: &mut Value) -> Data {
    let mut data = Data::new();
    for (field, is_encoded) in [("data", place.is_secret), ("binaryData", true)] {
        let Value::Object(entries) = object[field].take() else { continue };
        for (key, value) in entries {
            let Value::String(text) = value else { continue };
            let text = if is_encoded {
                STANDARD.decode(&text).ok().and_then(|bytes| String::from_utf8(bytes).ok())
            } else {
                Some(text)
            };
            data.insert(key, text);
        }
    }
    data
}
