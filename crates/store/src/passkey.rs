//! Passkeys of users.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Audited, Authorized, Guarded, Write};
use plural_app::passkey::{PasskeyCreate, PasskeyKey, PasskeyStore, PasskeyUse, StoredPasskey};
use plural_app::user::Proof;
use plural_core::access::Scope;
use plural_core::ids::{PasskeyId, UserId};
use plural_core::passkey::{MAX_PASSKEYS, Passkey};
use plural_core::specs::Name;
use plural_core::user::User;
use plural_core::{Error, Result};
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder,
};

use crate::convert::parse;
use crate::database::Database;
use crate::error::{db, gone_or, unique};
use crate::transaction::{self, set};
use crate::{identity, user};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    /// A key that a user's device holds.
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "passkeys")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub user_id: Uuid,
        pub name: String,
        pub credential_id: Vec<u8>,
        pub public_key: Vec<u8>,
        pub state: Vec<u8>,
        pub created_at: DateTimeUtc,
        pub last_used_at: Option<DateTimeUtc>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const UNIQUE: &[(&str, &str)] = &[(
    "passkeys_credential_id_key",
    "this passkey is known already; use another device, or remove it first",
)];

impl TryFrom<row::Model> for StoredPasskey {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model { id, user_id, name, credential_id, public_key, state, created_at, last_used_at } =
            row;
        let passkey = Passkey {
            id: PasskeyId::from_uuid(id),
            user_id: UserId::from_uuid(user_id),
            name: parse(&name, "a passkey's name")?,
            created_at,
            last_used_at,
        };
        Ok(Self { passkey, key: PasskeyKey { credential_id, public_key, state } })
    }
}

/// A new passkey of a user whose row is locked.
pub(crate) async fn make_in_tx(
    write: &transaction::Write<'_>,
    user: UserId,
    create: &PasskeyCreate,
    at: DateTime<Utc>,
) -> Result<Passkey> {
    let PasskeyCreate { id, name, key, spend: _ } = create;
    let PasskeyKey { credential_id, public_key, state } = key;
    let row = row::ActiveModel {
        id: set(id.uuid()),
        user_id: set(user.uuid()),
        name: set(name.to_string()),
        credential_id: set(credential_id.clone()),
        public_key: set(public_key.clone()),
        state: set(state.clone()),
        created_at: set(at),
        last_used_at: set(None),
    };
    let row = row.insert(&write.tx).await.map_err(unique("keeping a passkey", UNIQUE))?;
    Ok(StoredPasskey::try_from(row)?.passkey)
}

/// How many passkeys a user has.
async fn count_in_tx(write: &transaction::Write<'_>, user: UserId) -> Result<u64> {
    let of_user = row::Entity::find().filter(row::Column::UserId.eq(user.uuid()));
    of_user.count(&write.tx).await.map_err(db("counting passkeys"))
}

#[async_trait]
impl PasskeyStore for Database {
    async fn passkey_by_credential(&self, credential: &[u8]) -> Result<Option<StoredPasskey>> {
        let found = row::Entity::find()
            .filter(row::Column::CredentialId.eq(credential.to_vec()))
            .one(&self.reader)
            .await
            .map_err(db("reading a passkey"))?;
        found.map(StoredPasskey::try_from).transpose()
    }

    async fn passkey_for(&self, id: PasskeyId) -> Result<Guarded<Passkey>> {
        let row = row::Entity::find_by_id(id.uuid()).one(&self.reader).await;
        let row = row.map_err(db("reading a passkey"))?.ok_or(Error::not_found("passkey"))?;
        let passkey = StoredPasskey::try_from(row)?.passkey;
        let scope = Scope::Own(passkey.user_id);
        Ok(Guarded::new(passkey, scope))
    }

    async fn passkeys_of(&self, user: &Authorized<User, Write>) -> Result<Vec<(Passkey, Vec<u8>)>> {
        let rows = row::Entity::find()
            .filter(row::Column::UserId.eq(user.id.uuid()))
            .order_by_asc(row::Column::Id)
            .all(&self.reader)
            .await
            .map_err(db("reading passkeys"))?;
        let with_id = |row: row::Model| -> Result<(Passkey, Vec<u8>)> {
            let StoredPasskey { passkey, key } = row.try_into()?;
            Ok((passkey, key.credential_id))
        };
        rows.into_iter().map(with_id).collect()
    }

    async fn passkey_create(
        &self,
        by: Audited<'_, User, Write>,
        create: &PasskeyCreate,
        proof: Option<&Proof>,
    ) -> Result<Passkey> {
        let (id, at) = (by.target().id, by.entry().at);
        let write = self.write().await?;
        // Two that are added at once must not both be the last one.
        user::proven_in_tx(&write, Some(id), proof, at).await?;
        self.spend_in_tx(&write, &create.spend.what, create.spend.until, at).await?;
        if user::signs_in_elsewhere_in_tx(&write, id).await? {
            return Err(Error::conflict(
                "you sign in with an identity provider, which asks for passkeys itself: add one there",
            ));
        }
        if count_in_tx(&write, id).await? >= MAX_PASSKEYS {
            let text = format!("you have {MAX_PASSKEYS} passkeys, which is the limit: remove one first");
            return Err(Error::conflict(text));
        }
        let made = make_in_tx(&write, id, create, at).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        Ok(made)
    }

    async fn passkey_use(&self, by: Audited<'_, User, Write>, used: &PasskeyUse) -> Result<()> {
        let doing = "recording the use of a passkey";
        let (user, at) = (by.target().id, by.entry().at);
        let write = self.write().await?;
        user::proven_in_tx(&write, Some(user), None, at).await?;
        let account = user::row::Entity::find_by_id(user.uuid()).one(&write.tx).await.map_err(db(doing))?;
        if account.is_none_or(|account| account.suspended_at.is_some()) {
            return Err(Error::Unauthenticated);
        }
        if user::signs_in_elsewhere_in_tx(&write, user).await? {
            // One that was there before the account was tied would outlast what the provider says of its owner.
            return Err(Error::forbidden(
                "you sign in with an identity provider now, which asks for passkeys itself: sign in there",
            ));
        }
        self.spend_in_tx(&write, &used.spend.what, used.spend.until, at).await?;
        // Of two that come with the same counter one is first.
        let done = row::Entity::update_many()
            .col_expr(row::Column::State, Expr::value(used.after.clone()))
            .col_expr(row::Column::LastUsedAt, Expr::value(Some(at)))
            .filter(row::Column::Id.eq(used.id.uuid()))
            .filter(row::Column::UserId.eq(user.uuid()))
            .filter(row::Column::State.eq(used.before.clone()))
            .exec(&write.tx)
            .await
            .map_err(db(doing))?;
        if done.rows_affected == 0 {
            return Err(Error::Unauthenticated);
        }
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn passkey_suspect(&self, by: Audited<'_, User, Write>) -> Result<()> {
        let write = self.write().await?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn passkey_rename(&self, by: Audited<'_, Passkey, Write>, name: &Name) -> Result<Passkey> {
        let write = self.write().await?;
        let row = row::ActiveModel {
            id: ActiveValue::Unchanged(by.target().id.uuid()),
            name: set(name.to_string()),
            ..Default::default()
        };
        let row = row.update(&write.tx).await.map_err(gone_or("passkey", db("naming a passkey")))?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        Ok(StoredPasskey::try_from(row)?.passkey)
    }

    async fn passkey_delete(&self, by: Audited<'_, Passkey, Write>) -> Result<()> {
        let doing = "removing a passkey";
        let Passkey { id, user_id, .. } = by.target();
        let write = self.write().await?;
        user::proven_in_tx(&write, Some(*user_id), None, by.entry().at).await?;
        if by.entry().user_id == Some(*user_id) && count_in_tx(&write, *user_id).await? == 1 {
            let account = user::row::Entity::find_by_id(user_id.uuid()).one(&write.tx).await;
            let has_password = account.map_err(db(doing))?.is_some_and(|user| user.password_hash.is_some());
            let tied = identity::row::Entity::find().filter(identity::row::Column::UserId.eq(user_id.uuid()));
            if !has_password && tied.count(&write.tx).await.map_err(db(doing))? == 0 {
                return Err(Error::conflict(
                    "this passkey is your only way to sign in: add another first, or ask an administrator for a password",
                ));
            }
        }
        let done = row::Entity::delete_by_id(id.uuid()).exec(&write.tx).await.map_err(db(doing))?;
        if done.rows_affected == 0 {
            return Err(Error::not_found("passkey"));
        }
        write.audit(by.entry()).await?;
        write.commit().await
    }
}
