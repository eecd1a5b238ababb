//! Second factors of users.

use async_trait::async_trait;
use plural_app::access::{Audited, Write};
use plural_app::seal::Sealed;
use plural_app::second_factor::{SecondFactor, SecondFactorStore, UsedFactor};
use plural_app::secret::TokenHash;
use plural_app::user::Proof;
use plural_core::ids::UserId;
use plural_core::user::User;
use plural_core::{Error, Result};
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveModelTrait, ColumnTrait, EntityTrait, QueryFilter};

use crate::database::Database;
use crate::error::{db, unique};
use crate::transaction::set;
use crate::user;

mod row {
    use sea_orm::entity::prelude::*;

    /// What an app was given.
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "second_factors")]
    pub(super) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub user_id: Uuid,
        pub secret: Vec<u8>,
        pub confirmed: bool,
        pub last_step: i64,
        pub created_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(super) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

mod recovery {
    use sea_orm::entity::prelude::*;

    /// A code for who has lost the app.
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "recovery_codes")]
    pub(super) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub hash: Vec<u8>,
        pub user_id: Uuid,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(super) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const AT_ONCE: &[(&str, &str)] = &[("second_factors_pkey", "two began at the same time; try again")];

#[async_trait]
impl SecondFactorStore for Database {
    async fn second_factor(&self, user: UserId) -> Result<Option<SecondFactor>> {
        let row = row::Entity::find_by_id(user.uuid()).one(&self.reader).await;
        Ok(row.map_err(db("reading a second factor"))?.map(|row| SecondFactor {
            secret: Sealed::from_bytes(row.secret),
            confirmed: row.confirmed,
            last: row.last_step,
        }))
    }

    async fn second_factor_begin(
        &self,
        by: Audited<'_, User, Write>,
        secret: &Sealed,
        proof: Option<&Proof>,
    ) -> Result<()> {
        let doing = "keeping a second factor";
        let (id, at) = (by.target().id, by.entry().at);
        let write = self.write().await?;
        user::proven_in_tx(&write, Some(id), proof, at).await?;
        row::Entity::delete_many()
            .filter(row::Column::UserId.eq(id.uuid()))
            .filter(row::Column::Confirmed.eq(false))
            .exec(&write.tx)
            .await
            .map_err(db(doing))?;
        if row::Entity::find_by_id(id.uuid()).one(&write.tx).await.map_err(db(doing))?.is_some() {
            return Err(Error::conflict("you have a second factor; end that first"));
        }
        let row = row::ActiveModel {
            user_id: set(id.uuid()),
            secret: set(secret.as_bytes().to_vec()),
            confirmed: set(false),
            last_step: set(0),
            created_at: set(at),
        };
        row.insert(&write.tx).await.map_err(unique(doing, AT_ONCE))?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn second_factor_confirm(
        &self,
        by: Audited<'_, User, Write>,
        secret: &Sealed,
        step: i64,
        recovery: &[TokenHash],
    ) -> Result<()> {
        let doing = "confirming a second factor";
        let user_id = by.target().id.uuid();
        let write = self.write().await?;
        // In one order with whoever begins anew or removes the user.
        user::proven_in_tx(&write, Some(by.target().id), None, by.entry().at).await?;
        let done = row::Entity::update_many()
            .col_expr(row::Column::Confirmed, Expr::value(true))
            .col_expr(row::Column::LastStep, Expr::value(step))
            .filter(row::Column::UserId.eq(user_id))
            .filter(row::Column::Confirmed.eq(false))
            // The one whose code was shown.
            .filter(row::Column::Secret.eq(secret.as_bytes().to_vec()))
            .exec(&write.tx)
            .await
            .map_err(db(doing))?;
        if done.rows_affected == 0 {
            return Err(Error::conflict("there is nothing to confirm: begin with a new secret"));
        }
        recovery::Entity::delete_many()
            .filter(recovery::Column::UserId.eq(user_id))
            .exec(&write.tx)
            .await
            .map_err(db(doing))?;
        let rows = recovery
            .iter()
            .map(|hash| recovery::ActiveModel { hash: set(hash.as_bytes().to_vec()), user_id: set(user_id) });
        recovery::Entity::insert_many(rows).exec_without_returning(&write.tx).await.map_err(db(doing))?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn second_factor_use(&self, user: UserId, used: UsedFactor) -> Result<()> {
        let doing = "using a second factor";
        let write = self.write().await?;
        // Of two that come with the same code one is first.
        let used = match used {
            UsedFactor::Step(step) => {
                row::Entity::update_many()
                    .col_expr(row::Column::LastStep, Expr::value(step))
                    .filter(row::Column::UserId.eq(user.uuid()))
                    .filter(row::Column::LastStep.lt(step))
                    .exec(&write.tx)
                    .await
                    .map_err(db(doing))?
                    .rows_affected
            }
            UsedFactor::Recovery(hash) => {
                recovery::Entity::delete_many()
                    .filter(recovery::Column::UserId.eq(user.uuid()))
                    .filter(recovery::Column::Hash.eq(hash.as_bytes().to_vec()))
                    .exec(&write.tx)
                    .await
                    .map_err(db(doing))?
                    .rows_affected
            }
        };
        if used == 0 {
            return Err(Error::Unauthenticated);
        }
        write.commit().await
    }

    async fn second_factor_end(&self, by: Audited<'_, User, Write>, proof: Option<&Proof>) -> Result<bool> {
        let doing = "ending a second factor";
        let user_id = by.target().id.uuid();
        let write = self.write().await?;
        user::proven_in_tx(&write, Some(by.target().id), proof, by.entry().at).await?;
        let ended = row::Entity::delete_by_id(user_id).exec(&write.tx).await.map_err(db(doing))?;
        recovery::Entity::delete_many()
            .filter(recovery::Column::UserId.eq(user_id))
            .exec(&write.tx)
            .await
            .map_err(db(doing))?;
        if ended.rows_affected > 0 {
            write.audit(by.entry()).await?;
        }
        write.commit().await?;
        Ok(ended.rows_affected > 0)
    }
}
