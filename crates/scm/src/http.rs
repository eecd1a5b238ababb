//! Requests with limits, and with a credential that stays at home.

use std::{error::Error as _, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use plural_reach::{Guard, OutOfReach, Reach};
use reqwest::{
    Certificate, Method, Proxy, Response, StatusCode, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER},
};
use secrecy::ExposeSecret as _;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    app_token::{AppToken, Token},
    connection::{Connection, Credentials, HostKind, Options, Proxies},
    error::{Cause, Error, Result},
    names::printable,
    port::List,
};

/// Redirects of a read that are followed within the host: a renamed repository.
const REDIRECTS: usize = 3;
/// All answers of a list together are at most so many times the bytes of one.
const ANSWERS: usize = 8;
/// Tokens of an App that are held: each is of one repository.
const TOKENS: usize = 100;
/// The longest time to wait that is believed.
const LONGEST_WAIT: Duration = Duration::from_hours(1);
/// The time to wait where a host names none.
const SOME_WAIT: Duration = Duration::from_mins(1);

enum Auth {
    Fixed(HeaderValue),
    App(Box<AppToken>),
}

pub(crate) struct Http {
    client: reqwest::Client,
    base: Url,
    auth: Auth,
    reach: Reach,
    timeout: Duration,
    body_bytes: usize,
    pages: usize,
    accept: &'static str,
    /// How many pieces of an address, behind the API's own, name the repository.
    place: usize,
}

/// What is sent.
struct Payload {
    kind: String,
    bytes: Bytes,
}

pub(crate) struct Reply {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    at: String,
}

impl Payload {
    fn json(value: &Value) -> Self {
        Self { kind: "application/json".to_owned(), bytes: value.to_string().into() }
    }
}

impl Reply {
    /// The body as what it should be.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T> {
        // The parser's message may quote the body, which may hold a token.
        serde_json::from_slice(&self.body)
            .map_err(|_| Error::new(Cause::Malformed, format!("the answer of {} cannot be read", self.at)))
    }
}

impl Http {
    pub(crate) fn new(base: Url, connection: &Connection, options: &Options) -> Result<Self> {
        // Losing the race to another caller that installs one is fine: they are the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        check_url(options.reach, &base)?;
        if base.scheme() != "https" && !options.credentials_over_http {
            return Err(Error::new(
                Cause::Refused,
                format!(
                    "the credential of {base} is not sent over http: use https, or have the console's operator allow it \
                     (--allow-credentials-over-http)"
                ),
            ));
        }
        let auth = match &connection.credentials {
            Credentials::Token(token) => {
                let token = token.expose_secret().trim();
                let is_password = connection.kind == HostKind::AzureDevOps && !is_signed(token);
                Auth::Fixed(if is_password { basic("", token)? } else { bearer(token)? })
            }
            Credentials::Basic { username, password } => {
                Auth::Fixed(basic(username, password.expose_secret().trim())?)
            }
            Credentials::App { app_id, installation_id, private_key } => {
                Auth::App(Box::new(AppToken::new(*app_id, *installation_id, private_key)?))
            }
        };
        let accept = match connection.kind {
            HostKind::GitHub => "application/vnd.github+json",
            _ => "application/json",
        };
        let place = match connection.kind {
            // projects/GROUP%2FNAME
            HostKind::GitLab => 2,
            // repos/OWNER/NAME, repositories/WORKSPACE/NAME
            HostKind::GitHub | HostKind::Gitea | HostKind::BitbucketCloud => 3,
            // rest/api/1.0/projects/KEY/repos/NAME
            HostKind::BitbucketDataCenter => 7,
            // PROJECT/_apis/git/repositories/NAME
            HostKind::AzureDevOps => 5,
        };
        Ok(Self {
            client: client(connection, options)?,
            base,
            auth,
            reach: options.reach,
            timeout: options.timeout,
            body_bytes: options.body_bytes,
            pages: options.pages.max(1),
            accept,
            place,
        })
    }

    /// The App that requests are made as.
    pub(crate) fn app_id(&self) -> Option<u64> {
        match &self.auth {
            Auth::Fixed(_) => None,
            Auth::App(app) => Some(app.app_id),
        }
    }

    /// An address of the API. A part may hold slashes; each piece between them is encoded.
    pub(crate) fn at(&self, parts: &[&str]) -> Url {
        let mut url = self.base.clone();
        // Only addresses without a host have no segments, and those are no base.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty();
            for part in parts {
                segments.extend(part.split('/'));
            }
        }
        url
    }

    /// An address of the API below places that are one piece each, slashes encoded.
    pub(crate) fn at_in(&self, places: &[&str], parts: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(places);
            for part in parts {
                segments.extend(part.split('/'));
            }
        }
        url
    }

    pub(crate) async fn get(&self, url: Url) -> Result<Reply> {
        self.ask(Method::GET, url, None, self.accept).await
    }

    pub(crate) async fn get_as(&self, url: Url, accept: &str) -> Result<Reply> {
        self.ask(Method::GET, url, None, accept).await
    }

    pub(crate) async fn send(&self, method: Method, url: Url, body: &Value) -> Result<Reply> {
        self.ask(method, url, Some(&Payload::json(body)), self.accept).await
    }

    /// Sends a form of this content type.
    pub(crate) async fn send_form(
        &self,
        method: Method,
        url: Url,
        kind: String,
        bytes: Bytes,
    ) -> Result<Reply> {
        self.ask(method, url, Some(&Payload { kind, bytes }), self.accept).await
    }

    /// An address that the host names: of the API's own scheme, host and port.
    pub(crate) fn here(&self, text: &str) -> Result<Url> {
        let url = Url::parse(text).ok().filter(|url| {
            url.origin() == self.base.origin() && url.username().is_empty() && url.password().is_none()
        });
        url.ok_or_else(|| {
            Error::new(Cause::Refused, format!("{} names another host for its next page", shown(&self.base)))
        })
    }

    /// How many pages of a list are read.
    pub(crate) fn pages(&self) -> usize {
        self.pages
    }

    pub(crate) async fn delete(&self, url: Url) -> Result<Reply> {
        self.ask(Method::DELETE, url, None, self.accept).await
    }

    /// Only the headers of an answer.
    pub(crate) async fn head(&self, url: Url) -> Result<Reply> {
        self.ask(Method::HEAD, url, None, self.accept).await
    }

    /// All pages of a list, as many as are read.
    pub(crate) async fn list<T: DeserializeOwned>(&self, url: &Url, size: (&str, usize)) -> Result<List<T>> {
        self.list_up_to(url, size, self.pages).await
    }

    /// All pages of a list, up to so many.
    pub(crate) async fn list_up_to<T: DeserializeOwned>(
        &self,
        url: &Url,
        size: (&str, usize),
        pages: usize,
    ) -> Result<List<T>> {
        let mut items: Vec<T> = Vec::new();
        let mut read = 0;
        for page in 1..=pages {
            let mut url = url.clone();
            url.query_pairs_mut()
                .append_pair("page", &page.to_string())
                .append_pair(size.0, &size.1.to_string());
            let reply = self.get(url).await?;
            self.count(&reply, &mut read)?;
            let more: Vec<T> = reply.json()?;
            let is_last = more.is_empty();
            items.extend(more);
            if is_last || !has_more(&reply.headers, items.len()) {
                return Ok(List { items, cut: false });
            }
        }
        Ok(List { items, cut: true })
    }

    /// Counts the bytes of one more answer of a list: pages are as large as others make them.
    pub(crate) fn count(&self, reply: &Reply, read: &mut usize) -> Result<()> {
        *read += reply.body.len();
        let most = self.body_bytes.saturating_mul(ANSWERS);
        if *read > most {
            return Err(Error::new(Cause::TooLarge, format!("{} lists more than {most} bytes", reply.at)));
        }
        Ok(())
    }

    async fn ask(&self, method: Method, url: Url, body: Option<&Payload>, accept: &str) -> Result<Reply> {
        let authorization = self.authorization(&url).await?;
        let reply = self.within(method, url, body, accept, &authorization).await;
        if let (Auth::App(app), Err(Error { status: Some(401 | 403), .. })) = (&self.auth, &reply) {
            // Taken back, or given before the App got more rights: the next request gets another one.
            app.held.lock().await.clear();
        }
        reply
    }

    async fn within(
        &self,
        method: Method,
        url: Url,
        body: Option<&Payload>,
        accept: &str,
        authorization: &HeaderValue,
    ) -> Result<Reply> {
        let at = shown(&url);
        match timeout(self.timeout, self.follow(method, url, body, accept, authorization)).await {
            Ok(reply) => reply,
            Err(_) => Err(Error::new(
                Cause::Temporary,
                format!("{at} did not answer within {} s", self.timeout.as_secs()),
            )),
        }
    }

    async fn follow(
        &self,
        method: Method,
        mut url: Url,
        body: Option<&Payload>,
        accept: &str,
        authorization: &HeaderValue,
    ) -> Result<Reply> {
        let asked = url.clone();
        for _ in 0..=REDIRECTS {
            check_url(self.reach, &url)?;
            let mut call = self
                .client
                .request(method.clone(), url.clone())
                .header(ACCEPT, accept)
                .header(AUTHORIZATION, authorization.clone());
            if let Some(body) = body {
                call = call.header(CONTENT_TYPE, body.kind.as_str()).body(body.bytes.clone());
            }
            let response = call.send().await.map_err(|error| explain(&url, &error))?;
            let status = response.status();
            if matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
                url = self.next(&method, &response, &url)?;
                // A name that leads to another repository since that was renamed or transferred: whoever asked may read the one that was
                // named, and need not the other.
                if !is_same_place(&self.place_of(&asked), &self.place_of(&url)) {
                    return Err(Error::new(
                        Cause::Refused,
                        format!(
                            "{} leads to another repository, which is not followed: where it was renamed or transferred, give its name \
                             of now",
                            shown(&asked)
                        ),
                    ));
                }
                continue;
            }
            let headers = response.headers().clone();
            let body = read(response, &url, self.body_bytes).await?;
            // 203 is the page of somebody on the way: Azure DevOps' own, to sign in by hand.
            if status.is_success() && status != StatusCode::NON_AUTHORITATIVE_INFORMATION {
                return Ok(Reply { headers, body, at: shown(&url) });
            }
            return Err(refusal(&url, status, &headers, &body, authorization));
        }
        Err(Error::new(Cause::Refused, format!("{} redirects more than {REDIRECTS} times", shown(&url))))
    }

    /// Where a read is redirected to, within the host.
    fn next(&self, method: &Method, response: &Response, url: &Url) -> Result<Url> {
        let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let next = target.and_then(|target| url.join(target).ok());
        match next {
            Some(next)
                if *method == Method::GET
                    && next.origin() == self.base.origin()
                    && next.username().is_empty()
                    && next.password().is_none() =>
            {
                Ok(next)
            }
            _ => Err(Error::new(
                Cause::Refused,
                format!("{} redirects, which is not followed: was the repository renamed?", shown(url)),
            )),
        }
    }

    /// What of an address names the repository: no more than that many of its first pieces.
    fn place_of<'u>(&self, url: &'u Url) -> Vec<&'u str> {
        let own = self.base.path().trim_end_matches('/').matches('/').count();
        url.path_segments().into_iter().flatten().take(own + self.place).collect()
    }

    /// The repository of GitHub that an address is about, without its owner.
    fn repository_of<'u>(&self, url: &'u Url) -> Option<&'u str> {
        match self.place_of(url).as_slice() {
            [.., "repos", _, name] => Some(*name),
            _ => None,
        }
    }

    /// What a request to this address is sent with. The token of an App opens the repository of the request alone, and, for an
    /// organisation's own things, what its installation opens.
    async fn authorization(&self, url: &Url) -> Result<HeaderValue> {
        let app = match &self.auth {
            Auth::Fixed(value) => return Ok(value.clone()),
            Auth::App(app) => app,
        };
        let repository = self.repository_of(url).map(str::to_owned);
        let mut held = app.held.lock().await;
        if let Some(token) = held.get(&repository).filter(|token| token.is_fresh()) {
            return bearer(token.token.expose());
        }
        held.retain(|_, token| token.is_fresh());
        if held.len() >= TOKENS {
            held.clear();
        }
        let assertion = bearer(app.assertion()?.expose_secret())?;
        let id = app.installation_id.to_string();
        let url = self.at(&["app/installations", &id, "access_tokens"]);
        let narrowed = match &repository {
            Some(name) => json!({"repositories": [name]}),
            None => json!({}),
        };
        let narrowed = Payload::json(&narrowed);
        let reply = self.within(Method::POST, url, Some(&narrowed), self.accept, &assertion).await?;
        let token: Token = reply.json()?;
        let value = bearer(token.token.expose())?;
        held.insert(repository, token);
        Ok(value)
    }
}

fn client(connection: &Connection, options: &Options) -> Result<reqwest::Client> {
    let mut builder = reqwest::Client::builder()
        .user_agent(&options.user_agent)
        .connect_timeout(options.timeout.min(Duration::from_secs(10)))
        .read_timeout(options.timeout)
        .pool_idle_timeout(Duration::from_secs(20))
        // Followed here, where it is known to whom the credential belongs.
        .redirect(reqwest::redirect::Policy::none())
        .dns_resolver(Guard { reach: options.reach, lookup: options.lookup.clone() });
    if let Some(proxy) = &connection.proxy {
        let is_none = || Error::invalid("the connection's proxy is not an address");
        check_url(options.reach, &Url::parse(proxy).map_err(|_| is_none())?)?;
        builder = builder.no_proxy().proxy(Proxy::all(proxy).map_err(|_| is_none())?);
    } else if options.proxies == Proxies::None {
        builder = builder.no_proxy();
    }
    if let Some(pem) = &connection.ca_pem {
        let found = Certificate::from_pem_bundle(pem.as_bytes()).ok().filter(|found| !found.is_empty());
        let found =
            found.ok_or_else(|| Error::invalid("the connection's certificates are not in PEM form"))?;
        builder = builder.tls_certs_merge(found);
    }
    builder.build().map_err(|error| Error::new(Cause::Temporary, format!("cannot prepare requests: {error}")))
}

fn bearer(token: &str) -> Result<HeaderValue> {
    let value = HeaderValue::from_str(&format!("Bearer {token}"));
    let mut value =
        value.map_err(|_| Error::invalid("the connection's token holds a line break or the like"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Whether two addresses name one repository. Hosts know no case in names.
fn is_same_place(one: &[&str], other: &[&str]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.eq_ignore_ascii_case(other))
}

/// Whether a token is one of Entra ID, which are signed. Azure DevOps takes its own as passwords.
fn is_signed(token: &str) -> bool {
    token.starts_with("eyJ") && token.split('.').count() == 3
}

fn basic(username: &str, password: &str) -> Result<HeaderValue> {
    let is_odd = |text: &str| text.contains(char::is_control);
    if is_odd(username) || is_odd(password) || username.contains(':') {
        return Err(Error::invalid(
            "the connection's user holds a colon, or its user or password a line break or the like",
        ));
    }
    let value = format!("Basic {}", STANDARD.encode(format!("{username}:{password}")));
    let mut value = HeaderValue::from_str(&value)
        .map_err(|_| Error::invalid("the connection's user or password cannot be sent"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Checks a literal address in a URL, which is connected to without being looked up.
fn check_url(reach: Reach, url: &Url) -> Result<()> {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let Ok(address) = host.parse() else { return Ok(()) };
    reach.check(address).map_err(|why| {
        Error::new(Cause::Refused, format!("{} {why}, which this console does not connect to", shown(url)))
    })
}

async fn read(mut response: Response, url: &Url, limit: usize) -> Result<Bytes> {
    let too_large = || Error::new(Cause::TooLarge, format!("{} answers more than {limit} bytes", shown(url)));
    if response.content_length().is_some_and(|length| length > limit as u64) {
        return Err(too_large());
    }
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > limit => return Err(too_large()),
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Ok(body.into()),
            Err(error) if error.is_timeout() => return Err(explain(url, &error)),
            Err(_) => {
                return Err(Error::new(
                    Cause::HalfAnswer,
                    format!("the answer of {} ended before its end", shown(url)),
                ));
            }
        }
    }
}

/// Hosts tell of a next page by `Link`, or only how many there are.
fn has_more(headers: &HeaderMap, read: usize) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(link) = text("link") {
        return link.contains("rel=\"next\"");
    }
    text("x-total-count").and_then(|count| count.parse::<usize>().ok()).is_some_and(|count| count > read)
}

/// An address for people: without its query.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.to_string()
}

/// A failed request in words. The library's own text holds the whole address, so only its innermost cause is shown.
fn explain(url: &Url, error: &reqwest::Error) -> Error {
    let mut cause: &dyn std::error::Error = error;
    loop {
        if cause.downcast_ref::<OutOfReach>().is_some() {
            return Error::new(Cause::Refused, cause.to_string());
        }
        let Some(inner) = cause.source() else { break };
        cause = inner;
    }
    let why = if error.is_timeout() {
        "it does not answer".to_owned()
    } else if error.source().is_none() {
        "the request failed".to_owned()
    } else {
        cause.to_string()
    };
    Error::new(Cause::Temporary, format!("cannot ask {}: {why}", shown(url)))
}

/// A status that is no success, as a typed error.
fn refusal(url: &Url, status: StatusCode, headers: &HeaderMap, body: &[u8], sent: &HeaderValue) -> Error {
    let said = said(body, sent);
    let code = status.as_u16();
    let wait = time_to_wait(headers, Utc::now());
    let is_limit =
        code == 429 || (code == 403 && (wait.is_some() || said.to_ascii_lowercase().contains("rate limit")));
    let cause = match code {
        _ if is_limit => Cause::RateLimited { wait: wait.unwrap_or(SOME_WAIT) },
        203 | 401 | 403 => Cause::Refused,
        404 | 410 => Cause::NotFound,
        405 | 409 => Cause::Conflict,
        413 => Cause::TooLarge,
        408 | 425 | 500.. => Cause::Temporary,
        _ => Cause::Invalid,
    };
    let words = match cause {
        Cause::RateLimited { wait } => format!("takes no requests for {} s", wait.as_secs()),
        Cause::Refused => "refuses it to this credential".to_owned(),
        Cause::NotFound => "is not there, or this credential does not see it".to_owned(),
        Cause::Temporary => "cannot answer now".to_owned(),
        _ => "refuses it".to_owned(),
    };
    let more = if said.is_empty() { String::new() } else { format!(": {said}") };
    Error {
        cause,
        message: format!("{} {words} (status {code}){more}", shown(url)),
        said,
        status: Some(code),
    }
}

/// What a host says in an error, without the credential that it may repeat.
fn said(body: &[u8], sent: &HeaderValue) -> String {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let mut text = String::new();
    for name in ["message", "error", "error_description"] {
        words(&value[name], &mut text);
    }
    for error in value["errors"].as_array().into_iter().flatten() {
        if let Some(more) = error.as_str().or_else(|| error["message"].as_str()) {
            text.push_str("; ");
            text.push_str(more);
        }
    }
    for secret in secrets(sent.to_str().unwrap_or_default()) {
        if !secret.is_empty() {
            text = text.replace(&secret, "(hidden)");
        }
    }
    printable(&text)
}

/// What is secret of a credential, in all forms in which it may be repeated.
fn secrets(sent: &str) -> Vec<String> {
    let Some(pair) = sent.strip_prefix("Basic ") else {
        return vec![sent.trim_start_matches("Bearer ").to_owned()];
    };
    let plain = STANDARD.decode(pair).ok().and_then(|plain| String::from_utf8(plain).ok());
    let password = plain.as_deref().and_then(|plain| plain.split_once(':')).map(|(_, password)| password);
    vec![pair.to_owned(), password.unwrap_or_default().to_owned()]
}

/// Every text in a value: hosts tell of errors in lists, and by field.
fn words(value: &Value, text: &mut String) {
    match value {
        Value::String(more) => {
            if !text.is_empty() {
                text.push_str("; ");
            }
            text.push_str(more);
        }
        Value::Array(values) => values.iter().for_each(|value| words(value, text)),
        Value::Object(fields) => fields.values().for_each(|value| words(value, text)),
        _ => {}
    }
}

/// The time to wait that an answer names. Without it a 403 is no limit.
fn time_to_wait(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    // Any number may be sent.
    let until = |seconds: i64| {
        Duration::from_secs(u64::try_from(seconds.saturating_sub(now.timestamp())).unwrap_or(0))
    };
    let found = if let Some(after) = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()) {
        match after.trim().parse::<u64>() {
            Ok(seconds) => Some(Duration::from_secs(seconds)),
            Err(_) => DateTime::parse_from_rfc2822(after.trim()).ok().map(|at| until(at.timestamp())),
        }
    } else {
        let spent =
            ["x-ratelimit-remaining", "ratelimit-remaining"].iter().any(|name| text(name) == Some("0"));
        let reset = text("x-ratelimit-reset").or_else(|| text("ratelimit-reset"));
        reset.filter(|_| spent).and_then(|reset| reset.parse().ok()).map(until)
    };
    found.map(|wait| wait.clamp(Duration::from_secs(1), LONGEST_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                (reqwest::header::HeaderName::from_static(name), HeaderValue::from_static(value))
            })
            .collect()
    }

    #[test]
    fn the_time_to_wait_is_the_hosts_own_within_an_hour() {
        let now = DateTime::from_timestamp(1_000_000, 0).unwrap();
        let wait =
            |pairs: &[(&'static str, &'static str)]| time_to_wait(&headers(pairs), now).map(|w| w.as_secs());
        assert_eq!(wait(&[]), None);
        assert_eq!(wait(&[("retry-after", "7")]), Some(7));
        assert_eq!(wait(&[("retry-after", "999999")]), Some(3600));
        assert_eq!(wait(&[("retry-after", "Mon, 12 Jan 1970 13:47:10 GMT")]), Some(30));
        assert_eq!(wait(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1000090")]), Some(90));
        assert_eq!(wait(&[("x-ratelimit-remaining", "3"), ("x-ratelimit-reset", "1000090")]), None);
        assert_eq!(wait(&[("ratelimit-remaining", "0"), ("ratelimit-reset", "5")]), Some(1));
        let least = "-9223372036854775808";
        assert_eq!(wait(&[("ratelimit-remaining", "0"), ("ratelimit-reset", least)]), Some(1));
    }

    #[test]
    fn an_error_repeats_no_token() {
        let url = Url::parse("https://h/x?token=q").unwrap();
        let sent = bearer("s3cr3t").unwrap();
        let body = br#"{"message":"bad token s3cr3t","errors":[{"message":"s3cr3t too"}]}"#;
        let error = refusal(&url, StatusCode::UNPROCESSABLE_ENTITY, &HeaderMap::new(), body, &sent);
        assert_eq!(error.cause, Cause::Invalid);
        assert!(!format!("{error} {error:?}").contains("s3cr3t"), "{error:?}");
        assert!(!error.message.contains("token=q"), "{error}");
        assert!(error.message.contains("bad token (hidden)"), "{error}");
    }

    #[test]
    fn an_error_repeats_no_password() {
        let url = Url::parse("https://h/x").unwrap();
        let sent = basic("ada", "pa55:word").unwrap();
        let pair = STANDARD.encode("ada:pa55:word");
        let body = format!(r#"{{"message":"not pa55:word, nor Basic {pair}"}}"#);
        let error = refusal(&url, StatusCode::BAD_REQUEST, &HeaderMap::new(), body.as_bytes(), &sent);
        assert!(error.message.ends_with("not (hidden), nor Basic (hidden)"), "{error}");
        assert!(basic("a:b", "c").is_err() && basic("a", "b\nc").is_err());
        assert!(!format!("{sent:?}").contains(&pair), "{sent:?}");
    }

    #[test]
    fn tokens_of_entra_id_are_told_from_others() {
        assert!(is_signed("eyJ0eXAi.eyJhdWQi.c2ln"));
        for other in ["", "eyJ0eXAi", "abc.def.ghi", "eyJ0eXAi.x"] {
            assert!(!is_signed(other), "{other}");
        }
    }

    #[test]
    fn a_page_to_sign_in_is_no_answer() {
        let url = Url::parse("https://h/x").unwrap();
        let status = StatusCode::NON_AUTHORITATIVE_INFORMATION;
        let sent = basic("", "t0ken").unwrap();
        let error = refusal(&url, status, &HeaderMap::new(), b"<html>", &sent);
        assert_eq!(error.cause, Cause::Refused, "{error}");
    }
}
