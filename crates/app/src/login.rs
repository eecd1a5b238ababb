//! Signing in, and the first administrator.

use std::sync::atomic::Ordering;

use chrono::TimeDelta;
use plural_core::access::{Actor, Scope, UserActor};
use plural_core::ids::{ProjectId, UserId};
use plural_core::specs::Email;
use plural_core::token::{TokenScopes, unproven};
use plural_core::user::User;
use plural_core::{Error, PageArgs, Result};
use secrecy::SecretString;

use crate::access::{Admin, Authorized, Write, authorize_installation};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::hashing::HashFor;
use crate::records::Search;
use crate::secret::{hash_password, random_password, verify_password};
use crate::throttle::Subject;
use crate::token::{CreatedToken, TokenKind, parent, proof_of};
use crate::user::{InitialAdmin, Proof, Verified};

/// The first administrator, made at first start. The password is told once.
#[derive(Debug)]
pub struct FirstAdmin {
    /// Address.
    pub email: Email,
    /// Password.
    pub password: SecretString,
}

impl App {
    /// Makes the default project and the first administrator when there are no users yet; `None` otherwise.
    /// Without a given password a random one is drawn.
    pub async fn install(&self, email: &Email, password: Option<SecretString>) -> Result<Option<FirstAdmin>> {
        let ctx = self.system_ctx();
        let by = authorize_installation::<Admin>(&ctx, Scope::AdminOnly)?;
        if !self.list::<User>(&ctx, &Search::default(), &PageArgs::first(1)).await?.edges.is_empty() {
            return Ok(None);
        }
        let password = match password {
            Some(password) => password,
            None => random_password()?,
        };
        let hashing = password.clone();
        let password_hash = tokio::task::spawn_blocking(move || hash_password(&hashing))
            .await
            .map_err(|cause| Error::internal("hashing a password", cause))??;
        let admin = InitialAdmin {
            user_id: UserId::new(),
            project_id: ProjectId::new(),
            email: email.clone(),
            password_hash,
        };
        let by = by.audited_new(&ctx, "installation.create", "user", admin.user_id, email);
        let made = self.store.user_create_first(by, &admin).await?;
        Ok(made.then(|| FirstAdmin { email: email.clone(), password }))
    }

    /// [`Self::session_create_with`] without a code.
    ///
    /// # Errors
    /// As there.
    pub async fn session_create(
        &self,
        ctx: &OpCtx,
        email: &str,
        password: SecretString,
    ) -> Result<CreatedToken> {
        self.session_create_with(ctx, email, password, None).await
    }

    /// Signs in with a password, and a code where the user has a second factor: an access token that ends by itself.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] whatever was wrong; [`Error::Forbidden`] when only the code is missing; [`Error::Unavailable`] after
    /// too many tries, of codes as of passwords.
    pub async fn session_create_with(
        &self,
        ctx: &OpCtx,
        email: &str,
        password: SecretString,
        code: Option<&str>,
    ) -> Result<CreatedToken> {
        let Ok(email) = email.parse::<Email>() else {
            self.audit_sign_in_refused(ctx, None);
            return Err(Error::Unauthenticated);
        };
        let subject = Subject::of(&email, ctx.peer());
        let who = HashFor::SignIn { address: ctx.peer(), at_home: self.throttle.knows(&subject) };
        // Before the try is counted: who finds no place has tried nothing.
        let _place = self.hashing.place(who)?;
        if let Err(error) = self.login_admit(&subject, ctx.now()).await {
            self.audit_sign_in_refused(ctx, None);
            return Err(error);
        }
        let (user, verified) = self.password_verify(&email, password).await?;
        let is_let_in = |user: &&Authorized<User, Write>| verified.is_some() && user.suspended_at.is_none();
        let Some(user) = user.as_ref().filter(is_let_in) else {
            self.audit_sign_in_refused(ctx, user.map(|user| (user.id.uuid(), user.email.to_string())));
            return Err(Error::Unauthenticated);
        };
        if let Err(error) = self.second_factor_check(ctx, user.id, code).await {
            // The try stays counted.
            self.audit_sign_in_refused(ctx, Some((user.id.uuid(), user.email.to_string())));
            return Err(error);
        }
        self.login_succeeded(&subject, ctx.now()).await;
        self.session_open(&self.ctx_of(ctx, user), user, verified.map(Verified::Password)).await
    }

    /// The same request, made by this user: from here on it is they who act.
    pub(crate) fn ctx_of(&self, ctx: &OpCtx, user: &User) -> OpCtx {
        let actor = UserActor {
            id: user.id,
            email: user.email.to_string(),
            admin: user.admin,
            groups: std::collections::HashSet::new(),
            token: None,
        };
        self.ctx(Actor::User(actor)).with_request_id(ctx.request_id()).with_peer(ctx.peer())
    }

    /// A session of a user who has just shown who they are; `verified` is the password that they gave.
    pub(crate) async fn session_open(
        &self,
        ctx: &OpCtx,
        user: &Authorized<User, Write>,
        verified: Option<Verified>,
    ) -> Result<CreatedToken> {
        let hours = TimeDelta::hours(i64::from(self.settings.session_hours));
        let kind = TokenKind { session: true, scopes: TokenScopes::all(), verified, identity: None };
        self.token_issue(ctx, user, kind, Some(ctx.now() + hours), None).await
    }

    /// Makes sure that it is the caller themselves who asks, not somebody who holds a token of theirs. What that stands on
    /// goes to the store with the change; there is none where the console itself asks.
    ///
    /// # Errors
    /// [`Error::Forbidden`] without a password and without a fresh session; as [`Self::password_check`] for a wrong one.
    pub(crate) async fn prove(
        &self,
        ctx: &OpCtx,
        password: Option<SecretString>,
        what: &str,
    ) -> Result<Option<Proof>> {
        let verified = match (self.password_verified(ctx, password).await?, parent(ctx)) {
            (None, Some(token)) if !token.is_fresh(ctx.now()) => return Err(unproven(what)),
            (verified, _) => verified,
        };
        Ok(proof_of(ctx, verified))
    }

    /// The caller's own password, or a code in its place, where they give it now or gave it with the request.
    ///
    /// # Errors
    /// As [`Self::password_check`].
    pub(crate) async fn password_verified(
        &self,
        ctx: &OpCtx,
        password: Option<SecretString>,
    ) -> Result<Option<Verified>> {
        match password {
            Some(password) => self.password_check(ctx, password).await.map(Some),
            None => Ok(ctx.verified().cloned()),
        }
    }

    /// The context of somebody who gave their own password, if they did.
    ///
    /// # Errors
    /// As [`Self::password_check`].
    pub async fn proven(&self, ctx: &OpCtx, password: Option<SecretString>) -> Result<OpCtx> {
        let Some(password) = password else { return Ok(ctx.clone()) };
        let verified = self.password_check(ctx, password).await?;
        Ok(ctx.clone().with_proof(verified))
    }

    /// Checks the caller's own password, or the code that stands in its place. Guesses count as those of a sign-in do: a stolen token is no
    /// faster way to try passwords.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a wrong one; [`Error::Unavailable`] after too many.
    async fn password_check(&self, ctx: &OpCtx, password: SecretString) -> Result<Verified> {
        let Actor::User(actor) = ctx.actor() else { return Err(Error::Unauthenticated) };
        let email: Email =
            actor.email.parse().map_err(|cause| Error::internal("reading the caller's address", cause))?;
        let subject = Subject::of(&email, ctx.peer());
        let _place = self.hashing.place(HashFor::Change)?;
        self.login_admit(&subject, ctx.now()).await?;
        if self.confirmation_take(ctx, actor.id, &password).await? {
            self.login_succeeded(&subject, ctx.now()).await;
            return Ok(Verified::Confirmation);
        }
        let (_, verified) = self.password_verify(&email, password).await?;
        let Some(verified) = verified else {
            self.audit_sign_in_refused(ctx, Some((actor.id.uuid(), actor.email.clone())));
            return Err(Error::invalid("currentPassword", "is not your password"));
        };
        self.login_succeeded(&subject, ctx.now()).await;
        Ok(Verified::Password(verified))
    }

    /// The user of an address, and the hash of their password where it is this one. Costs the same whether or not there is
    /// such a user, and whether or not they have a password.
    async fn password_verify(
        &self,
        email: &Email,
        password: SecretString,
    ) -> Result<(Option<Authorized<User, Write>>, Option<String>)> {
        let found = self.store.user_credentials(email).await?;
        let (user, hash) = found.map_or((None, None), |(user, hash)| (Some(user), hash));
        let permit = self.hashing.turn().await?;
        self.password_checks.fetch_add(1, Ordering::Relaxed);
        let verified = tokio::task::spawn_blocking(move || {
            let fits = verify_password(&password, hash.as_deref());
            hash.filter(|_| fits)
        })
        .await
        .map_err(|cause| Error::internal("checking a password", cause))?;
        drop(permit);
        if verified.is_none() {
            metrics::counter!("plural_logins_failed_total").increment(1);
        }
        let user = user.map(|user| user.authorize::<Write>(&self.system_ctx())).transpose()?;
        Ok((user, verified))
    }

    /// Argon2 verifications since the start: what tells whether a refusal cost as much as another one.
    pub fn password_checks(&self) -> u64 {
        self.password_checks.load(Ordering::Relaxed)
    }
}
