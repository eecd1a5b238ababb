//! Identities of users: looking at them, and taking one from an account.

use async_trait::async_trait;
use plural_core::Result;
use plural_core::ids::{UserId, UserIdentityId};
use plural_core::user::User;
use plural_core::user_identity::UserIdentity;

use crate::access::{Admin, Audited, Authorized, Write};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::user::UserSelector;

/// Identities of users.
#[async_trait]
pub trait UserIdentityStore: Send + Sync + 'static {
    /// Those of a user, oldest first.
    async fn user_identities(&self, user: &Authorized<User, Write>) -> Result<Vec<UserIdentity>>;
    /// Takes one from its account: the sessions that it made end, and all tokens of the account where that leaves no way to sign in.
    ///
    /// # Errors
    /// [`plural_core::Error::NotFound`] when the user has no such identity.
    async fn user_identity_delete(
        &self,
        by: Audited<'_, User, Admin>,
        id: UserIdentityId,
    ) -> Result<UserIdentity>;
}

impl App {
    /// The identities that a user signs in with, oldest first: for the user and for administrators.
    pub async fn user_identities(&self, ctx: &OpCtx, user: UserId) -> Result<Vec<UserIdentity>> {
        let user = self.authorized::<User, Write>(ctx, &UserSelector::Id(user)).await?;
        self.store.user_identities(&user).await
    }

    /// Takes an identity from an account, so that its subject signs in as somebody else, or not at all. Administrators only.
    /// Memberships that its provider gave end, too.
    pub async fn user_identity_delete(
        &self,
        ctx: &OpCtx,
        user: UserId,
        id: UserIdentityId,
    ) -> Result<UserIdentity> {
        let user = self.authorized::<User, Admin>(ctx, &UserSelector::Id(user)).await?;
        let gone = self.store.user_identity_delete(user.audited(ctx, "identity.untie"), id).await?;
        self.proxy.access_changed();
        Ok(gone)
    }
}
