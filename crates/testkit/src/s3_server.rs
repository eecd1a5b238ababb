//! A small S3-compatible server on loopback: one bucket in memory, requests signed (version 4), and the bad days such a
//! store has.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::SystemTime,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    response::Response,
};
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{Method, StatusCode, header};
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use sha2::{Digest as _, Sha256};

use crate::background::Background;

/// Keys of one page of a listing: few, so that listings have pages.
const PAGE: usize = 7;

/// The server. Everything in it goes when it is dropped.
#[derive(Debug)]
pub struct S3Server {
    background: Background,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    bucket: String,
    secret: String,
    objects: Mutex<BTreeMap<String, Object>>,
    away: AtomicBool,
    failing: AtomicUsize,
    answers: AtomicUsize,
}

#[derive(Debug, Clone)]
struct Object {
    bytes: Bytes,
    stored: SystemTime,
}

impl S3Server {
    /// A server with one empty bucket.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn start(bucket: &str) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared {
            bucket: bucket.to_owned(),
            secret: format!("secret-{:032x}", rand::random::<u128>()),
            objects: Mutex::default(),
            away: AtomicBool::new(false),
            failing: AtomicUsize::new(0),
            answers: AtomicUsize::new(usize::MAX),
        });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let background = Background::start("s3-server", move |listener| async move {
            drop(axum::serve(listener, router).await);
        })?;
        Ok(Self { background, shared })
    }

    /// Its endpoint.
    pub fn url(&self) -> String {
        format!("http://{}", self.background.address())
    }

    /// Whoever signs with it is known.
    pub fn access_key(&self) -> &'static str {
        "test-key"
    }

    /// What requests are signed with.
    pub fn secret_key(&self) -> &str {
        &self.shared.secret
    }

    /// The variables by which programs are told of it.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT", self.url()),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", self.access_key().to_owned()),
            ("AWS_SECRET_ACCESS_KEY", self.secret_key().to_owned()),
        ]
    }

    /// The keys of all objects, in order.
    pub fn keys(&self) -> Vec<String> {
        self.shared.objects.lock().keys().cloned().collect()
    }

    /// Puts other bytes where an object was.
    pub fn overwrite(&self, key: &str, bytes: Vec<u8>) {
        let object = Object { bytes: bytes.into(), stored: SystemTime::now() };
        self.shared.objects.lock().insert(key.to_owned(), object);
    }

    /// Answers everything with an error of the server's, or no longer.
    pub fn away(&self, away: bool) {
        self.shared.away.store(away, Ordering::SeqCst);
    }

    /// Answers the next requests with an error of the server's.
    pub fn fail_next(&self, requests: usize) {
        self.shared.failing.store(requests, Ordering::SeqCst);
    }

    /// Answers so many requests more, and then none; `usize::MAX` ends it.
    pub fn hang_after(&self, answers: usize) {
        self.shared.answers.store(answers, Ordering::SeqCst);
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let taken = |left: usize| match left {
        usize::MAX | 0 => None,
        left => Some(left - 1),
    };
    if shared.answers.fetch_update(Ordering::SeqCst, Ordering::SeqCst, taken).is_err()
        && shared.answers.load(Ordering::SeqCst) == 0
    {
        std::future::pending::<()>().await;
    }
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, 64 << 20).await else {
        return error(StatusCode::BAD_REQUEST, "IncompleteBody");
    };
    let fails =
        shared.failing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
    if fails || shared.away.load(Ordering::SeqCst) {
        return error(StatusCode::SERVICE_UNAVAILABLE, "SlowDown");
    }
    if !is_signed(&shared, &parts, &body) {
        return error(StatusCode::FORBIDDEN, "SignatureDoesNotMatch");
    }
    let path = decoded(parts.uri.path());
    let Some(rest) = path.strip_prefix(&format!("/{}", shared.bucket)) else {
        return error(StatusCode::NOT_FOUND, "NoSuchBucket");
    };
    let key = rest.trim_start_matches('/').to_owned();
    let mut objects = shared.objects.lock();
    match (&parts.method, key.is_empty()) {
        (&Method::GET, true) => listing(&objects, parts.uri.query().unwrap_or_default()),
        (&Method::PUT, false) => {
            objects.insert(key, Object { bytes: body, stored: SystemTime::now() });
            plain(Response::builder().header(header::ETAG, "\"1\""), Body::empty())
        }
        (&Method::GET | &Method::HEAD, false) => match objects.get(&key) {
            None => error(StatusCode::NOT_FOUND, "NoSuchKey"),
            Some(object) => {
                let head = Response::builder()
                    .header(header::ETAG, "\"1\"")
                    .header(header::LAST_MODIFIED, httpdate(object.stored))
                    .header(header::CONTENT_LENGTH, object.bytes.len());
                let is_head = parts.method == Method::HEAD;
                plain(head, if is_head { Body::empty() } else { Body::from(object.bytes.clone()) })
            }
        },
        (&Method::DELETE, false) => {
            objects.remove(&key);
            plain(Response::builder().status(StatusCode::NO_CONTENT), Body::empty())
        }
        _ => error(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
    }
}

fn listing(objects: &BTreeMap<String, Object>, query: &str) -> Response {
    let value = |name: &str| {
        let found = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        found.map(of_query).unwrap_or_default()
    };
    let (prefix, after) = (value("prefix"), value("continuation-token"));
    let mut found = objects.iter().filter(|(key, _)| key.starts_with(&prefix) && **key > after);
    let page: Vec<_> = found.by_ref().take(PAGE).collect();
    let more = found.next().is_some();
    let mut xml = String::from(
        "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">",
    );
    for (key, object) in &page {
        let _ = write!(
            xml,
            "<Contents><Key>{key}</Key><LastModified>{}</LastModified><ETag>\"1\"</ETag><Size>{}</Size></Contents>",
            rfc3339(object.stored),
            object.bytes.len()
        );
    }
    if more && let Some((last, _)) = page.last() {
        let _ = write!(xml, "<NextContinuationToken>{last}</NextContinuationToken>");
    }
    let _ = write!(xml, "<IsTruncated>{more}</IsTruncated></ListBucketResult>");
    plain(Response::builder().header(header::CONTENT_TYPE, "application/xml"), Body::from(xml))
}

/// Whether the request has a signature (version 4, in its header) that only who knows the secret can make.
fn is_signed(shared: &Shared, parts: &http::request::Parts, body: &[u8]) -> bool {
    let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let told = || {
        let authorization = header("authorization")?.strip_prefix("AWS4-HMAC-SHA256 ")?;
        let part = |name: &str| {
            authorization.split(',').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='))
        };
        let (scope, signed, signature) = (part("Credential")?, part("SignedHeaders")?, part("Signature")?);
        let scope = scope.strip_prefix("test-key/")?;
        let payload = header("x-amz-content-sha256")?;
        if payload != "UNSIGNED-PAYLOAD" && payload != hex::encode(Sha256::digest(body)) {
            return None;
        }
        let mut query: Vec<String> = parts
            .uri
            .query()
            .into_iter()
            .flat_map(|query| query.split('&'))
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                format!("{}={}", encoded(&of_query(name)), encoded(&of_query(value)))
            })
            .collect();
        query.sort();
        let mut text = format!("{}\n{}\n{}\n", parts.method, parts.uri.path(), query.join("&"));
        for name in signed.split(';') {
            let _ = writeln!(text, "{name}:{}", header(name)?.trim());
        }
        let _ = write!(text, "\n{signed}\n{payload}");
        let text = format!(
            "AWS4-HMAC-SHA256\n{}\n{scope}\n{}",
            header("x-amz-date")?,
            hex::encode(Sha256::digest(text.as_bytes()))
        );
        let mut key = format!("AWS4{}", shared.secret).into_bytes();
        for part in scope.split('/') {
            key = mac(&key, part.as_bytes());
        }
        Some(hex::encode(mac(&key, text.as_bytes())) == signature)
    };
    told().unwrap_or_default()
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

/// A part of a query, where a plus may stand for a space.
fn of_query(text: &str) -> String {
    decoded(&text.replace('+', "%20"))
}

/// As signatures have it: all but the unreserved is escaped.
fn encoded(text: &str) -> String {
    const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(text, UNRESERVED).to_string()
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn rfc3339(time: SystemTime) -> String {
    k8s_openapi::jiff::Timestamp::try_from(time).map(|time| time.to_string()).unwrap_or_default()
}

fn httpdate(time: SystemTime) -> String {
    let time = k8s_openapi::jiff::Timestamp::try_from(time).unwrap_or_default();
    time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

fn error(status: StatusCode, code: &str) -> Response {
    let xml = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>no</Message></Error>");
    plain(Response::builder().status(status), Body::from(xml))
}

fn plain(head: http::response::Builder, body: Body) -> Response {
    head.body(body).unwrap_or_default()
}
