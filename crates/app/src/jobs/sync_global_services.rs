//! Gives every cluster that a global service targets its instance, and moves changes through them.
//!
//! A round reads what there is, decides, and writes one service after the other; killed anywhere, the next round goes
//! on from what was written.

mod give;
mod spread;

use std::sync::Arc;
use std::time::Duration;

use plural_core::access::Scope;
use plural_core::{Cascade, Error, GlobalServiceId, Result};
use plural_kit::ShutdownSignal;
use tokio::sync::Notify;

use self::spread::Spread;
use crate::access::{Write, authorize_installation};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::ports::{GlobalServiceWork, Instance, ServiceSelector};

/// Between two rounds when nothing was told.
const REST: Duration = Duration::from_mins(1);
/// The same where there are other replicas: what is told to them does not reach this one.
const REST_BESIDE: Duration = Duration::from_secs(5);
/// Between two rounds while a rollout moves: it waits for what agents report, which nobody tells.
const BUSY: Duration = Duration::from_secs(1);

/// Wakes the job.
#[derive(Default)]
pub(crate) struct GlobalBoard(Notify);

impl GlobalBoard {
    pub(crate) fn wake(&self) {
        self.0.notify_one();
    }
}

pub(super) async fn run(app: Arc<App>, stop: ShutdownSignal) -> Result<()> {
    loop {
        let busy = match round(&app, &stop).await {
            Ok(busy) => busy,
            Err(error) => {
                tracing::warn!(error = error.log_text(), "cannot look after global services; trying again");
                true
            }
        };
        let rest = if app.replicas_alive().len() > 1 { REST_BESIDE } else { REST };
        let wait = if busy { BUSY } else { rest };
        tokio::select! {
            () = stop.requested() => return Ok(()),
            () = app.globals.0.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Looks at each; `true` when one of them wants to be looked at again soon.
async fn round(app: &App, stop: &ShutdownSignal) -> Result<bool> {
    let mut busy = false;
    for id in app.store.global_service_ids().await? {
        if stop.is_requested() {
            break;
        }
        match look_at(app, id, stop).await {
            Ok(soon) => busy |= soon,
            Err(error) => {
                busy = true;
                tracing::warn!(global_service.id = %id, error = error.log_text(), "cannot spread a global service");
            }
        }
    }
    Ok(busy)
}

async fn look_at(app: &App, id: GlobalServiceId, stop: &ShutdownSignal) -> Result<bool> {
    let Some(work) = app.store.global_service_work(id).await? else { return Ok(false) };
    let ctx = app.system_ctx();
    if work.global.deleted_at.is_some() {
        return let_all_go(app, &ctx, &work).await;
    }
    Spread::new(app, &ctx, stop).run(work).await
}

async fn let_go(app: &App, ctx: &OpCtx, instance: &Instance, cascade: Cascade) -> Result<()> {
    let selector = ServiceSelector::Id(instance.service_id);
    let service = app.service_for::<Write>(ctx, &selector).await?;
    match cascade {
        Cascade::Keep => app.store.service_disown(service.audited(ctx, "service.disown")).await,
        Cascade::Delete => app.store.instance_delete(service.audited(ctx, "service.delete")).await,
        Cascade::Detach => app.store.service_detach(service.audited(ctx, "service.detach")).await.map(drop),
    }
}

async fn let_all_go(app: &App, ctx: &OpCtx, work: &GlobalServiceWork) -> Result<bool> {
    for instance in work.instances.iter().filter(|instance| !instance.deleted) {
        match let_go(app, ctx, instance, work.global.spec.cascade).await {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(error) => {
                app.store.global_service_looked(work.global.id, None, Some(&error.to_string())).await?;
                return Err(error);
            }
        }
    }
    app.feed_catch_up().await;
    let Some(left) = app.store.global_service_work(work.global.id).await? else { return Ok(false) };
    if left.instances.is_empty() {
        authorize_installation::<Write>(ctx, Scope::Installation)?;
        app.store.global_service_remove(work.global.id).await?;
        return Ok(false);
    }
    // Their agents are at it.
    Ok(true)
}
