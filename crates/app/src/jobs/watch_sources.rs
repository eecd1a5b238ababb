//! Looks after services that are put together from several places: when they or their repositories change, when they
//! are kicked, and every few minutes, because a range of versions may lead further by then.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use plural_core::Result;
use plural_core::ids::{RepositoryId, ServiceId};
use plural_kit::ShutdownSignal;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::sync_sources::{self, Group};
use super::watch_repositories::pause;
use crate::app::App;
use crate::lease::Fence;

/// Seconds until what could not be read is read again.
const RETRY: u64 = 30;

/// What the feed and the git job told and the job has not looked at yet. Sets: many tellings are one.
#[derive(Default)]
pub(crate) struct DirtySources {
    told: Mutex<Changed>,
    all: AtomicBool,
    /// Whether this is the replica that looks; the others need not remember.
    looks: AtomicBool,
    /// Something could not be read that may be readable soon.
    unwell: AtomicBool,
    wake: Notify,
}

#[derive(Default)]
struct Changed {
    /// Services, and whether somebody kicked them.
    services: HashMap<ServiceId, bool>,
    repositories: HashSet<RepositoryId>,
}

impl DirtySources {
    pub(crate) fn services(&self, ids: impl IntoIterator<Item = (ServiceId, bool)>) {
        if !self.looks.load(Ordering::Acquire) {
            return;
        }
        let mut told = self.told.lock();
        for (id, kicked) in ids {
            *told.services.entry(id).or_default() |= kicked;
        }
        drop(told);
        self.wake.notify_one();
    }

    pub(crate) fn repository(&self, id: RepositoryId) {
        if !self.looks.load(Ordering::Acquire) {
            return;
        }
        self.told.lock().repositories.insert(id);
        self.wake.notify_one();
    }

    pub(super) fn failed(&self) {
        self.unwell.store(true, Ordering::Release);
    }

    pub(crate) fn everything(&self) {
        self.all.store(true, Ordering::Release);
        self.wake.notify_one();
    }
}

/// Says that this replica looks, until dropped.
struct Running<'a>(&'a DirtySources);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.looks.store(false, Ordering::Release);
        *self.0.told.lock() = Changed::default();
    }
}

pub(super) async fn run(app: Arc<App>, stop: ShutdownSignal) -> Result<()> {
    // Before everything is looked at: what is told from here on is not lost.
    app.sources.looks.store(true, Ordering::Release);
    let _looking = Running(&app.sources);
    let mut running: JoinSet<String> = JoinSet::new();
    let mut busy: HashSet<String> = HashSet::new();
    // Changed during the run: the inputs that it used may be stale.
    let mut again: HashMap<String, Group> = HashMap::new();
    app.sources.everything();
    let mut failures = 0_u32;
    // Two rhythms, each with a clock that being told of something does not wind back.
    let mut next = Instant::now() + pause(app.settings.chart_poll_seconds, 0);
    let mut retry = Instant::now() + pause(RETRY, 0);
    loop {
        let groups = tokio::select! {
            () = stop.requested() => break,
            () = app.sources.wake.notified() => told(&app).await,
            () = tokio::time::sleep_until(next) => {
                next = Instant::now() + pause(app.settings.chart_poll_seconds, 0);
                everything(&app, false).await
            }
            () = tokio::time::sleep_until(retry) => {
                retry = Instant::now() + pause(RETRY, failures);
                if app.sources.unwell.swap(false, Ordering::AcqRel) {
                    everything(&app, false).await
                } else {
                    Ok(Vec::new())
                }
            }
            Some(ended) = running.join_next(), if !running.is_empty() => {
                match ended {
                    Ok(key) => {
                        busy.remove(&key);
                        Ok(again.remove(&key).into_iter().collect())
                    }
                    Err(error) if error.is_cancelled() => Ok(Vec::new()),
                    Err(error) => {
                        tracing::error!(error = %error, "looking after a source failed unexpectedly");
                        // Which one is not known: all may run again.
                        busy.clear();
                        Ok(again.drain().map(|(_, group)| group).collect())
                    }
                }
            }
        };
        match groups {
            Ok(groups) => {
                failures = 0;
                for group in groups {
                    let key = group.key();
                    if !busy.insert(key.clone()) {
                        again.insert(key, group);
                        continue;
                    }
                    let (app, stop) = (Arc::clone(&app), stop.clone());
                    running.spawn(Fence::carried(async move {
                        stop.or(async {
                            let _turn = app.repositories.turns.look(group.asker()).await;
                            if let Err(error) = sync_sources::run(&app, &group).await {
                                tracing::warn!(error = error.log_text(), "cannot look at a source");
                            }
                        })
                        .await;
                        key
                    }));
                }
            }
            Err(error) => {
                failures = failures.saturating_add(1);
                app.sources.failed();
                tracing::warn!(error = error.log_text(), "cannot list sources; trying again");
            }
        }
    }
    running.abort_all();
    while running.join_next().await.is_some() {}
    Ok(())
}

async fn told(app: &App) -> Result<Vec<Group>> {
    let Changed { services, repositories } = std::mem::take(&mut *app.sources.told.lock());
    if app.sources.all.swap(false, Ordering::AcqRel) {
        return everything(app, true).await;
    }
    let found = if repositories.is_empty() {
        let ids: Vec<ServiceId> = services.keys().copied().collect();
        let mut found = Vec::new();
        for chunk in ids.chunks(500) {
            found.extend(app.store.composed_services(Some(chunk)).await?);
        }
        found
    } else {
        let mut all = app.store.composed_services(None).await?;
        all.retain(|service| {
            services.contains_key(&service.id) || service.repositories().any(|id| repositories.contains(&id))
        });
        all
    };
    let mut groups = Group::of(found);
    for group in &mut groups {
        group.fresh = group.services.iter().any(|service| services.get(&service.id) == Some(&true));
    }
    Ok(groups)
}

async fn everything(app: &App, fresh: bool) -> Result<Vec<Group>> {
    let mut groups = Group::of(app.store.composed_services(None).await?);
    for group in &mut groups {
        group.fresh = fresh;
    }
    Ok(groups)
}
