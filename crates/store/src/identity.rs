//! Accounts that are tied to identity providers.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Admin, Audited, Installation, Write};
use plural_app::identity::{IdentitiesDue, Identity, IdentityAdmit, IdentityCheck, IdentityStore};
use plural_app::identity_provider::{
    IdentityProviderRow, IdentityProviderSelector, IdentityProviderStore as _,
};
use plural_app::seal::Sealed;
use plural_core::audit::{AuditEntry, AuditTarget};
use plural_core::ids::{GroupId, GroupMemberId, IdentityProviderId, TokenId, UserId, UserIdentityId};
use plural_core::user::User;
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, Expr, ExprTrait as _, Query};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder,
    QuerySelect,
};
use uuid::Uuid;

use crate::database::Database;
use crate::error::{db, unique};
use crate::token::Ended;
use crate::transaction::{self, set};
use crate::{given_membership, group, identity_provider, token, user};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "user_identities")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub provider_id: Uuid,
        pub subject: String,
        pub user_id: Uuid,
        pub refresh: Option<Vec<u8>>,
        /// Counts refresh tokens: one that is sealed anew is the same.
        pub refresh_version: i32,
        pub checked_at: DateTimeUtc,
        pub tried_at: DateTimeUtc,
        pub created_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

/// Accounts whose address nobody has shown to be theirs: an invitation to a project made them, and its maker had the code, too.
pub(crate) mod unproven {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "unproven_addresses")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub user_id: Uuid,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

/// No provider's user gets this account by its address.
pub(crate) async fn unproven_in_tx(write: &transaction::Write<'_>, user: Uuid) -> Result<()> {
    unproven::Entity::insert(unproven::ActiveModel { user_id: set(user) })
        .exec_without_returning(&write.tx)
        .await
        .map(drop)
        .map_err(db("making a user"))
}

const AT_ONCE: &[(&str, &str)] = &[
    ("user_identities_provider_id_subject_key", "you signed in twice at the same time; try again"),
    ("users_email_key", "you signed in twice at the same time; try again"),
];

impl From<row::Model> for Identity {
    fn from(row: row::Model) -> Self {
        let row::Model {
            id,
            provider_id,
            subject,
            user_id,
            refresh,
            refresh_version,
            checked_at,
            tried_at: _,
            created_at: _,
        } = row;
        Self {
            id: UserIdentityId::from_uuid(id),
            provider: IdentityProviderId::from_uuid(provider_id),
            subject,
            user_id: UserId::from_uuid(user_id),
            refresh: refresh.map(Sealed::from_bytes),
            refresh_version,
            checked_at,
        }
    }
}

impl Database {
    /// Remembers that something was used.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] when it was used before.
    pub(crate) async fn spend_in_tx(
        &self,
        write: &transaction::Write<'_>,
        what: &[u8; 32],
        until: DateTime<Utc>,
        now: DateTime<Utc>,
    ) -> Result<()> {
        let doing = "remembering what was used";
        // Two who sign in at once do not wait for each other's rows: what one leaves the next one removes.
        let lock = if self.is_postgres() { " FOR UPDATE SKIP LOCKED" } else { "" };
        let sql = format!(
            "DELETE FROM login_spent WHERE what IN (SELECT what FROM login_spent WHERE until_at < $1{lock})"
        );
        let old = self.statement(&sql, [now.timestamp_micros().into()]);
        write.tx.execute_raw(old).await.map_err(db(doing))?;
        let sql = "INSERT INTO login_spent (what, until_at) VALUES ($1, $2) ON CONFLICT (what) DO NOTHING";
        let values = [what.to_vec().into(), until.timestamp_micros().into()];
        let done = write.tx.execute_raw(self.statement(sql, values)).await.map_err(db(doing))?;
        if done.rows_affected() == 0 { Err(Error::Unauthenticated) } else { Ok(()) }
    }
}

/// Makes the memberships that a provider gives be these; whether that changed any. What administrators gave stays.
async fn place_in_groups_in_tx(
    write: &transaction::Write<'_>,
    provider: Uuid,
    user: Uuid,
    groups: &[GroupId],
) -> Result<bool> {
    let doing = "placing somebody in groups";
    // Of two providers that are asked at once, one sees what the other one gave.
    let account = user::row::Entity::find_by_id(user).lock_exclusive().one(&write.tx).await;
    if account.map_err(db(doing))?.is_none() {
        return Ok(false);
    }
    let wanted: Vec<Uuid> = groups.iter().map(|group| group.uuid()).collect();
    let mut changed = given_membership::take_in_tx(write, provider, Some(user), &wanted).await?;
    let there: Vec<Uuid> = group::member::Entity::find()
        .select_only()
        .column(group::member::Column::GroupId)
        .filter(group::member::Column::UserId.eq(user))
        .into_tuple()
        .all(&write.tx)
        .await
        .map_err(db(doing))?;
    // A group may have been deleted since it was mapped.
    let known: Vec<Uuid> = group::row::Entity::find()
        .select_only()
        .column(group::row::Column::Id)
        .filter(group::row::Column::Id.is_in(wanted))
        .lock_shared()
        .into_tuple()
        .all(&write.tx)
        .await
        .map_err(db(doing))?;
    given_membership::give_in_tx(write, provider, user, &known).await?;
    for group in known.into_iter().filter(|group| !there.contains(group)) {
        let row = group::member::ActiveModel {
            id: set(GroupMemberId::new().uuid()),
            group_id: set(group),
            user_id: set(user),
            provider_id: set(Some(provider)),
        };
        row.insert(&write.tx).await.map_err(db(doing))?;
        changed = true;
    }
    Ok(changed)
}

/// The line of what a login did to an account.
fn about(account: &user::row::Model, login: &AuditEntry, action: &'static str) -> AuditEntry {
    let target = AuditTarget { noun: "user".into(), id: Some(account.id), name: account.email.clone() };
    AuditEntry { action: action.into(), target, ..login.clone() }
}

/// The account of somebody who signs in for the first time.
async fn account_in_tx(
    write: &transaction::Write<'_>,
    admit: &IdentityAdmit,
    at: DateTime<Utc>,
) -> Result<user::row::Model> {
    let email = match &admit.email {
        Ok(email) => email.to_string(),
        Err(why) => return Err(Error::forbidden(why.clone())),
    };
    let found = user::row::Entity::find()
        .filter(user::row::Column::Email.eq(&email))
        .lock_exclusive()
        .one(&write.tx)
        .await
        .map_err(db("reading a user"))?;
    if let Some(found) = found {
        // Whoever signs in is a person.
        let is_person = found.project_id.is_none();
        let refused = || Error::forbidden("this address is a service account's, which nobody signs in as");
        let found = is_person.then_some(found).ok_or_else(refused)?;
        // An address that went to somebody else at the provider does not take the account along.
        let tied = row::Entity::find()
            .filter(row::Column::ProviderId.eq(admit.provider.uuid()))
            .filter(row::Column::UserId.eq(found.id));
        if tied.count(&write.tx).await.map_err(db("reading an identity"))? > 0 {
            return Err(Error::forbidden(
                "the account with your address is tied to another user of this provider; ask an administrator",
            ));
        }
        let unproven = unproven::Entity::find_by_id(found.id).one(&write.tx).await;
        if unproven.map_err(db("reading a user"))?.is_some() {
            return Err(Error::forbidden(
                "the account with your address was made by an invitation to a project, and others may have its password; ask an \
                 administrator to delete it, and sign in again",
            ));
        }
        return Ok(found);
    }
    if !admit.creates {
        return Err(Error::forbidden("you have no account here; ask an administrator for one"));
    }
    let row = user::row::ActiveModel {
        id: set(admit.user_id.uuid()),
        email: set(email),
        name: set(admit.name.to_string()),
        admin: set(false),
        password_hash: set(None),
        suspended_at: set(None),
        project_id: set(None),
        created_at: set(at),
        updated_at: set(at),
    };
    row.insert(&write.tx).await.map_err(unique("making a user", AT_ONCE))
}

#[async_trait]
impl IdentityStore for Database {
    async fn identity_admit(
        &self,
        by: Audited<'_, Installation, Admin>,
        admit: &IdentityAdmit,
    ) -> Result<(User, Identity)> {
        let at = by.entry().at;
        let write = self.write().await?;
        self.spend_in_tx(&write, &admit.spend, admit.spent_until, at).await?;
        // A provider that is removed meanwhile waits, or is gone by now.
        let provider = identity_provider::row::Entity::find_by_id(admit.provider.uuid())
            .lock_shared()
            .one(&write.tx)
            .await
            .map_err(db("reading an identity provider"))?;
        let provider = provider.ok_or(Error::Unauthenticated)?.id;
        let known = row::Entity::find()
            .filter(row::Column::ProviderId.eq(provider))
            .filter(row::Column::Subject.eq(&admit.subject))
            .lock_exclusive()
            .one(&write.tx)
            .await
            .map_err(db("reading an identity"))?;
        let (account, identity) = if let Some(known) = known {
            let account = user::row::Entity::find_by_id(known.user_id).lock_exclusive().one(&write.tx).await;
            (account.map_err(db("reading a user"))?.ok_or(Error::Unauthenticated)?, known)
        } else {
            let account = account_in_tx(&write, admit, at).await?;
            let identity = row::ActiveModel {
                id: set(admit.id.uuid()),
                provider_id: set(provider),
                subject: set(admit.subject.clone()),
                user_id: set(account.id),
                refresh: set(None),
                refresh_version: set(0),
                checked_at: set(at),
                tried_at: set(at),
                created_at: set(at),
            };
            let doing = unique("tying an account to a provider", AT_ONCE);
            let identity = identity.insert(&write.tx).await.map_err(doing)?;
            let is_new = account.id == admit.user_id.uuid();
            write
                .audit(&about(&account, by.entry(), if is_new { "user.create" } else { "identity.tie" }))
                .await?;
            (account, identity)
        };
        if account.suspended_at.is_some() {
            return Err(Error::Unauthenticated);
        }
        row::Entity::update_many()
            .col_expr(row::Column::CheckedAt, Expr::value(at))
            .col_expr(row::Column::TriedAt, Expr::value(at))
            .filter(row::Column::Id.eq(identity.id))
            .exec(&write.tx)
            .await
            .map_err(db("recording a login"))?;
        if let Some(groups) = &admit.groups
            && place_in_groups_in_tx(&write, provider, account.id, groups).await?
        {
            write.rights_changed(at);
            write.audit(&about(&account, by.entry(), "identity.groups")).await?;
        }
        write.audit(by.entry()).await?;
        write.commit().await?;
        Ok((account.try_into()?, Identity { checked_at: at, ..identity.into() }))
    }

    async fn identity_refresh_keep(&self, id: UserIdentityId, refresh: &Sealed) -> Result<()> {
        let write = self.write().await?;
        row::Entity::update_many()
            .col_expr(row::Column::Refresh, Expr::value(refresh.as_bytes().to_vec()))
            .col_expr(row::Column::RefreshVersion, Expr::col(row::Column::RefreshVersion).add(1))
            .filter(row::Column::Id.eq(id.uuid()))
            .exec(&write.tx)
            .await
            .map_err(db("keeping a refresh token"))?;
        write.commit().await
    }

    async fn identities_due(&self, asked: &IdentitiesDue) -> Result<Vec<Identity>> {
        let IdentitiesDue { checked, unasked, tried, now, limit } = *asked;
        let mut in_use = Query::select();
        in_use.column(token::row::Column::UserId).from(token::row::Entity);
        let can_be_asked = Condition::all()
            .add(row::Column::Refresh.is_not_null())
            .add(row::Column::CheckedAt.lt(checked))
            .add(row::Column::UserId.in_subquery(in_use));
        // What a provider gave to those about whom it cannot be asked.
        let cannot = Condition::all()
            .add(row::Column::Refresh.is_null())
            .add(row::Column::CheckedAt.lt(unasked))
            .add(Expr::cust(given_membership::GIVES));
        let due: Vec<row::Model> = row::Entity::find()
            .filter(row::Column::TriedAt.lt(tried))
            .filter(Condition::any().add(can_be_asked).add(cannot))
            .order_by_asc(row::Column::TriedAt)
            .limit(limit)
            .all(&self.reader)
            .await
            .map_err(db("looking for logins to ask about"))?;
        if due.is_empty() {
            return Ok(Vec::new());
        }
        let write = self.write().await?;
        row::Entity::update_many()
            .col_expr(row::Column::TriedAt, Expr::value(now))
            .filter(row::Column::Id.is_in(due.iter().map(|row| row.id)))
            .exec(&write.tx)
            .await
            .map_err(db("recording which logins are asked about"))?;
        write.commit().await?;
        Ok(due.into_iter().map(Identity::from).collect())
    }

    async fn identity_checked(
        &self,
        by: Audited<'_, User, Write>,
        identity: &Identity,
        check: IdentityCheck,
    ) -> Result<bool> {
        let IdentityCheck { groups, refresh } = check;
        let write = self.write().await?;
        let mut update = row::Entity::update_many()
            .col_expr(row::Column::CheckedAt, Expr::value(by.entry().at))
            .filter(row::Column::Id.eq(identity.id.uuid()));
        if let Some(refresh) = refresh {
            // Not over that of a login meanwhile. The one that was used may have been sealed anew.
            let used = row::Column::RefreshVersion.eq(identity.refresh_version);
            let kept = Expr::case(used.clone(), Expr::value(refresh.into_bytes()))
                .finally(Expr::col(row::Column::Refresh));
            let version = Expr::case(used, Expr::col(row::Column::RefreshVersion).add(1))
                .finally(Expr::col(row::Column::RefreshVersion));
            update = update
                .col_expr(row::Column::Refresh, kept.into())
                .col_expr(row::Column::RefreshVersion, version.into());
        }
        let done = update.exec(&write.tx).await.map_err(db("recording what a provider said"))?;
        let mut changed = false;
        if let Some(groups) = groups.filter(|_| done.rows_affected > 0) {
            let (provider, user) = (identity.provider.uuid(), identity.user_id.uuid());
            changed = place_in_groups_in_tx(&write, provider, user, &groups).await?;
        }
        if changed {
            write.rights_changed(by.entry().at);
            write.audit(by.entry()).await?;
        }
        write.commit().await?;
        Ok(changed)
    }

    async fn identity_provider_of_token(&self, id: TokenId) -> Result<Option<IdentityProviderRow>> {
        let doing = "reading the provider of a session";
        let found = token::row::Entity::find_by_id(id.uuid()).one(&self.reader).await.map_err(db(doing))?;
        let Some(identity) = found.and_then(|token| token.identity_id) else { return Ok(None) };
        let found = row::Entity::find_by_id(identity).one(&self.reader).await.map_err(db(doing))?;
        let Some(identity) = found else { return Ok(None) };
        let by = IdentityProviderSelector::Id(IdentityProviderId::from_uuid(identity.provider_id));
        self.identity_provider_row(&by).await
    }

    async fn identity_end(
        &self,
        by: Audited<'_, User, Write>,
        identity: &Identity,
        unasked: DateTime<Utc>,
    ) -> Result<()> {
        let doing = "ending a login";
        let (id, user_id) = (identity.id.uuid(), identity.user_id.uuid());
        let write = self.write().await?;
        // Somebody who signed in again meanwhile has another refresh token.
        let unchanged = match &identity.refresh {
            Some(_) => row::Column::Refresh
                .is_not_null()
                .and(row::Column::RefreshVersion.eq(identity.refresh_version)),
            // Nor signed in again without one.
            None => row::Column::Refresh.is_null().and(row::Column::CheckedAt.eq(identity.checked_at)),
        };
        let ended = row::Entity::update_many()
            .col_expr(row::Column::Refresh, Expr::value(Option::<Vec<u8>>::None))
            .col_expr(row::Column::RefreshVersion, Expr::col(row::Column::RefreshVersion).add(1))
            .filter(row::Column::Id.eq(id))
            .filter(unchanged)
            .exec(&write.tx)
            .await
            .map_err(db(doing))?;
        if ended.rows_affected == 0 {
            return Ok(());
        }
        // In the order of a login: first what ties the account, then the account.
        let account = user::row::Entity::find_by_id(user_id).lock_exclusive().one(&write.tx).await;
        let Some(account) = account.map_err(db(doing))? else { return Ok(()) };
        let others = row::Entity::find()
            .filter(row::Column::UserId.eq(user_id))
            .filter(row::Column::Id.ne(id))
            .filter(
                Condition::any()
                    .add(row::Column::Refresh.is_not_null())
                    .add(row::Column::CheckedAt.gt(unasked)),
            )
            .count(&write.tx)
            .await
            .map_err(db(doing))?;
        let last = account.password_hash.is_none() && others == 0;
        token::end_in_tx(&write, user_id, if last { Ended::All } else { Ended::OfLogin(id) }).await?;
        given_membership::take_in_tx(&write, identity.provider.uuid(), Some(user_id), &[]).await?;
        write.rights_changed(by.entry().at);
        write.audit(by.entry()).await?;
        write.commit().await
    }
}
