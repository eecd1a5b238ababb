//! What services' statuses were: who began to fail, why, and when it was healthy again.
//!
//! Whoever writes a status that is another writes the change in the same transaction.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use plural_core::access::{Visibility, visibility};
use plural_core::health_change::HealthChange;
use plural_core::ids::{ClusterId, ProjectId, RevisionId, ServiceId};
use plural_core::service::Service;
use plural_core::{Page, PageArgs, PageRequest, Result};

use crate::access::{Authorized, Read};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::masking;

/// For so long changes are kept.
const KEEP: TimeDelta = TimeDelta::days(30);
/// So many changes of one service are kept.
const KEPT: u64 = 100;

/// Which changes are listed.
#[derive(Debug, Clone, Default)]
pub struct HealthChangeFilter {
    /// Of services on this cluster.
    pub cluster_id: Option<ClusterId>,
    /// Of services on clusters of this project.
    pub project_id: Option<ProjectId>,
    /// From then on.
    pub since: Option<DateTime<Utc>>,
    /// Only those of failures: one begins, goes on, or is over.
    pub failures: bool,
}

/// Changes of services' statuses. They are written with what made them.
#[async_trait]
pub trait HealthChangeStore: Send + Sync + 'static {
    /// A page of those of visible services, newest first.
    async fn health_change_list(
        &self,
        visible: &Visibility,
        filter: &HealthChangeFilter,
        page: &PageRequest,
    ) -> Result<Page<HealthChange>>;
    /// The same page of those of each of these services.
    async fn services_health_changes(
        &self,
        services: &[Authorized<Service, Read>],
        page: &PageRequest,
    ) -> Result<HashMap<ServiceId, Page<HealthChange>>>;
    /// Which of these revisions are not forgotten.
    async fn revisions_kept(&self, ids: &[RevisionId]) -> Result<HashSet<RevisionId>>;
    /// Removes those from before a time, and of each service all but the last `keep`: how many.
    async fn health_changes_prune(&self, before: DateTime<Utc>, keep: u64) -> Result<u64>;
}

impl App {
    /// A page of the changes of the services that the caller may see, newest first.
    pub async fn health_change_list(
        &self,
        ctx: &OpCtx,
        filter: &HealthChangeFilter,
        page: &PageArgs,
    ) -> Result<Page<HealthChange>> {
        let mut found =
            self.store.health_change_list(&visibility(ctx.actor())?, filter, &page.request()?).await?;
        self.health_changes_shown(ctx, found.edges.iter_mut().map(|edge| &mut edge.node)).await?;
        Ok(found)
    }

    /// The same page of the changes of each of these services, newest first.
    pub async fn services_health_changes(
        &self,
        ctx: &OpCtx,
        ids: &[ServiceId],
        page: &PageArgs,
    ) -> Result<HashMap<ServiceId, Page<HealthChange>>> {
        let services = self.authorized_many::<Service, Read>(ctx, ids).await?;
        let mut found = self.store.services_health_changes(&services, &page.request()?).await?;
        let all: Vec<&mut HealthChange> =
            found.values_mut().flat_map(|page| &mut page.edges).map(|edge| &mut edge.node).collect();
        self.health_changes_shown(ctx, all).await?;
        Ok(found)
    }

    /// Removes changes that were kept long enough.
    pub(crate) async fn health_changes_forget(&self) -> Result<u64> {
        self.store.health_changes_prune(self.now() - KEEP, KEPT).await
    }

    /// Changes as the caller may see them.
    async fn health_changes_shown<'c>(
        &self,
        ctx: &OpCtx,
        changes: impl IntoIterator<Item = &'c mut HealthChange>,
    ) -> Result<()> {
        let changes: Vec<&mut HealthChange> =
            changes.into_iter().filter(|change| change.reason.is_some()).collect();
        let masks = self.masks(ctx, changes.iter().map(|change| change.service_id)).await?;
        if masks.is_empty() {
            return Ok(());
        }
        // Secrets of a revision that is forgotten cannot be found in what was said of it.
        let kept: HashSet<RevisionId> = changes.iter().map(|change| change.revision_id).collect();
        let kept = self.store.revisions_kept(&kept.into_iter().collect::<Vec<_>>()).await?;
        for change in changes {
            let is_kept = kept.contains(&change.revision_id);
            let hide = if is_kept { masking::health_change } else { masking::forgotten_health_change };
            masks.apply(change.service_id, change, hide);
        }
        Ok(())
    }
}
