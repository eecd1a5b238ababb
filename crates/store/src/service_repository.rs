//! Git repositories that services name besides their own: for charts, and as further sources.

use plural_core::Result;
use plural_core::service::Rendering;
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

/// The repositories that the rows of these services name.
pub(crate) async fn named_on(connection: &impl ConnectionTrait, services: &[Uuid]) -> Result<Vec<Uuid>> {
    let rows = row::Entity::find()
        .filter(row::Column::ServiceId.is_in(services.iter().copied()))
        .all(connection)
        .await
        .map_err(db("reading services' repositories"))?;
    Ok(rows.into_iter().map(|row| row.repository_id).collect())
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
    add_on(connection, &[(service, rendering.clone())]).await
}

/// The rows of services that have none.
pub(crate) async fn add_on(connection: &impl ConnectionTrait, all: &[(Uuid, Rendering)]) -> Result<()> {
    let mut named: Vec<(Uuid, Uuid)> = all
        .iter()
        .flat_map(|(service, rendering)| rendering.repositories().map(|id| (*service, id.uuid())))
        .collect();
    named.sort_unstable();
    named.dedup();
    for chunk in named.chunks(5000) {
        let rows = chunk.iter().map(|(service, repository)| row::ActiveModel {
            service_id: set(*service),
            repository_id: set(*repository),
        });
        row::Entity::insert_many(rows)
            .exec_without_returning(connection)
            .await
            .map_err(gone_repository("changing a service's repositories"))?;
    }
    Ok(())
}
