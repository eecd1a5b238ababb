//! From the `Authorization` header to an actor, and to a place for its request.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use axum::{
    Json,
    http::{
        HeaderMap, HeaderValue, StatusCode,
        header::{AUTHORIZATION, RETRY_AFTER},
        request::Parts,
    },
    response::{IntoResponse as _, Response},
};
use parking_lot::Mutex;
use plural_app::secret::TokenHash;
use plural_app::{App, OpCtx};
use plural_core::access::{Actor, check_scopes};
use plural_core::ids::RequestId;
use plural_core::run_call::{RUN_TOKEN_PREFIX, is_run_token};
use plural_core::token::DEPLOY_TOKEN_PREFIX;
use plural_core::{Error, ErrorCode, Result};
use plural_kit::{Permit, Permits, Visit, network_of};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;

use crate::{
    client_address::client_address,
    http::{Api, refuse},
    site::Cookie,
};

/// Requests of one user at once, with whatever tokens.
const OF_USER: usize = 128;
/// Requests with one token at once.
const OF_TOKEN: usize = 64;
/// Connections on which one user was the first to show a credential: watches through `/k8s` each take one.
pub const CONNECTIONS_OF_USER: usize = 1_280;
/// Requests of nobody at once: sign-ins, whose bodies are held until they are read.
pub(crate) const OF_NOBODY: usize = 2_048;
/// Of these, those of one address.
const OF_ADDRESS: usize = 32;
/// Requests of the Jobs of runs at once, and those of one Job: its log, its signs of life, its tool's state.
const OF_RUNS: (usize, usize) = (4_096, 16);
/// Connections on which the Job of one run was the first to show its credential: its harness has a few, and its tool.
const CONNECTIONS_OF_RUN: usize = 32;
/// Credentials that are looked up at once, and those from one address: they may be none, and many people may share one.
const LOOKUPS: (usize, usize) = (2_048, 256);

/// Who is counted as one: a user, or whoever asks from an address (an IPv6 network is one) without a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Party {
    User(u128),
    Address(Option<IpAddr>),
}

impl Party {
    pub(crate) fn of(actor: &Actor, address: Option<IpAddr>) -> Self {
        match actor {
            Actor::User(user) => Self::User(user.id.uuid().as_u128()),
            Actor::Nobody | Actor::Cluster(_) | Actor::Registration(_) | Actor::Run(_) | Actor::System => {
                Self::Address(address.map(network_of))
            }
        }
    }
}

/// Who has how many requests open.
#[derive(Debug, Clone)]
pub(crate) struct RequestPermits {
    users: Arc<Permits<u128>>,
    tokens: Arc<Permits<u128>>,
    nobody: Arc<Permits<Option<IpAddr>>>,
    runs: Arc<Permits<u128>>,
    lookups: Arc<Permits<Option<IpAddr>>>,
}

impl Default for RequestPermits {
    fn default() -> Self {
        Self {
            users: Permits::new(usize::MAX, OF_USER),
            tokens: Permits::new(usize::MAX, OF_TOKEN),
            nobody: Permits::new(OF_NOBODY, OF_ADDRESS),
            runs: Permits::new(OF_RUNS.0, OF_RUNS.1),
            lookups: Permits::new(LOOKUPS.0, LOOKUPS.1),
        }
    }
}

impl RequestPermits {
    /// A place for a request until it is known whose it is.
    fn lookup(&self, address: Option<IpAddr>) -> std::result::Result<Permit<Option<IpAddr>>, Box<Response>> {
        let place = self.lookups.take(address.map(network_of));
        place.ok_or_else(|| Box::new(too_many("credentials from this address")))
    }
}

/// Who asks, and from where; its place is taken until this is dropped.
pub(crate) struct Caller {
    pub(crate) actor: Actor,
    pub(crate) address: Option<IpAddr>,
    /// The connection that the request came on.
    pub(crate) visit: Weak<Visit>,
    pub(crate) places: CallerPermits,
}

/// A request's places, held while it is open.
#[expect(dead_code, reason = "held, never read")]
pub(crate) enum CallerPermits {
    User(Permit<u128>, Option<Permit<u128>>),
    Nobody(Permit<Option<IpAddr>>),
    Run(Permit<u128>),
}

/// Who asks, by the head of a request, with a place for it.
///
/// # Errors
/// The answer: 401 for a credential that is none, 429 for one request too many.
pub(crate) async fn caller(
    api: &Api,
    parts: &Parts,
    request_id: RequestId,
) -> std::result::Result<Caller, Box<Response>> {
    identified(api, parts, request_id, actor(api, parts)).await
}

/// The same by a token that is known already.
///
/// # Errors
/// As [`caller`].
pub(crate) async fn bearer(
    api: &Api,
    parts: &Parts,
    request_id: RequestId,
    token: &SecretString,
) -> std::result::Result<Caller, Box<Response>> {
    identified(api, parts, request_id, user(&api.app, token.expose_secret())).await
}

/// The Job of a run, by a token that [`run_token`] found: only the door of runs asks for it.
///
/// # Errors
/// As [`caller`].
pub(crate) async fn run(
    api: &Api,
    parts: &Parts,
    request_id: RequestId,
    token: &SecretString,
) -> std::result::Result<Caller, Box<Response>> {
    identified(api, parts, request_id, api.app.run_authenticate(token.expose_secret())).await
}

/// The same by its credential for the state, which its commands have: only the door of states asks for it.
///
/// # Errors
/// As [`caller`].
pub(crate) async fn run_state(
    api: &Api,
    parts: &Parts,
    request_id: RequestId,
    token: &SecretString,
) -> std::result::Result<Caller, Box<Response>> {
    identified(api, parts, request_id, api.app.run_state_authenticate(token.expose_secret())).await
}

/// Whether a token says that it is a credential of a run, whichever of the two: the doors tell them apart.
pub(crate) fn is_of_run(token: &SecretString) -> bool {
    token.expose_secret().starts_with(RUN_TOKEN_PREFIX)
}

/// The bearer token, if it says that it is a credential of a run.
pub(crate) fn run_token(headers: &HeaderMap) -> Option<SecretString> {
    let token = token(headers).ok().flatten().map(SecretString::from)?;
    is_of_run(&token).then_some(token)
}

/// The bearer token, if it says that it is of a run or of an agent. The door of GraphQL asks for it: it has operations for these.
pub(crate) fn runner_token(headers: &HeaderMap) -> Option<SecretString> {
    let token = token(headers).ok().flatten().map(SecretString::from)?;
    (is_of_run(&token) || token.expose_secret().starts_with(DEPLOY_TOKEN_PREFIX)).then_some(token)
}

/// The Job of a run, the actor of one, or an agent, by a token that [`runner_token`] found.
///
/// # Errors
/// As [`caller`].
pub(crate) async fn runner(
    api: &Api,
    parts: &Parts,
    request_id: RequestId,
    token: &SecretString,
) -> std::result::Result<Caller, Box<Response>> {
    let actor = async {
        if is_run_token(token.expose_secret()) {
            return api.app.run_authenticate(token.expose_secret()).await;
        }
        match api.app.actor_authenticate(token.expose_secret()).await? {
            actor @ Actor::Cluster(_) => Ok(actor),
            actor @ Actor::User(_) if actor.run_project().is_some() => Ok(actor),
            Actor::User(_) | Actor::Registration(_) | Actor::Run(_) | Actor::Nobody | Actor::System => {
                Err(Error::Unauthenticated)
            }
        }
    };
    identified(api, parts, request_id, actor).await
}

async fn identified(
    api: &Api,
    parts: &Parts,
    request_id: RequestId,
    actor: impl Future<Output = Result<Actor>>,
) -> std::result::Result<Caller, Box<Response>> {
    let address = client_address(&parts.extensions, &parts.headers, &api.options.trusted_proxies);
    // Until it was looked up, a credential is a stranger's.
    let lookup = api.places.lookup(address)?;
    let actor = actor.await.map_err(|error| {
        if let code @ ErrorCode::Unauthenticated = error.code() {
            let op = api.app.ctx(Actor::Nobody).with_request_id(request_id).with_peer(address);
            api.app.audit_refused(&op, "token", code);
        }
        Box::new(refuse(&error, request_id))
    })?;
    let caller = admit(api, parts, actor, address)?;
    drop(lookup);
    api.app.audit_token_used(&caller.actor, request_id, address).await;
    Ok(caller)
}

/// Who visits one of our pages, by the session cookie alone: a page only shows, and its forms are looked at further.
/// A session that is over is none.
///
/// # Errors
/// The answer: 429 for one request too many, 503 without a database.
pub(crate) async fn visitor(
    api: &Api,
    parts: &Parts,
    request_id: RequestId,
) -> std::result::Result<Caller, Box<Response>> {
    let address = client_address(&parts.extensions, &parts.headers, &api.options.trusted_proxies);
    let lookup = api.places.lookup(address)?;
    let cookie = api.site.as_ref().and_then(|site| site.read(&parts.headers, Cookie::Session).ok().flatten());
    let actor = match cookie {
        None => Actor::Nobody,
        Some(token) => match user(&api.app, token).await {
            Ok(actor) => actor,
            Err(Error::Unauthenticated | Error::Forbidden { .. }) => Actor::Nobody,
            Err(error) => return Err(Box::new(refuse(&error, request_id))),
        },
    };
    let caller = admit(api, parts, actor, address)?;
    drop(lookup);
    api.app.audit_token_used(&caller.actor, request_id, address).await;
    Ok(caller)
}

/// Takes a place for a request.
fn admit(
    api: &Api,
    parts: &Parts,
    actor: Actor,
    address: Option<IpAddr>,
) -> std::result::Result<Caller, Box<Response>> {
    let RequestPermits { users, tokens, nobody, runs, lookups: _ } = &api.places;
    let visit = parts.extensions.get::<Arc<Visit>>();
    let places = match &actor {
        Actor::User(user) => {
            let id = user.id.uuid().as_u128();
            if let Some(visit) = visit
                && !visit.authenticated(id, CONNECTIONS_OF_USER)
            {
                return Err(Box::new(too_many("connections of this user")));
            }
            let of_user = users.take(id).ok_or_else(|| Box::new(too_many("requests of this user")))?;
            let of_token = match &user.token {
                None => None,
                Some(token) => {
                    let place = tokens.take(token.id.uuid().as_u128());
                    Some(place.ok_or_else(|| Box::new(too_many("requests with this token")))?)
                }
            };
            CallerPermits::User(of_user, of_token)
        }
        Actor::Run(run) => {
            let id = run.run.uuid().as_u128();
            if let Some(visit) = visit
                && !visit.authenticated(id, CONNECTIONS_OF_RUN)
            {
                return Err(Box::new(too_many("connections of this run")));
            }
            let place = runs.take(id);
            CallerPermits::Run(place.ok_or_else(|| Box::new(too_many("requests of this run")))?)
        }
        Actor::Nobody | Actor::Cluster(_) | Actor::Registration(_) | Actor::System => {
            let place = nobody.take(address.map(network_of));
            CallerPermits::Nobody(place.ok_or_else(|| Box::new(too_many("requests without a credential")))?)
        }
    };
    Ok(Caller { actor, address, visit: visit.map_or_else(Weak::new, Arc::downgrade), places })
}

fn too_many(what: &str) -> Response {
    metrics::counter!("plural_requests_refused_total").increment(1);
    let told = format!("too many {what} at once; retry in a second");
    let retry = [(RETRY_AFTER, HeaderValue::from_static("1"))];
    (StatusCode::TOO_MANY_REQUESTS, retry, Json(json!({"message": told}))).into_response()
}

/// The token of `Authorization: Token …` or `Authorization: Bearer …`; some clients write `Token:`.
/// `None` without the header.
///
/// # Errors
/// [`Error::Unauthenticated`] for another scheme, two headers, or text that no token can be.
fn token(headers: &HeaderMap) -> Result<Option<&str>> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Error::Unauthenticated);
    }
    let text = value.to_str().map_err(|_| Error::Unauthenticated)?;
    let (scheme, token) = text.trim().split_once(' ').ok_or(Error::Unauthenticated)?;
    let scheme = scheme.strip_suffix(':').unwrap_or(scheme);
    if !scheme.eq_ignore_ascii_case("token") && !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Error::Unauthenticated);
    }
    Ok(Some(token.trim()))
}

/// Who asks: nobody without a credential, else the user that it speaks for. A session cookie counts where there is no header.
///
/// # Errors
/// [`Error::Unauthenticated`] for a credential that is wrong, expired, revoked or an agent's: agents have
/// a door of their own. [`Error::Forbidden`] for a token that reaches only clusters.
async fn actor(api: &Api, parts: &Parts) -> Result<Actor> {
    let Parts { method, headers, .. } = parts;
    let session = match (token(headers)?, &api.site) {
        (Some(token), _) => Some(token),
        (None, Some(site)) => site.session(method, headers)?,
        (None, None) => None,
    };
    match session {
        Some(token) => user(&api.app, token).await,
        None => Ok(Actor::Nobody),
    }
}

/// The token that a socket is opened with: of the header, or of the session cookie where our own page opens it.
///
/// # Errors
/// [`Error::Unauthenticated`] for a header that is none; [`Error::Forbidden`] for another page.
pub(crate) fn socket_token(api: &Api, headers: &HeaderMap) -> Result<Option<SecretString>> {
    let token = match (token(headers)?, &api.site) {
        (Some(token), _) => Some(token),
        (None, Some(site)) => site.session_of_socket(headers)?,
        (None, None) => None,
    };
    Ok(token.map(SecretString::from))
}

/// For so long what a token stands for is known to all sockets of it.
const KNOWN: Duration = Duration::from_millis(900);
/// Tokens from which on those are forgotten that nobody asked about a moment ago.
const MOST_KNOWN: usize = 1_000;

/// Whom tokens of open sockets stand for: pages of one browser, and the subscriptions of each, ask once a second together.
#[derive(Clone, Default)]
pub(crate) struct KnownActors(Arc<Mutex<HashMap<TokenHash, (Instant, Actor)>>>);

impl KnownActors {
    fn get(&self, token: &TokenHash) -> Option<Actor> {
        let known = self.0.lock();
        known.get(token).filter(|(at, _)| at.elapsed() < KNOWN).map(|(_, actor)| actor.clone())
    }

    /// `at` is when it was asked for, not when it was told.
    fn keep(&self, token: TokenHash, at: Instant, actor: &Actor) {
        let mut known = self.0.lock();
        if known.len() >= MOST_KNOWN {
            known.retain(|_, (at, _)| at.elapsed() < KNOWN);
        }
        known.insert(token, (at, actor.clone()));
    }
}

/// A credential of somebody who stays: it is looked at again and again.
pub(crate) struct Presented {
    pub(crate) app: Arc<App>,
    token: SecretString,
    pub(crate) request_id: RequestId,
    address: Option<IpAddr>,
    known: KnownActors,
}

impl Presented {
    pub(crate) fn new(
        app: Arc<App>,
        token: SecretString,
        request_id: RequestId,
        address: Option<IpAddr>,
        known: KnownActors,
    ) -> Self {
        Self { app, token, request_id, address, known }
    }

    /// Who that is now, or was less than a second ago. What they may see is another question.
    ///
    /// # Errors
    /// As for any request.
    pub(crate) async fn op(&self) -> Result<OpCtx> {
        let token = TokenHash::of(self.token.expose_secret());
        let actor = if let Some(actor) = self.known.get(&token) {
            actor
        } else {
            let asked = Instant::now();
            let actor = user(&self.app, self.token.expose_secret()).await?;
            self.known.keep(token, asked, &actor);
            actor
        };
        Ok(self.app.ctx(actor).with_request_id(self.request_id).with_peer(self.address))
    }
}

/// The user that a token speaks for.
async fn user(app: &App, token: &str) -> Result<Actor> {
    match app.actor_authenticate(token).await? {
        Actor::User(user) => {
            let actor = Actor::User(user);
            // Nothing is read of a request whose token opens nothing here.
            check_scopes(&actor)?;
            Ok(actor)
        }
        // Nothing but the one use case that it is for lets it in.
        actor @ Actor::Registration(_) => Ok(actor),
        // `actor_authenticate` answers none of the last three; this does not rest on it.
        Actor::Cluster(_) | Actor::Run(_) | Actor::Nobody | Actor::System => Err(Error::Unauthenticated),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (AUTHORIZATION, HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn what_a_token_stands_for_is_known_for_less_than_a_second() {
        let (known, other) = (KnownActors::default(), TokenHash::of("console-2"));
        let token = TokenHash::of("console-1");
        let now = Instant::now();
        known.keep(token, now + Duration::from_mins(1), &Actor::Nobody);
        assert_eq!((known.get(&token), known.get(&other)), (Some(Actor::Nobody), None));
        known.keep(token, now.checked_sub(KNOWN).unwrap(), &Actor::Nobody);
        assert_eq!(known.get(&token), None);
    }

    #[test]
    fn credentials_from_one_address_are_looked_up_so_many_at_a_time() {
        let places = RequestPermits::default();
        let address = |last: u8| Some(IpAddr::from([192, 0, 2, last]));
        let held: Vec<_> = (0..LOOKUPS.1).map(|_| places.lookup(address(1)).unwrap()).collect();
        assert_eq!(places.lookup(address(1)).unwrap_err().status(), StatusCode::TOO_MANY_REQUESTS);
        assert!(places.lookup(address(2)).is_ok());
        drop(held);
        assert!(places.lookup(address(1)).is_ok());
    }

    #[test]
    fn the_schemes_that_clients_use() {
        for value in ["Token console-1", "Token: console-1", "token  console-1", "Bearer console-1"] {
            assert_eq!(token(&headers(&[value])).unwrap(), Some("console-1"), "{value}");
        }
        assert_eq!(token(&headers(&[])).unwrap(), None);
    }

    #[test]
    fn a_credential_of_a_run_is_known_by_its_beginning() {
        let found = |values| run_token(&headers(values)).map(|found| found.expose_secret().to_owned());
        assert_eq!(found(&["Bearer run-1"]).as_deref(), Some("run-1"));
        assert_eq!(found(&["Bearer run-state-1"]).as_deref(), Some("run-state-1"));
        for values in [&["Bearer console-1"][..], &["Bearer xrun-1"], &["Basic cnVuLTE="], &[]] {
            assert_eq!(found(values), None, "{values:?}");
        }
    }

    #[test]
    fn anything_else_is_no_credential() {
        for values in [&["Basic YTpi"][..], &["console-1"], &[""], &["Token a", "Token b"]] {
            assert!(matches!(token(&headers(values)), Err(Error::Unauthenticated)), "{values:?}");
        }
    }
}
