//! When new commits may go on by themselves, for a project, a cluster or a service.

use plural_core::access::Scope;
use plural_core::{
    BindingTarget, Error, Result, ServiceId, SyncWindow, SyncWindowId, WindowRule, window_decision,
};

use crate::access::{Read, Write, authorize_installation};
use crate::app::App;
use crate::ctx::OpCtx;

/// A window to make.
#[derive(Debug, Clone)]
pub struct NewSyncWindow {
    /// When.
    pub rule: WindowRule,
    /// Why there is one, for people.
    pub description: Option<String>,
}

impl App {
    /// The windows of this very thing, none inherited.
    pub async fn sync_window_list(&self, ctx: &OpCtx, on: BindingTarget) -> Result<Vec<SyncWindow>> {
        let target = self.binding_target_for::<Read>(ctx, on).await?;
        self.store.sync_window_list(&target).await
    }

    /// Another window of a project, a cluster or a service; needs write access to it.
    pub async fn sync_window_create(
        &self,
        ctx: &OpCtx,
        on: BindingTarget,
        new: NewSyncWindow,
    ) -> Result<SyncWindow> {
        let NewSyncWindow { rule, description } = new;
        if description.as_deref().is_some_and(|text| text.len() > 500 || text.chars().any(char::is_control)) {
            return Err(Error::invalid(
                "attributes.description",
                "must be one line of at most 500 characters",
            ));
        }
        let target = self.binding_target_for::<Write>(ctx, on).await?;
        let window = SyncWindow { id: SyncWindowId::new(), rule, description };
        self.store.sync_window_create(target.audited(ctx, "syncWindow.create"), &window).await?;
        Ok(window)
    }

    /// Removes a window of a project, a cluster or a service; needs write access to it.
    pub async fn sync_window_delete(
        &self,
        ctx: &OpCtx,
        on: BindingTarget,
        id: SyncWindowId,
    ) -> Result<SyncWindow> {
        let target = self.binding_target_for::<Write>(ctx, on).await?;
        self.store.sync_window_delete(target.audited(ctx, "syncWindow.delete"), id).await
    }

    /// Lets services go on that windows held back and hold back no more; how many those were. A loop does this by itself.
    pub async fn sync_windows_look(&self) -> Result<u64> {
        let now = self.clock.now();
        let held = self.store.sync_window_held().await?;
        let free: Vec<ServiceId> = held
            .into_iter()
            .filter(|(_, windows)| window_decision(windows, now).open)
            .map(|(service, _)| service)
            .collect();
        if free.is_empty() {
            return Ok(0);
        }
        let ctx = self.system_ctx();
        let by = authorize_installation::<Write>(&ctx, Scope::Installation)?;
        let moved = self.store.sync_window_open(by.audited(&ctx, "service.release"), &free).await?;
        Ok(moved as u64)
    }
}
