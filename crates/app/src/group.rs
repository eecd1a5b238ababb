//! Groups and their members.

use async_trait::async_trait;
use plural_core::Result;
use plural_core::access::Scope;
use plural_core::group::{Group, GroupChange, GroupMember, NewGroup};
use plural_core::ids::{GroupId, GroupMemberId, UserId};
use plural_core::user::User;

use crate::access::{Audited, Authorized, Installation, Read, Write, authorize_installation, noun};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::records::{Search, record};
use crate::user::UserSelector;

/// Which group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupSelector {
    /// By id.
    Id(GroupId),
    /// By exact name.
    Name(String),
}

noun!(Group, "group", g => Some(g.id.uuid()), g.name.to_string());
record!(Group, GroupId, GroupSelector, Search, under: Scope::Installation);

/// Groups.
#[async_trait]
pub trait GroupStore: Send + Sync + 'static {
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
}

impl App {
    /// Members of a group.
    pub async fn group_members(&self, ctx: &OpCtx, id: GroupId) -> Result<Vec<User>> {
        let group = self.authorized::<Group, Read>(ctx, &GroupSelector::Id(id)).await?;
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
        let group = self.authorized::<Group, Write>(ctx, &GroupSelector::Id(id)).await?;
        let changed = self.store.group_update(group.audited(ctx, "group.update"), change).await?;
        if group.global && !changed.global {
            self.proxy.access_changed();
        }
        Ok(changed)
    }

    /// Removes a group; administrators only.
    pub async fn group_delete(&self, ctx: &OpCtx, id: GroupId) -> Result<Group> {
        let group = self.authorized::<Group, Write>(ctx, &GroupSelector::Id(id)).await?;
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
        let group = self.authorized::<Group, Write>(ctx, &GroupSelector::Id(group)).await?;
        let user = self.authorized::<User, Read>(ctx, &UserSelector::Id(user)).await?;
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
        let group = self.authorized::<Group, Write>(ctx, &GroupSelector::Id(group)).await?;
        let user = self.authorized::<User, Read>(ctx, &UserSelector::Id(user)).await?;
        let ended = self.store.group_member_delete(group.audited(ctx, "group.member.delete"), &user).await?;
        self.proxy.access_changed();
        Ok(ended)
    }
}
