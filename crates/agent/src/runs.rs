//! Jobs of runs of stacks: created, watched, ended and removed, concurrently with each other and with the services.
//!
//! # Guarantees
//! - A Job is created for a number that the console assigned: two agents, or one that was killed, cannot create two valid ones.
//! - A credential is in a Secret that its Job owns, and nowhere else: not on disk, not in a log.
//! - A Job that is newer than the agent's information is never ended: the information is late.
//! - Without runs there is no watch, and nothing is written.

mod kube_api;
mod limits;
mod look;
mod objects;
mod step;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use futures::StreamExt as _;
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{Api, api::WatchParams};
use plural_core::ids::StackRunId;
use plural_kit::Backoff;
use tokio::{
    sync::Notify,
    task::{Id, JoinSet},
    time::{Instant, sleep_until},
};

use self::step::{Next, Stepper, Track};
use crate::{agent::Core, desired::WantedRun};

/// Limit of runs that are reconciled concurrently.
const AT_ONCE: usize = 8;
/// Debounce of watch events.
const COALESCE: Duration = Duration::from_millis(50);
/// Lifetime of a watch, in seconds.
const WATCH_SECONDS: u32 = 290;

/// Where and how runs of stacks run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunsConfig {
    /// Namespace of runs that name none; created on first use.
    pub namespace: String,
    /// Image whose entry point is this program: an init container copies the harness from it. Without one, the images of the tools need
    /// `plural` in their PATH.
    pub image: Option<String>,
    /// Limit of all runs in that namespace: the `hard` of its ResourceQuota; empty: no quota.
    pub quota: BTreeMap<String, String>,
}

impl Default for RunsConfig {
    fn default() -> Self {
        Self {
            namespace: "plural-runs".to_owned(),
            image: None,
            quota: [("pods".to_owned(), "50".to_owned())].into(),
        }
    }
}

/// What Jobs need to know of their agent.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) config: RunsConfig,
    /// The agent's own namespace: it labels what is created for runs, and no run may use it.
    pub(crate) agent_namespace: String,
    pub(crate) console_url: String,
    pub(crate) ca_pem: Option<String>,
    pub(crate) insecure_http: bool,
    /// The proxy to the console, if there is one.
    pub(crate) proxy: Option<Detour>,
}

/// A proxy.
pub(crate) struct Detour {
    /// Its URL.
    pub(crate) url: String,
    /// Hosts that are reached without it.
    pub(crate) except: Vec<String>,
}

// The URL may contain a password.
impl std::fmt::Debug for Detour {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Detour").field("except", &self.except).finish_non_exhaustive()
    }
}

/// Signals between the runs of an agent and the rest of it.
#[derive(Debug)]
pub(crate) struct Runs {
    pub(crate) settings: Settings,
    news: Notify,
    asks: Notify,
}

impl Runs {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, news: Notify::new(), asks: Notify::new() }
    }

    /// The desired runs changed.
    pub(crate) fn wake(&self) {
        self.news.notify_one();
    }

    /// A run needs to poll the console.
    fn ask(&self) {
        self.asks.notify_one();
    }

    /// Waits until a run needs to poll the console.
    pub(crate) async fn asks(&self) {
        self.asks.notified().await;
    }
}

/// One run.
#[derive(Debug)]
struct Entry {
    /// `None` while it is reconciled.
    track: Option<Track>,
    due: Instant,
    /// An event came while it was reconciled.
    again: bool,
}

impl Entry {
    fn new(track: Track) -> Self {
        Self { track: Some(track), due: Instant::now(), again: false }
    }

    fn wake(&mut self, now: Instant) {
        self.due = now;
        self.again = true;
    }
}

type Looked = (StackRunId, Track, Next);

/// Reconciles runs, without end.
pub(crate) async fn run(core: Arc<Core>, client: kube::Client) {
    let stepper = Arc::new(Stepper::new(Arc::clone(&core), client.clone()));
    let mut entries: HashMap<StackRunId, Entry> = HashMap::new();
    let mut looks: JoinSet<Looked> = JoinSet::new();
    let mut looked_at: HashMap<Id, StackRunId> = HashMap::new();
    let mut watches = Watches::new(client);
    let mut remains: JoinSet<Vec<(StackRunId, String)>> = JoinSet::new();
    // Objects of an agent before this one: adopted once the console has said which runs are ours.
    {
        let (core, stepper) = (Arc::clone(&core), Arc::clone(&stepper));
        remains.spawn(async move {
            let mut whole = core.whole.subscribe();
            if whole.wait_for(|whole| *whole).await.is_err() {
                return Vec::new();
            }
            stepper.remains().await
        });
    }
    loop {
        let wanted = core.desired.runs();
        for id in wanted.keys() {
            entries.entry(*id).or_insert_with(|| Entry::new(Track::default()));
        }
        let now = Instant::now();
        let due = entries.iter_mut().filter(|(_, entry)| entry.track.is_some() && entry.due <= now);
        for (id, entry) in due.take(AT_ONCE.saturating_sub(looks.len())) {
            let Some(mut track) = entry.track.take() else { continue };
            entry.again = false;
            let (id, stepper) = (*id, Arc::clone(&stepper));
            let run: Option<Arc<WantedRun>> = wanted.get(&id).cloned();
            let look = looks.spawn(async move {
                let next = stepper.step(id, run.as_deref(), &mut track).await;
                (id, track, next)
            });
            looked_at.insert(look.id(), id);
        }
        watches.keep(!entries.is_empty());
        // At the limit, the next reconciliation starts when one ends.
        let next = entries.values().filter(|entry| entry.track.is_some()).map(|entry| entry.due).min();
        let next = next.filter(|_| looks.len() < AT_ONCE);
        let timer = async {
            match next {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = core.runs.news.notified() => wake(&mut entries),
            () = watches.told() => wake(&mut entries),
            () = timer => {}
            Some(found) = remains.join_next() => {
                for (id, namespace) in found.unwrap_or_default() {
                    entries.entry(id).or_insert_with(|| Entry::new(Track::of_remains(namespace)));
                }
            }
            Some(ended) = looks.join_next_with_id() => match ended {
                Ok((task, (id, track, next))) => {
                    looked_at.remove(&task);
                    put_back(&mut entries, id, track, &next);
                }
                Err(error) => {
                    tracing::error!(%error, "looking after a run failed; beginning anew");
                    if let Some(id) = looked_at.remove(&error.id()) {
                        entries.insert(id, Entry { due: Instant::now() + Duration::from_secs(1), ..Entry::new(Track::default()) });
                    }
                }
            },
        }
    }
}

fn wake(entries: &mut HashMap<StackRunId, Entry>) {
    let now = Instant::now();
    for entry in entries.values_mut() {
        entry.wake(now);
    }
}

fn put_back(entries: &mut HashMap<StackRunId, Entry>, id: StackRunId, track: Track, next: &Next) {
    let Some(entry) = entries.get_mut(&id) else { return };
    match next {
        // It may be desired again.
        Next::Gone if !entry.again => {
            entries.remove(&id);
        }
        Next::Gone => *entry = Entry::new(Track::default()),
        Next::In(wait) => {
            entry.track = Some(track);
            entry.due = if entry.again { Instant::now() } else { Instant::now() + *wait };
        }
    }
}

/// Watches Jobs and Pods of runs, while there are any. Events say *that* something happened.
struct Watches {
    client: kube::Client,
    open: JoinSet<()>,
    told: Arc<Notify>,
}

impl Watches {
    fn new(client: kube::Client) -> Self {
        Self { client, open: JoinSet::new(), told: Arc::default() }
    }

    fn keep(&mut self, are_needed: bool) {
        while self.open.try_join_next().is_some() {}
        if !are_needed {
            self.open.abort_all();
        } else if self.open.is_empty() {
            self.open.spawn(watch(Api::<Job>::all(self.client.clone()), Arc::clone(&self.told)));
            self.open.spawn(watch(Api::<Pod>::all(self.client.clone()), Arc::clone(&self.told)));
        }
    }

    async fn told(&self) {
        self.told.notified().await;
    }
}

/// Signals every change of objects of a kind, without end. If a watch is not permitted, runs are polled.
async fn watch<K>(api: Api<K>, told: Arc<Notify>)
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
    let asked = WatchParams::default().labels(objects::RUN).timeout(WATCH_SECONDS);
    loop {
        match api.watch(&asked, "0").await {
            Ok(events) => {
                let mut events = std::pin::pin!(events);
                while let Some(Ok(_)) = events.next().await {
                    backoff.reset();
                    tokio::time::sleep(COALESCE).await;
                    told.notify_one();
                }
            }
            Err(error) => tracing::debug!(%error, "cannot watch the Jobs of runs"),
        }
        tokio::time::sleep(backoff.next_wait()).await;
    }
}
