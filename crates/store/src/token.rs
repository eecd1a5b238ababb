//! Access tokens.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Audited, Authorized, Guarded, Write};
use plural_app::secret::TokenHash;
use plural_app::token::{TokenCreate, TokenSelector, TokenStore};
use plural_app::user::Proof;
use plural_core::access::{Scope, UserActor};
use plural_core::ids::{TokenId, UserId, UserIdentityId};
use plural_core::token::{AccessToken, PresentedToken, TokenScopes};
use plural_core::user::User;
use plural_core::{Error, Page, PageRequest, Result};
use sea_orm::{ActiveModelTrait, ColumnTrait, EntityTrait, QueryFilter, QuerySelect};
use uuid::Uuid;

use crate::convert::parse;
use crate::database::Database;
use crate::error::db;
use crate::page::page;
use crate::transaction::{self, set};
use crate::{federated_credential, group, identity, registration_token, user};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "access_tokens")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub user_id: Uuid,
        pub hash: Vec<u8>,
        pub hint: String,
        pub session: bool,
        pub expires_at: Option<DateTimeUtc>,
        pub created_at: DateTimeUtc,
        pub made_with: Option<Uuid>,
        /// Absent in rows of releases that knew no scopes: everything.
        pub scopes: Option<String>,
        /// Who made it, of a service account's token.
        pub assumed_by: Option<String>,
        /// The login with an identity provider that it comes from.
        pub identity_id: Option<Uuid>,
        /// The federated credential that it was given for.
        pub federated_credential_id: Option<Uuid>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

impl TryFrom<row::Model> for AccessToken {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            user_id,
            hash: _,
            hint,
            session,
            expires_at,
            created_at,
            made_with,
            scopes,
            assumed_by: _,
            identity_id: _,
            federated_credential_id: _,
        } = row;
        Ok(Self {
            id: TokenId::from_uuid(id),
            user_id: UserId::from_uuid(user_id),
            hint,
            session,
            scopes: scopes_of(scopes.as_deref())?,
            made_with: made_with.map(TokenId::from_uuid),
            expires_at,
            created_at,
        })
    }
}

/// A text that is none means a damaged row, and must not become a token that reaches everything.
fn scopes_of(text: Option<&str>) -> Result<TokenScopes> {
    text.map_or_else(|| Ok(TokenScopes::all()), |text| parse(text, "a token's scopes"))
}

/// The login with an identity provider that a token comes from.
#[derive(Clone, Copy)]
pub(crate) struct Login {
    pub(crate) id: Uuid,
    /// A provider that cannot be asked again vouches until here.
    pub(crate) ends: Option<DateTime<Utc>>,
}

/// What of a user ends.
#[derive(Clone, Copy)]
pub(crate) enum Ended {
    /// Everything that they came with or made: registration tokens too.
    All,
    /// Sessions.
    Sessions,
    /// What comes from the login by this identity.
    OfLogin(Uuid),
}

/// Ends tokens of a user whose row is locked; says how many.
pub(crate) async fn end_in_tx(write: &transaction::Write<'_>, user_id: Uuid, ended: Ended) -> Result<u64> {
    let doing = "ending tokens";
    let tokens = row::Entity::delete_many().filter(row::Column::UserId.eq(user_id));
    let registrations = registration_token::row::Entity::delete_many()
        .filter(registration_token::row::Column::UserId.eq(user_id));
    let (tokens, registrations) = match ended {
        Ended::All => (tokens, Some(registrations)),
        Ended::Sessions => (tokens.filter(row::Column::Session.eq(true)), None),
        Ended::OfLogin(id) => (
            tokens.filter(row::Column::IdentityId.eq(id)),
            Some(registrations.filter(registration_token::row::Column::IdentityId.eq(id))),
        ),
    };
    let mut count = tokens.exec(&write.tx).await.map_err(db(doing))?.rows_affected;
    if let Some(registrations) = registrations {
        count += registrations.exec(&write.tx).await.map_err(db(doing))?.rows_affected;
    }
    Ok(count)
}

/// The login that a new token of a user comes from: the one named, or that of the token that it is asked for with.
pub(crate) async fn login_in_tx(
    write: &transaction::Write<'_>,
    user_id: Uuid,
    named: Option<UserIdentityId>,
    proof: Option<&Proof>,
) -> Result<Option<Login>> {
    let doing = "reading the login of a token";
    if let Some(id) = named {
        return Ok(Some(Login { id: id.uuid(), ends: None }));
    }
    let Some(asked_with) = proof.and_then(|proof| proof.asked_with) else { return Ok(None) };
    let parent = row::Entity::find_by_id(asked_with.uuid()).one(&write.tx).await.map_err(db(doing))?;
    let Some(parent) = parent.filter(|parent| parent.user_id == user_id) else { return Ok(None) };
    let Some(id) = parent.identity_id else { return Ok(None) };
    let found = identity::row::Entity::find_by_id(id).one(&write.tx).await.map_err(db(doing))?;
    let can_be_asked = found.is_some_and(|identity| identity.refresh.is_some());
    Ok(Some(Login { id, ends: parent.expires_at.filter(|_| !can_be_asked) }))
}

/// A new token of a user, if what allowed it still holds; removes the user's expired ones on the way.
pub(crate) async fn make_in_tx(
    write: &transaction::Write<'_>,
    user: UserId,
    token: &TokenCreate,
    at: DateTime<Utc>,
) -> Result<AccessToken> {
    let TokenCreate {
        id,
        hash,
        hint,
        session,
        scopes,
        expires_at,
        made_with,
        assumed_by,
        proof,
        identity,
        federated,
    } = token;
    let user_id = user.uuid();
    // A new password waits for this, or this for the new password: it ends every session that there is by then.
    user::proven_in_tx(write, Some(user), proof.as_ref(), at).await?;
    let target = user::row::Entity::find_by_id(user_id).one(&write.tx).await;
    if target.map_err(db("reading a user"))?.is_none_or(|target| target.suspended_at.is_some()) {
        return Err(Error::conflict("the user is suspended; let them in again first"));
    }
    let login = login_in_tx(write, user_id, *identity, proof.as_ref()).await?;
    row::Entity::delete_many()
        .filter(row::Column::UserId.eq(user_id))
        .filter(row::Column::ExpiresAt.lt(at))
        .exec(&write.tx)
        .await
        .map_err(db("removing expired tokens"))?;
    if let Some(federated) = federated {
        federated_credential::make_room_in_tx(write, *federated).await?;
    } else if !session {
        write.check_tokens(user_id, at).await?;
    }
    let mut ends = *expires_at;
    if let Some(Login { ends: Some(end), .. }) = login {
        ends = Some(ends.map_or(end, |own| own.min(end)));
    }
    if let Some(parent) = made_with {
        let parent = row::Entity::find_by_id(parent.uuid()).lock_shared().one(&write.tx).await;
        // It may have been revoked a moment ago.
        let parent = parent.map_err(db("reading a token"))?.ok_or(Error::Unauthenticated)?;
        ends = [ends, parent.expires_at].into_iter().flatten().min();
    }
    let row = row::ActiveModel {
        id: set(id.uuid()),
        user_id: set(user_id),
        hash: set(hash.as_bytes().to_vec()),
        hint: set(hint.clone()),
        session: set(*session),
        expires_at: set(ends),
        created_at: set(at),
        made_with: set(made_with.map(plural_core::ids::TokenId::uuid)),
        scopes: set(Some(scopes.to_string())),
        assumed_by: set(assumed_by.clone()),
        identity_id: set(login.map(|login| login.id)),
        federated_credential_id: set(federated.map(|(id, _)| id.uuid())),
    };
    let row = row.insert(&write.tx).await.map_err(db("making a token"))?;
    row.try_into()
}

#[async_trait]
impl TokenStore for Database {
    async fn token_actor(&self, hash: &TokenHash, now: DateTime<Utc>) -> Result<Option<UserActor>> {
        let row = row::Entity::find()
            .filter(row::Column::Hash.eq(hash.as_bytes().to_vec()))
            .one(&self.reader)
            .await
            .map_err(db("looking up a token"))?;
        let Some(token) = row.filter(|row| row.expires_at.is_none_or(|at| at > now)) else { return Ok(None) };
        let user = user::row::Entity::find_by_id(token.user_id).one(&self.reader).await;
        let user = user.map_err(db("looking up a token's user"))?.filter(|user| user.suspended_at.is_none());
        let Some(user) = user else { return Ok(None) };
        let groups = group::ids_of_on(&self.reader, user.id).await?;
        Ok(Some(UserActor {
            id: UserId::from_uuid(user.id),
            email: user.email,
            admin: user.admin,
            groups,
            token: Some(PresentedToken {
                id: TokenId::from_uuid(token.id),
                scopes: scopes_of(token.scopes.as_deref())?,
                expires_at: token.expires_at,
                signed_in_at: token.session.then_some(token.created_at),
                assumed_by: token.assumed_by,
            }),
        }))
    }

    async fn token_for(&self, selector: &TokenSelector) -> Result<Guarded<AccessToken>> {
        let query = row::Entity::find();
        let query = match selector {
            TokenSelector::Id(id) => query.filter(row::Column::Id.eq(id.uuid())),
            TokenSelector::Hash(hash) => query.filter(row::Column::Hash.eq(hash.as_bytes().to_vec())),
        };
        let row = query.one(&self.reader).await.map_err(db("reading a token"))?;
        let token = AccessToken::try_from(row.ok_or(Error::not_found("access token"))?)?;
        let scope = Scope::Own(token.user_id);
        Ok(Guarded::new(token, scope))
    }

    async fn token_list(
        &self,
        user: &Authorized<User, Write>,
        request: &PageRequest,
    ) -> Result<Page<AccessToken>> {
        let query = row::Entity::find().filter(row::Column::UserId.eq(user.id.uuid()));
        page(&self.reader, query, row::Column::Id, request, AccessToken::try_from).await
    }

    async fn token_create(&self, by: Audited<'_, User, Write>, token: &TokenCreate) -> Result<AccessToken> {
        let write = self.write().await?;
        let made = make_in_tx(&write, by.target().id, token, by.entry().at).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        Ok(made)
    }

    async fn token_delete(&self, by: Audited<'_, AccessToken, Write>) -> Result<()> {
        let write = self.write().await?;
        row::Entity::delete_by_id(by.target().id.uuid())
            .exec(&write.tx)
            .await
            .map_err(db("revoking a token"))?;
        write.audit(by.entry()).await?;
        write.commit().await
    }
}
