//! Saved views of an administrator: who may do what.

use plural_app::saved_view::SavedViewFilter;
use plural_core::PageArgs;
use plural_core::policy::BindingsChange;
use plural_core::saved_view::{NewSavedView, SavedView, SavedViewChange};

use super::{Case, World, found, fresh};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("get::<SavedView>", "uhhhha", w, c => async { w.door.app.get::<SavedView>(c, &view(w).await.id).await }),
        case!("get_many::<SavedView>", "uhhhha", w, c => async { let id = view(w).await.id; found(w.door.app.get_many::<SavedView>(c, &[id]).await?.contains_key(&id)) }),
        case!("list::<SavedView>", "uaaaaa", w, c => w.door.app.list::<SavedView>(c, &SavedViewFilter::default(), &PageArgs::default())),
        case!("saved_view_create", "uaaaaa", w, c => w.door.app.saved_view_create(c, new())),
        case!("saved_view_update", "uhhhha", w, c => async { w.door.app.saved_view_update(c, view(w).await.id, &SavedViewChange::default()).await }),
        case!("saved_view_delete", "uhhhha", w, c => async { w.door.app.saved_view_delete(c, view(w).await.id).await }),
    ]
}

fn new() -> NewSavedView {
    let (name, page) = (fresh("v").parse().unwrap(), "services".parse().unwrap());
    NewSavedView { name, page, query: String::new(), bindings: BindingsChange::default() }
}

pub(super) async fn view(w: &World<'_>) -> SavedView {
    w.door.app.saved_view_create(&w.door.admin, new()).await.unwrap()
}
