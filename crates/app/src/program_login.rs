//! Logins of programs that a person allows in a browser: `plural login`. The person comes to a page of the console with a code, sees who
//! asks, and allows it with a click.
//!
//! A program on another machine shows the code, and asks with a secret of its own until that was done (RFC 8628). One on the person's own
//! machine listens on loopback: the browser brings it a grant (RFC 8252), which counts with the program's verifier only (RFC 7636). So
//! who sends somebody the address of such a login gains nothing: the grant goes to the machine of whoever clicks.

use std::collections::HashMap;
use std::net::IpAddr;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::Mutex;
use plural_core::access::{Actor, UserActor};
use plural_core::ids::{ProgramLoginId, TokenId, UserId};
use plural_core::specs::Email;
use plural_core::token::{PresentedToken, TokenScopes};
use plural_core::user::User;
use plural_core::{Error, Result};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

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
/// Logins that may wait to be allowed.
pub const WAITING: Waiting = Waiting { all: 5_000, of_network: 200, of_address: 20 };
/// Seconds between two questions of a program, at first; each that comes too early adds some, up to a limit.
pub const INTERVAL: u32 = 2;
const SLOWER: u32 = 5;
const SLOWEST: u32 = 60;
/// Letters of a code: 20^8 of them, of which nobody tries more than a few.
const LETTERS: usize = 8;
/// Characters of what a program calls itself.
const LONGEST: usize = 80;
/// Characters of what a program tells its own request by.
const LONGEST_STATE: usize = 128;

/// How many logins may wait to be allowed.
#[derive(Debug, Clone, Copy)]
pub struct Waiting {
    /// Of all; beyond that the oldest goes of the network that has most.
    pub all: u64,
    /// Of the addresses that one network has to give: a /24 of IPv4, a /48 of IPv6.
    pub of_network: u64,
    /// Of one address; a /64 of IPv6 is one.
    pub of_address: u64,
}

/// Where a program listens on the machine of the person who lets it in, and what proves that it is the one that asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loopback {
    /// `http://127.0.0.1:PORT/…`.
    pub redirect: String,
    /// SHA-256 of its verifier.
    pub challenge: [u8; 32],
    /// What it tells its own request by.
    pub state: String,
}

impl Loopback {
    /// What a program said of itself; `challenge` as RFC 7636 writes it, by the method `S256`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another machine, a challenge that is none, a state that is none or too long.
    pub fn parse(redirect: &str, challenge: &str, state: &str) -> Result<Self> {
        if !is_loopback(redirect) {
            let told = "must be http://127.0.0.1:PORT/PATH, of letters and digits";
            return Err(Error::invalid("redirect_uri", told));
        }
        let bytes = URL_SAFE_NO_PAD.decode(challenge).ok().and_then(|bytes| bytes.try_into().ok());
        let challenge =
            bytes.ok_or_else(|| Error::invalid("code_challenge", "must be a SHA-256, by the method S256"))?;
        let is_plain = state.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        if state.len() < 16 || state.len() > LONGEST_STATE || !is_plain {
            let told = format!("must have between 16 and {LONGEST_STATE} letters and digits");
            return Err(Error::invalid("state", told));
        }
        Ok(Self { redirect: redirect.to_owned(), challenge, state: state.to_owned() })
    }

    /// The page of the program, with what it is told.
    fn told(&self, name: &str, value: &str) -> String {
        format!("{}?{name}={value}&state={}", self.redirect, self.state)
    }

    /// Where it listens, as browsers name it.
    pub fn origin(&self) -> &str {
        let path = self.redirect.match_indices('/').nth(2);
        path.map_or(&*self.redirect, |(at, _)| &self.redirect[..at])
    }
}

/// Whether this is a page of a program on the machine of whoever opens it, by a literal address. The policy of our page has to name it,
/// which cannot name one of IPv6.
fn is_loopback(redirect: &str) -> bool {
    let Some(rest) = redirect.strip_prefix("http://127.0.0.1:") else { return false };
    let Some((port, path)) = rest.split_once('/') else { return false };
    let is_port =
        port.parse::<u16>().is_ok_and(|port| port > 0) && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_/".contains(&byte);
    is_port && path.len() <= 64 && path.bytes().all(is_plain)
}

/// A login that waits to be allowed.
#[derive(Debug, Clone)]
pub struct ProgramLogin {
    /// Id.
    pub id: ProgramLoginId,
    /// What the program calls itself: anybody may say anything.
    pub label: String,
    /// From where it asked.
    pub address: Option<IpAddr>,
    /// Where it listens, if it does; else it asks whether it was allowed.
    pub loopback: Option<Loopback>,
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
    /// Keeps one, and forgets those that are over. Where too many of all wait, the oldest goes of the network of which most wait.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when too many wait of its network, or of its address.
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
    /// The one that was allowed with this grant.
    async fn program_login_by_grant(
        &self,
        grant: &TokenHash,
        now: DateTime<Utc>,
    ) -> Result<Option<ProgramLogin>>;
    /// Allows one, once; `false` when it is gone or was allowed. One that listens is fetched with the grant.
    async fn program_login_allow(
        &self,
        by: Audited<'_, User, Write>,
        id: ProgramLoginId,
        allowed: &LoginAllowed,
        grant: Option<&TokenHash>,
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
    /// The same, and the program asks too often.
    TooOften,
    /// It was allowed; this is told once.
    Allowed(CreatedToken),
    /// It was refused, fetched before, or took too long.
    Gone,
}

/// When programs asked last, on this replica, and how long each has to wait. One that asks several replicas in turn waits at each.
#[derive(Debug, Default)]
pub(crate) struct ProgramPaces {
    asked: Mutex<HashMap<ProgramLoginId, Pace>>,
}

#[derive(Debug, Clone, Copy)]
struct Pace {
    last: DateTime<Utc>,
    seconds: u32,
    until: DateTime<Utc>,
}

impl ProgramPaces {
    /// Whether a program waited as long as it has to; if not, it has to wait longer from now on.
    fn may_ask(&self, login: &ProgramLogin, now: DateTime<Utc>) -> bool {
        let mut asked = self.asked.lock();
        // No more than may wait at once, but for those that are over.
        if asked.len() as u64 >= WAITING.all {
            asked.retain(|_, pace| pace.until > now);
        }
        let Some(pace) = asked.get_mut(&login.id) else {
            asked.insert(login.id, Pace { last: now, seconds: INTERVAL, until: login.expires_at });
            return true;
        };
        let is_early = now - pace.last < TimeDelta::seconds(i64::from(pace.seconds));
        // What it waits for begins with this question: RFC 8628 §3.5.
        pace.last = now;
        if is_early {
            pace.seconds = (pace.seconds + SLOWER).min(SLOWEST);
        }
        !is_early
    }

    fn forget(&self, login: ProgramLoginId) {
        self.asked.lock().remove(&login);
    }
}

impl App {
    /// A program asks for a login; anybody may.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name that cannot be shown; [`Error::Unavailable`] when too many wait.
    pub async fn program_login_begin(
        &self,
        ctx: &OpCtx,
        label: &str,
        loopback: Option<Loopback>,
    ) -> Result<BegunLogin> {
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
            loopback,
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

    /// Allows a login: the program signs in as the caller. Where the browser goes with that, if the program listens.
    ///
    /// # Errors
    /// As [`Self::program_login_look`].
    pub async fn program_login_allow(&self, ctx: &OpCtx, code: &str) -> Result<Option<String>> {
        let (login, allowed) = self.program_login_look(ctx, code).await?;
        let user = self.authorized::<User, Write>(ctx, &UserSelector::Id(allowed.user)).await?;
        let by = user.audited_new(ctx, "login.allow", "login", login.id, &login.label);
        let grant = login.loopback.as_ref().map(|_| random::<32>().map(hex::encode)).transpose()?;
        let hash = grant.as_deref().map(TokenHash::of);
        if !self.store.program_login_allow(by, login.id, &allowed, hash.as_ref()).await? {
            return Err(Error::not_found("login with this code"));
        }
        Ok(login.loopback.zip(grant).map(|(loopback, grant)| loopback.told("code", &grant)))
    }

    /// Refuses a login. Where the browser goes with that, if the program listens.
    ///
    /// # Errors
    /// As [`Self::program_login_look`].
    pub async fn program_login_refuse(&self, ctx: &OpCtx, code: &str) -> Result<Option<String>> {
        let (login, _) = self.program_login_look(ctx, code).await?;
        self.store.program_login_take(login.id).await?;
        Ok(login.loopback.map(|loopback| loopback.told("error", "access_denied")))
    }

    /// A program asks whether its login was allowed.
    pub async fn program_login_fetch(&self, ctx: &OpCtx, device: &SecretString) -> Result<FetchedLogin> {
        let text = device.expose_secret();
        if text.len() > 256 {
            return Ok(FetchedLogin::Gone);
        }
        let found = self.store.program_login_by_device(&TokenHash::of(text), ctx.now()).await?;
        // One that listens gets its grant from the browser, and in no other way.
        let Some(login) = found.filter(|login| login.loopback.is_none()) else {
            return Ok(FetchedLogin::Gone);
        };
        let Some(allowed) = login.allowed.clone() else {
            let may_ask = self.program_paces.may_ask(&login, ctx.now());
            return Ok(if may_ask { FetchedLogin::Pending } else { FetchedLogin::TooOften });
        };
        self.program_login_deliver(ctx, &login, allowed).await
    }

    /// A program brings the grant that a browser brought it. Whoever has the grant and not the verifier ends the login.
    pub async fn program_login_redeem(
        &self,
        ctx: &OpCtx,
        grant: &SecretString,
        verifier: &SecretString,
        redirect: &str,
    ) -> Result<FetchedLogin> {
        let (text, verifier) = (grant.expose_secret(), verifier.expose_secret());
        if text.len() > 256 || verifier.len() > 256 {
            return Ok(FetchedLogin::Gone);
        }
        let found = self.store.program_login_by_grant(&TokenHash::of(text), ctx.now()).await?;
        let Some(login) = found else { return Ok(FetchedLogin::Gone) };
        let (Some(allowed), Some(loopback)) = (login.allowed.clone(), &login.loopback) else {
            return Ok(FetchedLogin::Gone);
        };
        let proof = Sha256::digest(verifier.as_bytes());
        let is_its: bool = proof.as_slice().ct_eq(&loopback.challenge[..]).into();
        if !is_its || loopback.redirect != redirect {
            self.store.program_login_take(login.id).await?;
            return Ok(FetchedLogin::Gone);
        }
        self.program_login_deliver(ctx, &login, allowed).await
    }

    /// The token of a login that was allowed, once.
    async fn program_login_deliver(
        &self,
        ctx: &OpCtx,
        login: &ProgramLogin,
        allowed: LoginAllowed,
    ) -> Result<FetchedLogin> {
        let LoginAllowed { user, with, ends, is_bound } = allowed;
        self.program_paces.forget(login.id);
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
        Actor::Nobody | Actor::Cluster(_) | Actor::Registration(_) | Actor::Run(_) | Actor::System => {
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

    #[test]
    fn a_program_listens_on_the_persons_own_machine() {
        let challenge = URL_SAFE_NO_PAD.encode([7; 32]);
        let state = "0123456789abcdef";
        for ours in ["http://127.0.0.1:40001/", "http://127.0.0.1:1/callback", "http://127.0.0.1:65535/a/b"] {
            let loopback = Loopback::parse(ours, &challenge, state).unwrap();
            assert!(ours.starts_with(&format!("{}/", loopback.origin())), "{ours}: {}", loopback.origin());
        }
        for other in [
            "https://127.0.0.1:40001/",
            "http://127.0.0.1/",
            "http://127.0.0.1:40001",
            "http://127.0.0.1:0/",
            "http://127.0.0.1:+80/",
            "http://127.0.0.1:65536/",
            "http://localhost:40001/",
            "http://127.0.0.1:40001@evil.test/",
            "http://127.0.0.1:40001/?x=",
            "http://127.0.0.1:40001/#",
            "http://127.0.0.1:40001/; script-src *",
            "http://127.0.0.2:40001/",
            "http://[::1]:40001/",
            "http://evil.test/",
            "",
        ] {
            assert!(Loopback::parse(other, &challenge, state).is_err(), "{other}");
        }
        let ours = "http://127.0.0.1:40001/";
        for (challenge, state) in [
            ("", state),
            ("AAAA", state),
            (&*challenge, ""),
            (&*challenge, "short"),
            (&*challenge, "0123456789abcde&x=y"),
        ] {
            assert!(Loopback::parse(ours, challenge, state).is_err(), "{challenge} {state}");
        }
    }

    #[test]
    fn who_asks_too_often_waits_longer_and_longer() {
        let paces = ProgramPaces::default();
        let now = Utc::now();
        let login = ProgramLogin {
            id: ProgramLoginId::new(),
            label: "a program".to_owned(),
            address: None,
            loopback: None,
            created_at: now,
            expires_at: now + LASTS,
            allowed: None,
        };
        let asks = |after: i64| paces.may_ask(&login, now + TimeDelta::seconds(after));
        assert!(asks(0) && asks(2) && asks(4), "as often as it was told");
        assert!(!asks(5), "too early: seven seconds from now on");
        assert!(!asks(11), "too early again: twelve");
        assert!(asks(23) && asks(35));
        for at in 36..60 {
            assert!(!asks(at));
        }
        assert!(!asks(118) && asks(178), "a minute at most");
        paces.forget(login.id);
        assert!(asks(178));
    }
}
