//! A second factor for those who sign in with a password: one-time codes of an authenticator app, and codes for who has lost it.
//!
//! Whoever signs in with an identity provider shows what that asks for; a token stands for a login that was complete.

use async_trait::async_trait;
use plural_core::access::Actor;
use plural_core::data_key::KeyOwner;
use plural_core::ids::UserId;
use plural_core::second_factor::{RECOVERY_CODES, SECRET_BYTES, accepted, app_address, base32};
use plural_core::specs::Email;
use plural_core::user::User;
use plural_core::{Error, Result};
use secrecy::SecretString;
use sha2::{Digest as _, Sha256};

use crate::access::{Admin, Audited, Authorized, Write};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::seal::Sealed;
use crate::secret::{TokenHash, random, random_letters, typed_letters};
use crate::throttle::Subject;
use crate::user::{Proof, UserSelector};

/// Letters of a recovery code: more than anybody tries.
const LETTERS: usize = 12;

/// What an app was given, and how far its codes were used.
#[derive(Debug, Clone)]
pub struct SecondFactor {
    /// The secret, sealed for `user:ID:second-factor`.
    pub secret: Sealed,
    /// A code of it was shown once: it is asked for from then on.
    pub confirmed: bool,
    /// The last step whose code was used.
    pub last: i64,
}

/// What was used in the place of a password's second half.
#[derive(Debug, Clone, Copy)]
pub enum UsedFactor {
    /// A code of the app, of this step.
    Step(i64),
    /// A recovery code, with this hash.
    Recovery(TokenHash),
}

/// Second factors.
#[async_trait]
pub trait SecondFactorStore: Send + Sync + 'static {
    /// What a user's app was given, if there is one.
    async fn second_factor(&self, user: UserId) -> Result<Option<SecondFactor>>;
    /// Keeps a secret that no code was shown of yet, in the place of another such; [`Error::Conflict`] beside a confirmed one.
    async fn second_factor_begin(
        &self,
        by: Audited<'_, User, Write>,
        secret: &Sealed,
        proof: Option<&Proof>,
    ) -> Result<()>;
    /// From now on this secret's codes are asked for; the codes for who has lost the app take the place of others.
    async fn second_factor_confirm(
        &self,
        by: Audited<'_, User, Write>,
        secret: &Sealed,
        step: i64,
        recovery: &[TokenHash],
    ) -> Result<()>;
    /// Takes note of what was used; [`Error::Unauthenticated`] when it was used before.
    async fn second_factor_use(&self, user: UserId, used: UsedFactor) -> Result<()>;
    /// Ends it with its codes; whether there was one.
    async fn second_factor_end(&self, by: Audited<'_, User, Write>, proof: Option<&Proof>) -> Result<bool>;
}

/// What a person gives to their app.
#[derive(Debug)]
pub struct BegunFactor {
    /// `otpauth://…`, for a link or a picture.
    pub address: SecretString,
    /// The same secret, to be typed.
    pub secret: SecretString,
}

impl App {
    /// Whether a user's second factor is asked for; for the user and for administrators.
    pub async fn second_factor_is_on(&self, ctx: &OpCtx, id: UserId) -> Result<bool> {
        let user = self.authorized::<User, Write>(ctx, &UserSelector::Id(id)).await?;
        Ok(self.store.second_factor(user.id).await?.is_some_and(|factor| factor.confirmed))
    }

    /// A secret for the caller's app; nothing is asked for before a code of it was shown. Needs the caller's password, or a session
    /// of a moment ago.
    pub async fn second_factor_begin(
        &self,
        ctx: &OpCtx,
        password: Option<SecretString>,
    ) -> Result<BegunFactor> {
        let user = self.caller(ctx).await?;
        let proof = self.prove(ctx, password, "a second factor").await?;
        let secret = random::<SECRET_BYTES>()?;
        let sealed = self.sealer.seal(KeyOwner::Installation, &context(user.id), &secret).await?;
        let by = user.audited(ctx, "second_factor.begin");
        self.store.second_factor_begin(by, &sealed, proof.as_ref()).await?;
        let address = app_address(&secret, user.email.as_str());
        Ok(BegunFactor { address: address.into(), secret: base32(&secret).into() })
    }

    /// The caller shows a code of their app: from now on one is asked for. Codes for the day that the app is lost; they are told
    /// once.
    pub async fn second_factor_confirm(&self, ctx: &OpCtx, code: &str) -> Result<Vec<SecretString>> {
        let user = self.caller(ctx).await?;
        let missing = || Error::conflict("there is nothing to confirm: begin with a new secret");
        let factor = self.store.second_factor(user.id).await?.filter(|factor| !factor.confirmed);
        let factor = factor.ok_or_else(missing)?;
        let secret = self.sealer.open(&context(user.id), &factor.secret).await?;
        let step = accepted(&secret, code, factor.last, ctx.now());
        let step = step.ok_or_else(|| Error::invalid("code", "is not what the app shows now"))?;
        let mut codes = Vec::with_capacity(RECOVERY_CODES);
        for _ in 0..RECOVERY_CODES {
            codes.push(random_letters(LETTERS)?);
        }
        let hashes: Vec<TokenHash> = codes.iter().map(|code| hash(user.id, code)).collect();
        let by = user.audited(ctx, "second_factor.confirm");
        self.store.second_factor_confirm(by, &factor.secret, step, &hashes).await?;
        Ok(codes.into_iter().map(SecretString::from).collect())
    }

    /// Ends the caller's second factor, with a code of it and their password or a session of a moment ago.
    pub async fn second_factor_end(
        &self,
        ctx: &OpCtx,
        password: Option<SecretString>,
        code: Option<&str>,
    ) -> Result<bool> {
        let user = self.caller(ctx).await?;
        let proof = self.prove_with_code(ctx, password, code, ENDING).await?;
        self.store.second_factor_end(user.audited(ctx, "second_factor.end"), proof.as_ref()).await
    }

    /// Ends the second factor of a user who has lost their app and their codes; administrators who prove that it is them.
    pub async fn second_factor_reset(
        &self,
        ctx: &OpCtx,
        id: UserId,
        password: Option<SecretString>,
        code: Option<&str>,
    ) -> Result<bool> {
        // To write is everybody's own right.
        self.authorized::<User, Admin>(ctx, &UserSelector::Id(id)).await?;
        let user = self.authorized::<User, Write>(ctx, &UserSelector::Id(id)).await?;
        let proof = self.prove_with_code(ctx, password, code, ENDING).await?;
        let proof = proof.map(|proof| Proof { as_admin: true, ..proof });
        self.store.second_factor_end(user.audited(ctx, "second_factor.reset"), proof.as_ref()).await
    }

    /// [`Self::prove`], and a code where the caller has a second factor. Guesses count as those of a sign-in do.
    pub(crate) async fn prove_with_code(
        &self,
        ctx: &OpCtx,
        password: Option<SecretString>,
        code: Option<&str>,
        what: &str,
    ) -> Result<Option<Proof>> {
        let proof = self.prove(ctx, password, what).await?;
        if let Actor::User(actor) = ctx.actor() {
            let email: Email = actor
                .email
                .parse()
                .map_err(|cause| Error::internal("reading the caller's address", cause))?;
            let subject = Subject::of(&email, ctx.peer());
            self.login_admit(&subject, ctx.now()).await?;
            self.second_factor_check(ctx, actor.id, code).await.map_err(|error| match error {
                Error::Unauthenticated => Error::invalid("code", "is not what the app shows now"),
                other => other,
            })?;
            self.login_succeeded(&subject, ctx.now()).await;
        }
        Ok(proof)
    }

    /// Checks what somebody gives beside the right password.
    ///
    /// # Errors
    /// [`Error::Forbidden`] when a code is wanted and none was given; [`Error::Unauthenticated`] for a wrong one.
    pub(crate) async fn second_factor_check(
        &self,
        ctx: &OpCtx,
        user: UserId,
        code: Option<&str>,
    ) -> Result<()> {
        let factor = self.store.second_factor(user).await?.filter(|factor| factor.confirmed);
        let Some(factor) = factor else { return Ok(()) };
        let Some(code) = code.map(str::trim).filter(|code| !code.is_empty()) else {
            return Err(Error::forbidden(CODE_WANTED));
        };
        let secret = self.sealer.open(&context(user), &factor.secret).await?;
        let used = match accepted(&secret, code, factor.last, ctx.now()) {
            Some(step) => UsedFactor::Step(step),
            None => UsedFactor::Recovery(hash(user, &typed_letters(code, LETTERS))),
        };
        self.store.second_factor_use(user, used).await
    }

    async fn caller(&self, ctx: &OpCtx) -> Result<Authorized<User, Write>> {
        let Actor::User(actor) = ctx.actor() else { return Err(Error::Unauthenticated) };
        self.authorized::<User, Write>(ctx, &UserSelector::Id(actor.id)).await
    }
}

/// What a proof with a code is for.
const ENDING: &str = "ending a second factor";

/// What is told to whoever signs in with a password alone and has a second factor.
pub const CODE_WANTED: &str = "a code of your authenticator app is wanted as well, or a recovery code";

fn context(id: UserId) -> String {
    format!("user:{id}:second-factor")
}

fn hash(user: UserId, code: &str) -> TokenHash {
    TokenHash::from_bytes(Sha256::digest(format!("recovery code\n{user}\n{code}")).into())
}
