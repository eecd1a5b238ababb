//! Where the services of a list are: the figures beside its filters. How they are: [`crate::service_status`].
//!
//! What a filter says about the counted thing itself is left out, so that the figures say what choosing another value would show.

use async_trait::async_trait;
use plural_core::Result;
use plural_core::access::{Visibility, visibility};
use plural_core::ids::{ClusterId, ProjectId};

use crate::app::App;
use crate::ctx::OpCtx;
use crate::service::ServiceFilter;

/// Counts of visible services that a filter shows.
#[async_trait]
pub trait ServiceFacetStore: Send + Sync + 'static {
    /// By cluster: the [`crate::cluster_facet::MOST_VALUES`] with most services.
    async fn service_clusters(
        &self,
        visible: &Visibility,
        filter: &ServiceFilter,
    ) -> Result<Vec<(ClusterId, u64)>>;
    /// By project of the cluster: the [`crate::cluster_facet::MOST_VALUES`] with most services.
    async fn service_projects(
        &self,
        visible: &Visibility,
        filter: &ServiceFilter,
    ) -> Result<Vec<(ProjectId, u64)>>;
}

impl App {
    /// How many services are on each cluster: those with most services, the first first.
    pub async fn service_clusters(
        &self,
        ctx: &OpCtx,
        filter: &ServiceFilter,
    ) -> Result<Vec<(ClusterId, u64)>> {
        let filter = ServiceFilter { cluster_id: None, ..filter.clone() };
        let visible = visibility(ctx.actor())?;
        let ask = self.store.service_clusters(&visible, &filter);
        self.counted(&self.service_counts.clusters, &visible, &filter, ask).await
    }

    /// How many services are in each project: those with most services, the first first.
    pub async fn service_projects(
        &self,
        ctx: &OpCtx,
        filter: &ServiceFilter,
    ) -> Result<Vec<(ProjectId, u64)>> {
        let filter = ServiceFilter { project_id: None, ..filter.clone() };
        let visible = visibility(ctx.actor())?;
        let ask = self.store.service_projects(&visible, &filter);
        self.counted(&self.service_counts.projects, &visible, &filter, ask).await
    }
}
