//! Git repositories that services name besides their own: for charts, and as further sources.

use plural_core::{Rendering, RepositoryId, Result};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use uuid::Uuid;

use crate::error::db;
use crate::service::gone_repository;
use crate::transaction::set;

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "service_repositories")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub service_id: Uuid,
        #[sea_orm(primary_key, auto_increment = false)]
        pub repository_id: Uuid,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

/// Makes the rows of a service those that its rendering names.
pub(crate) async fn replace_on(
    connection: &impl ConnectionTrait,
    service: Uuid,
    rendering: &Rendering,
) -> Result<()> {
    row::Entity::delete_many()
        .filter(row::Column::ServiceId.eq(service))
        .exec(connection)
        .await
        .map_err(db("changing a service's repositories"))?;
    let mut named: Vec<Uuid> = rendering.repositories().map(RepositoryId::uuid).collect();
    named.sort_unstable();
    named.dedup();
    if named.is_empty() {
        return Ok(());
    }
    let rows = named
        .into_iter()
        .map(|repository| row::ActiveModel { service_id: set(service), repository_id: set(repository) });
    row::Entity::insert_many(rows)
        .exec_without_returning(connection)
        .await
        .map(drop)
        .map_err(gone_repository("changing a service's repositories"))
}
