//! How many services are how.

use async_trait::async_trait;
use plural_app::service::ServiceFilter;
use plural_app::service_status::ServiceStatusStore;
use plural_core::Result;
use plural_core::access::Visibility;
use plural_core::service::Service;
use plural_core::status::ServiceStatus;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QuerySelect};

use crate::database::{Database, corrupt};
use crate::error::db;
use crate::records::Table;
use crate::service::row;

#[async_trait]
impl ServiceStatusStore for Database {
    async fn service_statuses(
        &self,
        visible: &Visibility,
        filter: &ServiceFilter,
    ) -> Result<Vec<(ServiceStatus, u64)>> {
        let rows = Service::filter(row::Entity::find().filter(Service::visible(visible)), filter);
        let counts: Vec<(String, i64)> = rows
            .select_only()
            .column(row::Column::Status)
            .column_as(row::Column::Id.count(), "count")
            .group_by(row::Column::Status)
            .into_tuple()
            .all(&self.reader)
            .await
            .map_err(db("counting services"))?;
        counts
            .into_iter()
            .map(|(status, count)| {
                let status = ServiceStatus::parse(&status).ok_or_else(|| corrupt("a service's status"))?;
                Ok((status, count.cast_unsigned()))
            })
            .collect()
    }
}
