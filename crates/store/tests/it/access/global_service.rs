//! Global services: who may do what.

use plural_app::OpCtx;
use plural_app::global_service::{GlobalServiceSelector, RolloutAction};
use plural_app::records::Search;
use plural_core::global_service::GlobalService;
use plural_core::global_service::{
    GlobalServiceChange, GlobalServiceSource, GlobalServiceSpec, NewGlobalService, ServiceTemplate,
    TemplateSecrets,
};
use plural_core::ids::GlobalServiceId;
use plural_core::{Error, PageArgs, Result};

use super::{Case, World, found, fresh};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("get::<GlobalService>", "uhaaaa", w, c => async { w.door.app.get::<GlobalService>(c, &global(w).await).await }),
        case!("get_many::<GlobalService>", "uhaaaa", w, c => async { let id = global_id(w).await; found(w.door.app.get_many::<GlobalService>(c, &[id]).await?.contains_key(&id)) }),
        case!("list::<GlobalService>", "uaaaaa", w, c => w.door.app.list::<GlobalService>(c, &Search::default(), &PageArgs::default())),
        case!("global_service_create", "uhdaaa", w, c => w.door.app.global_service_create(c, new_global(w))),
        case!("global_service_update", "uhdaaa", w, c => async { w.door.app.global_service_update(c, &global(w).await, GlobalServiceChange::default()).await }),
        case!("global_service_delete", "uhdaaa", w, c => async { w.door.app.global_service_delete(c, &global(w).await).await }),
        case!("global_service_steer", "uhdaaa", w, c => steer_global(w, c)),
        case!("global_service_instances", "uhaaaa", w, c => async { w.door.app.global_service_instances(c, global_id(w).await).await }),
        case!("global_services_instances", "uhaaaa", w, c => async { let id = global_id(w).await; found(w.door.app.global_services_instances(c, &[id], &PageArgs::default()).await?.contains_key(&id)) }),
        // Of what is hidden, nothing is answered.
        case!("global_services_counts", "uaaaaa", w, c => async { w.door.app.global_services_counts(c, &[global_id(w).await]).await }),
    ]
}

fn new_global(w: &World<'_>) -> NewGlobalService {
    let template = ServiceTemplate {
        repository_id: Some(w.repository.id),
        git: Some(plural_core::service::GitRef::new("main", "web", &[]).unwrap()),
        ..ServiceTemplate::default()
    };
    NewGlobalService {
        name: fresh("g").parse().unwrap(),
        project_id: Some(w.project.id),
        spec: GlobalServiceSpec::default(),
        source: GlobalServiceSource::Template(Box::new(template), TemplateSecrets::default()),
    }
}

pub(super) async fn global_id(w: &World<'_>) -> GlobalServiceId {
    w.door.app.global_service_create(&w.door.admin, new_global(w)).await.unwrap().id
}

async fn global(w: &World<'_>) -> GlobalServiceSelector {
    GlobalServiceSelector::Id(global_id(w).await)
}

async fn steer_global(w: &World<'_>, c: &OpCtx) -> Result<()> {
    match w.door.app.global_service_steer(c, &global(w).await, RolloutAction::Halt).await {
        // Who may is told that there is nothing to halt.
        Ok(_) | Err(Error::Conflict { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
