//! Logins of programs that wait to be allowed.

use std::net::IpAddr;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Audited, Write};
use plural_app::program_login::{
    LoginAllowed, Loopback, ProgramLogin, ProgramLoginCreate, ProgramLoginStore, WAITING, Waiting,
};
use plural_app::secret::TokenHash;
use plural_core::ids::{ProgramLoginId, TokenId, UserId};
use plural_core::user::User;
use plural_core::{Error, Result};
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter};

use crate::database::{Database, corrupt};
use crate::error::db;
use crate::transaction::set;

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "program_logins")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub device_hash: Vec<u8>,
        pub code_hash: Vec<u8>,
        pub label: String,
        pub address: Option<String>,
        pub created_at: DateTimeUtc,
        pub expires_at: DateTimeUtc,
        pub allowed_by_id: Option<Uuid>,
        pub allowed_with_id: Option<Uuid>,
        pub token_ends_at: Option<DateTimeUtc>,
        pub is_bound: bool,
        pub network: Option<String>,
        pub redirect: Option<String>,
        pub challenge: Option<Vec<u8>>,
        pub state: Option<String>,
        pub grant_hash: Option<Vec<u8>>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

impl TryFrom<row::Model> for ProgramLogin {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            device_hash: _,
            code_hash: _,
            label,
            address,
            created_at,
            expires_at,
            allowed_by_id,
            allowed_with_id,
            token_ends_at,
            is_bound,
            network: _,
            redirect,
            challenge,
            state,
            grant_hash: _,
        } = row;
        let loopback = redirect.zip(challenge).zip(state).map(|((redirect, challenge), state)| {
            let challenge = challenge.try_into().map_err(|_| corrupt("a login's challenge"))?;
            Ok::<_, Error>(Loopback { redirect, challenge, state })
        });
        let address = address.map(|text| text.parse::<IpAddr>().map_err(|_| corrupt("a login's address")));
        let allowed = allowed_by_id.zip(allowed_with_id).map(|(user, with)| LoginAllowed {
            user: UserId::from_uuid(user),
            with: TokenId::from_uuid(with),
            ends: token_ends_at,
            is_bound,
        });
        Ok(Self {
            id: ProgramLoginId::from_uuid(id),
            label,
            address: address.transpose()?,
            loopback: loopback.transpose()?,
            created_at,
            expires_at,
            allowed,
        })
    }
}

/// How often one is looked for that nobody else forgets at the same moment.
const FORGET_TRIES: usize = 5;
/// Forgets the oldest login that waits of the network of which most wait.
const FORGET_ONE: &str = "DELETE FROM program_logins WHERE id = (\
     SELECT id FROM program_logins WHERE allowed_by_id IS NULL AND COALESCE(network, '') = (\
     SELECT COALESCE(network, '') FROM program_logins WHERE allowed_by_id IS NULL \
     GROUP BY COALESCE(network, '') ORDER BY COUNT(*) DESC, MIN(created_at) LIMIT 1) \
     ORDER BY created_at, id LIMIT 1)";

#[async_trait]
impl ProgramLoginStore for Database {
    async fn program_login_create(&self, create: &ProgramLoginCreate) -> Result<()> {
        let ProgramLoginCreate { login, device, code } = create;
        let ProgramLogin { id, label, address, loopback, created_at, expires_at, allowed: _ } = login;
        let doing = "keeping a login that waits to be allowed";
        let network = address.map(|address| plural_kit::wide_network_of(address).to_string());
        let address = address.map(|address| plural_kit::network_of(address).to_string());
        let write = self.write().await?;
        row::Entity::delete_many()
            .filter(row::Column::ExpiresAt.lt(*created_at))
            .exec(&write.tx)
            .await
            .map_err(db(doing))?;
        let all = row::Entity::find().count(&write.tx).await.map_err(db(doing))?;
        let mut here = [0, 0];
        for (count, (column, place)) in
            here.iter_mut().zip([(row::Column::Network, &network), (row::Column::Address, &address)])
        {
            if let Some(place) = place {
                let there = row::Entity::find().filter(column.eq(place));
                *count = there.count(&write.tx).await.map_err(db(doing))?;
            }
        }
        let [network_has, address_has] = here;
        let Waiting { all: most, of_network, of_address } = WAITING;
        let too_many = || Error::unavailable("too many logins wait to be allowed; retry in ten minutes");
        if network_has >= of_network || address_has >= of_address {
            return Err(too_many());
        }
        if all >= most {
            // Who has many networks keeps nobody else out.
            let mut has_room = false;
            // The one that goes may be somebody else's to forget at this moment: then another one is looked for.
            for _ in 0..FORGET_TRIES {
                let done = write.tx.execute_raw(self.statement(FORGET_ONE, [])).await.map_err(db(doing))?;
                has_room = done.rows_affected() > 0;
                if has_room {
                    break;
                }
            }
            if !has_room {
                return Err(too_many());
            }
        }
        let row = row::ActiveModel {
            id: set(id.uuid()),
            device_hash: set(device.as_bytes().to_vec()),
            code_hash: set(code.as_bytes().to_vec()),
            label: set(label.clone()),
            address: set(address),
            created_at: set(*created_at),
            expires_at: set(*expires_at),
            allowed_by_id: set(None),
            allowed_with_id: set(None),
            token_ends_at: set(None),
            is_bound: set(false),
            network: set(network),
            redirect: set(loopback.as_ref().map(|loopback| loopback.redirect.clone())),
            challenge: set(loopback.as_ref().map(|loopback| loopback.challenge.to_vec())),
            state: set(loopback.as_ref().map(|loopback| loopback.state.clone())),
            grant_hash: set(None),
        };
        row.insert(&write.tx).await.map_err(db(doing))?;
        write.commit().await
    }

    async fn program_login_by_code(
        &self,
        code: &TokenHash,
        now: DateTime<Utc>,
    ) -> Result<Option<ProgramLogin>> {
        let found = row::Entity::find()
            .filter(row::Column::CodeHash.eq(code.as_bytes().to_vec()))
            .filter(row::Column::AllowedById.is_null())
            .filter(row::Column::ExpiresAt.gt(now))
            .one(&self.reader)
            .await
            .map_err(db("looking for a login by its code"))?;
        found.map(TryInto::try_into).transpose()
    }

    async fn program_login_by_device(
        &self,
        device: &TokenHash,
        now: DateTime<Utc>,
    ) -> Result<Option<ProgramLogin>> {
        let found = row::Entity::find()
            .filter(row::Column::DeviceHash.eq(device.as_bytes().to_vec()))
            .filter(row::Column::ExpiresAt.gt(now))
            .one(&self.reader)
            .await
            .map_err(db("looking for a program's login"))?;
        found.map(TryInto::try_into).transpose()
    }

    async fn program_login_by_grant(
        &self,
        grant: &TokenHash,
        now: DateTime<Utc>,
    ) -> Result<Option<ProgramLogin>> {
        let found = row::Entity::find()
            .filter(row::Column::GrantHash.eq(grant.as_bytes().to_vec()))
            .filter(row::Column::ExpiresAt.gt(now))
            .one(&self.reader)
            .await
            .map_err(db("looking for a login by its grant"))?;
        found.map(TryInto::try_into).transpose()
    }

    async fn program_login_allow(
        &self,
        by: Audited<'_, User, Write>,
        id: ProgramLoginId,
        allowed: &LoginAllowed,
        grant: Option<&TokenHash>,
    ) -> Result<bool> {
        let LoginAllowed { user, with, ends, is_bound } = allowed;
        let write = self.write().await?;
        let done = row::Entity::update_many()
            .col_expr(row::Column::AllowedById, Expr::value(user.uuid()))
            .col_expr(row::Column::AllowedWithId, Expr::value(with.uuid()))
            .col_expr(row::Column::TokenEndsAt, Expr::value(*ends))
            .col_expr(row::Column::IsBound, Expr::value(*is_bound))
            .col_expr(row::Column::GrantHash, Expr::value(grant.map(|grant| grant.as_bytes().to_vec())))
            .filter(row::Column::Id.eq(id.uuid()))
            .filter(row::Column::AllowedById.is_null())
            .filter(row::Column::ExpiresAt.gt(by.entry().at))
            .exec(&write.tx)
            .await
            .map_err(db("allowing a login"))?;
        if done.rows_affected == 0 {
            return Ok(false);
        }
        write.audit(by.entry()).await?;
        write.commit().await?;
        Ok(true)
    }

    async fn program_login_take(&self, id: ProgramLoginId) -> Result<bool> {
        let write = self.write().await?;
        let done = row::Entity::delete_by_id(id.uuid()).exec(&write.tx).await;
        let done = done.map_err(db("taking a login"))?;
        write.commit().await?;
        Ok(done.rows_affected > 0)
    }
}
