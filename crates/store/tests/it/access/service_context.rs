//! Contexts: who may do what.

use plural_app::service_context::{ServiceContextFilter, ServiceContextSelector};
use plural_core::PageArgs;
use plural_core::service_context::{ServiceContext, ServiceContextChange};

use super::{Case, World, found, fresh};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("get::<ServiceContext>", "uhaaaa", w, c => async { w.door.app.get::<ServiceContext>(c, &ServiceContextSelector::Id(context(w).await.id)).await }),
        case!("get_many::<ServiceContext>", "uhaaaa", w, c => async { let id = context(w).await.id; found(w.door.app.get_many::<ServiceContext>(c, &[id]).await?.contains_key(&id)) }),
        case!("contexts_named", "uhaaaa", w, c => async { w.door.app.contexts_named(c, &[context(w).await.name.into()]).await }),
        case!("list::<ServiceContext>", "uaaaaa", w, c => w.door.app.list::<ServiceContext>(c, &ServiceContextFilter::default(), &PageArgs::default())),
        case!("context_save", "uhdaaa", w, c => w.door.app.context_save(c, fresh("x").parse().unwrap(), in_project(w))),
        case!("context_delete", "uhdaaa", w, c => async { w.door.app.context_delete(c, context(w).await.id).await }),
    ]
}

fn in_project(w: &World<'_>) -> ServiceContextChange {
    ServiceContextChange { project_id: Some(w.project.id), ..ServiceContextChange::default() }
}

pub(super) async fn context(w: &World<'_>) -> ServiceContext {
    w.door.app.context_save(&w.door.admin, fresh("x").parse().unwrap(), in_project(w)).await.unwrap()
}
