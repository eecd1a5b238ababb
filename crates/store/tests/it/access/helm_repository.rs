//! Chart repositories: who may do what.

use plural_app::helm_repository::NewHelmAccess;
use plural_core::PageArgs;

use super::{Case, World, fresh};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("helm_repository_get", "uaaaaa", w, c => async { w.door.app.helm_repository_get(c, &helm(w).await).await }),
        case!("helm_repository_list", "uaaaaa", w, c => w.door.app.helm_repository_list(c, &PageArgs::default())),
        case!("helm_repository_upsert", "udddda", w, c => w.door.app.helm_repository_upsert(c, &helm_url(), NewHelmAccess::default())),
        case!("helm_repository_delete", "udddda", w, c => async { w.door.app.helm_repository_delete(c, &helm(w).await).await }),
    ]
}

fn helm_url() -> String {
    format!("https://charts.example.com/{}", fresh("h"))
}

async fn helm(w: &World<'_>) -> String {
    let url = helm_url();
    w.door.app.helm_repository_upsert(&w.door.admin, &url, NewHelmAccess::default()).await.unwrap();
    url
}
