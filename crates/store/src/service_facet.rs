//! Where services are.

use async_trait::async_trait;
use plural_app::cluster_facet::MOST_VALUES;
use plural_app::service::ServiceFilter;
use plural_app::service_facet::ServiceFacetStore;
use plural_core::Result;
use plural_core::access::Visibility;
use plural_core::ids::{ClusterId, ProjectId};
use plural_core::service::Service;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, JoinType, QueryFilter, QuerySelect, Select};
use uuid::Uuid;

use crate::cluster;
use crate::database::Database;
use crate::facet::counts;
use crate::records::Table;
use crate::service::row;

const DOING: &str = "counting services";

fn shown(visible: &Visibility, filter: &ServiceFilter) -> Select<row::Entity> {
    Service::filter(row::Entity::find().filter(Service::visible(visible)), filter)
}

#[async_trait]
impl ServiceFacetStore for Database {
    async fn service_clusters(
        &self,
        visible: &Visibility,
        filter: &ServiceFilter,
    ) -> Result<Vec<(ClusterId, u64)>> {
        let value = Expr::col(row::Column::ClusterId.as_column_ref());
        let found: Vec<(Uuid, u64)> =
            counts(&self.reader, shown(visible, filter), value, MOST_VALUES, DOING).await?;
        Ok(found.into_iter().map(|(id, count)| (ClusterId::from_uuid(id), count)).collect())
    }

    async fn service_projects(
        &self,
        visible: &Visibility,
        filter: &ServiceFilter,
    ) -> Result<Vec<(ProjectId, u64)>> {
        let rows = shown(visible, filter).join(
            JoinType::InnerJoin,
            row::Entity::belongs_to(cluster::row::Entity)
                .from(row::Column::ClusterId)
                .to(cluster::row::Column::Id)
                .into(),
        );
        let value = Expr::col(cluster::row::Column::ProjectId.as_column_ref());
        let found: Vec<(Uuid, u64)> = counts(&self.reader, rows, value, MOST_VALUES, DOING).await?;
        Ok(found.into_iter().map(|(id, count)| (ProjectId::from_uuid(id), count)).collect())
    }
}
