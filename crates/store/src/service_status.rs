//! How many services are how.

use async_trait::async_trait;
use plural_app::service::ServiceFilter;
use plural_app::service_status::ServiceStatusStore;
use plural_core::Result;
use plural_core::access::Visibility;
use plural_core::status::ServiceStatus;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, QuerySelect};

use crate::database::{Database, corrupt};
use crate::facet::counts_in_parts;
use crate::service::row;
use crate::service_facet::shown;

#[async_trait]
impl ServiceStatusStore for Database {
    async fn service_statuses(
        &self,
        visible: &Visibility,
        filter: &ServiceFilter,
    ) -> Result<Vec<(ServiceStatus, u64)>> {
        let most = u32::try_from(ServiceStatus::ALL.len()).unwrap_or(u32::MAX);
        let status = Expr::col(row::Column::Status.as_column_ref());
        let mut parts = shown(visible, filter);
        if parts.len() > 1 {
            // Of each cluster: in the order of its index, without which PostgreSQL sorts all services by their status.
            parts = parts.into_iter().map(|rows| rows.group_by(row::Column::ClusterId)).collect();
        }
        let found: Vec<(String, u64)> =
            counts_in_parts(&self.reader, parts, &status, most, "counting services").await?;
        let status = |text: &str| ServiceStatus::parse(text).ok_or_else(|| corrupt("a service's status"));
        found.into_iter().map(|(text, count)| Ok((status(&text)?, count))).collect()
    }
}
