//! Groups and memberships.

use std::collections::HashSet;

use async_trait::async_trait;
use plural_app::access::{Audited, Authorized, Installation, Read, Write};
use plural_app::group::{GroupSelector, GroupStore};
use plural_app::records::Search;
use plural_core::access::Scope;
use plural_core::group::{Group, GroupChange, GroupMember, NewGroup};
use plural_core::ids::{GroupId, GroupMemberId, UserId};
use plural_core::user::User;
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, Query};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder,
    QuerySelect, Select,
};
use uuid::Uuid;

use crate::convert::parse;
use crate::database::Database;
use crate::error::{db, gone_or, unique};
use crate::page::search;
use crate::records::{Guard, Table};
use crate::transaction::set;
use crate::user;

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "user_groups")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub name: String,
        pub description: Option<String>,
        pub global: bool,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod member {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "group_members")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub group_id: Uuid,
        pub user_id: Uuid,
        /// The identity provider that gave it; absent when an administrator did.
        pub provider_id: Option<Uuid>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const UNIQUE: &[(&str, &str)] =
    &[("user_groups_name_key", "a group with this name already exists; choose another")];

impl TryFrom<row::Model> for Group {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model { id, name, description, global, created_at, updated_at } = row;
        let name = parse(&name, "a group's name")?;
        Ok(Self { id: GroupId::from_uuid(id), name, description, global, created_at, updated_at })
    }
}

impl From<member::Model> for GroupMember {
    fn from(row: member::Model) -> Self {
        let member::Model { id, group_id, user_id, provider_id: _ } = row;
        Self {
            id: GroupMemberId::from_uuid(id),
            group_id: GroupId::from_uuid(group_id),
            user_id: UserId::from_uuid(user_id),
        }
    }
}

/// The groups that every user is a member of.
pub(crate) async fn global_on(connection: &impl ConnectionTrait) -> Result<Vec<Uuid>> {
    row::Entity::find()
        .select_only()
        .column(row::Column::Id)
        .filter(row::Column::Global.eq(true))
        .into_tuple()
        .all(connection)
        .await
        .map_err(db("reading global groups"))
}

/// The groups that a user is a member of, those included that everybody is a member of.
pub(crate) async fn ids_of_on(connection: &impl ConnectionTrait, user: Uuid) -> Result<HashSet<GroupId>> {
    let members = member::Entity::find()
        .filter(member::Column::UserId.eq(user))
        .all(connection)
        .await
        .map_err(db("looking up a user's groups"))?;
    let all = members.into_iter().map(|member| member.group_id).chain(global_on(connection).await?);
    Ok(all.map(GroupId::from_uuid).collect())
}

async fn member_on(
    connection: &impl ConnectionTrait,
    group: GroupId,
    user: UserId,
) -> Result<Option<member::Model>> {
    member::Entity::find()
        .filter(member::Column::GroupId.eq(group.uuid()))
        .filter(member::Column::UserId.eq(user.uuid()))
        .one(connection)
        .await
        .map_err(db("reading a membership"))
}

impl Table for Group {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = "reading a group";

    fn find(rows: Select<row::Entity>, by: &GroupSelector) -> Select<row::Entity> {
        match by {
            GroupSelector::Id(id) => rows.filter(row::Column::Id.eq(id.uuid())),
            GroupSelector::Name(name) => rows.filter(row::Column::Name.eq(name.as_str())),
        }
    }

    fn filter(rows: Select<row::Entity>, Search { q }: &Search) -> Select<row::Entity> {
        search(rows, &[row::Column::Name], q.as_deref())
    }

    fn guard(&self) -> Guard {
        Guard::Scope(Scope::Installation)
    }
}

#[async_trait]
impl GroupStore for Database {
    async fn group_create(
        &self,
        by: Audited<'_, Installation, Write>,
        id: GroupId,
        new: &NewGroup,
    ) -> Result<Group> {
        let NewGroup { name, description, global } = new;
        let at = by.entry().at;
        let write = self.write().await?;
        let row = row::ActiveModel {
            id: set(id.uuid()),
            name: set(name.to_string()),
            description: set(description.clone()),
            global: set(*global),
            created_at: set(at),
            updated_at: set(at),
        };
        let row = row.insert(&write.tx).await.map_err(unique("making a group", UNIQUE))?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn group_update(&self, by: Audited<'_, Group, Write>, change: &GroupChange) -> Result<Group> {
        let GroupChange { name, description, global } = change;
        let write = self.write().await?;
        let mut row = row::ActiveModel {
            id: ActiveValue::Unchanged(by.target().id.uuid()),
            updated_at: set(by.entry().at),
            ..Default::default()
        };
        if let Some(name) = name {
            row.name = set(name.to_string());
        }
        if let Some(description) = description {
            row.description = set(Some(description.clone()));
        }
        if let Some(global) = global {
            row.global = set(*global);
            write.rights_changed(by.entry().at);
        }
        let row =
            row.update(&write.tx).await.map_err(gone_or("group", unique("changing a group", UNIQUE)))?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn group_delete(&self, by: Audited<'_, Group, Write>) -> Result<()> {
        let write = self.write().await?;
        row::Entity::delete_by_id(by.target().id.uuid())
            .exec(&write.tx)
            .await
            .map_err(db("deleting a group"))?;
        write.rights_changed(by.entry().at);
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn group_member_create(
        &self,
        by: Audited<'_, Group, Write>,
        id: GroupMemberId,
        user: &Authorized<User, Read>,
    ) -> Result<GroupMember> {
        let group = by.target().id;
        let write = self.write().await?;
        if let Some(existing) = member_on(&write.tx, group, user.id).await? {
            return Ok(existing.into());
        }
        let row = member::ActiveModel {
            id: set(id.uuid()),
            group_id: set(group.uuid()),
            user_id: set(user.id.uuid()),
            provider_id: set(None),
        };
        let known = &[("group_members_group_id_user_id_key", "the user is a member already")];
        let row = row.insert(&write.tx).await.map_err(unique("making a membership", known))?;
        write.rights_changed(by.entry().at);
        write.audit(by.entry()).await?;
        write.commit().await?;
        Ok(row.into())
    }

    async fn group_member_delete(
        &self,
        by: Audited<'_, Group, Write>,
        user: &Authorized<User, Read>,
    ) -> Result<GroupMember> {
        let write = self.write().await?;
        let row = member_on(&write.tx, by.target().id, user.id).await?;
        let row = match row {
            Some(row) => row,
            None if by.target().global => {
                return Err(Error::conflict(
                    "every user is a member of this group, because it is global; set global to false first",
                ));
            }
            None => return Err(Error::not_found("group member")),
        };
        member::Entity::delete_by_id(row.id).exec(&write.tx).await.map_err(db("ending a membership"))?;
        write.rights_changed(by.entry().at);
        write.audit(by.entry()).await?;
        write.commit().await?;
        Ok(row.into())
    }

    async fn groups_of(&self, user: &Authorized<User, Read>) -> Result<Vec<Group>> {
        let mut mine = Query::select();
        mine.column(member::Column::GroupId).from(member::Entity);
        mine.and_where(member::Column::UserId.eq(user.id.uuid()));
        row::Entity::find()
            .filter(Condition::any().add(row::Column::Id.in_subquery(mine)).add(row::Column::Global.eq(true)))
            .order_by_asc(row::Column::Id)
            .all(&self.reader)
            .await
            .map_err(db("reading groups"))?
            .into_iter()
            .map(Group::try_from)
            .collect()
    }

    async fn group_members(&self, group: &Authorized<Group, Read>) -> Result<Vec<User>> {
        let mut members = Query::select();
        members.column(member::Column::UserId).from(member::Entity);
        members.and_where(member::Column::GroupId.eq(group.id.uuid()));
        let among = user::row::Column::Id.in_subquery(members);
        let members = Condition::any().add_option((!group.global).then_some(among));
        user::row::Entity::find()
            .filter(members)
            .order_by_asc(user::row::Column::Id)
            .all(&self.reader)
            .await
            .map_err(db("reading members"))?
            .into_iter()
            .map(User::try_from)
            .collect()
    }
}
