//! What webhooks of single repositories are signed with.

use async_trait::async_trait;
use plural_app::access::{Audited, Write};
use plural_app::repository_webhook::RepositoryWebhookStore;
use plural_app::seal::Sealed;
use plural_core::Result;
use plural_core::ids::RepositoryId;
use plural_core::repository::Repository;
use sea_orm::sea_query::OnConflict;
use sea_orm::{ConnectionTrait, EntityTrait};

use crate::database::Database;
use crate::error::db;
use crate::transaction::set;

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "repository_webhooks")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub repository_id: Uuid,
        pub secret: Vec<u8>,
        pub created_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

#[async_trait]
impl RepositoryWebhookStore for Database {
    async fn repository_webhook_set(
        &self,
        by: Audited<'_, Repository, Write>,
        secret: &Sealed,
    ) -> Result<()> {
        let row = row::ActiveModel {
            repository_id: set(by.target().id.uuid()),
            secret: set(secret.as_bytes().to_vec()),
            created_at: set(by.entry().at),
        };
        let replace = OnConflict::column(row::Column::RepositoryId)
            .update_columns([row::Column::Secret, row::Column::CreatedAt])
            .to_owned();
        let write = self.write().await?;
        let insert = row::Entity::insert(row).on_conflict(replace).exec_without_returning(&write.tx);
        insert.await.map_err(db("keeping a webhook's secret"))?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn repository_webhook_read(&self, by: Audited<'_, Repository, Write>) -> Result<Option<Sealed>> {
        let write = self.write().await?;
        let found = of(&write.tx, by.target().id).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        Ok(found)
    }

    async fn repository_webhook(&self, id: RepositoryId) -> Result<Option<Sealed>> {
        of(&self.reader, id).await
    }
}

async fn of(connection: &impl ConnectionTrait, id: RepositoryId) -> Result<Option<Sealed>> {
    let row = row::Entity::find_by_id(id.uuid()).one(connection).await;
    Ok(row.map_err(db("reading a webhook's secret"))?.map(|row| Sealed::from_bytes(row.secret)))
}
