//! One task per repository: it waits for a kick, a moved local ref or the minute, and looks.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plural_core::Result;
use plural_core::ids::RepositoryId;
use plural_kit::{ShutdownSignal, about};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use super::sync_repository::{self, Outcome};
use crate::app::App;

/// Seconds until a repository that this replica should look after, and another still does, is asked for again.
const TAKE_OVER: u64 = 2;
/// Over how long the repositories of a replica that went are taken up by the others.
const SPREAD: Duration = Duration::from_secs(1);
/// Between two looks at which repositories there are, should an event have been missed.
const REFRESH: Duration = Duration::from_mins(1);

struct Task {
    kick: watch::Sender<u64>,
    abort: AbortHandle,
}

pub(super) async fn run(app: Arc<App>, stop: ShutdownSignal) -> Result<()> {
    let mut tasks: HashMap<RepositoryId, Task> = HashMap::new();
    let mut running: JoinSet<RepositoryId> = JoinSet::new();
    refresh(&app, &stop, &mut tasks, &mut running).await;
    let mut tick = tokio::time::interval(REFRESH);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    tick.tick().await;
    loop {
        tokio::select! {
            () = stop.requested() => break,
            () = app.repositories.wake.notified() => {
                if app.repositories.all.swap(false, Ordering::AcqRel) {
                    refresh(&app, &stop, &mut tasks, &mut running).await;
                    for task in tasks.values() {
                        task.kick.send_modify(|kicks| *kicks += 1);
                    }
                }
                let told: Vec<RepositoryId> = app.repositories.told.lock().drain().collect();
                for id in told {
                    match tasks.get(&id) {
                        Some(task) => task.kick.send_modify(|kicks| *kicks += 1),
                        None => spawn(&app, &stop, id, &mut tasks, &mut running),
                    }
                }
            }
            _ = tick.tick() => refresh(&app, &stop, &mut tasks, &mut running).await,
            Some(ended) = running.join_next(), if !running.is_empty() => match ended {
                Ok(id) => {
                    tasks.remove(&id);
                }
                Err(error) if error.is_cancelled() => {}
                Err(error) => {
                    // The next refresh starts it again; the others go on.
                    tracing::error!(error = %error, "looking after a repository failed unexpectedly");
                    let aborted: HashSet<_> =
                        tasks.iter().filter(|(_, task)| task.abort.is_finished()).map(|(id, _)| *id).collect();
                    tasks.retain(|id, _| !aborted.contains(id));
                }
            },
        }
    }
    // What runs stops at its next step; nothing half done was written.
    running.abort_all();
    while running.join_next().await.is_some() {}
    Ok(())
}

async fn refresh(
    app: &Arc<App>,
    stop: &ShutdownSignal,
    tasks: &mut HashMap<RepositoryId, Task>,
    running: &mut JoinSet<RepositoryId>,
) {
    match app.store.repository_ids().await {
        Ok(known) => {
            for (id, _) in known {
                if !tasks.contains_key(&id) {
                    spawn(app, stop, id, tasks, running);
                }
            }
        }
        Err(error) => tracing::warn!(error = error.log_text(), "cannot list repositories; trying again"),
    }
}

fn spawn(
    app: &Arc<App>,
    stop: &ShutdownSignal,
    id: RepositoryId,
    tasks: &mut HashMap<RepositoryId, Task>,
    running: &mut JoinSet<RepositoryId>,
) {
    let (kick, kicked) = watch::channel(0);
    let (app, stop) = (Arc::clone(app), stop.clone());
    let abort = running.spawn(async move {
        stop.or(Box::pin(look_after(&app, id, kicked))).await;
        id
    });
    tasks.insert(id, Task { kick, abort });
}

/// Looks at one repository again and again while this is the replica that should; ends when it is gone.
async fn look_after(app: &App, id: RepositoryId, mut kicked: watch::Receiver<u64>) {
    let mut moved: Option<watch::Receiver<u64>> = None;
    let mut replicas = app.replicas.moved();
    let mut failures = 0_u32;
    // Who begins knows of nothing that was looked at.
    let mut asked = true;
    loop {
        let mut seconds = app.settings.poll_seconds;
        // One that came together with something else is none that was heard before.
        asked |= kicked.has_changed().unwrap_or_default();
        kicked.mark_unchanged();
        replicas.mark_unchanged();
        if let Some(moved) = &mut moved {
            moved.mark_unchanged();
        }
        match Box::pin(sync_repository::run(app, id, asked)).await {
            Ok(Outcome::Gone) => {
                if let Err(error) = app.git.forget(id).await {
                    tracing::warn!(repository.id = %id, error = %error, "cannot drop the mirror of a removed repository");
                }
                return;
            }
            Ok(Outcome::Done { refs, again }) => {
                failures = 0;
                if moved.is_none() {
                    moved = refs;
                    if moved.is_some() {
                        // Between the fetch and the watch a ref may have moved.
                        continue;
                    }
                }
                if let Some(again) = again {
                    (seconds, asked) = (again, false);
                }
            }
            Ok(Outcome::Elsewhere) => {}
            Ok(Outcome::Soon) => seconds = TAKE_OVER,
            Err(error) => {
                failures = failures.saturating_add(1);
                tracing::warn!(repository.id = %id, error = error.log_text(), "cannot look at a repository");
            }
        }
        let wait = pause(seconds, failures);
        let refs_moved = async {
            if let Some(moved) = &mut moved
                && moved.changed().await.is_ok()
            {
                return;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            changed = kicked.changed() => {
                if changed.is_err() {
                    return;
                }
                asked = true;
            }
            // Another set of replicas: it may be this one's turn now, or no longer. Not all repositories at one moment.
            _ = replicas.changed() => if app.replicas_alive().len() > 1 {
                tokio::time::sleep(SPREAD.mul_f64(rand::random::<f64>())).await;
            },
            () = refs_moved => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// [`about`] the configured interval, doubled with each failure up to 16 times.
pub(super) fn pause(seconds: u64, failures: u32) -> Duration {
    about(Duration::from_secs(seconds.max(1)) * 2_u32.pow(failures.min(4)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_spread_and_bounded() {
        for _ in 0..100 {
            let wait = pause(60, 0);
            assert!((Duration::from_secs(48)..=Duration::from_secs(72)).contains(&wait), "{wait:?}");
        }
        assert!(pause(60, 100) <= Duration::from_secs(60 * 16 * 6 / 5));
    }
}
