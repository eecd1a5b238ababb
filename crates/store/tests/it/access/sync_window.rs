//! Sync windows: who may do what.

use plural_app::OpCtx;
use plural_app::sync_window::NewSyncWindow;
use plural_core::Result;
use plural_core::sync_window::{SyncWindowKind, WindowRule};

use super::{Case, World};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("sync_window_list", "uhaaaa", w, c => w.door.app.sync_window_list(c, w.service.id)),
        case!("sync_window_list_all", "uaaaaa", w, c => w.door.app.sync_window_list_all(c)),
        case!("sync_window_create", "uhdaaa", w, c => w.door.app.sync_window_create(c, w.service.id, window())),
        case!("sync_window_update", "uhdaaa", w, c => change_window(w, c)),
        case!("sync_window_delete", "uhdaaa", w, c => delete_window(w, c)),
    ]
}

fn window() -> NewSyncWindow {
    let rule = WindowRule::new(SyncWindowKind::Allow, "* * * * *", 60, "UTC").unwrap();
    NewSyncWindow { name: None, rule, description: None }
}

async fn change_window(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let on = w.service.id;
    let made = w.door.app.sync_window_create(&w.door.admin, on, window()).await?;
    let rule = WindowRule::new(SyncWindowKind::Deny, "* * * * *", 60, "UTC")?;
    let new = NewSyncWindow { name: None, rule, description: None };
    w.door.app.sync_window_update(c, on, made.id, new).await.map(drop)
}

async fn delete_window(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let on = w.service.id;
    let made = w.door.app.sync_window_create(&w.door.admin, on, window()).await?;
    w.door.app.sync_window_delete(c, on, made.id).await.map(drop)
}
