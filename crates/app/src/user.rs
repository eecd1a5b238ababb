//! Users.

use plural_core::access::{Actor, Scope};
use plural_core::{Error, Group, NewUser, Page, PageArgs, Result, User, UserChange, UserId};
use secrecy::SecretString;

use crate::access::{Act, Authorized, Read, Write, authorize_installation};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::hashing::HashFor;
use crate::ports::UserSelector;
use crate::secret::hash_password;

impl App {
    pub(crate) async fn user_for<A: Act>(
        &self,
        ctx: &OpCtx,
        selector: &UserSelector,
    ) -> Result<Authorized<User, A>> {
        self.store.user_for(ctx.actor(), selector).await?.authorize(ctx)
    }

    /// Who the credential speaks for.
    pub async fn user_me(&self, ctx: &OpCtx) -> Result<User> {
        let Actor::User(actor) = ctx.actor() else { return Err(Error::Unauthenticated) };
        self.user_get(ctx, &UserSelector::Id(actor.id)).await
    }

    /// One user.
    pub async fn user_get(&self, ctx: &OpCtx, selector: &UserSelector) -> Result<User> {
        Ok(self.user_for::<Read>(ctx, selector).await?.into_inner())
    }

    /// Users whose address or name contains `q`.
    pub async fn user_list(&self, ctx: &OpCtx, q: Option<&str>, page: &PageArgs) -> Result<Page<User>> {
        let by = authorize_installation::<Read>(ctx, Scope::Installation)?;
        self.store.user_list(&by, q, &page.request()?).await
    }

    /// Groups of a user.
    pub async fn user_groups(&self, ctx: &OpCtx, id: UserId) -> Result<Vec<Group>> {
        let user = self.user_for::<Read>(ctx, &UserSelector::Id(id)).await?;
        self.store.groups_of(&user).await
    }

    /// A new user; administrators only. Without a password it can only call with tokens.
    pub async fn user_create(
        &self,
        ctx: &OpCtx,
        new: &NewUser,
        password: Option<SecretString>,
    ) -> Result<User> {
        let by = authorize_installation::<Write>(ctx, Scope::Installation)?;
        let hash = self.password_hash(password).await?;
        let id = UserId::new();
        self.store
            .user_create(by.audited_new(ctx, "user.create", "user", id, &new.email), id, new, hash)
            .await
    }

    /// A changed user. Users change their own name and password; the address and power of a user
    /// only administrators change.
    pub async fn user_update(
        &self,
        ctx: &OpCtx,
        id: UserId,
        change: &UserChange,
        password: Option<SecretString>,
    ) -> Result<User> {
        let user = self.user_for::<Write>(ctx, &UserSelector::Id(id)).await?;
        if change.admin.is_some_and(|admin| admin != user.admin)
            || change.email.as_ref().is_some_and(|email| *email != user.email)
        {
            authorize_installation::<Write>(ctx, Scope::Installation)?;
        }
        let hash = self.password_hash(password).await?;
        self.store.user_update(user.audited(ctx, "user.update"), change, hash).await
    }

    /// Removes a user; administrators only.
    pub async fn user_delete(&self, ctx: &OpCtx, id: UserId) -> Result<User> {
        let user = self.user_for(ctx, &UserSelector::Id(id)).await?;
        self.store.user_delete(user.audited(ctx, "user.delete")).await?;
        self.proxy.access_changed();
        Ok(user.into_inner())
    }

    async fn password_hash(&self, password: Option<SecretString>) -> Result<Option<String>> {
        let Some(password) = password else { return Ok(None) };
        let _place = self.hashing.place(HashFor::Change)?;
        let _permit = self.hashing.turn().await?;
        tokio::task::spawn_blocking(move || hash_password(&password))
            .await
            .map_err(|cause| Error::internal("hashing a password", cause))?
            .map(Some)
    }
}
