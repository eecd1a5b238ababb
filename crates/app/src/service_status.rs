//! How many services are how: the figures beside a list's filters.

use async_trait::async_trait;
use plural_core::Result;
use plural_core::access::{Visibility, visibility};
use plural_core::status::ServiceStatus;

use crate::app::App;
use crate::ctx::OpCtx;
use crate::service::ServiceFilter;

/// Counts of services.
#[async_trait]
pub trait ServiceStatusStore: Send + Sync + 'static {
    /// How many of the visible services that the filter shows have each status; none is left out that some have.
    async fn service_statuses(
        &self,
        visible: &Visibility,
        filter: &ServiceFilter,
    ) -> Result<Vec<(ServiceStatus, u64)>>;
}

impl App {
    /// How many of the services that the caller may see, and that the filter shows, have each status. All statuses are there, in
    /// the order of [`ServiceStatus::ALL`].
    pub async fn service_statuses(
        &self,
        ctx: &OpCtx,
        filter: &ServiceFilter,
    ) -> Result<Vec<(ServiceStatus, u64)>> {
        let visible = visibility(ctx.actor())?;
        let ask = self.store.service_statuses(&visible, filter);
        let found = self.counted(&self.service_counts.statuses, &visible, filter, ask).await?;
        let count =
            |status| found.iter().filter(|(of, _)| *of == status).map(|(_, count)| count).sum::<u64>();
        Ok(ServiceStatus::ALL.into_iter().map(|status| (status, count(status))).collect())
    }
}
