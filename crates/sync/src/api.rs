//! Requests to the API server: deadlines, retries, load, errors in words.
//!
//! `kube::Client` sends them: it has the connection, TLS and credentials. Its typed `Api` is not used: kinds
//! are known at run time only, and an answer is limited in bytes while it is read, not after.

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{Method, Request, header};
use http_body_util::BodyExt;
use kube::client::Body;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use plural_kit::Backoff;
use serde_json::Value;

use crate::{directive::Propagation, limiter::Limiter};

/// One field manager for everything that is applied.
pub const FIELD_MANAGER: &str = "plural";

const JSON: &str = "application/json";
/// Server-side apply takes YAML, and JSON is YAML.
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                         application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
/// Attempts of one request before its caller hears of the trouble.
const ATTEMPTS: u32 = 4;
/// One line of a watch; the API server takes no object larger than 3 MiB.
const MAX_LINE_BYTES: usize = 16 << 20;
/// One answer: a list of many thousand objects fits.
const MAX_ANSWER_BYTES: usize = 512 << 20;

/// Why a request failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ApiError {
    /// The API server answered with a failure.
    #[error("{message}")]
    Status {
        /// HTTP status.
        code: u16,
        /// `reason` of the Status body, for example "Invalid".
        reason: String,
        /// Its message, or the beginning of a body that is no Status.
        message: String,
        /// Fields that `details.causes` names, for example `spec.replicas`.
        fields: Vec<String>,
        /// What `Retry-After` says.
        retry_after: Option<Duration>,
    },
    /// No answer came.
    #[error("cannot reach the cluster's API server: {0}")]
    Unreachable(String),
    /// The answer is not what the protocol says.
    #[error("the API server's answer cannot be read: {0}")]
    Unreadable(String),
}

impl ApiError {
    /// Whether the same request may succeed later without anyone changing anything.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Status { code, .. } => *code == 429 || *code >= 500,
            Self::Unreachable(_) => true,
            Self::Unreadable(_) => false,
        }
    }

    pub(crate) fn code(&self) -> u16 {
        match self {
            Self::Status { code, .. } => *code,
            Self::Unreachable(_) | Self::Unreadable(_) => 0,
        }
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.code() == 404
    }

    /// The error without anything that may quote the object's values.
    pub(crate) fn without_values(self) -> Self {
        match self {
            Self::Status { code, reason, fields, retry_after, .. } => {
                let place = if fields.is_empty() {
                    String::new()
                } else {
                    format!(" because of {}", fields.join(", "))
                };
                let message = format!("the API server refuses it{place} ({reason}, {code})");
                Self::Status { code, reason, message, fields, retry_after }
            }
            other => other,
        }
    }
}

/// What to ask for of a live object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Whole,
    Metadata,
}

/// One API server, as one caller. Clones share connections and load.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    shared: Arc<Shared>,
    /// Whose rights count; the agent's own when absent.
    user: Option<Arc<str>>,
}

#[derive(Debug)]
struct Shared {
    client: Client,
    limiter: Limiter,
    deadline: Duration,
}

struct Client(kube::Client);

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

struct Call<'a> {
    method: Method,
    path: &'a str,
    accept: &'static str,
    content_type: &'static str,
    body: Bytes,
}

impl<'a> Call<'a> {
    fn read(path: &'a str) -> Self {
        Self { method: Method::GET, path, accept: JSON, content_type: JSON, body: Bytes::new() }
    }

    fn write(method: Method, path: &'a str, body: Bytes) -> Self {
        Self { method, path, accept: JSON, content_type: JSON, body }
    }
}

/// How an object is applied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Applying<'a> {
    pub(crate) manager: &'a str,
    /// Take over fields that others manage.
    pub(crate) force: bool,
    /// Unknown fields are dropped silently unless set.
    pub(crate) validate: bool,
    /// Nothing is stored.
    pub(crate) dry_run: bool,
}

impl Applying<'static> {
    /// As our field manager, whoever owns the fields.
    pub(crate) const OURS: Self =
        Self { manager: FIELD_MANAGER, force: true, validate: true, dry_run: false };
}

impl Api {
    pub(crate) fn new(client: kube::Client, concurrency: usize, deadline: Duration) -> Self {
        let shared = Shared { client: Client(client), limiter: Limiter::new(concurrency), deadline };
        Self { shared: Arc::new(shared), user: None }
    }

    /// The same API server with the rights of `user`; our own when `None`.
    pub(crate) fn acting_as(&self, user: Option<&str>) -> Self {
        Self { shared: Arc::clone(&self.shared), user: user.map(Arc::from) }
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.call(&Call::read(path)).await
    }

    pub(crate) async fn discovery(&self, path: &str) -> Result<Value, ApiError> {
        self.call(&Call { accept: DISCOVERY, ..Call::read(path) }).await
    }

    /// Server-side apply.
    pub(crate) async fn apply(&self, path: &str, how: Applying<'_>, body: Bytes) -> Result<Value, ApiError> {
        let Applying { manager, force, validate, dry_run } = how;
        let mut path = format!("{path}?fieldManager={manager}&force={force}");
        if !validate {
            path.push_str("&fieldValidation=Ignore");
        }
        if dry_run {
            path.push_str("&dryRun=All");
        }
        self.call(&Call { content_type: APPLY, ..Call::write(Method::PATCH, &path, body) }).await
    }

    pub(crate) async fn create(&self, path: &str, body: Bytes) -> Result<Value, ApiError> {
        self.call(&Call::write(Method::POST, path, body)).await
    }

    /// Replaces an object whole; its resourceVersion must be the live one.
    pub(crate) async fn replace(&self, path: &str, body: Bytes) -> Result<Value, ApiError> {
        let path = format!("{path}?fieldManager={FIELD_MANAGER}");
        self.call(&Call::write(Method::PUT, &path, body)).await
    }

    /// Merges `patch` into an object.
    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> Result<Value, ApiError> {
        let body = Bytes::from(patch.to_string());
        self.call(&Call { content_type: MERGE, ..Call::write(Method::PATCH, path, body) }).await
    }

    /// A JSON patch.
    pub(crate) async fn patch(&self, path: &str, operations: &Value) -> Result<Value, ApiError> {
        let body = Bytes::from(operations.to_string());
        self.call(&Call { content_type: JSON_PATCH, ..Call::write(Method::PATCH, path, body) }).await
    }

    /// Deletes; refused when the object is not the one with `uid`.
    pub(crate) async fn delete(
        &self,
        path: &str,
        uid: Option<&str>,
        propagation: Propagation,
    ) -> Result<Value, ApiError> {
        let mut options = serde_json::json!({
            "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation.as_str(),
        });
        if let Some(uid) = uid {
            options["preconditions"] = serde_json::json!({"uid": uid});
        }
        let body = Bytes::from(options.to_string());
        self.call(&Call::write(Method::DELETE, path, body)).await
    }

    pub(crate) async fn list(&self, path: &str, query: &str, view: View) -> Result<Value, ApiError> {
        let path = format!("{path}?{query}");
        let accept = if view == View::Whole { JSON } else { METADATA_LIST };
        self.call(&Call { accept, ..Call::read(&path) }).await
    }

    /// Opens a watch; its lines are read with [`Lines::next`].
    pub(crate) async fn watch(&self, path: &str, query: &str, view: View) -> Result<Lines, ApiError> {
        let path = format!("{path}?{query}&watch=true");
        let accept = if view == View::Whole { JSON } else { METADATA };
        let call = Call { accept, ..Call::read(&path) };
        let answer = self.send(&call).await?;
        if answer.status().is_success() {
            return Ok(Lines { body: answer.into_body(), buffer: BytesMut::new(), scanned: 0 });
        }
        Err(self.failure(answer).await)
    }

    /// Sends until an answer comes that is not trouble on the way. Every request that is sent here
    /// may be sent twice with the same end: reads, applies, guarded deletes, creates by name.
    async fn call(&self, call: &Call<'_>) -> Result<Value, ApiError> {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
        loop {
            let error = match self.once(call).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let code = error.code();
            if matches!(code, 429 | 503 | 504) || matches!(error, ApiError::Unreachable(_)) {
                let wait = match &error {
                    ApiError::Status { retry_after, .. } => *retry_after,
                    _ => None,
                };
                self.shared.limiter.overloaded(wait);
            }
            let again = matches!(code, 429 | 500 | 502 | 503 | 504);
            if !again || backoff.attempts() + 1 >= ATTEMPTS {
                return Err(error);
            }
            tokio::time::sleep(backoff.next_wait()).await;
        }
    }

    async fn once(&self, call: &Call<'_>) -> Result<Value, ApiError> {
        let _permit = self.shared.limiter.acquire().await;
        let answer = self.send(call).await?;
        if !answer.status().is_success() {
            return Err(self.failure(answer).await);
        }
        let body = self.body(answer).await?;
        self.shared.limiter.good();
        serde_json::from_slice(&body).map_err(|error| ApiError::Unreadable(error.to_string()))
    }

    async fn send(&self, call: &Call<'_>) -> Result<http::Response<Body>, ApiError> {
        let request = request(call, self.user.as_deref())?;
        self.within(self.shared.client.0.send(request)).await
    }

    async fn failure(&self, answer: http::Response<Body>) -> ApiError {
        let code = answer.status().as_u16();
        let retry_after = answer
            .headers()
            .get(header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.parse().ok())
            .map(Duration::from_secs);
        let body = match self.body(answer).await {
            Ok(body) => body,
            Err(error) => return error,
        };
        let status: Value = serde_json::from_slice(&body).unwrap_or_default();
        let message = if let Some(message) = status["message"].as_str() {
            message.chars().take(2_000).collect()
        } else {
            let text: String = String::from_utf8_lossy(&body).chars().take(300).collect();
            format!("HTTP {code}: {}", text.trim())
        };
        let causes = status["details"]["causes"].as_array();
        let mut fields: Vec<String> = causes
            .into_iter()
            .flatten()
            .filter_map(|cause| cause["field"].as_str().map(str::to_owned))
            .collect();
        fields.dedup();
        fields.truncate(5);
        let reason = status["reason"].as_str().unwrap_or_default().to_owned();
        ApiError::Status { code, reason, message, fields, retry_after }
    }

    async fn body(&self, answer: http::Response<Body>) -> Result<Bytes, ApiError> {
        let limited = http_body_util::Limited::new(answer.into_body(), MAX_ANSWER_BYTES);
        match tokio::time::timeout(self.shared.deadline, limited.collect()).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) => Err(ApiError::Unreachable(error.to_string())),
            Err(_) => Err(self.too_late()),
        }
    }

    async fn within<T>(&self, call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, ApiError> {
        match tokio::time::timeout(self.shared.deadline, call).await {
            Ok(answer) => answer.map_err(|error| ApiError::Unreachable(chain(&error))),
            Err(_) => Err(self.too_late()),
        }
    }

    fn too_late(&self) -> ApiError {
        ApiError::Unreachable(format!("no answer within {:.0?}", self.shared.deadline))
    }
}

fn request(call: &Call<'_>, user: Option<&str>) -> Result<Request<Body>, ApiError> {
    let mut request = Request::builder()
        .method(call.method.clone())
        .uri(call.path)
        .header(header::ACCEPT, call.accept)
        .header(header::CONTENT_TYPE, call.content_type);
    if let Some(user) = user {
        // The API server adds the groups that every ServiceAccount is in.
        request = request.header("impersonate-user", user);
    }
    request
        .body(Body::from(call.body.clone()))
        .map_err(|error| ApiError::Unreadable(format!("{}: {error}", call.path)))
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !words.contains(&text) {
            words = format!("{words}: {text}");
        }
        source = cause.source();
    }
    words
}

/// The lines of an open watch.
pub(crate) struct Lines {
    body: Body,
    buffer: BytesMut,
    scanned: usize,
}

impl Lines {
    /// The next event; `None` when the API server ended the watch.
    pub(crate) async fn next(&mut self) -> Result<Option<Value>, ApiError> {
        loop {
            if let Some(at) = self.buffer[self.scanned..].iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(self.scanned + at + 1);
                self.scanned = 0;
                if line.trim_ascii().is_empty() {
                    continue;
                }
                return serde_json::from_slice(&line)
                    .map(Some)
                    .map_err(|error| ApiError::Unreadable(error.to_string()));
            }
            self.scanned = self.buffer.len();
            if self.buffer.len() > MAX_LINE_BYTES {
                return Err(ApiError::Unreadable("a watch event without end".to_owned()));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Err(ApiError::Unreachable(error.to_string())),
                None => return Ok(None),
            }
        }
    }
}

/// What stays as it is in a segment of a path and in a value of a query; names of RBAC have colons.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// `text` as one segment of a path or one value of a query.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}
