//! How many clusters are how.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::cluster::ClusterFilter;
use plural_app::cluster_facet::{ClusterFacetStore, MOST_VALUES, TagCount};
use plural_core::Result;
use plural_core::access::Visibility;
use plural_core::cluster::{Cluster, ClusterDistro, ClusterState};
use plural_core::ids::ProjectId;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait, Select};
use uuid::Uuid;

use crate::cluster::{row, state_rank, tag};
use crate::convert::word;
use crate::database::{Database, corrupt};
use crate::error::db;
use crate::facet::{counts, ranked};
use crate::records::Table;

const DOING: &str = "counting clusters";
/// More versions than that are not told apart.
const MOST_VERSIONS: u32 = 10_000;

fn shown(visible: &Visibility, filter: &ClusterFilter) -> Select<row::Entity> {
    Cluster::filter(row::Entity::find().filter(Cluster::visible(visible)), filter)
}

#[async_trait]
impl ClusterFacetStore for Database {
    async fn cluster_states(
        &self,
        visible: &Visibility,
        filter: &ClusterFilter,
        at: DateTime<Utc>,
    ) -> Result<Vec<(ClusterState, u64)>> {
        let rows = shown(visible, filter);
        let found: Vec<(i64, u64)> = counts(&self.reader, rows, state_rank(at), MOST_VALUES, DOING).await?;
        let state = |rank| ranked(&ClusterState::ALL, rank).ok_or_else(|| corrupt("a cluster's state"));
        found.into_iter().map(|(rank, count)| Ok((state(rank)?, count))).collect()
    }

    async fn cluster_versions(
        &self,
        visible: &Visibility,
        filter: &ClusterFilter,
    ) -> Result<Vec<(Option<String>, u64)>> {
        let value = Expr::col(row::Column::CurrentVersion);
        counts(&self.reader, shown(visible, filter), value, MOST_VERSIONS, DOING).await
    }

    async fn cluster_distros(
        &self,
        visible: &Visibility,
        filter: &ClusterFilter,
    ) -> Result<Vec<(Option<ClusterDistro>, u64)>> {
        let value = Expr::col(row::Column::Distro);
        let found: Vec<(Option<String>, u64)> =
            counts(&self.reader, shown(visible, filter), value, MOST_VALUES, DOING).await?;
        let distro = |text: Option<String>| {
            text.map(|text| word(ClusterDistro::parse(&text), "a cluster's distro")).transpose()
        };
        found.into_iter().map(|(text, count)| Ok((distro(text)?, count))).collect()
    }

    async fn cluster_projects(
        &self,
        visible: &Visibility,
        filter: &ClusterFilter,
    ) -> Result<Vec<(ProjectId, u64)>> {
        let value = Expr::col(row::Column::ProjectId);
        let found: Vec<(Uuid, u64)> =
            counts(&self.reader, shown(visible, filter), value, MOST_VALUES, DOING).await?;
        Ok(found.into_iter().map(|(id, count)| (ProjectId::from_uuid(id), count)).collect())
    }

    async fn cluster_tags(&self, visible: &Visibility, filter: &ClusterFilter) -> Result<Vec<TagCount>> {
        let clusters = shown(visible, filter).select_only().column(row::Column::Id).into_query();
        let found: Vec<(String, String, i64)> = tag::Entity::find()
            .filter(tag::Column::ClusterId.in_subquery(clusters))
            .select_only()
            .columns([tag::Column::Name, tag::Column::Value])
            .expr_as(Expr::cust("COUNT(*)"), "counted")
            .group_by(tag::Column::Name)
            .group_by(tag::Column::Value)
            .order_by_desc(Expr::col("counted"))
            .order_by_asc(tag::Column::Name)
            .order_by_asc(tag::Column::Value)
            .limit(u64::from(MOST_VALUES))
            .into_tuple()
            .all(&self.reader)
            .await
            .map_err(db(DOING))?;
        Ok(found.into_iter().map(|(name, value, count)| ((name, value), count.cast_unsigned())).collect())
    }
}
