//! Policies and their bindings, and the access rules of `core` as conditions: which bindings concern an actor, which rows it
//! may see.

use std::collections::{BTreeSet, HashMap, HashSet};

use async_trait::async_trait;
use plural_app::access::{Admin, Audited, Authorized, Grant, Read};
use plural_app::policy::{PolicyStore, RoleChange};
use plural_core::access::{Action, Actor, Scope, Visibility};
use plural_core::ids::{BindingId, GroupId, PolicyId, ProjectId, RoleId, UserId};
use plural_core::policy::{Binding, BindingSubject, BoundRole, Policy, PolicyNoun, Rights, Role};
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, Expr, ExprTrait, LockType, Query, SelectStatement, UnionType};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect, Statement, Value};
use uuid::Uuid;

use crate::convert::word;
use crate::database::{Database, corrupt};
use crate::error::{db, is_foreign_key};
use crate::transaction::{Write, set};
use crate::{recording, role, sync_window};

/// Policies of one statement.
const AT_ONCE: usize = 500;
/// A policy `p` with the two that it can stand below, `p.parent_id` and `q.parent_id`: as many as [`Policy::DEPTH`] allows.
const CHAIN: &str = "policies p LEFT JOIN policies q ON q.id = p.parent_id";

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    /// A policy. Its id is that of the thing that it is of.
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "policies")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub parent_id: Option<Uuid>,
        pub noun: String,
        /// Of what is gone, the name that it had: the policy is kept for those who may read what was recorded there.
        pub name: Option<String>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod bound {
    use sea_orm::entity::prelude::*;

    /// A binding.
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "policy_bindings")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub policy_id: Uuid,
        pub user_id: Option<Uuid>,
        pub group_id: Option<Uuid>,
        pub role: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod bound_role {
    use sea_orm::entity::prelude::*;

    /// A binding of a role that administrators made.
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "role_bindings")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub policy_id: Uuid,
        pub user_id: Option<Uuid>,
        pub group_id: Option<Uuid>,
        pub role_id: Uuid,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

/// The row of a policy.
fn row_of(of: Policy, parent: Option<PolicyId>) -> row::ActiveModel {
    row::ActiveModel {
        id: set(of.id().uuid()),
        parent_id: set(parent.map(PolicyId::uuid)),
        noun: set(of.noun().as_str().to_owned()),
        name: set(None),
    }
}

/// The policies of new things, each with the one that it inherits from.
pub(crate) async fn make_in_tx(write: &Write<'_>, all: &[(Policy, Option<PolicyId>)]) -> Result<()> {
    for chunk in all.chunks(AT_ONCE) {
        row::Entity::insert_many(chunk.iter().map(|(of, parent)| row_of(*of, *parent)))
            .exec_without_returning(&write.tx)
            .await
            .map_err(db("making a policy"))?;
    }
    Ok(())
}

/// The bindings that come with a thing that this write makes or changes, if any do. After the rows of things: a write that
/// removes a thing locks its row before its policy.
pub(crate) async fn grant_in_tx(write: &Write<'_>, grant: Option<&Grant>) -> Result<()> {
    let Some(grant) = grant else { return Ok(()) };
    replace_in_tx(write, grant.policy(), grant.roles()).await?;
    write.rights_changed(grant.entry().at);
    write.audit(grant.entry()).await
}

/// Forgets policies of things that are gone, with their bindings and all policies below them.
pub(crate) async fn forget_in_tx(write: &Write<'_>, of: impl Into<PolicyId>) -> Result<()> {
    row::Entity::delete_by_id(of.into().uuid())
        .exec(&write.tx)
        .await
        .map(drop)
        .map_err(db("forgetting a policy"))
}

/// Keeps the policy of a project that is gone for those who may read its recordings, until [`forget_kept_in_tx`].
pub(crate) async fn keep_in_tx(write: &Write<'_>, of: ProjectId, name: &str) -> Result<()> {
    let doing = "keeping a policy";
    row::Entity::update_many()
        .col_expr(row::Column::Name, Expr::value(name))
        .filter(row::Column::Id.eq(of.uuid()))
        .exec(&write.tx)
        .await
        .map_err(db(doing))?;
    sync_window::row::Entity::delete_many()
        .filter(sync_window::row::Column::PolicyId.eq(of.uuid()))
        .exec(&write.tx)
        .await
        .map_err(db(doing))?;
    bound_role::Entity::delete_many()
        .filter(bound_role::Column::PolicyId.eq(of.uuid()))
        .filter(bound_role::Column::RoleId.not_in_subquery(roles_with(Action::ReadRecordings)))
        .exec(&write.tx)
        .await
        .map_err(db(doing))?;
    bound::Entity::delete_many()
        .filter(bound::Column::PolicyId.eq(of.uuid()))
        .filter(bound::Column::Role.ne(Role::Recordings.as_str()))
        .exec(&write.tx)
        .await
        .map(drop)
        .map_err(db(doing))
}

/// Forgets the policies of projects that are gone and of which no recording is left.
pub(crate) async fn forget_kept_in_tx(write: &Write<'_>) -> Result<()> {
    let mut recorded = Query::select();
    recorded.column(recording::row::Column::ProjectId).from(recording::row::Entity);
    row::Entity::delete_many()
        .filter(row::Column::Name.is_not_null())
        .filter(row::Column::Id.not_in_subquery(recorded))
        .exec(&write.tx)
        .await
        .map(drop)
        .map_err(db("forgetting policies"))
}

/// The columns of a binding that say for whom it is.
fn columns_of(subject: BindingSubject) -> (Option<Uuid>, Option<Uuid>) {
    match subject {
        BindingSubject::User(id) => (Some(id.uuid()), None),
        BindingSubject::Group(id) => (None, Some(id.uuid())),
    }
}

async fn insert_in_tx(
    write: &Write<'_>,
    policy: PolicyId,
    role: BoundRole,
    subjects: &[BindingSubject],
) -> Result<()> {
    let mut seen = HashSet::new();
    let subjects: Vec<_> = subjects.iter().copied().filter(|subject| seen.insert(*subject)).collect();
    for chunk in subjects.chunks(AT_ONCE) {
        let chunk = chunk.iter().map(|subject| (BindingId::new().uuid(), columns_of(*subject)));
        let written = match role {
            BoundRole::BuiltIn(role) => {
                let rows = chunk.map(|(id, (user, group))| bound::ActiveModel {
                    id: set(id),
                    policy_id: set(policy.uuid()),
                    user_id: set(user),
                    group_id: set(group),
                    role: set(role.as_str().to_owned()),
                });
                bound::Entity::insert_many(rows).exec_without_returning(&write.tx).await
            }
            BoundRole::Custom(role, _) => {
                let rows = chunk.map(|(id, (user, group))| bound_role::ActiveModel {
                    id: set(id),
                    policy_id: set(policy.uuid()),
                    user_id: set(user),
                    group_id: set(group),
                    role_id: set(role.uuid()),
                });
                bound_role::Entity::insert_many(rows).exec_without_returning(&write.tx).await
            }
        };
        written.map_err(|cause| {
            if is_foreign_key(&cause) {
                Error::invalid("bindings", "name a user or group that does not exist")
            } else {
                db("writing bindings")(cause)
            }
        })?;
    }
    Ok(())
}

/// Locks a policy against other changes of its bindings, not against things that are made below it meanwhile.
pub(crate) async fn lock_in_tx(write: &Write<'_>, of: Policy) -> Result<()> {
    row::Entity::find_by_id(of.id().uuid())
        .filter(row::Column::Name.is_null())
        .lock(LockType::NoKeyUpdate)
        .one(&write.tx)
        .await
        .map_err(db("reading a policy"))?
        .ok_or(Error::not_found(of.noun().as_str()))
        .map(drop)
}

/// Gives somebody a role on what has a policy that is locked, unless they have it there.
pub(crate) async fn give_in_tx(write: &Write<'_>, of: Policy, role: BoundRole, user: UserId) -> Result<()> {
    let subject = BindingSubject::User(user);
    let known = list_on(&write.tx, &[of.id().uuid()]).await?;
    if known.iter().any(|known| known.subject == subject && is_same(known.role, role)) {
        return Ok(());
    }
    insert_in_tx(write, of.id(), role, &[subject]).await
}

/// Replaces the bindings of these roles. Of two that do this at once, the second waits for the first and replaces what that wrote.
pub(crate) async fn replace_in_tx(
    write: &Write<'_>,
    of: Policy,
    roles: &[(Role, Vec<BindingSubject>)],
) -> Result<()> {
    lock_in_tx(write, of).await?;
    for (role, subjects) in roles {
        bound::Entity::delete_many()
            .filter(bound::Column::PolicyId.eq(of.id().uuid()))
            .filter(bound::Column::Role.eq(role.as_str()))
            .exec(&write.tx)
            .await
            .map_err(db("replacing bindings"))?;
        insert_in_tx(write, of.id(), (*role).into(), subjects).await?;
    }
    Ok(())
}

/// What a statement selects of the two tables of bindings: `anchor`, the policy that a row was found for, and the binding. A
/// custom role has a row for each of its actions. `from` is what comes before the table and joins its alias `b`, `filter` what
/// holds for it.
fn bindings_sql(anchor: &str, from: impl Fn(&str) -> String, filter: &str) -> String {
    let columns = "b.id AS id, b.policy_id AS policy_id, b.user_id AS user_id, b.group_id AS group_id";
    format!(
        "SELECT {anchor} AS anchor, {columns}, b.role AS role, NULL AS role_id, NULL AS action FROM {built_in} \
         WHERE {filter} UNION ALL \
         SELECT {anchor} AS anchor, {columns}, NULL AS role, b.role_id AS role_id, a.action AS action FROM {custom} \
         LEFT JOIN role_actions a ON a.role_id = b.role_id WHERE {filter} ORDER BY 2",
        built_in = from("policy_bindings"),
        custom = from("role_bindings"),
    )
}

/// The bindings of [`bindings_sql`] with what each was found for, oldest first.
async fn bindings_on(
    connection: &impl ConnectionTrait,
    sql: String,
    values: Vec<Value>,
) -> Result<Vec<(PolicyId, Binding)>> {
    let doing = "reading bindings";
    let statement = Statement::from_sql_and_values(connection.get_database_backend(), sql, values);
    let mut found: Vec<(PolicyId, Binding)> = Vec::new();
    let mut custom: HashMap<(Uuid, Uuid), usize> = HashMap::new();
    for row in connection.query_all_raw(statement).await.map_err(db(doing))? {
        let uuid = |column| row.try_get::<Option<Uuid>>("", column).map_err(db(doing));
        let text = |column| row.try_get::<Option<String>>("", column).map_err(db(doing));
        let (Some(anchor), Some(id), Some(policy)) = (uuid("anchor")?, uuid("id")?, uuid("policy_id")?)
        else {
            return Err(corrupt("a binding"));
        };
        let role = if let Some(role) = uuid("role_id")? {
            let given = text("action")?.map_or(Rights::NONE, |word| role::rights_of(&word));
            if let Some(at) = custom.get(&(anchor, id))
                && let Some((_, Binding { role: BoundRole::Custom(_, rights), .. })) = found.get_mut(*at)
            {
                *rights = rights.union(given);
                continue;
            }
            custom.insert((anchor, id), found.len());
            BoundRole::Custom(RoleId::from_uuid(role), given)
        } else {
            let role = text("role")?.ok_or_else(|| corrupt("a binding"))?;
            word(Role::parse(&role), "a binding's role")?.into()
        };
        let subject = match (uuid("user_id")?, uuid("group_id")?) {
            (Some(id), None) => BindingSubject::User(UserId::from_uuid(id)),
            (None, Some(id)) => BindingSubject::Group(GroupId::from_uuid(id)),
            _ => return Err(corrupt("a binding")),
        };
        let binding =
            Binding { id: BindingId::from_uuid(id), policy: PolicyId::from_uuid(policy), subject, role };
        found.push((PolicyId::from_uuid(anchor), binding));
    }
    Ok(found)
}

/// The bindings of these very policies, oldest first.
async fn list_on(connection: &impl ConnectionTrait, policies: &[Uuid]) -> Result<Vec<Binding>> {
    let mut bindings = Vec::new();
    for chunk in policies.chunks(AT_ONCE) {
        let filter = format!("b.policy_id IN ({})", marks(1, chunk.len()));
        let sql = bindings_sql("b.policy_id", |table| format!("{table} b"), &filter);
        let values = chunk.iter().map(|id| Value::from(*id)).collect();
        let found = bindings_on(connection, sql, values).await?;
        bindings.extend(found.into_iter().map(|(_, binding)| binding));
    }
    Ok(bindings)
}

/// Which rows of a list may be seen: those that have a policy of their own, or belong to one, on which a binding lets the actor
/// read, and those that inherit from such a policy.
///
/// `columns` hold ids of policies, each of the noun above the one before; `last` is the noun of the last of them.
pub(crate) fn visible<C: ColumnTrait>(visibility: &Visibility, columns: &[C], last: PolicyNoun) -> Condition {
    visible_for(visibility, Action::Read, columns, last)
}

/// [`visible`] for a list of what may be had with the right to another action.
pub(crate) fn visible_for<C: ColumnTrait>(
    visibility: &Visibility,
    action: Action,
    columns: &[C],
    last: PolicyNoun,
) -> Condition {
    let (user, groups) = match visibility {
        Visibility::All => return Condition::all(),
        Visibility::Bound { user, groups } => (user.uuid(), groups.iter().map(|id| id.uuid()).collect()),
    };
    let bound = allowed(action, user, groups);
    let mut seen = Condition::any();
    for column in columns {
        seen = seen.add(column.in_subquery(bound.clone()));
    }
    if let (Some(column), Some(inherited)) = (columns.last(), inherited(last, &bound)) {
        seen = seen.add(column.in_subquery(inherited));
    }
    seen
}

/// The rows of [`visible`] in parts that have no row in common, each of which an index finds: what stands below a policy that the
/// actor may read, and what has a binding of its own elsewhere. To count by a condition with alternatives, a database looks at each row.
///
/// `id` and `above` hold ids of policies; `noun` is that of the second.
pub(crate) fn visible_in_parts<C: ColumnTrait>(
    visibility: &Visibility,
    id: C,
    above: C,
    noun: PolicyNoun,
) -> Vec<Condition> {
    let (user, groups) = match visibility {
        Visibility::All => return vec![Condition::all()],
        Visibility::Bound { user, groups } => (user.uuid(), groups.iter().map(|id| id.uuid()).collect()),
    };
    let bound = allowed(Action::Read, user, groups);
    let mut readable = Condition::any().add(Expr::col(row::Column::Id).in_subquery(bound.clone()));
    if let Some(parent) = noun.parent() {
        readable = readable.add(Expr::col(row::Column::ParentId).in_subquery(bound.clone()));
        if let Some(inherited) = inherited(parent, &bound) {
            readable = readable.add(Expr::col(row::Column::ParentId).in_subquery(inherited));
        }
    }
    let mut below = Query::select();
    below
        .column(row::Column::Id)
        .from(row::Entity)
        .and_where(Expr::col(row::Column::Noun).eq(noun.as_str()))
        .cond_where(readable);
    vec![
        Condition::all().add(above.in_subquery(below.clone())),
        Condition::all().add(id.in_subquery(bound)).add(above.not_in_subquery(below)),
    ]
}

/// Policies of a noun that inherit from one of `bound`; none where the noun inherits from nothing.
fn inherited(noun: PolicyNoun, bound: &SelectStatement) -> Option<SelectStatement> {
    let parent = noun.parent()?;
    let mut above = Condition::any().add(Expr::col(row::Column::ParentId).in_subquery(bound.clone()));
    if let Some(inherited) = inherited(parent, bound) {
        above = above.add(Expr::col(row::Column::ParentId).in_subquery(inherited));
    }
    let mut select = Query::select();
    select
        .column(row::Column::Id)
        .from(row::Entity)
        .and_where(Expr::col(row::Column::Noun).eq(noun.as_str()))
        .cond_where(above);
    Some(select)
}

/// Policies with a binding for this user or one of these groups whose role allows the action. One that does not allow to read
/// makes nothing visible in the lists of what may be read.
fn allowed(action: Action, user: Uuid, groups: Vec<Uuid>) -> SelectStatement {
    use {bound::Column, bound_role::Column as Custom};
    let roles = Role::ALL.into_iter().filter(|role| role.rights().allow(action));
    let mut custom = Query::select();
    custom
        .column((bound_role::Entity, Custom::PolicyId))
        .from(bound_role::Entity)
        .cond_where(
            Condition::any().add(Custom::UserId.eq(user)).add(Custom::GroupId.is_in(groups.iter().copied())),
        )
        .and_where(Custom::RoleId.in_subquery(roles_with(action)));
    let mut select = Query::select();
    select
        .column((bound::Entity, Column::PolicyId))
        .from(bound::Entity)
        .cond_where(Condition::any().add(Column::UserId.eq(user)).add(Column::GroupId.is_in(groups)))
        .and_where(Expr::col((bound::Entity, Column::Role)).is_in(roles.map(Role::as_str)))
        .union(UnionType::All, custom);
    select
}

/// The roles of administrators that allow an action.
fn roles_with(action: Action) -> SelectStatement {
    let mut select = Query::select();
    select
        .column(role::action::Column::RoleId)
        .from(role::action::Entity)
        .and_where(role::action::Column::Action.eq(action.as_str()));
    select
}

/// The bindings that concern `actor` along the chain of a thing. `of` names the policies that it stands under, as the columns do
/// that [`visible`] gets for a list of its like.
pub(crate) async fn scope(
    connection: &impl ConnectionTrait,
    actor: &Actor,
    of: &[PolicyId],
) -> Result<Scope> {
    let found = scopes(connection, actor, &[of.to_vec()]).await?;
    Ok(found.into_iter().next().unwrap_or(Scope::Chain(Vec::new())))
}

/// [`scope`] of many things, in one statement for some hundreds of them.
pub(crate) async fn scopes(
    connection: &impl ConnectionTrait,
    actor: &Actor,
    of: &[Vec<PolicyId>],
) -> Result<Vec<Scope>> {
    let user = match actor {
        Actor::User(user) if !user.admin => user,
        // Bindings decide nothing for these.
        _ => return Ok(of.iter().map(|_| Scope::Chain(Vec::new())).collect()),
    };
    let mut subject = vec![Value::from(user.id.uuid())];
    subject.extend(user.groups.iter().map(|id| Value::from(id.uuid())));
    let anchors: BTreeSet<PolicyId> = of.iter().flatten().copied().collect();
    let anchors: Vec<PolicyId> = anchors.into_iter().collect();
    let mut found: HashMap<PolicyId, Vec<Binding>> = HashMap::new();
    for chunk in anchors.chunks(AT_ONCE) {
        let groups = match user.groups.len() {
            0 => String::new(),
            many => format!(" OR b.group_id IN ({})", marks(2, many)),
        };
        let filter =
            format!("p.id IN ({}) AND (b.user_id = $1{groups})", marks(subject.len() + 1, chunk.len()));
        let from = |table: &str| {
            format!("{CHAIN} JOIN {table} b ON b.policy_id IN (p.id, p.parent_id, q.parent_id)")
        };
        let values = subject.iter().cloned().chain(chunk.iter().map(|id| Value::from(id.uuid())));
        let sql = bindings_sql("p.id", from, &filter);
        for (anchor, binding) in bindings_on(connection, sql, values.collect()).await? {
            found.entry(anchor).or_default().push(binding);
        }
    }
    Ok(of
        .iter()
        .map(|of| {
            let mut seen = HashSet::new();
            let bindings = of.iter().filter_map(|id| found.get(id)).flatten().copied();
            Scope::Chain(bindings.filter(|binding| seen.insert(binding.id)).collect())
        })
        .collect())
}

/// Each of these policies with all that it inherits from.
pub(crate) async fn chains_on(
    connection: &impl ConnectionTrait,
    ids: &[Uuid],
) -> Result<HashMap<Uuid, Vec<Uuid>>> {
    let doing = "reading policies";
    let mut chains = HashMap::with_capacity(ids.len());
    for chunk in ids.chunks(AT_ONCE) {
        let sql = format!(
            "SELECT p.id AS id, p.parent_id AS parent, q.parent_id AS grandparent FROM {CHAIN} WHERE p.id IN ({})",
            marks(1, chunk.len())
        );
        let values = chunk.iter().map(|id| Value::from(*id));
        let statement = Statement::from_sql_and_values(connection.get_database_backend(), sql, values);
        for row in connection.query_all_raw(statement).await.map_err(db(doing))? {
            let id: Uuid = row.try_get("", "id").map_err(db(doing))?;
            let mut chain = vec![id];
            for above in ["parent", "grandparent"] {
                let above: Option<Uuid> = row.try_get("", above).map_err(db(doing))?;
                chain.extend(above);
            }
            chains.insert(id, chain);
        }
    }
    Ok(chains)
}

/// `$2, $3, $4`.
fn marks(first: usize, count: usize) -> String {
    (first..first + count).map(|n| format!("${n}")).collect::<Vec<_>>().join(", ")
}

#[async_trait]
impl PolicyStore for Database {
    async fn binding_list(&self, policy: &Authorized<Policy, Read>) -> Result<Vec<Binding>> {
        list_on(&self.reader, &[policy.id().uuid()]).await
    }

    async fn bindings_on(&self, policies: &[Authorized<Policy, Read>]) -> Result<Vec<Binding>> {
        let ids: Vec<Uuid> = policies.iter().map(|policy| policy.id().uuid()).collect();
        list_on(&self.reader, &ids).await
    }

    async fn bindings_above(&self, policy: &Authorized<Policy, Read>) -> Result<Vec<Binding>> {
        let id = policy.id().uuid();
        let chain = chains_on(&self.reader, &[id]).await?.remove(&id).unwrap_or_default();
        let mut bindings = list_on(&self.reader, &chain).await?;
        let place = |binding: &Binding| chain.iter().position(|id| *id == binding.policy.uuid());
        bindings.sort_by_key(place);
        Ok(bindings)
    }

    async fn binding_replace(
        &self,
        by: Audited<'_, Policy, Admin>,
        roles: &[(Role, Vec<BindingSubject>)],
    ) -> Result<Vec<Binding>> {
        let policy = *by.target();
        let write = self.write().await?;
        replace_in_tx(&write, policy, roles).await?;
        write.rights_changed(by.entry().at);
        write.audit(by.entry()).await?;
        let bindings = list_on(&write.tx, &[policy.id().uuid()]).await?;
        write.commit().await?;
        Ok(bindings)
    }

    async fn binding_change(
        &self,
        by: Audited<'_, Policy, Admin>,
        role: BoundRole,
        change: &RoleChange,
    ) -> Result<Vec<Binding>> {
        let RoleChange { role: _, add, remove } = change;
        let policy = *by.target();
        let write = self.write().await?;
        lock_in_tx(&write, policy).await?;
        if let BoundRole::Custom(id, _) = role {
            // It cannot go before this is written.
            let known =
                role::row::Entity::find_by_id(id.uuid()).lock(LockType::KeyShare).one(&write.tx).await;
            known.map_err(db("reading a role"))?.ok_or(Error::not_found("role"))?;
        }
        let id = policy.id().uuid();
        let known = list_on(&write.tx, &[id]).await?;
        let known = || known.iter().filter(|binding| is_same(binding.role, role));
        let gone = known().filter(|known| remove.contains(&known.subject) && !add.contains(&known.subject));
        let gone: Vec<Uuid> = gone.map(|binding| binding.id.uuid()).collect();
        let doing = "removing bindings";
        for chunk in gone.chunks(AT_ONCE) {
            let ids = chunk.iter().copied();
            let gone = bound::Entity::delete_many().filter(bound::Column::Id.is_in(ids.clone()));
            gone.exec(&write.tx).await.map_err(db(doing))?;
            let gone = bound_role::Entity::delete_many().filter(bound_role::Column::Id.is_in(ids));
            gone.exec(&write.tx).await.map_err(db(doing))?;
        }
        let is_known = |subject: &&BindingSubject| known().any(|binding| binding.subject == **subject);
        let new: Vec<BindingSubject> = add.iter().filter(|subject| !is_known(subject)).copied().collect();
        insert_in_tx(&write, policy.id(), role, &new).await?;
        write.rights_changed(by.entry().at);
        write.audit(by.entry()).await?;
        let bindings = list_on(&write.tx, &[id]).await?;
        write.commit().await?;
        Ok(bindings)
    }
}

/// Whether these are one role, whatever it allows by now.
fn is_same(one: BoundRole, other: BoundRole) -> bool {
    match (one, other) {
        (BoundRole::BuiltIn(one), BoundRole::BuiltIn(other)) => one == other,
        (BoundRole::Custom(one, _), BoundRole::Custom(other, _)) => one == other,
        (BoundRole::BuiltIn(_), BoundRole::Custom(..)) | (BoundRole::Custom(..), BoundRole::BuiltIn(_)) => {
            false
        }
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
