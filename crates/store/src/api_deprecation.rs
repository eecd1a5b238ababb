//! Objects of services that are written in API versions that go away.

use std::collections::HashMap;

use async_trait::async_trait;
use plural_app::access::{Authorized, Read};
use plural_app::api_deprecation::ApiDeprecationStore;
use plural_core::Result;
use plural_core::api_deprecation::{ApiDeprecation, ListedApi};
use plural_core::cluster::Cluster;
use plural_core::component::Component;
use plural_core::ids::ServiceId;
use plural_core::service::Service;
use sea_orm::{ColumnTrait, Condition, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use uuid::Uuid;

use crate::database::Database;
use crate::error::db;
use crate::{cluster, component, service};

/// Ids of one statement.
const AT_ONCE: usize = 500;

/// Written in any of the listed APIs.
fn listed() -> Condition {
    use component::row::Column;
    ApiDeprecation::listed().fold(Condition::any(), |any, ListedApi { group, version, kinds }| {
        any.add(
            Condition::all()
                .add(Column::ApiGroup.eq(group))
                .add(Column::ApiVersion.eq(version))
                .add(Column::Kind.is_in(kinds.iter().map(String::as_str))),
        )
    })
}

#[async_trait]
impl ApiDeprecationStore for Database {
    async fn services_listed_components(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<Vec<Component>> {
        let mut found = Vec::new();
        for chunk in services.chunks(AT_ONCE) {
            let rows = component::row::Entity::find()
                .filter(
                    component::row::Column::ServiceId.is_in(chunk.iter().map(|service| service.id.uuid())),
                )
                .filter(listed())
                .order_by_asc(component::row::Column::Kind)
                .order_by_asc(component::row::Column::Namespace)
                .order_by_asc(component::row::Column::Name)
                .all(&self.reader)
                .await
                .map_err(db("reading components by their API versions"))?;
            for row in rows {
                found.push(row.try_into()?);
            }
        }
        Ok(found)
    }

    async fn cluster_listed_components(
        &self,
        cluster: &Authorized<Cluster, Read>,
        most: u64,
    ) -> Result<Vec<Component>> {
        let services: Vec<Uuid> = service::row::Entity::find()
            .select_only()
            .column(service::row::Column::Id)
            .filter(service::row::Column::ClusterId.eq(cluster.id.uuid()))
            .order_by_asc(service::row::Column::Name)
            .into_tuple()
            .all(&self.reader)
            .await
            .map_err(db("reading a cluster's services"))?;
        let mut found: Vec<Component> = Vec::new();
        for chunk in services.chunks(AT_ONCE) {
            let left = most.saturating_sub(found.len() as u64);
            if left == 0 {
                break;
            }
            let rows = component::row::Entity::find()
                .filter(component::row::Column::ServiceId.is_in(chunk.iter().copied()))
                .filter(listed())
                .order_by_asc(component::row::Column::ServiceId)
                .order_by_asc(component::row::Column::Kind)
                .order_by_asc(component::row::Column::Namespace)
                .order_by_asc(component::row::Column::Name)
                .limit(left)
                .all(&self.reader)
                .await
                .map_err(db("reading components by their API versions"))?;
            for row in rows {
                found.push(row.try_into()?);
            }
        }
        Ok(found)
    }

    async fn services_kubernetes(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, String>> {
        let mut clusters: Vec<Uuid> = services.iter().map(|service| service.cluster_id.uuid()).collect();
        clusters.sort_unstable();
        clusters.dedup();
        let mut versions: HashMap<Uuid, String> = HashMap::with_capacity(clusters.len());
        for chunk in clusters.chunks(AT_ONCE) {
            let rows: Vec<(Uuid, Option<String>)> = cluster::row::Entity::find()
                .select_only()
                .columns([cluster::row::Column::Id, cluster::row::Column::CurrentVersion])
                .filter(cluster::row::Column::Id.is_in(chunk.iter().copied()))
                .into_tuple()
                .all(&self.reader)
                .await
                .map_err(db("reading versions of clusters"))?;
            versions.extend(rows.into_iter().filter_map(|(id, version)| Some((id, version?))));
        }
        let of = |service: &Authorized<Service, Read>| {
            Some((service.id, versions.get(&service.cluster_id.uuid())?.clone()))
        };
        Ok(services.iter().filter_map(of).collect())
    }
}
