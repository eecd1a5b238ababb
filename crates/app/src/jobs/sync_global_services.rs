//! Gives every cluster that a global service targets its instance, and moves changes through them.
//!
//! A round reads what there is, decides, and writes one service after the other; killed anywhere, the next round goes
//! on from what was written.

mod give;
mod spread;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use plural_core::global_service::{Cascade, GlobalService};
use plural_core::ids::GlobalServiceId;
use plural_core::service::{SecretsHome, Service, ServiceChange};
use plural_core::{Error, Result};
use plural_kit::{Backoff, ShutdownSignal};
use tokio::sync::Notify;
use tokio::time::Instant;

use self::spread::Spread;
use crate::access::Write;
use crate::app::App;
use crate::ctx::OpCtx;
use crate::global_service::{GlobalServiceSelector, GlobalServiceWork, Instance, Ownership};
use crate::kept;
use crate::service::ServiceSelector;

/// Between two looks at one that wants nothing, when nothing was told.
const REST: Duration = Duration::from_mins(1);
/// The same where there are other replicas: what is told to them does not reach this one.
const REST_BESIDE: Duration = Duration::from_secs(5);
/// Between two looks at one that moves.
const BUSY: Duration = Duration::from_secs(1);
/// The longest between two looks at one that waits: nobody tells what agents report, or that a person approved.
const PATIENT: Duration = Duration::from_secs(10);

/// Wakes the job.
#[derive(Default)]
pub(crate) struct GlobalServicesChanged(Notify);

impl GlobalServicesChanged {
    pub(crate) fn wake(&self) {
        self.0.notify_one();
    }
}

/// How a look at one global service ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Everything is as it should be.
    Done,
    /// Something was done, and more will be.
    Moved,
    /// It waits: for agents, for a repository, for a person, or for what is wrong to pass.
    Waits,
}

/// When a global service is looked at again, though nobody says anything.
struct Pace {
    at: Instant,
    backoff: Backoff,
}

impl Pace {
    fn new() -> Self {
        Self { at: Instant::now(), backoff: Backoff::new(BUSY, PATIENT) }
    }

    /// After a look that ended so and took so long.
    fn after(&mut self, looked: Outcome, took: Duration, rest: Duration) {
        let wait = match looked {
            Outcome::Waits => patience(self.backoff.next_wait(), took, rest),
            Outcome::Moved | Outcome::Done => {
                self.backoff.reset();
                if looked == Outcome::Moved { BUSY } else { rest }
            }
        };
        self.at = Instant::now() + wait;
    }
}

/// How long one waits that waits. A look that takes long, as where thousands of clusters refuse it, is no reason to do little
/// else; nor to wait for longer than one does that wants nothing.
fn patience(backoff: Duration, took: Duration, rest: Duration) -> Duration {
    backoff.max(BUSY).max((took * 5).min(rest))
}

pub(super) async fn run(app: Arc<App>, stop: ShutdownSignal) -> Result<()> {
    let mut paces: HashMap<GlobalServiceId, Pace> = HashMap::new();
    let mut told = true;
    loop {
        let rest = if app.replicas_alive().len() > 1 { REST_BESIDE } else { REST };
        let mut next = Instant::now() + rest;
        // Told in vain: those whose pace is at rest have not been looked at.
        let mut again = false;
        match Box::pin(round(&app, &stop, &mut paces, told, rest)).await {
            Ok(()) => next = paces.values().map(|pace| pace.at).min().unwrap_or(next).min(next),
            Err(error) => {
                next = Instant::now() + BUSY;
                again = told;
                tracing::warn!(error = error.log_text(), "cannot look after global services; trying again");
            }
        }
        tokio::select! {
            () = stop.requested() => return Ok(()),
            () = app.globals.0.notified() => told = true,
            () = tokio::time::sleep_until(next) => told = again,
        }
    }
}

/// Looks at each whose time has come, or at all when something was told.
async fn round(
    app: &App,
    stop: &ShutdownSignal,
    paces: &mut HashMap<GlobalServiceId, Pace>,
    told: bool,
    rest: Duration,
) -> Result<()> {
    let ids: BTreeSet<GlobalServiceId> = app.store.global_service_ids().await?.into_iter().collect();
    paces.retain(|id, _| ids.contains(id));
    for id in ids {
        if stop.is_requested() {
            break;
        }
        let pace = paces.entry(id).or_insert_with(Pace::new);
        if !told && pace.at > Instant::now() {
            continue;
        }
        let began = Instant::now();
        let looked = match Box::pin(look_at(app, id, stop)).await {
            Ok(looked) => looked,
            Err(error) => {
                tracing::warn!(global_service.id = %id, error = error.log_text(), "cannot spread a global service");
                Outcome::Waits
            }
        };
        pace.after(looked, began.elapsed(), rest);
    }
    Ok(())
}

async fn look_at(app: &App, id: GlobalServiceId, stop: &ShutdownSignal) -> Result<Outcome> {
    let Some(work) = app.store.global_service_work(id).await? else { return Ok(Outcome::Done) };
    let ctx = app.system_ctx();
    if work.global.deleted_at.is_some() {
        return let_all_go(app, &ctx, &work).await;
    }
    // Boxed: it is large.
    Box::pin(Spread::new(app, &ctx, stop).run(work)).await
}

/// What is wrong with the console itself: no cluster is to blame for it, and none may be passed over for it. The secret backend of one
/// project is that of its clusters.
fn is_ours(error: &Error) -> bool {
    matches!(error, Error::Internal { .. } | Error::Unavailable { .. }) && !kept::is_of_backend(error)
}

async fn let_go(app: &App, ctx: &OpCtx, instance: &Instance, global: &GlobalService) -> Result<()> {
    let selector = ServiceSelector::Id(instance.service_id);
    let service = app.authorized::<Service, Write>(ctx, &selector).await?;
    match global.spec.cascade {
        Cascade::Keep => {
            // A rollout placed it at a commit: on its own it follows the template's ref again. First, so that a console that is
            // stopped in between finds it still owned, and does this again.
            if let Some(git) = global.template.git.as_ref().filter(|git| service.git.as_ref() != Some(git)) {
                let change = ServiceChange { git: Some(git.clone()), ..ServiceChange::default() };
                let owner = Ownership { owner: global.id, generation: instance.generation };
                app.service_change(ctx, &selector, change, Some(owner)).await?;
            }
            let service = app.authorized::<Service, Write>(ctx, &selector).await?;
            let home = SecretsHome::of(global.project_id);
            app.store.service_disown(service.audited(ctx, "service.disown"), home).await
        }
        Cascade::Delete => app.store.instance_delete(service.audited(ctx, "service.delete")).await,
        Cascade::Detach => app.store.service_detach(service.audited(ctx, "service.detach")).await.map(drop),
    }
}

async fn let_all_go(app: &App, ctx: &OpCtx, work: &GlobalServiceWork) -> Result<Outcome> {
    let mut looked = Outcome::Waits;
    let mut troubles = Vec::new();
    for instance in work.instances.iter().filter(|instance| !instance.deleted) {
        match let_go(app, ctx, instance, &work.global).await {
            Ok(()) => looked = Outcome::Moved,
            Err(Error::NotFound { .. }) => {}
            Err(error) if is_ours(&error) => return Err(error),
            // It stays, the others go.
            Err(error) => troubles.push(error.to_string()),
        }
    }
    let error = spread::in_words(troubles);
    if error != work.global.error {
        app.store.global_service_reconciled(work.global.id, None, error.as_deref()).await?;
    }
    if looked == Outcome::Moved {
        app.feed_catch_up().await;
    }
    let Some(left) = app.store.global_service_work(work.global.id).await? else { return Ok(Outcome::Done) };
    if left.instances.is_empty() {
        let global =
            app.authorized::<GlobalService, Write>(ctx, &GlobalServiceSelector::Id(work.global.id)).await?;
        app.store.global_service_remove(global.audited(ctx, "global_service.remove")).await?;
        return Ok(Outcome::Done);
    }
    // Their agents are at it.
    Ok(looked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_takes_long_is_made_more_seldom() {
        let seconds = Duration::from_secs;
        for (backoff, took, rest, wait) in
            [(0, 0, 60, 1), (4, 0, 60, 4), (4, 3, 60, 15), (10, 50, 60, 60), (10, 50, 5, 10)]
        {
            assert_eq!(patience(seconds(backoff), seconds(took), seconds(rest)), seconds(wait));
        }
    }
}
