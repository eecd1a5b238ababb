//! Groups and their members.

use async_graphql::{Context, ID, InputObject, Object};
use chrono::{DateTime, Utc};
use plural_app::group::GroupSelector;
use plural_app::records::Search;
use plural_core::group::{GroupChange, NewGroup};

use super::{
    error::{IntoGraphql, Nullable, nullable, parse},
    limited::limited,
    page::{connection, page_args},
    record::{by_id, one, page_of},
    request::request,
    user::User,
};

/// Users that are given access together.
pub(crate) struct Group(plural_core::group::Group);

impl From<plural_core::group::Group> for Group {
    fn from(group: plural_core::group::Group) -> Self {
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

    /// Every user is a member.
    async fn global(&self) -> Option<bool> {
        Some(self.0.global)
    }

    /// Its members.
    async fn members(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<User>>> {
        nullable(async {
            let request = request(ctx);
            let look_up =
                async |ids: Vec<_>| request.app.groups_members(&request.op, &ids).await.into_graphql(ctx);
            let members = request.batches.members.get(self.0.id, look_up).await?.unwrap_or_default();
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

/// One user's membership in one group.
pub(crate) struct GroupMember(plural_core::group::GroupMember);

/// One user's membership in one group.
#[Object]
impl GroupMember {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Who.
    async fn user(&self, ctx: &Context<'_>) -> Nullable<User> {
        nullable(by_id::<plural_core::user::User, _>(ctx, self.0.user_id)).await
    }

    /// In which group.
    async fn group(&self, ctx: &Context<'_>) -> Nullable<Group> {
        nullable(by_id::<plural_core::group::Group, _>(ctx, self.0.group_id)).await
    }
}

/// What a group is given.
#[derive(Debug, InputObject)]
pub(crate) struct GroupAttributes {
    /// Unique name.
    name: String,
    /// What it is for.
    description: Option<String>,
    /// Makes every user a member, those who come later too.
    global: Option<bool>,
}

/// Reading groups.
#[derive(Default)]
pub(crate) struct GroupQuery;

/// Reading groups.
#[Object]
impl GroupQuery {
    /// One group, by name.
    async fn group(&self, ctx: &Context<'_>, name: String) -> Nullable<Group> {
        one::<plural_core::group::Group, _>(ctx, Ok(GroupSelector::Name(name))).await
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
        page_of::<plural_core::group::Group, _>(ctx, Ok(Search { q }), page_args(after, first, before, last))
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
            let GroupAttributes { name, description, global } = attributes;
            let name = parse("attributes.name", &name).into_graphql(ctx)?;
            let new = NewGroup { name, description, global: global.unwrap_or_default() };
            Ok(Some(request.app.group_create(&request.op, &new).await.into_graphql(ctx)?.into()))
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
            let GroupAttributes { name, description, global } = attributes;
            let name = Some(parse("attributes.name", &name).into_graphql(ctx)?);
            let change = GroupChange { name, description, global };
            let id = super::error::id(&group_id).into_graphql(ctx)?;
            Ok(Some(request.app.group_update(&request.op, id, &change).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Deletes a group with its memberships and bindings.
    async fn delete_group(&self, ctx: &Context<'_>, group_id: ID) -> Nullable<Group> {
        nullable(async {
            let request = request(ctx);
            let id = super::error::id(&group_id).into_graphql(ctx)?;
            Ok(Some(request.app.group_delete(&request.op, id).await.into_graphql(ctx)?.into()))
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
            let group = super::error::id(&group_id).into_graphql(ctx)?;
            let user = super::error::id(&user_id).into_graphql(ctx)?;
            Ok(Some(GroupMember(
                request.app.group_member_create(&request.op, group, user).await.into_graphql(ctx)?,
            )))
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
            let group = super::error::id(&group_id).into_graphql(ctx)?;
            let user = super::error::id(&user_id).into_graphql(ctx)?;
            Ok(Some(GroupMember(
                request.app.group_member_delete(&request.op, group, user).await.into_graphql(ctx)?,
            )))
        })
        .await
    }
}
