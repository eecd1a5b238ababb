//! What services' objects say of themselves: one row of a service once its agent told; written only where it is news.

use std::collections::HashMap;

use async_trait::async_trait;
use plural_app::access::{Authorized, Read};
use plural_app::service_metadata::ServiceMetadataStore;
use plural_core::ids::ServiceId;
use plural_core::service::Service;
use plural_core::service_metadata::ServiceMetadata;
use plural_core::{Error, Result};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, sea_query::OnConflict};
use uuid::Uuid;

use crate::convert::{json, to_json};
use crate::database::Database;
use crate::error::db;
use crate::transaction::set;

/// Rows of one statement.
const AT_ONCE: usize = 500;

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "service_metadata")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub service_id: Uuid,
        pub images: Json,
        pub fqdns: Json,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

impl TryFrom<row::Model> for ServiceMetadata {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model { service_id: _, images, fqdns } = row;
        Ok(Self {
            images: json(images, "a service's images")?,
            fqdns: json(fqdns, "a service's host names")?,
        })
    }
}

async fn list_on(
    connection: &impl ConnectionTrait,
    services: &[Uuid],
) -> Result<HashMap<Uuid, ServiceMetadata>> {
    let mut found = HashMap::with_capacity(services.len());
    for chunk in services.chunks(AT_ONCE) {
        let rows = row::Entity::find()
            .filter(row::Column::ServiceId.is_in(chunk.iter().copied()))
            .all(connection)
            .await
            .map_err(db("reading what services say of themselves"))?;
        for row in rows {
            found.insert(row.service_id, row.try_into()?);
        }
    }
    Ok(found)
}

/// Keeps what was told of these services; of one service, the last word.
pub(crate) async fn store_on(
    connection: &impl ConnectionTrait,
    told: HashMap<Uuid, &ServiceMetadata>,
) -> Result<()> {
    if told.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = told.keys().copied().collect();
    let known = list_on(connection, &ids).await?;
    let mut news = Vec::new();
    for (id, metadata) in told {
        if known.get(&id) != Some(metadata) {
            news.push(row::ActiveModel {
                service_id: set(id),
                images: set(to_json(&metadata.images, "a service's images")?),
                fqdns: set(to_json(&metadata.fqdns, "a service's host names")?),
            });
        }
    }
    for chunk in news.chunks(AT_ONCE) {
        let update = OnConflict::column(row::Column::ServiceId)
            .update_columns([row::Column::Images, row::Column::Fqdns])
            .to_owned();
        row::Entity::insert_many(chunk.iter().cloned())
            .on_conflict(update)
            .exec_without_returning(connection)
            .await
            .map(drop)
            .map_err(db("writing what services say of themselves"))?;
    }
    Ok(())
}

#[async_trait]
impl ServiceMetadataStore for Database {
    async fn services_metadata(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, ServiceMetadata>> {
        let ids: Vec<Uuid> = services.iter().map(|service| service.id.uuid()).collect();
        let found = list_on(&self.reader, &ids).await?;
        Ok(found.into_iter().map(|(id, metadata)| (ServiceId::from_uuid(id), metadata)).collect())
    }
}
