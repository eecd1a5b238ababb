//! Invitations.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Admin, Audited, Installation, Write};
use plural_app::invite::{InviteAccept, InviteAnswer, InviteCreate, InviteFilter, InviteStore};
use plural_app::secret::TokenHash;
use plural_app::user::Proof;
use plural_core::access::{Action, Actor, Scope, UserActor, Visibility, rights};
use plural_core::audit::{AuditEntry, AuditTarget};
use plural_core::ids::{GroupId, GroupMemberId, InviteId, ProjectId, RoleId, UserId};
use plural_core::invite::{Invite, InviteTo, MAX_INVITES, MAX_PROJECT_INVITES};
use plural_core::policy::{BoundRole, NamedRole, Policy, PolicyNoun, Rights, Role};
use plural_core::project::Project;
use plural_core::user::User;
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, LockType};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter, QuerySelect, Select,
};
use uuid::Uuid;

use crate::convert::{parse, word};
use crate::database::{Database, corrupt};
use crate::error::{db, gone_or, is_foreign_key, unique};
use crate::page::search;
use crate::records::{Guard, Table};
use crate::token::Ended;
use crate::transaction::{self, set};
use crate::{group, identity, passkey, policy, project, role, token, user};

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
        /// Where its role is; with either a built-in one or one that administrators made.
        pub project_id: Option<Uuid>,
        pub role: Option<String>,
        pub role_id: Option<Uuid>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const AT_ONCE: &[(&str, &str)] = &[("invites_email_key", ANOTHER), ("invites_email_project_id_key", ANOTHER)];
const ANOTHER: &str = "somebody invites this address at the same moment; try again";
const TAKEN: &[(&str, &str)] = &[(
    "users_email_key",
    "there is an account with this address by now: sign in, or ask an administrator for another password",
)];

impl TryFrom<row::Model> for Invite {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            hash: _,
            email,
            group_ids,
            user_id,
            inviter_id,
            created_at,
            expires_at,
            project_id,
            role,
            role_id,
        } = row;
        let role = match (role, role_id) {
            (None, None) => None,
            (Some(text), None) => {
                Some(NamedRole::BuiltIn(word(Role::parse(&text), "the role of an invitation")?))
            }
            (None, Some(id)) => Some(NamedRole::Custom(RoleId::from_uuid(id))),
            (Some(_), Some(_)) => return Err(corrupt("the role of an invitation")),
        };
        let to = match (project_id, role) {
            (None, None) => None,
            (Some(id), Some(role)) => Some(InviteTo { project_id: ProjectId::from_uuid(id), role }),
            (Some(_), None) | (None, Some(_)) => return Err(corrupt("the project of an invitation")),
        };
        let groups = group_ids.split_whitespace().map(str::parse::<GroupId>);
        Ok(Self {
            id: InviteId::from_uuid(id),
            email: parse(&email, "the address of an invitation")?,
            groups: groups
                .collect::<std::result::Result<_, _>>()
                .map_err(|_| corrupt("the groups of an invitation"))?,
            user_id: user_id.map(UserId::from_uuid),
            to,
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

    fn filter(rows: Select<row::Entity>, filter: &InviteFilter) -> Select<row::Entity> {
        let InviteFilter { q, project_id } = filter;
        let rows = match project_id {
            Some(id) => rows.filter(row::Column::ProjectId.eq(id.uuid())),
            None => rows,
        };
        search(rows, &[row::Column::Email], q.as_deref())
    }

    fn visible(to: &Visibility) -> Condition {
        let may = |action| policy::visible_for(to, action, &[row::Column::ProjectId], PolicyNoun::Project);
        Condition::all().add(may(Action::Admin)).add(may(Action::Read))
    }

    fn guard(&self) -> Guard {
        match self.to {
            Some(InviteTo { project_id, role: _ }) => Guard::Policies(vec![project_id.into()]),
            None => Guard::Scope(Scope::AdminOnly),
        }
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
        InviteAnswer::Passkey(_) | InviteAnswer::Account(_) => None,
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

fn gone() -> Error {
    Error::not_found("invitation with this code")
}

fn may_not_any_more() -> Error {
    Error::forbidden("who gave you this code is no administrator any more; ask another one for a new code")
}

/// The account of whoever accepts an invitation to a project by being signed in.
async fn known_in_tx(
    write: &transaction::Write<'_>,
    invite: &Invite,
    id: UserId,
) -> Result<user::row::Model> {
    let account = user::row::Entity::find_by_id(id.uuid()).one(&write.tx).await;
    let account = account.map_err(db("reading a user"))?.ok_or_else(gone)?;
    let is_theirs = account.email == invite.email.as_str() && account.project_id.is_none();
    if invite.to.is_none() || !is_theirs || account.suspended_at.is_some() {
        return Err(gone());
    }
    Ok(account)
}

/// The role that an invitation gives, if who invites may give it at this moment. What decides about the project is locked: nobody
/// loses the right while this is written.
async fn role_in_tx(
    write: &transaction::Write<'_>,
    inviter: UserId,
    InviteTo { project_id, role }: InviteTo,
) -> Result<BoundRole> {
    let doing = "reading who invites";
    // The project before its policy, as whoever deletes it does.
    let project = project::row::Entity::find_by_id(project_id.uuid()).lock(LockType::KeyShare);
    project.one(&write.tx).await.map_err(db(doing))?.ok_or_else(gone)?;
    policy::lock_in_tx(write, project_id.into()).await?;
    let role = match role {
        NamedRole::BuiltIn(role) => BoundRole::BuiltIn(role),
        NamedRole::Custom(id) => BoundRole::Custom(id, role::rights_in_tx(write, id).await?),
    };
    let user = user::row::Entity::find_by_id(inviter.uuid()).one(&write.tx).await;
    let user = user.map_err(db(doing))?.ok_or_else(may_not_any_more)?;
    let groups = group::ids_of_on(&write.tx, user.id).await?;
    let actor =
        Actor::User(UserActor { id: inviter, email: user.email, admin: user.admin, groups, token: None });
    let scope = policy::scope(&write.tx, &actor, &[project_id.into()]).await?;
    let held = rights(&actor, &scope);
    let needed = role.rights().union(Rights::of(&[Action::Admin]));
    if needed.iter().all(|action| held.allow(action)) { Ok(role) } else { Err(may_not_any_more()) }
}

async fn is_administrator_in_tx(write: &transaction::Write<'_>, id: UserId) -> Result<bool> {
    let found = user::row::Entity::find_by_id(id.uuid()).one(&write.tx).await;
    Ok(found.map_err(db("reading who invites"))?.is_some_and(|user| user.admin))
}

async fn keep_in_tx(write: &transaction::Write<'_>, create: &InviteCreate, entry: &AuditEntry) -> Result<()> {
    let doing = "keeping an invitation";
    let InviteCreate { invite, hash, proof: _ } = create;
    let Invite { id, email, groups, user_id, to, inviter_id, created_at, expires_at } = invite;
    let (of_same, most) = match to {
        None => (row::Column::ProjectId.is_null(), MAX_INVITES),
        Some(to) => (row::Column::ProjectId.eq(to.project_id.uuid()), MAX_PROJECT_INVITES),
    };
    let replaced = Condition::all().add(row::Column::Email.eq(email.as_str())).add(of_same.clone());
    row::Entity::delete_many()
        .filter(Condition::any().add(row::Column::ExpiresAt.lte(*created_at)).add(replaced))
        .exec(&write.tx)
        .await
        .map_err(db(doing))?;
    if row::Entity::find().filter(of_same).count(&write.tx).await.map_err(db(doing))? >= most {
        let text = format!("{most} invitations wait, which is the limit: revoke some first");
        return Err(Error::conflict(text));
    }
    let ids: Vec<String> = groups.iter().map(ToString::to_string).collect();
    let (built_in, custom) = match to.map(|to| to.role) {
        None => (None, None),
        Some(NamedRole::BuiltIn(role)) => (Some(role.as_str().to_owned()), None),
        Some(NamedRole::Custom(id)) => (None, Some(id.uuid())),
    };
    let row = row::ActiveModel {
        id: set(id.uuid()),
        hash: set(hash.as_bytes().to_vec()),
        email: set(email.to_string()),
        group_ids: set(ids.join(" ")),
        user_id: set(user_id.map(UserId::uuid)),
        inviter_id: set(inviter_id.uuid()),
        created_at: set(*created_at),
        expires_at: set(*expires_at),
        project_id: set(to.map(|to| to.project_id.uuid())),
        role: set(built_in),
        role_id: set(custom),
    };
    row.insert(&write.tx).await.map_err(|cause| {
        if to.is_some() && is_foreign_key(&cause) {
            return Error::not_found("project or role");
        }
        unique(doing, AT_ONCE)(cause)
    })?;
    write.audit(entry).await
}

#[async_trait]
impl InviteStore for Database {
    async fn invite_create(&self, by: Audited<'_, Installation, Write>, create: &InviteCreate) -> Result<()> {
        let InviteCreate { invite, hash: _, proof } = create;
        let write = self.write().await?;
        user::proven_in_tx(&write, invite.user_id, proof.as_ref(), by.entry().at).await?;
        if invite.user_id.is_none() {
            let account = user::row::Column::Email.eq(invite.email.as_str());
            let account = user::row::Entity::find().filter(account).count(&write.tx).await;
            if account.map_err(db("looking for an account"))? > 0 {
                return Err(Error::conflict("there is an account with this address"));
            }
        }
        keep_in_tx(&write, create, by.entry()).await?;
        write.commit().await
    }

    async fn project_invite_create(
        &self,
        by: Audited<'_, Project, Admin>,
        create: &InviteCreate,
    ) -> Result<()> {
        let write = self.write().await?;
        user::proven_in_tx(&write, None, create.proof.as_ref(), by.entry().at).await?;
        keep_in_tx(&write, create, by.entry()).await?;
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
        let write = self.write().await?;
        let invite = Invite::try_from(by_hash(&write.tx, &accept.hash).await?.ok_or_else(gone)?)?;
        // People before what goes with them. Who invites must still be able to.
        let as_admin = invite.to.is_none();
        let inviter = Proof { caller: invite.inviter_id, asked_with: None, verified: None, as_admin };
        let account = match &accept.answer {
            InviteAnswer::Account(id) => Some(*id),
            InviteAnswer::Password(_) | InviteAnswer::Passkey(_) => invite.user_id,
        };
        user::proven_in_tx(&write, account, Some(&inviter), at).await.map_err(|error| match error {
            Error::Unauthenticated | Error::Forbidden { .. } => may_not_any_more(),
            other => other,
        })?;
        let given = match invite.to {
            Some(to) => Some((to.project_id, role_in_tx(&write, invite.inviter_id, to).await?)),
            None => None,
        };
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
        let (account, action) = match (invite.user_id, &accept.answer) {
            (Some(user), answer) => (reset_in_tx(&write, user, answer, at).await?, Some("user.update")),
            (None, InviteAnswer::Account(id)) => (known_in_tx(&write, &invite, *id).await?, None),
            (None, InviteAnswer::Password(_) | InviteAnswer::Passkey(_)) => {
                let made = account_in_tx(&write, &invite, accept, at).await.map_err(|error| match error {
                    // Whoever has this code need not know who has accounts here.
                    Error::Conflict { .. } if invite.to.is_some() => gone(),
                    other => other,
                })?;
                // Administrators of the installation may replace anybody's password.
                if invite.to.is_some() && !is_administrator_in_tx(&write, invite.inviter_id).await? {
                    identity::unproven_in_tx(&write, made.id).await?;
                }
                (made, Some("user.create"))
            }
        };
        if let InviteAnswer::Passkey(create) = &accept.answer {
            self.spend_in_tx(&write, &create.spend.what, create.spend.until, at).await?;
            passkey::make_in_tx(&write, accept.user_id, create, at).await?;
        }
        write.audit(by.entry()).await?;
        if let Some(action) = action {
            let target =
                AuditTarget { noun: "user".into(), id: Some(account.id), name: account.email.clone() };
            write.audit(&AuditEntry { action: action.into(), target, ..by.entry().clone() }).await?;
        }
        if let Some((project, role)) = given {
            let of = Policy::from(project);
            policy::give_in_tx(&write, of, role, UserId::from_uuid(account.id)).await?;
            write.rights_changed(at);
            let name = of.noun().as_str().to_owned();
            let target = AuditTarget { noun: "binding".into(), id: Some(project.uuid()), name };
            write
                .audit(&AuditEntry { action: "binding.change".into(), target, ..by.entry().clone() })
                .await?;
        }
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
