//! Where services are.

use std::collections::HashMap;

use async_trait::async_trait;
use plural_app::cluster_facet::MOST_VALUES;
use plural_app::service::ServiceFilter;
use plural_app::service_facet::ServiceFacetStore;
use plural_core::Result;
use plural_core::access::Visibility;
use plural_core::ids::{ClusterId, ProjectId};
use plural_core::policy::PolicyNoun;
use plural_core::service::Service;
use sea_orm::sea_query::{Condition, Expr};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QuerySelect, Select};
use uuid::Uuid;

use crate::cluster;
use crate::database::Database;
use crate::error::db;
use crate::facet::{counts_in_parts, most_frequent};
use crate::policy::visible_in_parts;
use crate::records::{AT_ONCE, Table};
use crate::service::row;

const DOING: &str = "counting services";
/// Clusters that are counted for their projects: more than there are.
const MOST_CLUSTERS: u32 = 100_000;

/// The services that a list shows, in parts without a service in common.
pub(crate) fn shown(visible: &Visibility, filter: &ServiceFilter) -> Vec<Select<row::Entity>> {
    let parts = visible_in_parts(visible, row::Column::Id, row::Column::ClusterId, PolicyNoun::Cluster);
    let one = |part: Condition| Service::filter(row::Entity::find().filter(part), filter);
    parts.into_iter().map(one).collect()
}

impl Database {
    /// Services on each cluster: the `most` with most of them.
    async fn services_on_clusters(
        &self,
        visible: &Visibility,
        filter: &ServiceFilter,
        most: u32,
    ) -> Result<Vec<(Uuid, u64)>> {
        let value = Expr::col(row::Column::ClusterId.as_column_ref());
        counts_in_parts(&self.reader, shown(visible, filter), &value, most, DOING).await
    }
}

#[async_trait]
impl ServiceFacetStore for Database {
    async fn service_clusters(
        &self,
        visible: &Visibility,
        filter: &ServiceFilter,
    ) -> Result<Vec<(ClusterId, u64)>> {
        let found = self.services_on_clusters(visible, filter, MOST_VALUES).await?;
        Ok(found.into_iter().map(|(id, count)| (ClusterId::from_uuid(id), count)).collect())
    }

    async fn service_projects(
        &self,
        visible: &Visibility,
        filter: &ServiceFilter,
    ) -> Result<Vec<(ProjectId, u64)>> {
        // An index counts the services of a cluster; with its project, each service would be looked at.
        let found = self.services_on_clusters(visible, filter, MOST_CLUSTERS).await?;
        let clusters: Vec<Uuid> = found.iter().map(|(id, _)| *id).collect();
        let mut projects: HashMap<Uuid, Uuid> = HashMap::with_capacity(clusters.len());
        for chunk in clusters.chunks(AT_ONCE) {
            let of: Vec<(Uuid, Uuid)> = cluster::row::Entity::find()
                .select_only()
                .columns([cluster::row::Column::Id, cluster::row::Column::ProjectId])
                .filter(cluster::row::Column::Id.is_in(chunk.iter().copied()))
                .into_tuple()
                .all(&self.reader)
                .await
                .map_err(db(DOING))?;
            projects.extend(of);
        }
        // A cluster that went meanwhile has no project and no services.
        let counts: Vec<(Uuid, u64)> =
            found.into_iter().filter_map(|(id, count)| Some((*projects.get(&id)?, count))).collect();
        let counts = most_frequent(counts, MOST_VALUES);
        Ok(counts.into_iter().map(|(id, count)| (ProjectId::from_uuid(id), count)).collect())
    }
}
