//! What is wrong with services: the console's own findings and those of agents, kept apart so that
//! one does not clear the other.

use std::collections::HashMap;

use plural_core::Result;
use plural_core::service_error::ServiceError;
use plural_core::specs::without_nul;
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder};
use uuid::Uuid;

use crate::error::db;
use crate::transaction::set;

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "service_errors")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub service_id: Uuid,
        pub by_console: bool,
        pub source: String,
        pub message: String,
        pub warning: bool,
        pub location: Option<String>,
        pub terminal: bool,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

impl From<row::Model> for ServiceError {
    fn from(row: row::Model) -> Self {
        let row::Model { id: _, service_id: _, by_console: _, source, message, warning, location, terminal } =
            row;
        Self { source, message, warning, terminal, location }
    }
}

/// Errors of one service by who found them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Errors {
    pub(crate) console: Vec<ServiceError>,
    pub(crate) agent: Vec<ServiceError>,
}

impl Errors {
    pub(crate) fn all(&self) -> Vec<ServiceError> {
        self.console.iter().chain(&self.agent).cloned().collect()
    }
}

pub(crate) async fn list_on(
    connection: &impl ConnectionTrait,
    services: &[Uuid],
) -> Result<HashMap<Uuid, Errors>> {
    let mut found: HashMap<Uuid, Errors> = HashMap::new();
    for chunk in services.chunks(500) {
        let rows = row::Entity::find()
            .filter(row::Column::ServiceId.is_in(chunk.iter().copied()))
            .order_by_asc(row::Column::Id)
            .all(connection)
            .await
            .map_err(db("reading errors"))?;
        for row in rows {
            let errors = found.entry(row.service_id).or_default();
            let list = if row.by_console { &mut errors.console } else { &mut errors.agent };
            list.push(row.into());
        }
    }
    Ok(found)
}

/// Replaces one service's errors of one finder.
pub(crate) async fn replace_on(
    connection: &impl ConnectionTrait,
    service: Uuid,
    by_console: bool,
    errors: &[ServiceError],
) -> Result<()> {
    let doing = "writing errors";
    row::Entity::delete_many()
        .filter(row::Column::ServiceId.eq(service))
        .filter(row::Column::ByConsole.eq(by_console))
        .exec(connection)
        .await
        .map_err(db(doing))?;
    if errors.is_empty() {
        return Ok(());
    }
    let rows = errors.iter().map(|error| {
        let ServiceError { source, message, warning, terminal, location } = error;
        row::ActiveModel {
            id: set(Uuid::now_v7()),
            service_id: set(service),
            by_console: set(by_console),
            source: set(source.clone()),
            // They quote files.
            message: set(without_nul(message)),
            warning: set(*warning),
            terminal: set(*terminal),
            location: set(location.as_deref().map(without_nul)),
        }
    });
    row::Entity::insert_many(rows).exec_without_returning(connection).await.map(drop).map_err(db(doing))
}
