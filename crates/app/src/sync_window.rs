//! When new commits may go on by themselves, for a project, a cluster or a service.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use plural_core::access::{Scope, visibility};
use plural_core::ids::{ServiceId, SyncWindowId};
use plural_core::policy::Policy;
use plural_core::service::Service;
use plural_core::specs::Name;
use plural_core::sync_window::{SyncWindow, WindowRule, window_decision};
use plural_core::{Error, Result};

use crate::access::{Audited, Authorized, Installation, Read, Write, authorize_installation};
use crate::app::App;
use crate::ctx::OpCtx;

/// Windows that are looked through for all that somebody may read: every sync reads them all, so there are few.
const MOST_LISTED: u64 = 1_000;

/// When new commits may go on.
#[async_trait]
pub trait SyncWindowStore: Send + Sync + 'static {
    /// The windows of this very thing, none inherited.
    async fn sync_window_list(&self, policy: &Authorized<Policy, Read>) -> Result<Vec<SyncWindow>>;
    /// Windows of whatever they are of, the oldest first, `most` at most.
    async fn sync_window_list_all(&self, most: u64) -> Result<Vec<(Policy, SyncWindow)>>;
    /// Another one; [`Error::Conflict`] where another one has its name.
    async fn sync_window_create(&self, by: Audited<'_, Policy, Write>, window: &SyncWindow) -> Result<()>;
    /// Another rule, name and description for the one of this id, if it is of this thing. `by` is not written down where
    /// nothing changes.
    async fn sync_window_update(&self, by: Audited<'_, Policy, Write>, window: &SyncWindow) -> Result<()>;
    /// Removes one of this thing.
    async fn sync_window_delete(
        &self,
        by: Audited<'_, Policy, Write>,
        id: SyncWindowId,
    ) -> Result<SyncWindow>;
    /// All windows that concern each of these services; one without any is left out.
    async fn services_windows(
        &self,
        services: &[&Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, Vec<SyncWindow>>>;
    /// Services that windows hold back, each with all windows that concern it.
    async fn sync_window_held(&self) -> Result<Vec<(ServiceId, Vec<SyncWindow>)>>;
    /// Lets those of the services go on that are still held back by windows; answers how many.
    async fn sync_window_open(
        &self,
        by: Audited<'_, Installation, Write>,
        services: &[ServiceId],
    ) -> Result<usize>;
}

/// A window to make.
#[derive(Debug, Clone)]
pub struct NewSyncWindow {
    /// What it is called, unique among the windows of what it is of.
    pub name: Option<Name>,
    /// When.
    pub rule: WindowRule,
    /// Why there is one, for people.
    pub description: Option<String>,
}

impl NewSyncWindow {
    fn window(self, id: SyncWindowId) -> Result<SyncWindow> {
        let Self { name, rule, description } = self;
        if description.as_deref().is_some_and(|text| text.len() > 500 || text.chars().any(char::is_control)) {
            return Err(Error::invalid(
                "attributes.description",
                "must be one line of at most 500 characters",
            ));
        }
        Ok(SyncWindow { id, name: name.map(Into::into), rule, description })
    }
}

impl App {
    /// The windows of this very thing, none inherited.
    pub async fn sync_window_list(&self, ctx: &OpCtx, on: impl Into<Policy>) -> Result<Vec<SyncWindow>> {
        let policy = self.policy_for::<Read>(ctx, on.into()).await?;
        self.store.sync_window_list(&policy).await
    }

    /// The windows of all that the caller may read, each with what it is of; of the oldest [`MOST_LISTED`] of the installation.
    pub async fn sync_window_list_all(&self, ctx: &OpCtx) -> Result<Vec<(Policy, SyncWindow)>> {
        // As for every list: agents and machines with registration tokens have none.
        visibility(ctx.actor())?;
        let mut windows = self.store.sync_window_list_all(MOST_LISTED).await?;
        let mut of: Vec<Policy> = windows.iter().map(|(policy, _)| *policy).collect();
        of.sort_unstable_by_key(|policy| policy.id());
        of.dedup();
        let readable = self.policies_for(ctx, &of).await?;
        let readable: HashSet<_> = readable.iter().map(|policy| policy.id()).collect();
        windows.retain(|(policy, _)| readable.contains(&policy.id()));
        Ok(windows)
    }

    /// Another window of a project, a cluster or a service; needs write access to it.
    pub async fn sync_window_create(
        &self,
        ctx: &OpCtx,
        on: impl Into<Policy>,
        new: NewSyncWindow,
    ) -> Result<SyncWindow> {
        let window = new.window(SyncWindowId::new())?;
        let policy = self.policy_for::<Write>(ctx, on.into()).await?;
        self.store.sync_window_create(policy.audited(ctx, "syncWindow.create"), &window).await?;
        Ok(window)
    }

    /// Another rule, name and description for a window of a project, a cluster or a service; needs write access to it.
    pub async fn sync_window_update(
        &self,
        ctx: &OpCtx,
        on: impl Into<Policy>,
        id: SyncWindowId,
        new: NewSyncWindow,
    ) -> Result<SyncWindow> {
        let window = new.window(id)?;
        let policy = self.policy_for::<Write>(ctx, on.into()).await?;
        self.store.sync_window_update(policy.audited(ctx, "syncWindow.update"), &window).await?;
        Ok(window)
    }

    /// Removes a window of a project, a cluster or a service; needs write access to it.
    pub async fn sync_window_delete(
        &self,
        ctx: &OpCtx,
        on: impl Into<Policy>,
        id: SyncWindowId,
    ) -> Result<SyncWindow> {
        let policy = self.policy_for::<Write>(ctx, on.into()).await?;
        self.store.sync_window_delete(policy.audited(ctx, "syncWindow.delete"), id).await
    }

    /// Lets services go on that windows held back and hold back no more; how many those were. A loop does this by itself.
    pub async fn sync_windows_open(&self) -> Result<u64> {
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
