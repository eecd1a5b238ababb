//! Users.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::access::{Actor, Scope, UserActor};
use plural_core::group::Group;
use plural_core::ids::TokenId;
use plural_core::ids::{ProjectId, UserId};
use plural_core::specs::Email;
use plural_core::user::{NewUser, User, UserChange};
use plural_core::{Error, Result};
use secrecy::SecretString;

use crate::access::{
    Admin, Audited, Authorized, Guarded, Installation, Read, Write, authorize_installation, noun,
};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::hashing::HashFor;
use crate::records::{Search, record};
use crate::secret::hash_password;

/// What somebody gave to show that it is them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verified {
    /// Their password, which has this hash: it must still be theirs.
    Password(String),
    /// A code that was shown to them in a browser in which they had just signed in.
    Confirmation,
}

/// What allowed a change. It was looked at before the change is written, and checking a password takes a while: whoever
/// writes makes sure, in the same transaction, that it still holds.
#[derive(Debug)]
pub struct Proof {
    /// Who asks.
    pub caller: UserId,
    /// The token that they came with: it must still be there.
    pub asked_with: Option<TokenId>,
    /// What the caller gave besides.
    pub verified: Option<Verified>,
    /// They did it as an administrator, and must still be one.
    pub as_admin: bool,
}

/// A user to make.
#[derive(Debug)]
pub struct UserCreate {
    /// Id.
    pub id: UserId,
    /// The rest.
    pub new: NewUser,
    /// Argon2id, in PHC form; absent for one that can only call with tokens.
    pub password_hash: Option<String>,
    /// What allowed it, where it had to be proven.
    pub proof: Option<Proof>,
}

/// A password that a user gets.
#[derive(Debug)]
pub struct PasswordSet {
    /// Argon2id, in PHC form.
    pub hash: String,
    /// The user's tokens end, not only their sessions.
    pub end_tokens: bool,
}

/// The first administrator, made with the default project when there are no users yet.
#[derive(Debug)]
pub struct InitialAdmin {
    /// Id of the user to make.
    pub user_id: UserId,
    /// Id of the default project to make.
    pub project_id: ProjectId,
    /// Address.
    pub email: Email,
    /// Argon2id hash.
    pub password_hash: String,
}

/// Which user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserSelector {
    /// By id.
    Id(UserId),
    /// By address.
    Email(Email),
}

noun!(User, "user", u => Some(u.id.uuid()), u.email.to_string());
record!(User, UserId, UserSelector, Search, under: Scope::Installation);

/// Users.
#[async_trait]
pub trait UserStore: Send + Sync + 'static {
    /// Makes the default project and the first administrator; `false` when there already are users.
    async fn user_create_first(
        &self,
        by: Audited<'_, Installation, Admin>,
        admin: &InitialAdmin,
    ) -> Result<bool>;
    /// A new user.
    ///
    /// # Errors
    /// [`plural_core::Error::Unauthenticated`] or [`plural_core::Error::Forbidden`] when its proof holds no more.
    async fn user_create(&self, by: Audited<'_, Installation, Write>, user: UserCreate) -> Result<User>;
    /// A changed user; refuses to leave the installation without an administrator. A new password
    /// ends the user's sessions and what was made with them, and all of their tokens if it says so.
    ///
    /// # Errors
    /// [`plural_core::Error::Unauthenticated`] or [`plural_core::Error::Forbidden`] when the proof holds no more.
    async fn user_update(
        &self,
        by: Audited<'_, User, Write>,
        change: &UserChange,
        password: Option<PasswordSet>,
        proof: Option<&Proof>,
    ) -> Result<User>;
    /// What the user may do is decided for: without a token, and with their groups.
    async fn user_actor(&self, user: &Authorized<User, Read>) -> Result<UserActor>;
    /// Suspends a user, which ends all of their tokens, or lets them in again; refuses to leave no administrator.
    async fn user_suspend(&self, by: Audited<'_, User, Admin>, since: Option<DateTime<Utc>>) -> Result<User>;
    /// Removes a user with tokens, memberships and bindings; refuses the last administrator.
    async fn user_delete(&self, by: Audited<'_, User, Admin>) -> Result<()>;
    /// What a login is checked against: the user and the password's hash, if it has one.
    async fn user_credentials(&self, email: &Email) -> Result<Option<(Guarded<User>, Option<String>)>>;
}

/// A password to set.
#[derive(Debug)]
pub struct NewPassword {
    /// The new one.
    pub text: SecretString,
    /// The password of whoever sets it, where their session is not fresh.
    pub current: Option<SecretString>,
    /// Ends the user's tokens, too; sessions end in any case.
    pub end_tokens: bool,
}

impl NewPassword {
    /// One that is set in a fresh session, and leaves tokens as they are.
    pub fn new(text: SecretString) -> Self {
        Self { text, current: None, end_tokens: false }
    }
}

impl App {
    /// Who the credential speaks for.
    pub async fn user_me(&self, ctx: &OpCtx) -> Result<User> {
        let Actor::User(actor) = ctx.actor() else { return Err(Error::Unauthenticated) };
        self.get::<User>(ctx, &UserSelector::Id(actor.id)).await
    }

    /// Groups of a user.
    pub async fn user_groups(&self, ctx: &OpCtx, id: UserId) -> Result<Vec<Group>> {
        let user = self.authorized::<User, Read>(ctx, &UserSelector::Id(id)).await?;
        self.store.groups_of(&user).await
    }

    /// A new user; administrators only. Without a password it can only call with tokens. Whoever gives it a password or makes
    /// it an administrator proves that it is them.
    pub async fn user_create(
        &self,
        ctx: &OpCtx,
        new: &NewUser,
        password: Option<NewPassword>,
    ) -> Result<User> {
        let by = authorize_installation::<Write>(ctx, Scope::Installation)?;
        let also = new.admin.then_some("making an administrator");
        let (password, proof) = self.password_hash(ctx, password, also).await?;
        let create = UserCreate {
            id: UserId::new(),
            new: new.clone(),
            password_hash: password.map(|set| set.hash),
            proof: proof.map(|proof| Proof { as_admin: true, ..proof }),
        };
        let by = by.audited_new(ctx, "user.create", "user", create.id, &new.email);
        self.store.user_create(by, create).await
    }

    /// A changed user. Users change their own name and password; the address and power of a user
    /// only administrators change. Whoever sets a password, their own or another's, proves with their own that it is them;
    /// so does, by a fresh session where no password is set with it, who changes an address or makes an administrator.
    /// A new password ends the user's sessions, and all of their tokens if that is asked for.
    pub async fn user_update(
        &self,
        ctx: &OpCtx,
        id: UserId,
        change: &UserChange,
        password: Option<NewPassword>,
    ) -> Result<User> {
        let user = self.authorized::<User, Write>(ctx, &UserSelector::Id(id)).await?;
        let change = news(change, &user);
        if user.machine_of.is_some()
            && (password.is_some() || change.admin.is_some() || change.email.is_some())
        {
            return Err(Error::conflict(
                "a service account has no password, keeps its address and is never an administrator",
            ));
        }
        let is_power = change.email.is_some() || change.admin.is_some();
        if is_power {
            authorize_installation::<Write>(ctx, Scope::Installation)?;
        }
        let also = if change.admin == Some(true) {
            Some("making an administrator")
        } else {
            change.email.is_some().then_some("another e-mail address")
        };
        let (password, proof) = self.password_hash(ctx, password, also).await?;
        let proof = proof.map(|proof| Proof { as_admin: is_power || proof.caller != id, ..proof });
        let is_other = password.is_some() || change.admin.is_some() || change.email.is_some();
        let by = user.audited(ctx, "user.update");
        let user = self.store.user_update(by, &change, password, proof.as_ref()).await?;
        if is_other {
            self.proxy.access_changed();
        }
        Ok(user)
    }

    /// Suspends a user: their sessions and tokens end, and they get none until they are let in again. Administrators only.
    pub async fn user_suspend(&self, ctx: &OpCtx, id: UserId) -> Result<User> {
        let user = self.authorized::<User, _>(ctx, &UserSelector::Id(id)).await?;
        let user = self.store.user_suspend(user.audited(ctx, "user.suspend"), Some(ctx.now())).await?;
        self.proxy.access_changed();
        Ok(user)
    }

    /// Lets a suspended user in again; the tokens that they had do not come back. Administrators only.
    pub async fn user_resume(&self, ctx: &OpCtx, id: UserId) -> Result<User> {
        let user = self.authorized::<User, _>(ctx, &UserSelector::Id(id)).await?;
        self.store.user_suspend(user.audited(ctx, "user.resume"), None).await
    }

    /// Removes a user; administrators only.
    pub async fn user_delete(&self, ctx: &OpCtx, id: UserId) -> Result<User> {
        let user = self.authorized::<User, _>(ctx, &UserSelector::Id(id)).await?;
        self.store.user_delete(user.audited(ctx, "user.delete")).await?;
        self.proxy.access_changed();
        Ok(user.into_inner())
    }

    /// What is kept of a new password, and the proof that setting it needs; or the proof that `also` needs, where no
    /// password is set with it.
    async fn password_hash(
        &self,
        ctx: &OpCtx,
        password: Option<NewPassword>,
        also: Option<&str>,
    ) -> Result<(Option<PasswordSet>, Option<Proof>)> {
        let Some(NewPassword { text, current, end_tokens }) = password else {
            let Some(what) = also else { return Ok((None, None)) };
            return Ok((None, self.prove(ctx, None, what).await?));
        };
        let proof = self.prove(ctx, current, "a new password").await?;
        let _place = self.hashing.place(HashFor::Change)?;
        let _permit = self.hashing.turn().await?;
        let hash = tokio::task::spawn_blocking(move || hash_password(&text))
            .await
            .map_err(|cause| Error::internal("hashing a password", cause))??;
        Ok((Some(PasswordSet { hash, end_tokens }), proof))
    }
}

/// The change without what is so already: nobody was asked about that, and writing it could undo what an administrator
/// changes at this moment.
fn news(change: &UserChange, user: &User) -> UserChange {
    let UserChange { email, name, admin } = change.clone();
    UserChange {
        email: email.filter(|email| *email != user.email),
        name,
        admin: admin.filter(|admin| *admin != user.admin),
    }
}
