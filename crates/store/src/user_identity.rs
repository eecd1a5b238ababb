//! Identities of users, as administrators see them.

use async_trait::async_trait;
use plural_app::access::{Admin, Audited, Authorized, Write};
use plural_app::user_identity::UserIdentityStore;
use plural_core::ids::{IdentityProviderId, UserId, UserIdentityId};
use plural_core::user::User;
use plural_core::user_identity::UserIdentity;
use plural_core::{Error, Result};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
};

use crate::convert::parse;
use crate::database::{Database, corrupt};
use crate::error::db;
use crate::token::Ended;
use crate::{given_membership, identity, identity_provider, token, user};

/// An identity with its provider's row.
fn told(row: identity::row::Model, provider: &identity_provider::row::Model) -> Result<UserIdentity> {
    Ok(UserIdentity {
        id: UserIdentityId::from_uuid(row.id),
        user_id: UserId::from_uuid(row.user_id),
        provider_id: IdentityProviderId::from_uuid(row.provider_id),
        provider: parse(&provider.name, "a provider's name")?,
        issuer: parse(&provider.issuer, "a provider's issuer")?,
        subject: row.subject,
        used_at: row.checked_at,
        created_at: row.created_at,
    })
}

async fn provider_on(
    connection: &impl ConnectionTrait,
    of: &identity::row::Model,
) -> Result<identity_provider::row::Model> {
    let found = identity_provider::row::Entity::find_by_id(of.provider_id).one(connection).await;
    found.map_err(db("reading an identity provider"))?.ok_or_else(|| corrupt("an identity"))
}

#[async_trait]
impl UserIdentityStore for Database {
    async fn user_identities(&self, user: &Authorized<User, Write>) -> Result<Vec<UserIdentity>> {
        let rows = identity::row::Entity::find()
            .filter(identity::row::Column::UserId.eq(user.id.uuid()))
            .order_by_asc(identity::row::Column::Id)
            .all(&self.reader)
            .await
            .map_err(db("reading the identities of a user"))?;
        // One of each provider at most.
        let mut identities = Vec::with_capacity(rows.len());
        for row in rows {
            let provider = provider_on(&self.reader, &row).await?;
            identities.push(told(row, &provider)?);
        }
        Ok(identities)
    }

    async fn user_identity_delete(
        &self,
        by: Audited<'_, User, Admin>,
        id: UserIdentityId,
    ) -> Result<UserIdentity> {
        let doing = "taking an identity from an account";
        let (id, user_id) = (id.uuid(), by.target().id.uuid());
        let write = self.write().await?;
        // In the order of a login: first what ties the account, then the account. Whoever signs in with it at this moment waits, and is
        // somebody else by then.
        let row = identity::row::Entity::find_by_id(id)
            .filter(identity::row::Column::UserId.eq(user_id))
            .lock_exclusive()
            .one(&write.tx)
            .await
            .map_err(db(doing))?
            .ok_or_else(|| Error::not_found("identity"))?;
        let account = user::row::Entity::find_by_id(user_id).lock_exclusive().one(&write.tx).await;
        let account = account.map_err(db(doing))?.ok_or_else(|| Error::not_found("user"))?;
        let others = identity::row::Entity::find()
            .filter(identity::row::Column::UserId.eq(user_id))
            .filter(identity::row::Column::Id.ne(id))
            .count(&write.tx)
            .await
            .map_err(db(doing))?;
        let last = account.password_hash.is_none() && others == 0;
        token::end_in_tx(&write, user_id, if last { Ended::All } else { Ended::OfLogin(id) }).await?;
        given_membership::take_in_tx(&write, row.provider_id, Some(user_id), &[]).await?;
        identity::row::Entity::delete_by_id(id).exec(&write.tx).await.map_err(db(doing))?;
        let provider = provider_on(&write.tx, &row).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        told(row, &provider)
    }
}
