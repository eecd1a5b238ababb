//! Requests with limits, and with credentials that stay at home.

use std::{
    collections::HashMap,
    error::Error as _,
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use plural_kit::{Permit, Permits};
use plural_reach::{Guard, OutOfReach};
use reqwest::{
    Certificate, Proxy, Response, StatusCode, Url,
    header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, LOCATION},
};
use tokio::{sync::Semaphore, time::timeout};

use crate::{
    access::{Access, Origin, shown},
    client::{Options, SignIn},
    error::{Cause, Error, Result},
    reach::check_url,
};

/// Redirects that are followed.
const REDIRECTS: usize = 5;
/// Clients kept, one for each set of certificates and proxy.
const CLIENTS: usize = 128;

/// Which proxies requests go through when a repository names none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proxies {
    /// None.
    None,
    /// Those of the environment (`HTTPS_PROXY`, `NO_PROXY`, …). The proxy looks names up then, so only the proxy's own
    /// address and literal addresses are checked.
    Environment,
}

/// Certificates and proxy.
type ClientKey = (Option<String>, Option<String>);

pub(crate) struct Http {
    options: Options,
    clients: Mutex<HashMap<ClientKey, reqwest::Client>>,
    hosts: Mutex<HashMap<Origin, Weak<Semaphore>>>,
    /// Room for the bytes of bodies, by party.
    room: Arc<Permits<Arc<str>>>,
}

/// A GET.
pub(crate) struct Get<'a> {
    pub(crate) url: Url,
    pub(crate) access: &'a Access,
    /// Sent to `access`' own origin only, whatever `url` is.
    pub(crate) authorization: Option<HeaderValue>,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// Bytes of the body.
    pub(crate) limit: u64,
}

pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Http {
    pub(crate) fn new(options: Options) -> Self {
        // Losing the race to another caller that installs one is fine: they are the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let room = Permits::leaving_room(usize::try_from(options.held_bytes).unwrap_or(usize::MAX));
        Self { options, clients: Mutex::default(), hosts: Mutex::default(), room }
    }

    /// Sign-in services that the operator knows.
    pub(crate) fn sign_in(&self) -> &[SignIn] {
        &self.options.sign_in
    }

    /// Asks, follows redirects and reads the answer, all within the options' time.
    pub(crate) async fn get(&self, get: Get<'_>) -> Result<Reply> {
        let what = shown(&get.url);
        match timeout(self.options.timeout, self.follow(get)).await {
            Ok(reply) => reply,
            Err(_) => Err(Error::new(
                Cause::Unavailable,
                format!("{what} did not answer within {} s", self.options.timeout.as_secs()),
            )),
        }
    }

    async fn follow(&self, get: Get<'_>) -> Result<Reply> {
        let Get { mut url, access, mut authorization, headers, limit } = get;
        // A token that anybody gets is no credential.
        let secret = authorization.is_some() && access.has_credentials();
        if secret && url.scheme() != "https" && !self.options.credentials_over_http {
            return Err(Error::new(
                Cause::Refused,
                format!(
                    "the credentials of {} are not sent over http: use https, or have the console's operator allow it \
                     (--allow-credentials-over-http)",
                    shown(&url)
                ),
            ));
        }
        let home = Origin::of(&access.url);
        let client = self.client(access)?;
        for _ in 0..=REDIRECTS {
            check_url(self.options.reach, &url)?;
            // Once away from home it stays at home: a way back through another host is not trusted either.
            if Origin::of(&url) != home {
                authorization = None;
            }
            let host = self.host(&url);
            let _permit = host.acquire().await.map_err(|_| unavailable(&url, "the console stops"))?;
            let mut call = client.get(url.clone());
            for (name, value) in &headers {
                call = call.header(name, value);
            }
            if let Some(value) = &authorization {
                call = call.header(AUTHORIZATION, value);
            }
            let response = call.send().await.map_err(|error| explain(&url, &error))?;
            if is_redirect(response.status()) {
                let next = location(&response, &url)?;
                if url.scheme() == "https" && next.scheme() != "https" {
                    return Err(Error::new(
                        Cause::Refused,
                        format!("{} redirects from https to {}", shown(&url), next.scheme()),
                    ));
                }
                url = next;
                continue;
            }
            let (status, headers) = (response.status(), response.headers().clone());
            let body = read(response, &url, limit, (&self.room, &access.party)).await?;
            return Ok(Reply { status, headers, body });
        }
        Err(Error::new(Cause::Refused, format!("{} redirects more than {REDIRECTS} times", shown(&url))))
    }

    /// What limits the requests to one host, so that a hung one holds nothing but its own.
    fn host(&self, url: &Url) -> Arc<Semaphore> {
        let mut hosts = self.hosts.lock();
        let origin = Origin::of(url);
        if let Some(found) = hosts.get(&origin).and_then(Weak::upgrade) {
            return found;
        }
        hosts.retain(|_, host| host.strong_count() > 0);
        let host = Arc::new(Semaphore::new(self.options.per_host.max(1)));
        hosts.insert(origin, Arc::downgrade(&host));
        host
    }

    fn client(&self, access: &Access) -> Result<reqwest::Client> {
        let key = (access.ca_pem.clone(), access.proxy.clone());
        let mut clients = self.clients.lock();
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        let at = shown(&access.url);
        let mut builder = reqwest::Client::builder()
            .user_agent(&self.options.user_agent)
            .connect_timeout(self.options.timeout.min(Duration::from_secs(10)))
            .read_timeout(self.options.timeout.min(Duration::from_secs(30)))
            .pool_max_idle_per_host(self.options.per_host)
            .pool_idle_timeout(Duration::from_secs(20))
            // Followed here, where it is known to whom a credential belongs.
            .redirect(reqwest::redirect::Policy::none())
            .dns_resolver(Guard { reach: self.options.reach, lookup: Arc::clone(&self.options.lookup) });
        if let Some(proxy) = &access.proxy {
            let url = Url::parse(proxy)
                .map_err(|_| Error::invalid(format!("the proxy of {at} is not an address")))?;
            check_url(self.options.reach, &url)?;
            let proxy = Proxy::all(proxy)
                .map_err(|_| Error::invalid(format!("the proxy of {at} is not an address")))?;
            builder = builder.no_proxy().proxy(proxy);
        } else if self.options.proxies == Proxies::None {
            builder = builder.no_proxy();
        }
        if let Some(pem) = &access.ca_pem {
            let certificates =
                Certificate::from_pem_bundle(pem.as_bytes()).ok().filter(|found| !found.is_empty());
            let certificates = certificates
                .ok_or_else(|| Error::invalid(format!("the certificates of {at} are not in PEM form")))?;
            builder = builder.tls_certs_merge(certificates);
        }
        let client = builder.build().map_err(|error| {
            Error::new(Cause::Unavailable, format!("cannot prepare to talk to {at}: {error}"))
        })?;
        if clients.len() >= CLIENTS {
            clients.clear();
        }
        clients.insert(key, client.clone());
        Ok(client)
    }
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

fn location(response: &Response, url: &Url) -> Result<Url> {
    let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let next = target.and_then(|target| url.join(target).ok());
    match next {
        Some(mut next) if matches!(next.scheme(), "http" | "https") => {
            // A user in the target would be sent as a credential.
            let _ = next.set_username("");
            let _ = next.set_password(None);
            Ok(next)
        }
        _ => Err(Error::new(Cause::Refused, format!("{} redirects to an invalid web address", shown(url)))),
    }
}

/// Bytes of a body that need no room: small answers always pass.
const SMALL: usize = 256 << 10;
/// Larger ones take room by so many bytes.
const STEP: usize = 1 << 20;

/// A body that gives its room back with its last clone.
struct Held {
    body: Vec<u8>,
    _room: Vec<Permit<Arc<str>>>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

async fn read(
    mut response: Response,
    url: &Url,
    limit: u64,
    (room, party): (&Arc<Permits<Arc<str>>>, &Arc<str>),
) -> Result<Bytes> {
    let too_large = || Error::new(Cause::TooLarge, format!("{} has more than {limit} bytes", shown(url)));
    if response.content_length().is_some_and(|length| length > limit) {
        return Err(too_large());
    }
    let mut body = Vec::new();
    let mut held: Vec<Permit<Arc<str>>> = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| explain(url, &error))? {
        if body.len() as u64 + chunk.len() as u64 > limit {
            return Err(too_large());
        }
        while body.len() + chunk.len() > SMALL + held.len() * STEP {
            // Nobody waits while holding a part: who finds no room gives up, and is tried again.
            let more = room.take_many(Arc::clone(party), STEP);
            held.push(
                more.ok_or_else(|| unavailable(url, "too much is being read from other machines at once"))?,
            );
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Bytes::from_owner(Held { body, _room: held }))
}

/// A failed request in words. The library's own text holds the whole address, so only its innermost cause is shown.
fn explain(url: &Url, error: &reqwest::Error) -> Error {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        if inner.downcast_ref::<OutOfReach>().is_some() {
            return Error::new(Cause::Refused, inner.to_string());
        }
        cause = inner;
    }
    if cause.downcast_ref::<OutOfReach>().is_some() {
        return Error::new(Cause::Refused, cause.to_string());
    }
    if error.is_timeout() {
        return unavailable(url, "it does not answer");
    }
    let text = if error.source().is_none() { "the request failed".to_owned() } else { cause.to_string() };
    unavailable(url, &text)
}

fn unavailable(url: &Url, why: &str) -> Error {
    Error::new(Cause::Unavailable, format!("cannot read {}: {why}", shown(url)))
}

/// A status that is no success, in words.
pub(crate) fn refusal(url: &Url, reply: &Reply, what: &str) -> Error {
    let at = shown(url);
    match reply.status.as_u16() {
        401 => Error::new(
            Cause::Unauthorized,
            format!("{at} wants other credentials (401): give them with the repository"),
        ),
        403 => Error::new(Cause::Unauthorized, format!("{at} does not allow reading {what} (403)")),
        404 | 410 => Error::new(Cause::NotFound, format!("{at} has no {what}")),
        status @ (408 | 425 | 429 | 500..) => {
            Error::new(Cause::Unavailable, format!("{at} cannot answer now (status {status})"))
        }
        status => Error::new(Cause::Malformed, format!("{at} answers with status {status}")),
    }
}
