//! Groups and their members.

use async_graphql::{Context, ID, InputObject, Object, Result};
use chrono::{DateTime, Utc};
use plural_app::GroupSelector;
use plural_core::{GroupChange, GroupId, NewGroup};

use super::{
    error::{Nullable, Told, nullable, parse},
    limited::limited,
    page::{connection, page_args},
    request::request,
    user::User,
};

/// Users that are given access together.
pub(crate) struct Group(plural_core::Group);

impl From<plural_core::Group> for Group {
    fn from(group: plural_core::Group) -> Self {
        Self(group)
    }
}

connection!(GroupConnection, GroupEdge, Group);

/// Users that are given access together.
#[Object]
impl Group {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Unique name.
    async fn name(&self) -> &str {
        self.0.name.as_str()
    }

    /// What it is for.
    async fn description(&self) -> Option<&str> {
        self.0.description.as_deref()
    }

    /// Its members.
    async fn members(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<User>>> {
        nullable(async {
            let request = request(ctx);
            let look_up = async |ids: Vec<_>| request.app.groups_members(&request.op, &ids).await.told(ctx);
            let members = request.members.get(self.0.id, look_up).await?.unwrap_or_default();
            Ok(limited(ctx, members.into_iter().map(User::from)))
        })
        .await
    }

    /// When it was made.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.created_at)
    }

    /// When it was last changed.
    async fn updated_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.updated_at)
    }
}

/// The group of this id; `None` when it is gone.
pub(crate) async fn by_id(ctx: &Context<'_>, id: GroupId) -> Result<Option<Group>> {
    let request = request(ctx);
    let look_up = async |ids: Vec<_>| request.app.groups_get(&request.op, &ids).await.told(ctx);
    Ok(request.groups.get(id, look_up).await?.map(Group::from))
}

/// One user's membership in one group.
pub(crate) struct GroupMember(plural_core::GroupMember);

/// One user's membership in one group.
#[Object]
impl GroupMember {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Who.
    async fn user(&self, ctx: &Context<'_>) -> Nullable<User> {
        nullable(async { super::user::by_id(ctx, self.0.user_id).await }).await
    }

    /// In which group.
    async fn group(&self, ctx: &Context<'_>) -> Nullable<Group> {
        nullable(async { by_id(ctx, self.0.group_id).await }).await
    }
}

/// What a group is given.
#[derive(Debug, InputObject)]
pub(crate) struct GroupAttributes {
    /// Unique name.
    name: String,
    /// What it is for.
    description: Option<String>,
}

/// Reading groups.
#[derive(Default)]
pub(crate) struct GroupQuery;

/// Reading groups.
#[Object]
impl GroupQuery {
    /// One group, by name.
    async fn group(&self, ctx: &Context<'_>, name: String) -> Nullable<Group> {
        nullable(async {
            let request = request(ctx);
            Ok(Some(request.app.group_get(&request.op, &GroupSelector::Name(name)).await.told(ctx)?.into()))
        })
        .await
    }

    /// All groups.
    async fn groups(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only with this in their name.")] q: Option<String>,
    ) -> Nullable<GroupConnection> {
        nullable(async {
            let request = request(ctx);
            let page = page_args(after, first, before, last);
            Ok(Some(request.app.group_list(&request.op, q.as_deref(), &page).await.told(ctx)?.into()))
        })
        .await
    }
}

/// Changing groups.
#[derive(Default)]
pub(crate) struct GroupMutation;

/// Changing groups.
#[Object]
impl GroupMutation {
    /// Makes a group.
    async fn create_group(&self, ctx: &Context<'_>, attributes: GroupAttributes) -> Nullable<Group> {
        nullable(async {
            let request = request(ctx);
            let GroupAttributes { name, description } = attributes;
            let new = NewGroup { name: parse("attributes.name", &name).told(ctx)?, description };
            Ok(Some(request.app.group_create(&request.op, &new).await.told(ctx)?.into()))
        })
        .await
    }

    /// Changes a group.
    async fn update_group(
        &self,
        ctx: &Context<'_>,
        group_id: ID,
        attributes: GroupAttributes,
    ) -> Nullable<Group> {
        nullable(async {
            let request = request(ctx);
            let GroupAttributes { name, description } = attributes;
            let change = GroupChange { name: Some(parse("attributes.name", &name).told(ctx)?), description };
            let id = super::error::id(&group_id).told(ctx)?;
            Ok(Some(request.app.group_update(&request.op, id, &change).await.told(ctx)?.into()))
        })
        .await
    }

    /// Deletes a group with its memberships and bindings.
    async fn delete_group(&self, ctx: &Context<'_>, group_id: ID) -> Nullable<Group> {
        nullable(async {
            let request = request(ctx);
            let id = super::error::id(&group_id).told(ctx)?;
            Ok(Some(request.app.group_delete(&request.op, id).await.told(ctx)?.into()))
        })
        .await
    }

    /// Makes a user a member.
    async fn create_group_member(
        &self,
        ctx: &Context<'_>,
        group_id: ID,
        user_id: ID,
    ) -> Nullable<GroupMember> {
        nullable(async {
            let request = request(ctx);
            let group = super::error::id(&group_id).told(ctx)?;
            let user = super::error::id(&user_id).told(ctx)?;
            Ok(Some(GroupMember(request.app.group_member_create(&request.op, group, user).await.told(ctx)?)))
        })
        .await
    }

    /// Ends a membership.
    async fn delete_group_member(
        &self,
        ctx: &Context<'_>,
        user_id: ID,
        group_id: ID,
    ) -> Nullable<GroupMember> {
        nullable(async {
            let request = request(ctx);
            let group = super::error::id(&group_id).told(ctx)?;
            let user = super::error::id(&user_id).told(ctx)?;
            Ok(Some(GroupMember(request.app.group_member_delete(&request.op, group, user).await.told(ctx)?)))
        })
        .await
    }
}
