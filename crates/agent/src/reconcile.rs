//! One service, once: fetch, render, sync, report.

use std::{sync::Arc, time::Duration};

use plural_core::ids::ServiceId;
use plural_render::Rendered;
use plural_sync::{Engine, Outcome, Retry, Target};
use plural_tunnel::v1;
use tokio::time::Instant;

use crate::{
    agent::Core,
    candidate,
    config::{AgentEvent, Parts},
    desired::asks_only,
    inbox::{Wake, Why},
    last::Last,
    metadata,
    render::{Made, Obstacle, rendered},
    report,
    target::target,
};

/// Messages of one report; the rest is counted.
const MAX_ERRORS: usize = 50;

/// What a service waits for next.
pub(crate) enum Next {
    /// A change, or the time that the retry says.
    Retry(Retry),
    /// What it waited for before: only a question was answered.
    Unchanged,
    /// It is gone from here.
    Forgotten,
}

/// Makes the cluster hold what the console wants of the service now.
pub(crate) async fn reconcile(
    core: &Arc<Core>,
    engine: &Engine,
    id: ServiceId,
    wake: Wake,
    queued: Duration,
) -> Next {
    let Some(service) = core.desired.service(id) else {
        // The console could not send it yet. Until it can, the record of what it owns stays in the cluster.
        if core.desired.names(id) {
            return Next::Retry(Retry::OnChange);
        }
        return forget(core, engine, id).await;
    };
    let target = match target(id, &service) {
        Ok(target) => Target {
            cluster: core.desired.cluster().map(|known| known.handle.clone()).unwrap_or_default(),
            ..target
        },
        // Of the source `render`, as all that leaves nothing to sync: nobody waits then for a plan that does not come.
        Err(message) => return give_up(core, engine, (id, &service), None, Obstacle::lasting(message)),
    };
    if service.intent() == v1::Intent::Destroy {
        return destroy(core, engine, service, &target).await;
    }
    if service.artifact_digest.is_empty() && service.managed_namespace.is_none() {
        return Next::Retry(Retry::OnChange);
    }
    if wake.why == Why::Plan
        && let Some(last) = core.lasts.get(id)
    {
        return answer(core, engine, id, &service, &target, last).await;
    }
    let mut parts = Parts {
        poll: wake
            .hinted
            .zip(wake.learnt)
            .map_or(Duration::ZERO, |(hinted, learnt)| learnt.duration_since(hinted)),
        queue: queued,
        ..Parts::default()
    };
    // Before anything that may fail: a canary goes back also while what git says now cannot be rendered.
    let promoted = engine.promote(&target).await.map(report::promoted);
    let made = rendered((core, engine), id, &service, &target, &mut parts).await;
    let Made { rendered, hold, holds_secrets } = match made {
        Ok(made) => made,
        Err(obstacle) => {
            let next = give_up(core, engine, (id, &service), promoted, obstacle);
            // What would mend it may be what somebody asks about.
            candidate::wake(core, id, &service);
            return next;
        }
    };
    let target = Target { holds_secrets, ..target };
    let Rendered { objects, warnings } = rendered;
    let started = Instant::now();
    let metadata = Some(metadata::of(&objects));
    let planned = plan_asked_for(core, engine, id, &service, &target, &objects).await;
    let mut outcome = engine.sync(&target, objects).await;
    drop(hold);
    // Hidden as things were before: what it says was there may hold secrets that are settled below.
    let done = outcome.plan.take().map(|done| hidden(core, id, report::plan(done, "", &service.revision_id)));
    if outcome.applied && !target.dry_run {
        core.secrets.settle(id);
    }
    parts.apply = started.elapsed();
    tracing::info!(
        service.id = %id,
        service.name = %service.name,
        revision.id = %service.revision_id,
        applied = outcome.applied,
        changed = outcome.changed,
        unchanged = outcome.unchanged,
        deleted = outcome.deleted,
        drift = outcome.drift.len(),
        fetch_ms = parts.fetch.as_millis() as u64,
        render_ms = parts.render.as_millis() as u64,
        apply_ms = parts.apply.as_millis() as u64,
        "synced"
    );
    for drift in &outcome.drift {
        let by = drift.manager.as_deref().unwrap_or("an unknown manager");
        tracing::info!(
            service.id = %id, object = %drift.key.words(), by,
            "a change that did not come from git was reverted"
        );
    }
    let mut errors: Vec<v1::ServiceError> = warnings
        .into_iter()
        .map(|warning| v1::ServiceError {
            source: "render".to_owned(),
            message: warning.message,
            warning: true,
            terminal: false,
            location: format!("{}:{}", warning.origin.path, warning.origin.line),
        })
        .collect();
    errors.extend(sync_errors(&outcome));
    core.lasts.put(
        id,
        Last {
            service: Arc::clone(&service),
            applied: outcome.applied,
            errors: errors.clone(),
            told: report::Told {
                candidates: candidate::known(core, id, &service),
                ..report::told(&outcome, planned, done, promoted)
            },
            metadata,
        },
    );
    report(core, engine, id);
    candidate::wake(core, id, &service);
    if outcome.applied {
        core.emit(AgentEvent::Applied {
            service_id: service.id.clone(),
            service: service.name.clone(),
            revision_id: service.revision_id.clone(),
            commit_sha: service.commit_sha.clone(),
            changed: outcome.changed,
            unchanged: outcome.unchanged,
            deleted: outcome.deleted,
            drift: outcome.drift.len(),
            parts,
        });
    }
    if outcome.has_errors() {
        report_failed(core, id, &service, &errors);
    }
    Next::Retry(outcome.retry)
}

/// Tells the console how the service is now.
pub(crate) fn report(core: &Core, engine: &Engine, id: ServiceId) {
    core.lasts.report(id, |last| {
        let Last { service, applied, errors, told, metadata } = last.clone();
        let report::Told { progress, pending_approval, plan, sync_request_done, promoted, candidates } = told;
        let hider = core.secrets.hider(id);
        let masked = |mut report: v1::ServiceReport| {
            if let Some(hider) = &hider {
                hider.report(&mut report);
            }
            report
        };
        core.reports.submit(
            id,
            masked(v1::ServiceReport {
                service_id: service.id.clone(),
                revision_id: service.revision_id.clone(),
                sequence: service.sequence,
                applied,
                destroyed: false,
                components_set: true,
                components: engine.components(id).into_iter().map(report::component).collect(),
                errors,
                commit_sha: service.commit_sha.clone(),
                progress,
                pending_approval,
                plan,
                drift: engine.drift_events(id).into_iter().map(report::drift).collect(),
                sync_request_done,
                promoted,
                metadata,
                candidates,
            }),
        );
    });
}

/// Says what a sync would do, and does nothing else.
async fn answer(
    core: &Arc<Core>,
    engine: &Engine,
    id: ServiceId,
    service: &Arc<v1::Service>,
    target: &Target,
    mut last: Last,
) -> Next {
    if candidate::asked(service, &last.told.candidates).next().is_some() {
        let known = std::mem::take(&mut last.told.candidates);
        last.told.candidates = candidate::plans((core, engine), id, service, target, known).await;
        let asked = service.plan_request_id.as_str();
        let told = last.told.plan.as_ref().is_some_and(|plan| plan.request_id == asked);
        if asked.is_empty() || told {
            if asks_only(&last.service, service) {
                last.service = Arc::clone(service);
            }
            core.lasts.put(id, last);
            report(core, engine, id);
            return Next::Unchanged;
        }
        // They are told even where the plan below cannot be made.
        core.lasts.put(id, last.clone());
    }
    let made = rendered((core, engine), id, service, target, &mut Parts::default()).await;
    let Made { rendered, hold, holds_secrets: _ } = match made {
        Ok(made) => made,
        Err(obstacle) => return give_up(core, engine, (id, service), last.told.promoted, obstacle),
    };
    let outcome = engine.plan(target, rendered.objects).await;
    drop(hold);
    let plan = match outcome.plan {
        Some(plan) => hidden(core, id, report::plan(plan, &service.plan_request_id, &service.revision_id)),
        // Asked once, answered once: whoever asked can ask again when that is mended.
        None => report::no_plan(first_error(&outcome), service),
    };
    last.told.plan = Some(plan);
    if asks_only(&last.service, service) {
        // What was found out of it before holds for it as it is now.
        last.service = Arc::clone(service);
    }
    core.lasts.put(id, last);
    report(core, engine, id);
    Next::Unchanged
}

/// What to say first of an outcome that came to nothing.
pub(crate) fn first_error(outcome: &Outcome) -> String {
    let first = outcome.problems.iter().find(|problem| !problem.warning);
    first.map_or_else(|| "the API server cannot be asked".to_owned(), |problem| problem.message.clone())
}

/// The full plan that the console asked for, unless it was told already.
async fn plan_asked_for(
    core: &Core,
    engine: &Engine,
    id: ServiceId,
    service: &v1::Service,
    target: &Target,
    objects: &[plural_render::Object],
) -> Option<v1::SyncPlan> {
    let asked = service.plan_request_id.as_str();
    if asked.is_empty() {
        return None;
    }
    let told = core.lasts.get(id).and_then(|last| last.told.plan).filter(|plan| plan.request_id == asked);
    if told.is_some() {
        return told;
    }
    let outcome = engine.plan(target, objects.to_vec()).await;
    Some(match outcome.plan {
        Some(plan) => hidden(core, id, report::plan(plan, asked, &service.revision_id)),
        None => report::no_plan(first_error(&outcome), service),
    })
}

/// A plan without what is to be hidden as things are before the sync.
fn hidden(core: &Core, id: ServiceId, mut plan: v1::SyncPlan) -> v1::SyncPlan {
    if let Some(hider) = core.secrets.hider(id) {
        hider.plan(&mut plan);
    }
    plan
}

/// The service stays as it is; the console hears why.
fn give_up(
    core: &Core,
    engine: &Engine,
    (id, service): (ServiceId, &Arc<v1::Service>),
    promoted: Option<v1::Promoted>,
    obstacle: Obstacle,
) -> Next {
    let Obstacle { source, problems, retry } = obstacle;
    let errors: Vec<v1::ServiceError> = problems
        .into_iter()
        .take(MAX_ERRORS)
        .map(|(message, location)| v1::ServiceError {
            source: source.to_owned(),
            message,
            warning: false,
            location,
            terminal: retry.is_for_a_person(),
        })
        .collect();
    let before = core.lasts.get(id).unwrap_or_default();
    let is_asked = !service.plan_request_id.is_empty();
    let first = errors.first().map(|error| match error.location.as_str() {
        "" => format!("{}: {}", error.source, error.message),
        place => format!("{}: {place}: {}", error.source, error.message),
    });
    let no_plan = first.filter(|_| is_asked).map(|first| report::no_plan(first, service));
    core.lasts.put(
        id,
        Last {
            service: Arc::clone(service),
            applied: false,
            errors: errors.clone(),
            // What waits for a person still does; a plan that cannot be made is told by the errors.
            told: report::Told { promoted, plan: no_plan.or(before.told.plan), ..before.told },
            metadata: before.metadata,
        },
    );
    report(core, engine, id);
    report_failed(core, id, service, &errors);
    Next::Retry(retry)
}

fn report_failed(core: &Core, id: ServiceId, service: &v1::Service, errors: &[v1::ServiceError]) {
    let mut errors = errors.to_vec();
    if let Some(hider) = core.secrets.hider(id) {
        for error in &mut errors {
            hider.error(error);
        }
    }
    let words: Vec<String> = errors
        .iter()
        .filter(|error| !error.warning)
        .map(|error| match error.location.as_str() {
            "" => error.message.clone(),
            location => format!("{location}: {}", error.message),
        })
        .collect();
    tracing::warn!(service.id = %service.id, service.name = %service.name, reason = %words.join("; "), "not as it should be");
    core.emit(AgentEvent::Failed {
        service_id: service.id.clone(),
        service: service.name.clone(),
        revision_id: service.revision_id.clone(),
        commit_sha: service.commit_sha.clone(),
        message: words.join("; "),
    });
}

async fn destroy(core: &Core, engine: &Engine, service: Arc<v1::Service>, target: &Target) -> Next {
    let outcome = engine.destroy(target).await;
    if outcome.destroyed {
        core.reports.submit(
            target.id,
            v1::ServiceReport {
                service_id: service.id.clone(),
                revision_id: service.revision_id.clone(),
                sequence: service.sequence,
                destroyed: true,
                components_set: true,
                commit_sha: service.commit_sha.clone(),
                ..v1::ServiceReport::default()
            },
        );
        tracing::info!(service.id = %service.id, service.name = %service.name, "destroyed");
        core.emit(AgentEvent::Destroyed { service_id: service.id.clone(), service: service.name.clone() });
        return Next::Retry(Retry::OnChange);
    }
    let errors: Vec<v1::ServiceError> = sync_errors(&outcome).collect();
    if outcome.has_errors() {
        report_failed(core, target.id, &service, &errors);
    }
    let told = report::Told {
        pending_approval: outcome.pending.clone().map(report::pending),
        ..report::Told::default()
    };
    core.lasts.put(target.id, Last { service, errors, told, ..Last::default() });
    report(core, engine, target.id);
    Next::Retry(outcome.retry)
}

async fn forget(core: &Core, engine: &Engine, id: ServiceId) -> Next {
    match engine.forget(id).await {
        Ok(()) => {
            core.reports.forget(id);
            core.lasts.forget(id);
            core.renders.forget(id);
            core.secrets.forget(id);
            core.vaults.forget(id);
            tracing::info!(service.id = %id, "the service was detached; its objects stay");
            Next::Forgotten
        }
        Err(error) => {
            tracing::warn!(service.id = %id, %error, "cannot detach a service yet");
            Next::Retry(Retry::Soon)
        }
    }
}

pub(crate) fn sync_errors(outcome: &Outcome) -> impl Iterator<Item = v1::ServiceError> {
    let shown = outcome.problems.iter().take(MAX_ERRORS).map(|problem| v1::ServiceError {
        source: problem.part.as_str().to_owned(),
        message: problem.message.clone(),
        warning: problem.warning,
        location: problem.location.clone(),
        terminal: problem.terminal,
    });
    let hidden = outcome.problems.len().saturating_sub(MAX_ERRORS);
    let rest = (hidden > 0).then(|| v1::ServiceError {
        source: "sync".to_owned(),
        message: format!("and {hidden} more"),
        warning: false,
        location: String::new(),
        terminal: false,
    });
    shown.chain(rest)
}
