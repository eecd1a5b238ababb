//! The typed client.

mod program_login;

use std::{fmt, time::Duration};

use plural_kit::Backoff;
use reqwest::{
    Certificate, StatusCode, Url,
    header::{AUTHORIZATION, HeaderMap, HeaderValue},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    document::{Operation, OperationKind},
    error::{ClientError, GraphQlError},
    error_code::ErrorCode,
    secret::Secret,
};

/// Bytes of an answer that we are willing to hold.
const LARGEST_ANSWER: usize = 64 << 20;
/// Bytes of a refusal that are read.
const LARGEST_REFUSAL: usize = 64 << 10;
/// How long reading a recording may take, played at the speed at which it was made included.
const LONGEST_DOWNLOAD: Duration = Duration::from_hours(24);
/// How long a connection is kept for a next request: a console closes one that is idle for ten seconds, and a request on its way then is
/// lost.
const IDLE: Duration = Duration::from_secs(8);
/// Tries of one call, the first included.
const TRIES: u32 = 4;

/// How to reach a console.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The console's address, with or without a path: `https://console.example.com`.
    pub url: String,
    /// An access token (`console-…`) or the token of a signed-in session; `None` to sign in.
    pub token: Option<Secret>,
    /// PEM certificates of authorities to trust besides the system's.
    pub ca_pem: Option<Vec<u8>>,
    /// A proxy on the way. The environment is not looked at: whoever makes options does.
    pub proxy: Option<ProxyOptions>,
    /// Speak plain HTTP to a console that is not on this machine: passwords and tokens go over the network in clear.
    pub insecure_http: bool,
    /// How long one try may take, connection and answer together.
    pub timeout: Duration,
    /// `User-Agent`.
    pub user_agent: String,
}

impl ClientOptions {
    /// Options with a timeout of 30 s.
    pub fn new(url: impl Into<String>, token: Option<Secret>) -> Self {
        Self {
            url: url.into(),
            token,
            ca_pem: None,
            proxy: None,
            insecure_http: false,
            timeout: Duration::from_secs(30),
            user_agent: concat!("plural/", env!("CARGO_PKG_VERSION")).into(),
        }
    }
}

/// An HTTP proxy.
#[derive(Clone)]
pub struct ProxyOptions {
    /// Its address, `http://proxy.example.com:3128`; may hold a user name and a password.
    pub url: Secret,
    /// Hosts that are reached without it, as `NO_PROXY` lists them: names, domains, addresses, networks, `*`.
    pub except: Option<String>,
}

impl fmt::Debug for ProxyOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyOptions").field("url", &self.shown()).field("except", &self.except).finish()
    }
}

impl ProxyOptions {
    /// Its address without user name and password.
    fn shown(&self) -> String {
        without_userinfo(self.url.expose())
    }

    /// Whether a host is named as one that is reached without it; networks are left to the HTTP library. For messages.
    fn excepts(&self, host: &str) -> bool {
        self.except.as_deref().unwrap_or_default().split(',').map(str::trim).any(|name| {
            let domain = name.trim_start_matches('.');
            let is_below =
                host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
            name == "*" || (!domain.is_empty() && is_below)
        })
    }

    fn build(&self) -> Result<reqwest::Proxy, ClientError> {
        let fault = |reason: String| ClientError::Proxy { url: self.shown(), reason };
        let text = self.url.expose();
        // Many write it without a scheme.
        let full = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let url = Url::parse(&full).map_err(|error| fault(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(fault("only HTTP proxies are supported".to_owned()));
        }
        let proxy = reqwest::Proxy::all(url).map_err(|error| fault(error.to_string()))?;
        Ok(proxy.no_proxy(self.except.as_deref().and_then(reqwest::NoProxy::from_string)))
    }
}

pub use program_login::{ProgramLogin, ProgramLoginState, ProgramPage};

/// A client of one console with one credential. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    /// The address as a person reads it: without path, query or user information.
    url: String,
    /// What errors of the network name: the address, and the proxy that was in between.
    way: String,
    /// The host that we connect to.
    host: String,
    endpoint: Url,
    timeout: Duration,
    /// The token as Kubernetes clients send it, whatever its kind.
    bearer: Option<HeaderValue>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("url", &self.url).finish_non_exhaustive()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RequestBody<'a, O> {
    query: &'static str,
    operation_name: &'static str,
    variables: &'a O,
}

/// What a console says of a request that it did not look at.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RefusedBody {
    message: String,
    code: Option<ErrorCode>,
    request_id: Option<String>,
}

#[derive(Deserialize)]
struct ResponseBody {
    data: Option<Value>,
    #[serde(default)]
    errors: Vec<GraphQlError>,
}

impl Client {
    /// Prepares to talk; nothing is sent yet.
    ///
    /// # Errors
    /// [`ClientError::Url`], [`ClientError::TokenForm`] or [`ClientError::Setup`].
    pub fn new(options: &ClientOptions) -> Result<Self, ClientError> {
        let (endpoint, url, host) = parse_address(&options.url)?;
        if endpoint.scheme() == "http" && !options.insecure_http && !is_loopback(&endpoint) {
            return Err(ClientError::PlainHttp { url });
        }
        // Losing the race to another caller that installs one is fine: they are the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut headers = HeaderMap::new();
        if let Some(token) = &options.token {
            headers.insert(AUTHORIZATION, authorization(token)?);
        }
        let mut builder = reqwest::Client::builder()
            .default_headers(headers)
            .user_agent(&options.user_agent)
            .timeout(options.timeout)
            .connect_timeout(options.timeout.min(Duration::from_secs(10)))
            .pool_idle_timeout(IDLE)
            // A redirect would carry the credential to an address the person did not name.
            .redirect(reqwest::redirect::Policy::none());
        // What is on this machine is never asked for elsewhere: the credential would leave it.
        let proxy = options.proxy.as_ref().filter(|_| !is_loopback(&endpoint));
        builder = match proxy {
            Some(proxy) => builder.proxy(proxy.build()?),
            None => builder.no_proxy(),
        };
        let setup = |cause| ClientError::Setup { url: url.clone(), cause };
        if endpoint.scheme() == "http" {
            // No TLS, so a machine without system certificates must not fail to load them.
            builder = builder.tls_certs_only([]);
        } else if let Some(pem) = &options.ca_pem {
            builder = builder.tls_certs_merge(Certificate::from_pem_bundle(pem).map_err(setup)?);
        }
        let http = builder.build().map_err(setup)?;
        let (way, host) = match proxy.filter(|proxy| !proxy.excepts(&host)) {
            None => (url.clone(), host),
            Some(proxy) => {
                let shown = proxy.shown();
                let proxy_host = Url::parse(&shown).ok().and_then(|url| url.host_str().map(str::to_owned));
                (format!("{url} through the proxy {shown}"), proxy_host.unwrap_or(host))
            }
        };
        let bearer = options.token.as_ref().map(|token| header_of("Bearer", token)).transpose()?;
        Ok(Self { http, url, way, host, endpoint, timeout: options.timeout, bearer })
    }

    /// The console's address, as given but without a path.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether the console is on this machine, so that nobody is between.
    pub fn is_local(&self) -> bool {
        is_loopback(&self.endpoint)
    }

    /// Runs one operation and answers its root field.
    ///
    /// # Errors
    /// See [`ClientError`]. Queries are tried up to four times when the transport fails or the
    /// console says that it cannot answer now; mutations only when they cannot have arrived.
    pub async fn send<O: Operation>(&self, operation: &O) -> Result<O::Data, ClientError> {
        self.send_as(O::KIND, operation).await
    }

    /// Runs a mutation that has an `idempotencyKey`: the console does it once however often it is sent, so that it is tried again as a
    /// query is.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn send_keyed<O: Operation>(&self, operation: &O) -> Result<O::Data, ClientError> {
        self.send_as(OperationKind::Query, operation).await
    }

    async fn send_as<O: Operation>(
        &self,
        kind: OperationKind,
        operation: &O,
    ) -> Result<O::Data, ClientError> {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(2));
        loop {
            let failure = match self.send_once(operation).await {
                Ok(data) => return Ok(data),
                Err(failure) => failure,
            };
            if backoff.attempts() + 1 >= TRIES || !may_repeat(kind, &failure) {
                return Err(failure.error);
            }
            tokio::time::sleep(backoff.next_wait()).await;
        }
    }

    /// Begins to read a recording of a shell, an asciicast.
    ///
    /// # Errors
    /// See [`ClientError`]. Not tried again: whoever reads is told in the console's audit log each time.
    pub async fn recording(&self, id: &str) -> Result<Download, ClientError> {
        self.download(&format!("/ext/v1/recordings/{id}"), None, None).await
    }

    /// Begins to read the audit log with its chain behind a batch, in lines of JSON.
    ///
    /// # Errors
    /// As of [`Client::recording`].
    pub async fn audit_export(&self, after: u64) -> Result<Download, ClientError> {
        self.download("/ext/v1/audit/export", Some(&format!("after={after}")), None).await
    }

    /// Begins to read the files that a service is made of, a `tar.gz`.
    ///
    /// # Errors
    /// As of [`Client::recording`].
    pub async fn tarball(&self, service: &str) -> Result<Download, ClientError> {
        self.download("/v1/git/tarballs", Some(&format!("id={service}")), None).await
    }

    /// Begins to read the state of a stack with its values, or an earlier version of it.
    ///
    /// # Errors
    /// As of [`Client::recording`].
    pub async fn stack_state(&self, stack: &str, version: &str) -> Result<Download, ClientError> {
        self.download(&format!("/v1/stacks/{stack}/state"), Some(&format!("version={version}")), None).await
    }

    /// Begins to read `path` of a cluster's Kubernetes API, with the caller's own rights there.
    ///
    /// # Errors
    /// As of [`Client::recording`]; a refusal is in the words of the cluster's API server.
    pub async fn kubernetes(
        &self,
        cluster: &str,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<Download, ClientError> {
        let mut encoded = self.endpoint.clone();
        encoded.query_pairs_mut().clear().extend_pairs(query);
        let query = encoded.query().filter(|query| !query.is_empty());
        self.download(&format!("/k8s/{cluster}{path}"), query, self.bearer.clone()).await
    }

    async fn download(
        &self,
        path: &str,
        query: Option<&str>,
        authorization: Option<HeaderValue>,
    ) -> Result<Download, ClientError> {
        let mut url = self.endpoint.clone();
        let base = url.path().strip_suffix("/gql").unwrap_or_default().to_owned();
        url.set_path(&format!("{base}{path}"));
        url.set_query(query);
        let mut request = self.http.get(url).timeout(LONGEST_DOWNLOAD);
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let sent = request.send().await;
        let mut response = sent.map_err(|cause| self.broken(cause).error)?;
        let status = response.status();
        if status.is_success() {
            return Ok(Download { response, client: self.clone() });
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|cause| self.broken(cause).error)? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > LARGEST_REFUSAL {
                break;
            }
        }
        if let (StatusCode::FORBIDDEN | StatusCode::NOT_FOUND, Some(message)) = (status, first_line(&bytes)) {
            let code =
                if status == StatusCode::NOT_FOUND { ErrorCode::NotFound } else { ErrorCode::Forbidden };
            return Err(ClientError::Refusal { message, code: Some(code), request_id: None });
        }
        Err(self.unhappy(status, &bytes).error)
    }

    async fn send_once<O: Operation>(&self, operation: &O) -> Result<O::Data, Failure> {
        let body = RequestBody { query: O::DOCUMENT, operation_name: O::NAME, variables: operation };
        let mut response = self
            .http
            .post(self.endpoint.clone())
            .json(&body)
            .send()
            .await
            .map_err(|cause| self.broken(cause))?;
        let status = response.status();
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|cause| self.broken(cause))? {
            if bytes.len() + chunk.len() > LARGEST_ANSWER {
                return Err(Failure::fatal(ClientError::Answer {
                    operation: O::NAME,
                    reason: format!("it is larger than {} MiB", LARGEST_ANSWER >> 20),
                }));
            }
            bytes.extend_from_slice(&chunk);
        }
        if !status.is_success() {
            return Err(self.unhappy(status, &bytes));
        }
        self.read::<O>(&bytes).map_err(|error| Failure { busy: is_busy(&error), unsent: false, error })
    }

    fn read<O: Operation>(&self, bytes: &[u8]) -> Result<O::Data, ClientError> {
        let answer = |reason: String| ClientError::Answer { operation: O::NAME, reason };
        let body: ResponseBody = serde_json::from_slice(bytes)
            .map_err(|error| answer(format!("not a GraphQL answer ({error})")))?;
        if let Some(first) = body.errors.into_iter().next() {
            let code = first.extensions.code;
            if code == Some(ErrorCode::Unauthenticated)
                || first.message.trim().eq_ignore_ascii_case("unauthenticated")
            {
                return Err(ClientError::Unauthenticated { url: self.url.clone() });
            }
            let message = match first.extensions.field {
                Some(field) if code == Some(ErrorCode::NotFound) => {
                    format!("{field} names nothing that exists (or you have no access)")
                }
                _ => first.message,
            };
            return Err(ClientError::Refusal { message, code, request_id: first.extensions.request_id });
        }
        let value = match body.data {
            Some(Value::Object(mut data)) => data.remove(O::FIELD).unwrap_or(Value::Null),
            _ => return Err(answer("it has neither data nor errors".into())),
        };
        if value.is_null() {
            // Older consoles answer null for an absent object, without an error.
            if let Ok(data) = serde_json::from_value(Value::Null) {
                return Ok(data);
            }
            return Err(ClientError::Refusal {
                message: "could not find resource".into(),
                code: Some(ErrorCode::NotFound),
                request_id: None,
            });
        }
        serde_json::from_value(value).map_err(|error| answer(error.to_string()))
    }

    fn broken(&self, cause: reqwest::Error) -> Failure {
        let unsent = cause.is_connect();
        let error = ClientError::transport(&self.way, &self.host, self.timeout.as_secs(), cause);
        // A certificate or a name does not get better within two seconds.
        let hopeless = matches!(error, ClientError::Tls { .. } | ClientError::Dns { .. });
        Failure { busy: !hopeless, unsent: unsent && !hopeless, error }
    }

    fn unhappy(&self, status: StatusCode, bytes: &[u8]) -> Failure {
        if status == StatusCode::FORBIDDEN
            && let Ok(RefusedBody { message, code: Some(ErrorCode::Forbidden), request_id }) =
                serde_json::from_slice(bytes)
        {
            // A good token that opens other doors than this one: signing in again would not help.
            let code = Some(ErrorCode::Forbidden);
            return Failure::fatal(ClientError::Refusal { message, code, request_id });
        }
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return Failure::fatal(ClientError::Unauthenticated { url: self.url.clone() });
        }
        let busy = matches!(
            status,
            StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT
                | StatusCode::TOO_MANY_REQUESTS
        );
        let error =
            ClientError::Status { url: self.url.clone(), status: status.as_u16(), detail: first_line(bytes) };
        Failure { busy, unsent: status == StatusCode::TOO_MANY_REQUESTS, error }
    }
}

/// An answer that is read as it comes.
#[derive(Debug)]
pub struct Download {
    response: reqwest::Response,
    client: Client,
}

impl Download {
    /// The next bytes; none at the end.
    ///
    /// # Errors
    /// When the connection breaks, or the console cannot go on.
    pub async fn piece(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        match self.response.chunk().await {
            Ok(piece) => Ok(piece.map(|bytes| bytes.to_vec())),
            Err(cause) => Err(self.client.broken(cause).error),
        }
    }
}

/// A failed try, and whether another could do better.
struct Failure {
    error: ClientError,
    /// The same request may succeed a moment later.
    busy: bool,
    /// The console did not begin to act on it.
    unsent: bool,
}

impl Failure {
    fn fatal(error: ClientError) -> Self {
        Self { error, busy: false, unsent: false }
    }
}

fn may_repeat(kind: OperationKind, failure: &Failure) -> bool {
    match kind {
        OperationKind::Query => failure.busy,
        OperationKind::Mutation => failure.busy && failure.unsent,
    }
}

fn is_busy(error: &ClientError) -> bool {
    matches!(error.code(), Some(ErrorCode::Unavailable | ErrorCode::RateLimited))
}

/// The console's answer to `Authorization: Token …`: sessions and access tokens alike.
fn authorization(token: &Secret) -> Result<HeaderValue, ClientError> {
    let text = token.expose();
    // Only our own opaque tokens are sent as `Token`; everything else is a session's bearer token.
    let scheme = if text.starts_with("console-") || text.starts_with("deploy-") { "Token" } else { "Bearer" };
    header_of(scheme, token)
}

fn header_of(scheme: &str, token: &Secret) -> Result<HeaderValue, ClientError> {
    let text = token.expose();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(ClientError::TokenForm);
    }
    let mut value = HeaderValue::from_str(&format!("{scheme} {text}")).map_err(|_| ClientError::TokenForm)?;
    value.set_sensitive(true);
    Ok(value)
}

/// `/gql` at the address, the address for people, and the host.
fn parse_address(text: &str) -> Result<(Url, String, String), ClientError> {
    let fault = |reason: &str| ClientError::Url { url: without_userinfo(text), reason: reason.into() };
    let mut url = Url::parse(text.trim()).map_err(|error| fault(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(fault("it does not begin with https:// or http://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(fault("it holds a user name or password; use a token instead"));
    }
    let host = url.host_str().ok_or_else(|| fault("it has no host"))?.to_owned();
    url.set_query(None);
    url.set_fragment(None);
    let base = url.path().trim_end_matches('/').trim_end_matches("/gql").to_owned();
    url.set_path(&base);
    let shown = url.as_str().trim_end_matches('/').to_owned();
    url.set_path(&format!("{base}/gql"));
    Ok((url, shown, host))
}

fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.to_canonical().is_loopback()),
        None => false,
    }
}

/// An address without user name and password, as messages show it; what is no address stays as it is.
pub fn without_userinfo(text: &str) -> String {
    match (text.find("://"), text.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => format!("{}…{}", &text[..scheme + 3], &text[at..]),
        _ => text.into(),
    }
}

/// The `message` of a JSON answer or the first line of a short text; never a page of HTML.
fn first_line(bytes: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Message {
        message: String,
    }
    if let Ok(Message { message }) = serde_json::from_slice(bytes) {
        return Some(message);
    }
    let line = std::str::from_utf8(bytes).ok()?.lines().next()?.trim();
    (!line.is_empty() && !line.starts_with('<') && line.len() <= 200).then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_becomes_its_endpoint() {
        for (given, endpoint, shown) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/gql", "http://127.0.0.1:8080"),
            ("https://c.example.com/", "https://c.example.com/gql", "https://c.example.com"),
            ("https://c.example.com/gql", "https://c.example.com/gql", "https://c.example.com"),
            ("https://e.com/plural/?x=1#y", "https://e.com/plural/gql", "https://e.com/plural"),
        ] {
            let (url, text, _) = parse_address(given).unwrap();
            assert_eq!((url.as_str(), text.as_str()), (endpoint, shown));
        }
    }

    #[test]
    fn a_bad_address_is_refused_without_repeating_its_password() {
        for (given, reason) in [
            ("console.example.com", "relative URL without a base"),
            ("ftp://c.example.com", "https://"),
            ("https://me:hunter2@c.example.com", "use a token"),
        ] {
            let error = parse_address(given).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn the_scheme_follows_the_token_and_a_broken_token_is_refused() {
        let header = |text: &str| authorization(&Secret::new(text));
        assert_eq!(header("console-x").unwrap().to_str().unwrap(), "Token console-x");
        assert_eq!(header("a.b.c").unwrap().to_str().unwrap(), "Bearer a.b.c");
        assert!(matches!(header("console-x\n"), Err(ClientError::TokenForm)));
        assert!(header("console-x").unwrap().is_sensitive());
    }
}
