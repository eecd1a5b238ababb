//! Logins of programs that a person allows in a browser: `plural login`. The program shows a code, the person enters it on a page of
//! the console, sees who asks, and allows it with a click; the program asks with a secret of its own until that was done.

use std::net::IpAddr;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use plural_core::access::{Actor, UserActor};
use plural_core::ids::{ProgramLoginId, TokenId, UserId};
use plural_core::specs::Email;
use plural_core::token::{PresentedToken, TokenScopes};
use plural_core::user::User;
use plural_core::{Error, Result};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use crate::access::{Audited, Write};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::secret::{TokenHash, random, random_letters, typed_letters};
use crate::throttle::Subject;
use crate::token::{CreatedToken, TokenKind, parent};
use crate::user::UserSelector;

/// How long a code can be entered, and its login fetched.
pub const LASTS: TimeDelta = TimeDelta::minutes(10);
/// How long a login holds that somebody allowed who signed in a moment ago; any other ends with their session.
const TOKEN_LASTS: TimeDelta = TimeDelta::days(30);
/// Logins that may wait to be allowed: at once, and of them from one address.
pub const WAITING: (u64, u64) = (5_000, 20);
/// Letters of a code: 20^8 of them, of which nobody tries more than a few.
const LETTERS: usize = 8;
/// Characters of what a program calls itself.
const LONGEST: usize = 80;

/// A login that waits to be allowed.
#[derive(Debug, Clone)]
pub struct ProgramLogin {
    /// Id.
    pub id: ProgramLoginId,
    /// What the program calls itself: anybody may say anything.
    pub label: String,
    /// From where it asked.
    pub address: Option<IpAddr>,
    /// When it asked.
    pub created_at: DateTime<Utc>,
    /// Until when it can be allowed and fetched.
    pub expires_at: DateTime<Utc>,
    /// Who allowed it, if somebody did.
    pub allowed: Option<LoginAllowed>,
}

/// That somebody allowed a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginAllowed {
    /// Who.
    pub user: UserId,
    /// With which session: it must still be there when the login is fetched.
    pub with: TokenId,
    /// When the token ends by itself.
    pub ends: Option<DateTime<Utc>>,
    /// The token also ends with the session.
    pub is_bound: bool,
}

/// A login to keep until it is allowed.
#[derive(Debug)]
pub struct ProgramLoginCreate {
    /// What it is.
    pub login: ProgramLogin,
    /// Hash of the program's secret.
    pub device: TokenHash,
    /// Hash of the person's code.
    pub code: TokenHash,
}

/// Logins that wait to be allowed.
#[async_trait]
pub trait ProgramLoginStore: Send + Sync + 'static {
    /// Keeps one, and forgets those that are over.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when too many wait, all in all or from its address.
    async fn program_login_create(&self, create: &ProgramLoginCreate) -> Result<()>;
    /// The one with this code that nobody allowed yet.
    async fn program_login_by_code(
        &self,
        code: &TokenHash,
        now: DateTime<Utc>,
    ) -> Result<Option<ProgramLogin>>;
    /// The one that a program asks for.
    async fn program_login_by_device(
        &self,
        device: &TokenHash,
        now: DateTime<Utc>,
    ) -> Result<Option<ProgramLogin>>;
    /// Allows one, once; `false` when it is gone or was allowed.
    async fn program_login_allow(
        &self,
        by: Audited<'_, User, Write>,
        id: ProgramLoginId,
        allowed: &LoginAllowed,
    ) -> Result<bool>;
    /// Removes one; `false` when it is gone.
    async fn program_login_take(&self, id: ProgramLoginId) -> Result<bool>;
}

/// A login that a program began.
#[derive(Debug)]
pub struct BegunLogin {
    /// The program's secret.
    pub device: SecretString,
    /// For the person, as `BCDF-GHJK`.
    pub code: String,
    /// Seconds until both are worth nothing.
    pub seconds: i64,
}

/// What a program hears that asks for its login.
#[derive(Debug)]
pub enum FetchedLogin {
    /// Nobody allowed it yet.
    Pending,
    /// It was allowed; this is told once.
    Allowed(CreatedToken),
    /// It was refused, fetched before, or took too long.
    Gone,
}

impl App {
    /// A program asks for a login; anybody may.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name that cannot be shown; [`Error::Unavailable`] when too many wait.
    pub async fn program_login_begin(&self, ctx: &OpCtx, label: &str) -> Result<BegunLogin> {
        let label = label.trim();
        if label.is_empty() || label.chars().count() > LONGEST || label.chars().any(char::is_control) {
            return Err(Error::invalid(
                "client",
                format!("must have between 1 and {LONGEST} printable characters"),
            ));
        }
        let device = hex::encode(random::<32>()?);
        let code = random_letters(LETTERS)?;
        let now = ctx.now();
        let login = ProgramLogin {
            id: ProgramLoginId::new(),
            label: label.to_owned(),
            address: ctx.peer(),
            created_at: now,
            expires_at: now + LASTS,
            allowed: None,
        };
        let create = ProgramLoginCreate { login, device: TokenHash::of(&device), code: hash(&code) };
        self.store.program_login_create(&create).await?;
        let shown = format!("{}-{}", &code[..LETTERS / 2], &code[LETTERS / 2..]);
        Ok(BegunLogin { device: SecretString::from(device), code: shown, seconds: LASTS.num_seconds() })
    }

    /// Who asks, for whoever enters a code. Wrong codes are counted as wrong passwords are.
    ///
    /// # Errors
    /// [`Error::NotFound`] for a code that is none (any more); [`Error::Unavailable`] after too many.
    pub async fn program_login_look(&self, ctx: &OpCtx, code: &str) -> Result<(ProgramLogin, LoginAllowed)> {
        let user = person(ctx)?;
        // Counted apart from passwords: nobody is kept out of their account by it.
        let name = format!("{}@codes.invalid", user.id.uuid());
        let name: Email = name.parse().map_err(|cause| Error::internal("counting codes", cause))?;
        let subject = Subject::of(&name, ctx.peer());
        self.login_admit(&subject, ctx.now()).await?;
        let found = self.store.program_login_by_code(&hash(&typed_letters(code, LETTERS)), ctx.now()).await?;
        let login = found.ok_or(Error::not_found("login with this code"))?;
        self.login_succeeded(&subject, ctx.now()).await;
        Ok((login, allowed(ctx, user)?))
    }

    /// Allows a login: the program signs in as the caller.
    ///
    /// # Errors
    /// As [`Self::program_login_look`].
    pub async fn program_login_allow(&self, ctx: &OpCtx, code: &str) -> Result<ProgramLogin> {
        let (login, allowed) = self.program_login_look(ctx, code).await?;
        let user = self.authorized::<User, Write>(ctx, &UserSelector::Id(allowed.user)).await?;
        let by = user.audited_new(ctx, "login.allow", "login", login.id, &login.label);
        if !self.store.program_login_allow(by, login.id, &allowed).await? {
            return Err(Error::not_found("login with this code"));
        }
        Ok(login)
    }

    /// Refuses a login.
    ///
    /// # Errors
    /// As [`Self::program_login_look`].
    pub async fn program_login_refuse(&self, ctx: &OpCtx, code: &str) -> Result<()> {
        let (login, _) = self.program_login_look(ctx, code).await?;
        self.store.program_login_take(login.id).await.map(drop)
    }

    /// A program asks whether its login was allowed.
    pub async fn program_login_fetch(&self, ctx: &OpCtx, device: &SecretString) -> Result<FetchedLogin> {
        let text = device.expose_secret();
        if text.len() > 256 {
            return Ok(FetchedLogin::Gone);
        }
        let found = self.store.program_login_by_device(&TokenHash::of(text), ctx.now()).await?;
        let Some(login) = found else { return Ok(FetchedLogin::Gone) };
        let Some(LoginAllowed { user, with, ends, is_bound }) = login.allowed else {
            return Ok(FetchedLogin::Pending);
        };
        // Of two that ask at once one gets it.
        if !self.store.program_login_take(login.id).await? {
            return Ok(FetchedLogin::Gone);
        }
        let system = self.system_ctx().with_request_id(ctx.request_id());
        let user = self.authorized::<User, Write>(&system, &UserSelector::Id(user)).await?;
        // It is the person who acts, with the session that they allowed it in.
        let presented = PresentedToken {
            id: with,
            scopes: TokenScopes::all(),
            expires_at: ends,
            signed_in_at: None,
            assumed_by: None,
        };
        let actor = UserActor {
            id: user.id,
            email: user.email.to_string(),
            admin: user.admin,
            groups: std::collections::HashSet::new(),
            token: Some(presented),
        };
        let ctx = self.ctx(Actor::User(actor)).with_request_id(ctx.request_id()).with_peer(ctx.peer());
        let kind = TokenKind { session: false, scopes: TokenScopes::all(), verified: None, identity: None };
        match self.token_issue(&ctx, &user, kind, ends, is_bound.then_some(with)).await {
            Ok(token) => Ok(FetchedLogin::Allowed(token)),
            // The session that allowed it ended.
            Err(Error::Unauthenticated) => Ok(FetchedLogin::Gone),
            Err(error) => Err(error),
        }
    }
}

/// Who allows something: a person, not a service account that somebody assumed.
fn person(ctx: &OpCtx) -> Result<&UserActor> {
    match ctx.actor() {
        Actor::User(user) if user.token.as_ref().is_some_and(|token| token.assumed_by.is_some()) => {
            Err(Error::forbidden("a service account lets no program sign in"))
        }
        Actor::User(user) => Ok(user),
        Actor::Nobody | Actor::Cluster(_) | Actor::Registration(_) | Actor::System => {
            Err(Error::Unauthenticated)
        }
    }
}

/// What the caller allows: a login that outlasts their session only where they signed in a moment ago.
fn allowed(ctx: &OpCtx, user: &UserActor) -> Result<LoginAllowed> {
    let session = parent(ctx).ok_or(Error::Unauthenticated)?;
    let now = ctx.now();
    let is_fresh = session.is_fresh(now);
    let ends = session.bound(now + TOKEN_LASTS, now);
    Ok(LoginAllowed { user: user.id, with: session.id, ends: Some(ends), is_bound: !is_fresh })
}

fn hash(code: &str) -> TokenHash {
    TokenHash::from_bytes(Sha256::digest(format!("login code\n{code}")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_however_they_are_typed() {
        let code = random_letters(LETTERS).unwrap();
        assert!(code.len() == LETTERS && code.bytes().all(|byte| byte.is_ascii_uppercase()), "{code}");
        let typed = format!(" {}-{} ", code[..4].to_lowercase(), &code[4..]);
        assert_eq!(typed_letters(&typed, LETTERS), code);
        assert!(hash(&typed_letters("x".repeat(1000).as_str(), LETTERS)) != hash(&code));
    }
}
