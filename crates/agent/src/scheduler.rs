//! Which service is looked at when: each by itself, many at once, none for ever.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use plural_core::ids::ServiceId;
use plural_kit::Backoff;
use plural_sync::{Engine, Retry};
use tokio::{
    task::{self, JoinSet},
    time::Instant,
};

use crate::{
    agent::Core,
    inbox::{Wake, Why},
    reconcile::{Next, reconcile, report},
    target::{Retries, references, target},
};

struct Entry {
    running: bool,
    /// Asked for while it was running, or waiting for its turn.
    wake: Option<(Wake, Instant)>,
    due: Option<Instant>,
    soon: Backoff,
    later: Backoff,
    /// The service's own rhythm, where it has one.
    own: Option<((Duration, Duration), Backoff)>,
    /// Tries that failed since something changed.
    failed: u32,
}

impl Entry {
    fn new() -> Self {
        Self {
            running: false,
            wake: None,
            due: None,
            soon: Backoff::new(Duration::from_secs(1), Duration::from_secs(30)),
            later: Backoff::new(Duration::from_secs(10), Duration::from_mins(5)),
            own: None,
            failed: 0,
        }
    }

    fn reset(&mut self) {
        self.soon.reset();
        self.later.reset();
        self.own = None;
        self.failed = 0;
    }

    /// When to try again after a failure; `None` when it was tried often enough.
    fn wait(&mut self, retries: Retries, usual: impl FnOnce(&mut Self) -> Duration) -> Option<Duration> {
        self.failed = self.failed.saturating_add(1);
        if retries.limit.is_some_and(|limit| self.failed > limit) {
            return None;
        }
        let Some(waits) = retries.waits else { return Some(usual(self)) };
        if self.own.as_ref().is_none_or(|(known, _)| *known != waits) {
            self.own = Some((waits, Backoff::new(waits.0, waits.1)));
        }
        self.own.as_mut().map(|(_, backoff)| backoff.next_wait())
    }
}

struct Scheduler {
    core: Arc<Core>,
    engine: Arc<Engine>,
    entries: HashMap<ServiceId, Entry>,
    ready: VecDeque<ServiceId>,
    timers: BTreeSet<(Instant, ServiceId)>,
    running: JoinSet<Next>,
    /// Whose each task is, for one that breaks down cannot say.
    tasks: HashMap<task::Id, ServiceId>,
}

/// Looks after all services for ever.
pub(crate) async fn run(core: Arc<Core>, engine: Engine) {
    let engine = Arc::new(engine);
    let mut scheduler = Scheduler {
        core: Arc::clone(&core),
        engine: Arc::clone(&engine),
        entries: HashMap::new(),
        ready: VecDeque::new(),
        timers: BTreeSet::new(),
        running: JoinSet::new(),
        tasks: HashMap::new(),
    };
    // A new engine knows nothing of what was applied: look at everything once.
    for id in engine.services().into_iter().filter(|id| engine.holds_secrets(*id)) {
        core.secrets.doubt(id);
    }
    for id in core.desired.services() {
        scheduler.wake(id, Wake { why: Why::News, ..Wake::default() });
    }
    let mut whole = core.whole.subscribe();
    if *whole.borrow_and_update() {
        scheduler.forget_strangers();
    }
    let mut parked = core.renders.lanes().parked();
    let mut polling = std::pin::pin!(core.vaults.poll(&core.inbox));
    loop {
        // Who waits to be rendered alone holds nothing, and no place among those that are synced.
        scheduler.start_ready(*parked.borrow_and_update());
        let next_timer = scheduler.timers.first().map(|(at, _)| *at);
        tokio::select! {
            wakes = core.inbox.take() => {
                for (id, wake) in wakes {
                    scheduler.wake(id, wake);
                }
            }
            changes = engine.changes() => {
                for (id, change) in changes {
                    if change.resync {
                        scheduler.wake(id, Wake::default());
                    } else {
                        report(&core, &engine, id);
                    }
                }
            }
            Some(done) = scheduler.running.join_next_with_id() => scheduler.finished(done),
            () = sleep_until(next_timer) => scheduler.ring(),
            Ok(()) = whole.changed() => scheduler.forget_strangers(),
            Ok(()) = parked.changed() => {}
            never = &mut polling => match never {},
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Says what a service refers to before it has its turn: one list serves all that are about to be synced.
fn expect_references(core: &Core, engine: &Engine, id: ServiceId) {
    let Some(service) = core.desired.service(id).filter(|service| service.references.is_some()) else {
        core.vaults.forget(id);
        return engine.drop_references(id);
    };
    // What cannot be read is told where the service is synced.
    if let (Ok(target), Ok(references)) = (target(id, &service), references(&service)) {
        engine.expect_references(&target, references.values());
    }
}

impl Scheduler {
    fn wake(&mut self, id: ServiceId, wake: Wake) {
        let entry = self.entries.entry(id).or_insert_with(Entry::new);
        if wake.why == Why::News {
            entry.reset();
            expect_references(&self.core, &self.engine, id);
        }
        if let Some((earlier, _)) = &mut entry.wake {
            *earlier = earlier.and(wake);
            return;
        }
        entry.wake = Some((wake, Instant::now()));
        if !entry.running {
            self.ready.push_back(id);
        }
    }

    /// Records in the cluster of services that the console does not know.
    fn forget_strangers(&mut self) {
        for id in self.engine.services() {
            if !self.core.desired.names(id) {
                self.wake(id, Wake::default());
            }
        }
    }

    fn start_ready(&mut self, parked: usize) {
        while self.running.len().saturating_sub(parked) < self.core.concurrency {
            let Some(id) = self.ready.pop_front() else { return };
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            let Some((wake, since)) = entry.wake.take() else { continue };
            // A plan is no look at the service: what is due stays due.
            if wake.why != Why::Plan
                && let Some(due) = entry.due.take()
            {
                self.timers.remove(&(due, id));
            }
            entry.running = true;
            let (core, engine) = (Arc::clone(&self.core), Arc::clone(&self.engine));
            let task =
                self.running.spawn(async move { reconcile(&core, &engine, id, wake, since.elapsed()).await });
            self.tasks.insert(task.id(), id);
        }
    }

    fn finished(&mut self, done: Result<(task::Id, Next), task::JoinError>) {
        let (task, next) = match done {
            Ok(done) => done,
            Err(error) => {
                // A panic is a bug; the service is looked at again all the same.
                tracing::error!(%error, "a sync failed unexpectedly");
                (error.id(), Next::Retry(Retry::Later))
            }
        };
        let Some(id) = self.tasks.remove(&task) else { return };
        match next {
            Next::Retry(retry) => self.settle(id, retry),
            Next::Unchanged => {
                if let Some(entry) = self.entries.get_mut(&id) {
                    entry.running = false;
                    if entry.wake.is_some() {
                        self.ready.push_back(id);
                    }
                }
            }
            Next::Forgotten => {
                if let Some(entry) = self.entries.remove(&id)
                    && entry.wake.is_some()
                {
                    self.wake(id, Wake { why: Why::News, ..Wake::default() });
                }
            }
        }
    }

    fn settle(&mut self, id: ServiceId, retry: Retry) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.running = false;
        if let Some(due) = entry.due.take() {
            self.timers.remove(&(due, id));
        }
        let retries = self.core.desired.service(id).map(|service| Retries::of(&service)).unwrap_or_default();
        let wait = match retry {
            Retry::OnChange => {
                entry.reset();
                None
            }
            Retry::Soon => entry.wait(retries, |entry| entry.soon.next_wait()),
            Retry::Later => entry.wait(retries, |entry| entry.later.next_wait()),
            Retry::After(wait) => Some(wait),
        };
        if entry.wake.is_some() {
            self.ready.push_back(id);
        } else if let Some(wait) = wait {
            let due = Instant::now() + wait;
            entry.due = Some(due);
            self.timers.insert((due, id));
        }
    }

    fn ring(&mut self) {
        let now = Instant::now();
        while let Some(&(at, id)) = self.timers.first() {
            if at > now {
                return;
            }
            self.timers.pop_first();
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.due = None;
            }
            self.wake(id, Wake::default());
        }
    }
}
