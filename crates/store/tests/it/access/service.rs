//! Services: who may do what.

use plural_app::OpCtx;
use plural_app::health_change::HealthChangeFilter;
use plural_app::service::{ServiceFilter, ServiceSelector};
use plural_app::service_life::ServiceClone;
use plural_app::sync::PlanSelector;
use plural_core::policy::BindingsChange;
use plural_core::service::{Configuration, NewService, PinUntil, ServiceChange};
use plural_core::service::{Service, ServiceColumn};
use plural_core::sort::Sort;
use plural_core::specs::DiffNormalizer;
use plural_core::sync::SyncRequest;
use plural_core::{Error, PageArgs, Result};

use super::{Case, World, found, fresh, readable};
use crate::door::{by_id, new_service, service_id};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("get_many::<Service>", "uhaaaa", w, c => async { found(w.door.app.get_many::<Service>(c, &[w.service.id]).await?.contains_key(&w.service.id)) }),
        // Of what is hidden, nothing is answered.
        case!("services_metadata", "uaaaaa", w, c => w.door.app.services_metadata(c, &[w.service.id])),
        case!("services_deprecations", "uaaaaa", w, c => w.door.app.services_deprecations(c, &[w.service.id])),
        // Nothing was made of its source yet: whoever may ask is told that.
        case!("service_files", "uhdaaa", w, c => async { unless_conflict(w.door.app.service_files(c, &service_id(&w.service), None).await) }),
        case!("service_archive", "uhdaaa", w, c => async { unless_conflict(w.door.app.service_archive(c, &service_id(&w.service)).await) }),
        case!("canary_gate_path", "uhdaaa", w, c => w.door.app.canary_gate_path(c, &service_id(&w.service))),
        case!("get::<Service>", "uhaaaa", w, c => w.door.app.get::<Service>(c, &service_id(&w.service))),
        case!("list::<Service>", "uhaaaa", w, c => list_services(w, c)),
        case!("service_statuses", "uhaaaa", w, c => count_services(w, c)),
        case!("list_sorted<N: Sortable>", "uhaaaa", w, c => sort_services(w, c)),
        case!("service_clusters", "uhaaaa", w, c => async { counted(w, c, w.door.app.service_clusters(c, &ServiceFilter::default()).await?).await }),
        case!("service_projects", "uhaaaa", w, c => async { counted(w, c, w.door.app.service_projects(c, &ServiceFilter::default()).await?).await }),
        case!("services_components", "uhaaaa", w, c => async { found(w.door.app.services_components(c, &[w.service.id]).await?.contains_key(&w.service.id)) }),
        case!("services_errors", "uhaaaa", w, c => async { found(w.door.app.services_errors(c, &[w.service.id]).await?.contains_key(&w.service.id)) }),
        case!("services_reasons", "uhaaaa", w, c => async { found(w.door.app.services_reasons(c, &[w.service.id]).await?.contains_key(&w.service.id)) }),
        case!("services_revisions", "uhaaaa", w, c => async { found(w.door.app.services_revisions(c, &[w.service.id]).await?.contains_key(&w.service.id)) }),
        case!("services_configurations", "uhhaaa", w, c => async { found(w.door.app.services_configurations(c, &[w.service.id]).await?.contains_key(&w.service.id)) }),
        case!("services_configuration_names", "uhhaaa", w, c => async { found(w.door.app.services_configuration_names(c, &[w.service.id]).await?.contains_key(&w.service.id)) }),
        case!("service_create", "uhdaaa", w, c => create_service(w, c)),
        case!("service_create", "uhddaa", w, c => create_bound_service(w, c)),
        case!("service_update", "uhdaaa", w, c => update_service(w, c, BindingsChange::default())),
        case!("service_update", "uhddaa", w, c => update_service(w, c, readable(w))),
        case!("service_delete", "uhdaaa", w, c => delete_service(w, c)),
        case!("service_detach", "uhdaaa", w, c => detach_service(w, c)),
        case!("service_kick", "uhdaaa", w, c => kick_service(w, c)),
        case!("service_preview", "uhaaaa", w, c => w.door.app.service_preview(c, &service_id(&w.service))),
        case!("service_rollback", "uhdaaa", w, c => roll_back(w, c)),
        case!("service_release", "uhdaaa", w, c => release(w, c)),
        case!("service_pause", "uhdaaa", w, c => w.door.app.service_pause(c, &service_id(&w.service))),
        case!("service_seed_rotate", "uhdaaa", w, c => w.door.app.service_seed_rotate(c, &service_id(&w.service))),
        case!("service_resume", "uhdaaa", w, c => w.door.app.service_resume(c, &service_id(&w.service))),
        case!("service_agent_upgrade", "uhddda", w, c => w.door.app.service_agent_upgrade(c, &service_id(&w.service), false)),
        case!("service_clone", "uhdaaa", w, c => clone_service(w, c)),
        case!("service_events", "uhaaaa", w, c => w.door.app.service_events(c, w.service.id, &PageArgs::default())),
        // Nothing was made of its source yet: whoever may ask is told that.
        case!("service_sync", "uhdaaa", w, c => async { unless_conflict(w.door.app.service_sync(c, &service_id(&w.service), SyncRequest::default()).await) }),
        case!("service_promote", "uhdaaa", w, c => async { unless_conflict(w.door.app.service_promote(c, &service_id(&w.service), plural_core::promotion::Promotion::Proceed, Vec::new()).await) }),
        case!("service_plan_request", "uhaaaa", w, c => async { unless_conflict(w.door.app.service_plan_request(c, &service_id(&w.service)).await) }),
        // Nothing waits for an approval: whoever may approve is told that.
        case!("service_prune_approve", "uhdaaa", w, c => async { unless_conflict(w.door.app.service_prune_approve(c, &service_id(&w.service), "none").await) }),
        case!("service_drift_ignore", "uhdaaa", w, c => ignore_drift(w, c)),
        case!("service_plan", "uhaaaa", w, c => w.door.app.service_plan(c, &service_id(&w.service), PlanSelector::Last)),
        case!("service_plans", "uhaaaa", w, c => w.door.app.service_plans(c, w.service.id, &PageArgs::default())),
        case!("service_drift", "uhaaaa", w, c => w.door.app.service_drift(c, w.service.id, &PageArgs::default())),
        // Of what is hidden, nothing is answered.
        case!("services_syncs", "uaaaaa", w, c => w.door.app.services_syncs(c, &[w.service.id])),
        case!("revisions_plans", "uaaaaa", w, c => w.door.app.revisions_plans(c, &[(w.service.id, w.service.revision_id)])),
        case!("service_components", "uhaaaa", w, c => w.door.app.service_components(c, w.service.id)),
        case!("service_errors", "uhaaaa", w, c => w.door.app.service_errors(c, w.service.id)),
        case!("health_change_list", "uhaaaa", w, c => list_changes(w, c)),
        case!("services_health_changes", "uhaaaa", w, c => async { found(w.door.app.services_health_changes(c, &[w.service.id], &PageArgs::default()).await?.contains_key(&w.service.id)) }),
        case!("revision_list", "uhaaaa", w, c => list_all_revisions(w, c)),
        case!("service_revisions", "uhaaaa", w, c => list_revisions(w, c)),
        case!("service_revision", "uhaaaa", w, c => w.door.app.service_revision(c, w.service.id)),
        case!("service_configuration", "uhdaaa", w, c => w.door.app.service_configuration(c, w.service.id)),
        case!("service_values", "uhdaaa", w, c => w.door.app.service_values(c, w.service.id)),
        case!("services_dependencies", "uaaaaa", w, c => w.door.app.services_dependencies(c, &[w.service.id])),
        case!("services_dependents", "uaaaaa", w, c => w.door.app.services_dependents(c, &[w.service.id])),
        case!("services_contexts", "uaaaaa", w, c => w.door.app.services_contexts(c, &[w.service.id])),
        case!("services_imports", "uaaaaa", w, c => w.door.app.services_imports(c, &[w.service.id])),
        case!("service_deletion", "uhaaaa", w, c => w.door.app.service_deletion(c, &service_id(&w.service), true)),
        case!("service_delete_cascade", "uhdaaa", w, c => async { w.door.app.service_delete_cascade(c, &service_of(w).await).await }),
    ]
}

async fn service_of(w: &World<'_>) -> ServiceSelector {
    service_id(&w.door.service(&w.cluster.cluster, &w.repository, &fresh("s")).await)
}

/// For lists, what is not there counts as hidden.
fn unless_conflict<T>(answer: Result<T>) -> Result<()> {
    match answer {
        Ok(_) | Err(Error::Conflict { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

async fn ignore_drift(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let normalizer =
        DiffNormalizer { json_pointers: vec!["/spec/replicas".into()], ..DiffNormalizer::default() };
    w.door.app.service_drift_ignore(c, &service_id(&w.service), &normalizer).await.map(drop)
}

async fn count_services(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let counts = w.door.app.service_statuses(c, &ServiceFilter::default()).await?;
    let listed = w.door.app.list::<Service>(c, &ServiceFilter::default(), &PageArgs::first(500)).await?;
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    assert_eq!(all, listed.edges.len() as u64, "what a list shows is what is counted");
    for (status, count) in counts {
        let filter = ServiceFilter { status: Some(status), ..ServiceFilter::default() };
        let page = w.door.app.list::<Service>(c, &filter, &PageArgs::first(500)).await?;
        assert_eq!(page.edges.len() as u64, count, "{status:?}");
    }
    found(all > 0)
}

/// What a list shows is what is counted.
async fn counted<T>(w: &World<'_>, c: &OpCtx, counts: Vec<(T, u64)>) -> Result<()> {
    let listed = w.door.app.list::<Service>(c, &ServiceFilter::default(), &PageArgs::first(500)).await?;
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    assert_eq!(all, listed.edges.len() as u64);
    found(all > 0)
}

async fn sort_services(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let listed = w.door.app.list::<Service>(c, &ServiceFilter::default(), &PageArgs::first(500)).await?;
    let mut expected: Vec<_> =
        listed.into_nodes().into_iter().map(|one| (one.name.to_string(), one.id)).collect();
    expected.sort();
    let sort = Sort { column: ServiceColumn::Name, descending: false };
    let sorted =
        w.door.app.list_sorted::<Service>(c, &ServiceFilter::default(), &sort, &PageArgs::first(500)).await?;
    let sorted: Vec<_> = sorted.into_nodes().into_iter().map(|one| (one.name.to_string(), one.id)).collect();
    assert_eq!(sorted, expected, "the same services, in another order");
    found(sorted.iter().any(|(_, id)| *id == w.service.id))
}

async fn list_services(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let page = w.door.app.list::<Service>(c, &ServiceFilter::default(), &PageArgs::default()).await?;
    found(page.edges.iter().any(|edge| edge.node.id == w.service.id))
}

async fn list_revisions(w: &World<'_>, c: &OpCtx) -> Result<()> {
    w.door.app.service_revisions(c, w.service.id, &PageArgs::default()).await.map(drop)
}

async fn list_changes(w: &World<'_>, c: &OpCtx) -> Result<()> {
    // So that there are some.
    let (admin, by) = (&w.door.admin, service_id(&w.service));
    w.door.app.service_pause(admin, &by).await?;
    w.door.app.service_resume(admin, &by).await?;
    let any = HealthChangeFilter::default();
    let page = w.door.app.health_change_list(c, &any, &PageArgs::first(500)).await?;
    found(page.edges.iter().any(|edge| edge.node.service_id == w.service.id))
}

async fn list_all_revisions(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let args = PageArgs { last: Some(500), ..PageArgs::default() };
    let page = w.door.app.revision_list(c, &args).await?;
    found(page.edges.iter().any(|edge| edge.node.service_id == w.service.id))
}

async fn create_service(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let new = new_service(&w.repository, &fresh("s"));
    w.door.app.service_create(c, &by_id(&w.cluster.cluster), new).await.map(drop)
}

async fn create_bound_service(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let new = new_service(&w.repository, &fresh("s"));
    let new = NewService { bindings: readable(w), ..new };
    w.door.app.service_create(c, &by_id(&w.cluster.cluster), new).await.map(drop)
}

async fn update_service(w: &World<'_>, c: &OpCtx, bindings: BindingsChange) -> Result<()> {
    let change = ServiceChange { bindings, ..ServiceChange::default() };
    w.door.app.service_update(c, &service_id(&w.service), change).await.map(drop)
}

async fn delete_service(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let service = service_of(w).await;
    w.door.app.service_delete(c, &service).await.map(drop)
}

async fn detach_service(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let service = service_of(w).await;
    w.door.app.service_detach(c, &service).await.map(drop)
}

async fn roll_back(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let now = w.door.app.get::<Service>(&w.door.admin, &service_id(&w.service)).await?;
    let (service, until) = (service_id(&w.service), PinUntil::Release);
    w.door.app.service_rollback(c, &service, now.revision_id, until).await.map(drop)
}

async fn release(w: &World<'_>, c: &OpCtx) -> Result<()> {
    roll_back(w, &w.door.admin).await?;
    w.door.app.service_release(c, &service_id(&w.service)).await?;
    Ok(())
}

async fn clone_service(w: &World<'_>, c: &OpCtx) -> Result<()> {
    // Others of this table leave it pinned.
    let _ = w.door.app.service_release(&w.door.admin, &service_id(&w.service)).await;
    let (name, configuration) = (fresh("copy").parse().unwrap(), Configuration::default());
    let clone = ServiceClone { name, namespace: None, configuration };
    w.door.app.service_clone(c, &service_id(&w.service), &by_id(&w.cluster.cluster), clone).await.map(drop)
}

async fn kick_service(w: &World<'_>, c: &OpCtx) -> Result<()> {
    w.door.app.service_kick(c, &service_id(&w.service)).await.map(drop)
}
