//! Groups and their members.

use async_trait::async_trait;
use plural_core::access::{Actor, Scope};
use plural_core::{
    Group, GroupChange, GroupId, GroupMember, GroupMemberId, NewGroup, Page, PageArgs, PageRequest, Result,
    User, UserId,
};

use crate::access::{Act, Audited, Authorized, Guarded, Installation, Read, Write, authorize_installation};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::user::UserSelector;

/// Which group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupSelector {
    /// By id.
    Id(GroupId),
    /// By exact name.
    Name(String),
}

/// Groups.
#[async_trait]
pub trait GroupStore: Send + Sync + 'static {
    /// One group.
    async fn group_for(&self, actor: &Actor, selector: &GroupSelector) -> Result<Guarded<Group>>;
    /// Groups whose name contains `q`.
    async fn group_list(
        &self,
        by: &Authorized<Installation, Read>,
        q: Option<&str>,
        page: &PageRequest,
    ) -> Result<Page<Group>>;
    /// A new group.
    async fn group_create(
        &self,
        by: Audited<'_, Installation, Write>,
        id: GroupId,
        new: &NewGroup,
    ) -> Result<Group>;
    /// A changed group.
    async fn group_update(&self, by: Audited<'_, Group, Write>, change: &GroupChange) -> Result<Group>;
    /// Removes a group with memberships and bindings.
    async fn group_delete(&self, by: Audited<'_, Group, Write>) -> Result<()>;
    /// A membership; the one that exists already when there is one.
    async fn group_member_create(
        &self,
        by: Audited<'_, Group, Write>,
        id: GroupMemberId,
        user: &Authorized<User, Read>,
    ) -> Result<GroupMember>;
    /// Ends a membership.
    async fn group_member_delete(
        &self,
        by: Audited<'_, Group, Write>,
        user: &Authorized<User, Read>,
    ) -> Result<GroupMember>;
    /// Groups of a user.
    async fn groups_of(&self, user: &Authorized<User, Read>) -> Result<Vec<Group>>;
    /// Members of a group.
    async fn group_members(&self, group: &Authorized<Group, Read>) -> Result<Vec<User>>;
    /// Groups by id, in no order; unknown ids are left out.
    async fn groups_named(&self, by: &Authorized<Installation, Read>, ids: &[GroupId]) -> Result<Vec<Group>>;
}

impl App {
    pub(crate) async fn group_for<A: Act>(
        &self,
        ctx: &OpCtx,
        selector: &GroupSelector,
    ) -> Result<Authorized<Group, A>> {
        self.store.group_for(ctx.actor(), selector).await?.authorize(ctx)
    }

    /// One group.
    pub async fn group_get(&self, ctx: &OpCtx, selector: &GroupSelector) -> Result<Group> {
        Ok(self.group_for::<Read>(ctx, selector).await?.into_inner())
    }

    /// Groups whose name contains `q`.
    pub async fn group_list(&self, ctx: &OpCtx, q: Option<&str>, page: &PageArgs) -> Result<Page<Group>> {
        let by = authorize_installation::<Read>(ctx, Scope::Installation)?;
        self.store.group_list(&by, q, &page.request()?).await
    }

    /// Members of a group.
    pub async fn group_members(&self, ctx: &OpCtx, id: GroupId) -> Result<Vec<User>> {
        let group = self.group_for::<Read>(ctx, &GroupSelector::Id(id)).await?;
        self.store.group_members(&group).await
    }

    /// A new group; administrators only.
    pub async fn group_create(&self, ctx: &OpCtx, new: &NewGroup) -> Result<Group> {
        let by = authorize_installation::<Write>(ctx, Scope::Installation)?;
        let id = GroupId::new();
        self.store.group_create(by.audited_new(ctx, "group.create", "group", id, &new.name), id, new).await
    }

    /// A changed group; administrators only.
    pub async fn group_update(&self, ctx: &OpCtx, id: GroupId, change: &GroupChange) -> Result<Group> {
        let group = self.group_for::<Write>(ctx, &GroupSelector::Id(id)).await?;
        self.store.group_update(group.audited(ctx, "group.update"), change).await
    }

    /// Removes a group; administrators only.
    pub async fn group_delete(&self, ctx: &OpCtx, id: GroupId) -> Result<Group> {
        let group = self.group_for::<Write>(ctx, &GroupSelector::Id(id)).await?;
        self.store.group_delete(group.audited(ctx, "group.delete")).await?;
        self.proxy.access_changed();
        Ok(group.into_inner())
    }

    /// Makes a user a member; administrators only. Twice is once.
    pub async fn group_member_create(
        &self,
        ctx: &OpCtx,
        group: GroupId,
        user: UserId,
    ) -> Result<GroupMember> {
        let group = self.group_for::<Write>(ctx, &GroupSelector::Id(group)).await?;
        let user = self.user_for::<Read>(ctx, &UserSelector::Id(user)).await?;
        let by = group.audited(ctx, "group.member.create");
        self.store.group_member_create(by, GroupMemberId::new(), &user).await
    }

    /// Ends a membership; administrators only.
    pub async fn group_member_delete(
        &self,
        ctx: &OpCtx,
        group: GroupId,
        user: UserId,
    ) -> Result<GroupMember> {
        let group = self.group_for::<Write>(ctx, &GroupSelector::Id(group)).await?;
        let user = self.user_for::<Read>(ctx, &UserSelector::Id(user)).await?;
        let ended = self.store.group_member_delete(group.audited(ctx, "group.member.delete"), &user).await?;
        self.proxy.access_changed();
        Ok(ended)
    }
}
