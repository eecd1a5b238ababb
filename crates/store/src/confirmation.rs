//! Codes in the place of a password.

use async_trait::async_trait;
use plural_app::access::{Audited, Write};
use plural_app::confirmation::{ConfirmationCreate, ConfirmationStore};
use plural_app::secret::TokenHash;
use plural_core::Result;
use plural_core::user::User;
use sea_orm::{ActiveModelTrait, ColumnTrait, Condition, EntityTrait, QueryFilter};

use crate::database::Database;
use crate::error::db;
use crate::transaction::set;
use crate::user;

mod row {
    use sea_orm::entity::prelude::*;

    /// A code that somebody was shown.
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "confirmations")]
    pub(super) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub hash: Vec<u8>,
        pub user_id: Uuid,
        pub session_id: Uuid,
        pub expires_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(super) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

#[async_trait]
impl ConfirmationStore for Database {
    async fn confirmation_create(
        &self,
        by: Audited<'_, User, Write>,
        create: &ConfirmationCreate,
    ) -> Result<()> {
        let doing = "keeping a code";
        let ConfirmationCreate { hash, session, expires_at } = create;
        let (id, at) = (by.target().id, by.entry().at);
        let write = self.write().await?;
        user::proven_in_tx(&write, Some(id), None, at).await?;
        let over =
            Condition::any().add(row::Column::UserId.eq(id.uuid())).add(row::Column::ExpiresAt.lte(at));
        row::Entity::delete_many().filter(over).exec(&write.tx).await.map_err(db(doing))?;
        let row = row::ActiveModel {
            hash: set(hash.as_bytes().to_vec()),
            user_id: set(id.uuid()),
            session_id: set(session.uuid()),
            expires_at: set(*expires_at),
        };
        row.insert(&write.tx).await.map_err(db(doing))?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn confirmation_take(&self, by: Audited<'_, User, Write>, hash: &TokenHash) -> Result<bool> {
        let write = self.write().await?;
        let taken = row::Entity::delete_many()
            .filter(row::Column::Hash.eq(hash.as_bytes().to_vec()))
            .filter(row::Column::UserId.eq(by.target().id.uuid()))
            .filter(row::Column::ExpiresAt.gt(by.entry().at))
            .exec(&write.tx)
            .await
            .map_err(db("taking a code"))?;
        if taken.rows_affected > 0 {
            write.audit(by.entry()).await?;
        }
        write.commit().await?;
        Ok(taken.rows_affected > 0)
    }
}
