//! Users.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Admin, Audited, Authorized, Guarded, Installation, Read, Write};
use plural_app::records::Search;
use plural_app::user::{InitialAdmin, PasswordSet, Proof, UserCreate, UserSelector, UserStore, Verified};
use plural_core::access::{Scope, UserActor};
use plural_core::ids::{ProjectId, UserId};
use plural_core::specs::Email;
use plural_core::user::{NewUser, User, UserChange};
use plural_core::{Error, Result};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder,
    QuerySelect, Select,
};

use crate::convert::parse;
use crate::database::Database;
use crate::error::{db, gone_or, unique};
use crate::page::search;
use crate::records::{Guard, Table};
use crate::token::Ended;
use crate::transaction::{self, set};
use crate::{group, identity, machine_account, policy, project, saved_view, token};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "users")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub email: String,
        pub name: String,
        pub admin: bool,
        pub password_hash: Option<String>,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
        /// The project that owns it, of a service account.
        pub project_id: Option<Uuid>,
        pub suspended_at: Option<DateTimeUtc>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) const UNIQUE: &[(&str, &str)] = &[(
    "users_email_key",
    "a user with this address already exists; change that user, or choose another address",
)];

impl TryFrom<row::Model> for User {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            email,
            name,
            admin,
            password_hash: _,
            created_at,
            updated_at,
            project_id,
            suspended_at,
        } = row;
        Ok(Self {
            id: UserId::from_uuid(id),
            email: parse(&email, "a user's address")?,
            name: parse(&name, "a user's name")?,
            admin,
            machine_of: project_id.map(ProjectId::from_uuid),
            suspended_at,
            created_at,
            updated_at,
        })
    }
}

/// There must be an administrator besides `id`.
async fn another_admin_in_tx(write: &transaction::Write<'_>, id: UserId) -> Result<()> {
    let others = row::Entity::find()
        .filter(row::Column::Admin.eq(true))
        .filter(row::Column::SuspendedAt.is_null())
        .filter(row::Column::Id.ne(id.uuid()))
        .lock_shared()
        .all(&write.tx)
        .await
        .map_err(db("looking for administrators"))?;
    if others.is_empty() {
        return Err(Error::conflict("this is the last administrator: make another user one first"));
    }
    Ok(())
}

/// Locks the user that is changed, and whoever changes them: what allowed it must hold until the change is written.
///
/// # Errors
/// [`Error::Unauthenticated`] when the caller has another password by now, or they or their token are gone;
/// [`Error::Forbidden`] when they are no administrator any more; [`Error::NotFound`] when the target is gone.
pub(crate) async fn proven_in_tx(
    write: &transaction::Write<'_>,
    target: Option<UserId>,
    proof: Option<&Proof>,
    at: DateTime<Utc>,
) -> Result<()> {
    let ids = [target, proof.map(|proof| proof.caller)].into_iter().flatten().map(UserId::uuid);
    // In one order: two who change each other must not each wait for the other.
    let rows = row::Entity::find()
        .filter(row::Column::Id.is_in(ids))
        .order_by_asc(row::Column::Id)
        .lock_exclusive()
        .all(&write.tx)
        .await
        .map_err(db("reading users"))?;
    let find = |id: UserId| rows.iter().find(|row| row.id == id.uuid());
    if let Some(Proof { caller, asked_with, verified, as_admin }) = proof {
        let caller = find(*caller).ok_or(Error::Unauthenticated)?;
        let is_other = match verified {
            Some(Verified::Password(hash)) => caller.password_hash.as_ref() != Some(hash),
            // It was taken a moment ago, and was of a session that must still be there.
            Some(Verified::Confirmation) | None => false,
        };
        if caller.suspended_at.is_some() || is_other {
            return Err(Error::Unauthenticated);
        }
        if let Some(token) = asked_with {
            let token = token::row::Entity::find_by_id(token.uuid()).lock_shared().one(&write.tx).await;
            let token = token.map_err(db("reading the caller's token"))?.ok_or(Error::Unauthenticated)?;
            if token.expires_at.is_some_and(|end| end <= at) {
                return Err(Error::Unauthenticated);
            }
        }
        if *as_admin && !caller.admin {
            return Err(Error::forbidden("you are no administrator any more"));
        }
    }
    if target.is_some_and(|id| find(id).is_none()) {
        return Err(Error::not_found("user"));
    }
    Ok(())
}

/// Whether a user has no password, and is tied to an identity provider.
pub(crate) async fn signs_in_elsewhere_in_tx(write: &transaction::Write<'_>, id: UserId) -> Result<bool> {
    let doing = "reading how a user signs in";
    let user = row::Entity::find_by_id(id.uuid()).one(&write.tx).await.map_err(db(doing))?;
    if user.is_none_or(|user| user.password_hash.is_some()) {
        return Ok(false);
    }
    let tied = identity::row::Entity::find().filter(identity::row::Column::UserId.eq(id.uuid()));
    Ok(tied.count(&write.tx).await.map_err(db(doing))? > 0)
}

impl Table for User {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = "reading a user";

    fn find(rows: Select<row::Entity>, by: &UserSelector) -> Select<row::Entity> {
        match by {
            UserSelector::Id(id) => rows.filter(row::Column::Id.eq(id.uuid())),
            UserSelector::Email(email) => rows.filter(row::Column::Email.eq(email.as_str())),
        }
    }

    fn filter(rows: Select<row::Entity>, Search { q }: &Search) -> Select<row::Entity> {
        // Service accounts have a list of their own.
        let rows = rows.filter(row::Column::ProjectId.is_null());
        search(rows, &[row::Column::Email, row::Column::Name], q.as_deref())
    }

    fn guard(&self) -> Guard {
        Guard::Scope(Scope::Account(self.id))
    }
}

#[async_trait]
impl UserStore for Database {
    async fn user_create_first(
        &self,
        by: Audited<'_, Installation, Admin>,
        admin: &InitialAdmin,
    ) -> Result<bool> {
        let InitialAdmin { user_id, project_id, email, password_hash } = admin;
        let at = by.entry().at;
        let write = self.write().await?;
        if row::Entity::find().count(&write.tx).await.map_err(db("counting users"))? > 0 {
            return Ok(false);
        }
        let project = project::row::ActiveModel {
            id: set(project_id.uuid()),
            name: set("default".to_owned()),
            description: set(None),
            is_default: set(true),
            created_at: set(at),
            updated_at: set(at),
            limits: set(None),
        };
        // Another replica may start at the same moment: the unique default project decides.
        match project.insert(&write.tx).await {
            Err(cause) if crate::error::unique_constraint(&cause).is_some() => return Ok(false),
            other => other.map_err(db("making the default project"))?,
        };
        policy::make_in_tx(&write, &[((*project_id).into(), None)]).await?;
        let user = row::ActiveModel {
            id: set(user_id.uuid()),
            email: set(email.to_string()),
            name: set("Administrator".to_owned()),
            admin: set(true),
            password_hash: set(Some(password_hash.clone())),
            created_at: set(at),
            updated_at: set(at),
            project_id: set(None),
            suspended_at: set(None),
        };
        user.insert(&write.tx).await.map_err(unique("making the first administrator", UNIQUE))?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        Ok(true)
    }

    async fn user_create(&self, by: Audited<'_, Installation, Write>, user: UserCreate) -> Result<User> {
        let UserCreate { id, new: NewUser { email, name, admin }, password_hash, proof } = user;
        let at = by.entry().at;
        let write = self.write().await?;
        if proof.is_some() {
            proven_in_tx(&write, None, proof.as_ref(), at).await?;
        }
        let row = row::ActiveModel {
            id: set(id.uuid()),
            email: set(email.to_string()),
            name: set(name.to_string()),
            admin: set(admin),
            password_hash: set(password_hash),
            created_at: set(at),
            updated_at: set(at),
            project_id: set(None),
            suspended_at: set(None),
        };
        let row = row.insert(&write.tx).await.map_err(unique("making a user", UNIQUE))?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn user_update(
        &self,
        by: Audited<'_, User, Write>,
        change: &UserChange,
        password: Option<PasswordSet>,
        proof: Option<&Proof>,
    ) -> Result<User> {
        let UserChange { email, name, admin } = change;
        let id = by.target().id;
        let write = self.write().await?;
        // Who signs in at this moment with an old password waits, or has a session by now that ends below.
        proven_in_tx(&write, Some(id), proof, by.entry().at).await?;
        if *admin == Some(false) {
            another_admin_in_tx(&write, id).await?;
        }
        let mut row = row::ActiveModel {
            id: ActiveValue::Unchanged(id.uuid()),
            updated_at: set(by.entry().at),
            ..Default::default()
        };
        if let Some(email) = email {
            row.email = set(email.to_string());
        }
        if let Some(name) = name {
            row.name = set(name.to_string());
        }
        if let Some(admin) = admin {
            row.admin = set(*admin);
            write.rights_changed(by.entry().at);
        }
        if let Some(PasswordSet { hash, end_tokens }) = password {
            // Else whoever leaves the provider could have kept a way in.
            if proof.is_some_and(|proof| proof.caller == id) && signs_in_elsewhere_in_tx(&write, id).await? {
                return Err(Error::conflict(
                    "you sign in with an identity provider; another administrator, or `plural console reset-password`, gives you a \
                     password as well",
                ));
            }
            row.password_hash = set(Some(hash));
            let ended = if end_tokens { Ended::All } else { Ended::Sessions };
            token::end_in_tx(&write, id.uuid(), ended).await?;
        }
        let row = row.update(&write.tx).await.map_err(gone_or("user", unique("changing a user", UNIQUE)))?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn user_actor(&self, user: &Authorized<User, Read>) -> Result<UserActor> {
        let groups = group::ids_of_on(&self.reader, user.id.uuid()).await?;
        Ok(UserActor { id: user.id, email: user.email.to_string(), admin: user.admin, groups, token: None })
    }

    async fn user_suspend(&self, by: Audited<'_, User, Admin>, since: Option<DateTime<Utc>>) -> Result<User> {
        let id = by.target().id;
        let write = self.write().await?;
        // Who signs in at this moment waits, or has a session by now that ends below.
        proven_in_tx(&write, Some(id), None, by.entry().at).await?;
        if since.is_some() {
            another_admin_in_tx(&write, id).await?;
            token::end_in_tx(&write, id.uuid(), Ended::All).await?;
        }
        let row = row::ActiveModel {
            id: ActiveValue::Unchanged(id.uuid()),
            updated_at: set(by.entry().at),
            suspended_at: set(since),
            ..Default::default()
        };
        let row = row.update(&write.tx).await.map_err(gone_or("user", db("suspending a user")))?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn user_delete(&self, by: Audited<'_, User, Admin>) -> Result<()> {
        let write = self.write().await?;
        // Who saves a view of this user meanwhile waits, or has saved it by now, so that it is removed below.
        proven_in_tx(&write, Some(by.target().id), None, by.entry().at).await?;
        another_admin_in_tx(&write, by.target().id).await?;
        if by.target().machine_of.is_some() {
            machine_account::forget_in_tx(&write, by.target().id.uuid()).await?;
        } else {
            saved_view::forget_of_in_tx(&write, by.target().id).await?;
            row::Entity::delete_by_id(by.target().id.uuid())
                .exec(&write.tx)
                .await
                .map_err(db("deleting a user"))?;
        }
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn user_credentials(&self, email: &Email) -> Result<Option<(Guarded<User>, Option<String>)>> {
        let row = row::Entity::find()
            .filter(row::Column::Email.eq(email.as_str()))
            .one(&self.reader)
            .await
            .map_err(db("reading a user"))?;
        let Some(row) = row else { return Ok(None) };
        let hash = row.password_hash.clone();
        let user = User::try_from(row)?;
        let scope = Scope::Account(user.id);
        Ok(Some((Guarded::new(user, scope), hash)))
    }
}
