//! Invitations.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Admin, Audited, Installation, Write};
use plural_app::invite::{InviteAccept, InviteAnswer, InviteCreate, InviteStore};
use plural_app::records::Search;
use plural_app::secret::TokenHash;
use plural_app::user::Proof;
use plural_core::access::Scope;
use plural_core::audit::{AuditEntry, AuditTarget};
use plural_core::ids::{GroupId, GroupMemberId, InviteId, UserId};
use plural_core::invite::{Invite, MAX_INVITES};
use plural_core::user::User;
use plural_core::{Error, Result};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter, QuerySelect, Select,
};
use uuid::Uuid;

use crate::convert::parse;
use crate::database::{Database, corrupt};
use crate::error::{db, gone_or, unique};
use crate::page::search;
use crate::records::{Guard, Table};
use crate::token::Ended;
use crate::transaction::{self, set};
use crate::{group, passkey, token, user};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    /// A code that somebody was given.
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "invites")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub hash: Vec<u8>,
        pub email: String,
        /// Separated by spaces.
        pub group_ids: String,
        /// The account whose password it replaces.
        pub user_id: Option<Uuid>,
        pub inviter_id: Uuid,
        pub created_at: DateTimeUtc,
        pub expires_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const AT_ONCE: &[(&str, &str)] =
    &[("invites_email_key", "somebody invites this address at the same moment; try again")];
const TAKEN: &[(&str, &str)] = &[(
    "users_email_key",
    "there is an account with this address by now: sign in, or ask an administrator for another password",
)];

impl TryFrom<row::Model> for Invite {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model { id, hash: _, email, group_ids, user_id, inviter_id, created_at, expires_at } = row;
        let groups = group_ids.split_whitespace().map(str::parse::<GroupId>);
        Ok(Self {
            id: InviteId::from_uuid(id),
            email: parse(&email, "the address of an invitation")?,
            groups: groups
                .collect::<std::result::Result<_, _>>()
                .map_err(|_| corrupt("the groups of an invitation"))?,
            user_id: user_id.map(UserId::from_uuid),
            inviter_id: UserId::from_uuid(inviter_id),
            created_at,
            expires_at,
        })
    }
}

impl Table for Invite {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = "reading an invitation";

    fn find(rows: Select<row::Entity>, by: &InviteId) -> Select<row::Entity> {
        rows.filter(row::Column::Id.eq(by.uuid()))
    }

    fn filter(rows: Select<row::Entity>, Search { q }: &Search) -> Select<row::Entity> {
        search(rows, &[row::Column::Email], q.as_deref())
    }

    fn guard(&self) -> Guard {
        Guard::Scope(Scope::AdminOnly)
    }
}

async fn by_hash(connection: &impl sea_orm::ConnectionTrait, hash: &TokenHash) -> Result<Option<row::Model>> {
    let query = row::Entity::find().filter(row::Column::Hash.eq(hash.as_bytes().to_vec()));
    query.one(connection).await.map_err(db("reading an invitation"))
}

/// The account of somebody who was invited, in the groups that there still are.
async fn account_in_tx(
    write: &transaction::Write<'_>,
    invite: &Invite,
    accept: &InviteAccept,
    at: DateTime<Utc>,
) -> Result<user::row::Model> {
    let password_hash = match &accept.answer {
        InviteAnswer::Password(hash) => Some(hash.clone()),
        InviteAnswer::Passkey(_) => None,
    };
    let row = user::row::ActiveModel {
        id: set(accept.user_id.uuid()),
        email: set(invite.email.to_string()),
        name: set(accept.name.to_string()),
        admin: set(false),
        password_hash: set(password_hash),
        suspended_at: set(None),
        project_id: set(None),
        created_at: set(at),
        updated_at: set(at),
    };
    let account = row.insert(&write.tx).await.map_err(unique("making a user", TAKEN))?;
    let known: Vec<Uuid> = group::row::Entity::find()
        .select_only()
        .column(group::row::Column::Id)
        .filter(group::row::Column::Id.is_in(invite.groups.iter().map(|group| group.uuid())))
        .lock_shared()
        .into_tuple()
        .all(&write.tx)
        .await
        .map_err(db("reading groups"))?;
    for group in known {
        let member = group::member::ActiveModel {
            id: set(GroupMemberId::new().uuid()),
            group_id: set(group),
            user_id: set(account.id),
            provider_id: set(None),
        };
        member.insert(&write.tx).await.map_err(db("making a membership"))?;
    }
    Ok(account)
}

/// Another password for an account whose row is locked: its sessions and tokens end.
async fn reset_in_tx(
    write: &transaction::Write<'_>,
    id: UserId,
    answer: &InviteAnswer,
    at: DateTime<Utc>,
) -> Result<user::row::Model> {
    let InviteAnswer::Password(hash) = answer else {
        return Err(Error::conflict("choose a password; a passkey is added once you are signed in"));
    };
    let account = user::row::Entity::find_by_id(id.uuid()).one(&write.tx).await;
    let account = account.map_err(db("reading a user"))?.ok_or(Error::not_found("user"))?;
    if account.suspended_at.is_some() {
        return Err(Error::forbidden("this account is suspended; ask an administrator"));
    }
    // Nobody knows who else knew the password, nor what they made with it.
    token::end_in_tx(write, id.uuid(), Ended::All).await?;
    let row = user::row::ActiveModel {
        id: ActiveValue::Unchanged(id.uuid()),
        password_hash: set(Some(hash.clone())),
        updated_at: set(at),
        ..Default::default()
    };
    row.update(&write.tx).await.map_err(gone_or("user", db("changing a user")))
}

#[async_trait]
impl InviteStore for Database {
    async fn invite_create(&self, by: Audited<'_, Installation, Write>, create: &InviteCreate) -> Result<()> {
        let doing = "keeping an invitation";
        let InviteCreate { invite, hash, proof } = create;
        let Invite { id, email, groups, user_id, inviter_id, created_at, expires_at } = invite;
        let write = self.write().await?;
        user::proven_in_tx(&write, *user_id, proof.as_ref(), by.entry().at).await?;
        if user_id.is_none() {
            let account = user::row::Entity::find().filter(user::row::Column::Email.eq(email.as_str()));
            if account.count(&write.tx).await.map_err(db(doing))? > 0 {
                return Err(Error::conflict("there is an account with this address"));
            }
        }
        row::Entity::delete_many()
            .filter(
                sea_orm::Condition::any()
                    .add(row::Column::ExpiresAt.lte(*created_at))
                    .add(row::Column::Email.eq(email.as_str())),
            )
            .exec(&write.tx)
            .await
            .map_err(db(doing))?;
        if row::Entity::find().count(&write.tx).await.map_err(db(doing))? >= MAX_INVITES {
            let text = format!("{MAX_INVITES} invitations wait, which is the limit: revoke some first");
            return Err(Error::conflict(text));
        }
        let ids: Vec<String> = groups.iter().map(ToString::to_string).collect();
        let row = row::ActiveModel {
            id: set(id.uuid()),
            hash: set(hash.as_bytes().to_vec()),
            email: set(email.to_string()),
            group_ids: set(ids.join(" ")),
            user_id: set(user_id.map(UserId::uuid)),
            inviter_id: set(inviter_id.uuid()),
            created_at: set(*created_at),
            expires_at: set(*expires_at),
        };
        row.insert(&write.tx).await.map_err(unique(doing, AT_ONCE))?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn invite_by_hash(&self, hash: &TokenHash) -> Result<Option<Invite>> {
        by_hash(&self.reader, hash).await?.map(Invite::try_from).transpose()
    }

    async fn invite_accept(
        &self,
        by: Audited<'_, Installation, Admin>,
        accept: &InviteAccept,
    ) -> Result<User> {
        let at = by.entry().at;
        let gone = || Error::not_found("invitation with this code");
        let write = self.write().await?;
        let invite = Invite::try_from(by_hash(&write.tx, &accept.hash).await?.ok_or_else(gone)?)?;
        // People before what goes with them. Who invites must still be able to.
        let inviter = Proof { caller: invite.inviter_id, asked_with: None, verified: None, as_admin: true };
        user::proven_in_tx(&write, invite.user_id, Some(&inviter), at).await.map_err(
            |error| match error {
                Error::Unauthenticated | Error::Forbidden { .. } => Error::forbidden(
                    "who gave you this code is no administrator any more; ask another one for a new code",
                ),
                other => other,
            },
        )?;
        // Of two that come with the same code one takes it.
        let taken = row::Entity::delete_many()
            .filter(row::Column::Id.eq(invite.id.uuid()))
            .filter(row::Column::Hash.eq(accept.hash.as_bytes().to_vec()))
            .filter(row::Column::ExpiresAt.gt(at))
            .exec(&write.tx)
            .await
            .map_err(db("accepting an invitation"))?;
        if taken.rows_affected == 0 {
            return Err(gone());
        }
        let (account, action) = match invite.user_id {
            Some(user) => (reset_in_tx(&write, user, &accept.answer, at).await?, "user.update"),
            None => (account_in_tx(&write, &invite, accept, at).await?, "user.create"),
        };
        if let InviteAnswer::Passkey(create) = &accept.answer {
            self.spend_in_tx(&write, &create.spend.what, create.spend.until, at).await?;
            passkey::make_in_tx(&write, accept.user_id, create, at).await?;
        }
        write.audit(by.entry()).await?;
        let target = AuditTarget { noun: "user".into(), id: Some(account.id), name: account.email.clone() };
        write.audit(&AuditEntry { action: action.into(), target, ..by.entry().clone() }).await?;
        write.commit().await?;
        account.try_into()
    }

    async fn invite_delete(&self, by: Audited<'_, Invite, Admin>) -> Result<()> {
        let write = self.write().await?;
        let done = row::Entity::delete_by_id(by.target().id.uuid())
            .exec(&write.tx)
            .await
            .map_err(db("revoking an invitation"))?;
        if done.rows_affected == 0 {
            return Err(Error::not_found("invitation"));
        }
        write.audit(by.entry()).await?;
        write.commit().await
    }
}
