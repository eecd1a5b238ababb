//! Where the audit log is sent: files, webhooks, and collectors of OpenTelemetry.

mod otlp;

use std::{path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use hmac::{Hmac, KeyInit as _, Mac as _};
use plural_app::audit_stream::AuditSink;
use plural_reach::{Guard, Reach};
use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;
use tokio::io::AsyncWriteExt as _;

use self::otlp::OtlpSink;
use crate::{StartError, key_encryption::shown};

/// How long a webhook or a collector may take to answer.
const ANSWER: Duration = Duration::from_secs(30);
/// Characters of an answer that are told in a failure.
const TOLD: usize = 200;

/// What streams may need besides their addresses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamSecrets<'a> {
    /// What webhooks get the log signed with.
    pub(crate) webhook: Option<&'a SecretString>,
    /// Headers for collectors, each `NAME=VALUE`.
    pub(crate) headers: &'a [SecretString],
}

/// The streams of these addresses: `file:PATH`, `https://…`, or `otlp:https://…`.
///
/// # Errors
/// [`StartError::AuditStream`] for any other, and for a webhook without a secret or out of reach.
pub(crate) fn open(
    addresses: &[String],
    secrets: StreamSecrets<'_>,
    reach: Reach,
) -> Result<Vec<Arc<dyn AuditSink>>, StartError> {
    let StreamSecrets { webhook, headers } = secrets;
    let mut sinks: Vec<Arc<dyn AuditSink>> = Vec::new();
    for address in addresses {
        let sink: Arc<dyn AuditSink> = match (address.strip_prefix("file:"), address.strip_prefix("otlp:")) {
            (Some(path), _) => Arc::new(FileSink::new(path, address)?),
            (None, Some(collector)) => {
                let secret = "headers are given with --audit-stream-header instead";
                Arc::new(OtlpSink::new(Reached::new(collector, "the collector", secret, reach)?, headers)?)
            }
            (None, None) => Arc::new(WebhookSink::new(address, webhook, reach)?),
        };
        if sinks.iter().any(|other| other.name() == sink.name()) {
            return Err(bad(address, "it is named twice"));
        }
        sinks.push(sink);
    }
    Ok(sinks)
}

fn bad(stream: &str, reason: &str) -> StartError {
    StartError::AuditStream { stream: shown(stream), reason: reason.to_owned() }
}

/// Appends to a file.
struct FileSink {
    name: String,
    path: PathBuf,
}

impl FileSink {
    fn new(path: &str, address: &str) -> Result<Self, StartError> {
        if path.is_empty() {
            return Err(bad(address, "it has no path"));
        }
        let path = PathBuf::from(path);
        plural_kit::private_file(&path).map_err(|error| bad(address, &error.to_string()))?;
        Ok(Self { name: address.to_owned(), path })
    }
}

#[async_trait]
impl AuditSink for FileSink {
    fn name(&self) -> &str {
        &self.name
    }

    /// Half a line would stay in the file.
    fn may_be_left(&self) -> bool {
        false
    }

    async fn send(&self, _delivery: &str, lines: &str) -> Result<(), String> {
        let written = async {
            // Opened each time: who rotates logs moves the file away.
            let mut file =
                tokio::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path).await?;
            let before = file.metadata().await?.len();
            let done = async {
                file.write_all(lines.as_bytes()).await?;
                file.flush().await?;
                file.sync_data().await
            };
            match done.await {
                Ok(()) => Ok(()),
                // Half a part is none: it is written again.
                Err(error) => {
                    let _ = file.set_len(before).await;
                    Err(error)
                }
            }
        };
        written
            .await
            .map_err(|error: std::io::Error| format!("cannot write {}: {error}", self.path.display()))
    }
}

/// A web address that the log is sent to, and a client that reaches nothing else.
struct Reached {
    url: Url,
    client: reqwest::Client,
}

impl Reached {
    /// `secret` says how a user and a password are given instead.
    fn new(address: &str, what: &str, secret: &str, reach: Reach) -> Result<Self, StartError> {
        let url = Url::parse(address)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| {
                bad(address, "it must be file:PATH, https://…, otlp:https://…, or either with http")
            })?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad(what, &format!("it has a user or a password: {secret}")));
        }
        if url.scheme() == "http" && reach != Reach::Local {
            return Err(bad(address, "it must be https: the log would cross a network in clear"));
        }
        // A literal address is connected to without being looked up.
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        if let Ok(literal) = host.parse()
            && let Err(why) = reach.check(literal)
        {
            return Err(bad(address, &format!("the host {why}, which this console does not connect to")));
        }
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .user_agent("plural-console")
            .connect_timeout(Duration::from_secs(10))
            .timeout(ANSWER)
            // What is signed for one place is not carried to another.
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .dns_resolver(Guard::new(reach))
            .build()
            .map_err(|error| bad(address, &error.to_string()))?;
        Ok(Self { url, client })
    }

    /// Its address without anything secret.
    fn name(&self) -> String {
        format!("{}://{}{}", self.url.scheme(), self.url.authority(), self.url.path())
    }
}

/// Sends to a web address.
struct WebhookSink {
    name: String,
    reached: Reached,
    secret: SecretString,
}

impl WebhookSink {
    fn new(address: &str, secret: Option<&SecretString>, reach: Reach) -> Result<Self, StartError> {
        let instead = "parts are signed with the secret instead";
        let reached = Reached::new(address, "the webhook", instead, reach)?;
        let Some(secret) = secret else {
            return Err(bad(address, "a webhook needs a secret to sign with: set --audit-stream-secret"));
        };
        if secret.expose_secret().trim().len() < 16 {
            return Err(bad(address, "the secret must have at least 16 characters"));
        }
        Ok(Self { name: reached.name(), reached, secret: secret.clone() })
    }
}

#[async_trait]
impl AuditSink for WebhookSink {
    fn name(&self) -> &str {
        &self.name
    }

    async fn send(&self, delivery: &str, lines: &str) -> Result<(), String> {
        let signature = sign(&self.secret, lines)?;
        let Reached { url, client } = &self.reached;
        let answer = client
            .post(url.clone())
            .header("content-type", "application/x-ndjson")
            .header("x-plural-delivery", delivery)
            .header("x-plural-signature-256", format!("sha256={signature}"))
            .body(lines.to_owned())
            .send()
            .await
            .map_err(|error| told("the webhook", &error))?;
        let status = answer.status();
        if status.is_success() { Ok(()) } else { Err(format!("the webhook answered {status}")) }
    }
}

fn sign(secret: &SecretString, lines: &str) -> Result<String, String> {
    let mac = Hmac::<Sha256>::new_from_slice(secret.expose_secret().trim().as_bytes());
    let mac = mac.map_err(|_| "the secret cannot be used".to_owned())?;
    Ok(hex::encode(mac.chain_update(lines).finalize().into_bytes()))
}

/// What failed, without the address, which may hold what is secret.
fn told(what: &str, error: &reqwest::Error) -> String {
    let mut text = format!("{what} does not answer");
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text.chars().take(TOLD).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU16, Ordering};

    use axum::{body::Bytes, extract::State, http::HeaderMap, http::StatusCode, routing::post};
    use parking_lot::Mutex;

    use super::*;

    fn refused(address: &str, secret: Option<&str>, reach: Reach) -> String {
        let secret = secret.map(SecretString::from);
        let secrets = StreamSecrets { webhook: secret.as_ref(), headers: &[] };
        match open(&[address.to_owned()], secrets, reach) {
            Ok(_) => panic!("{address} was taken"),
            Err(error) => error.to_string(),
        }
    }

    const SECRET: &str = "0123456789abcdef";
    const NONE: StreamSecrets<'_> = StreamSecrets { webhook: None, headers: &[] };

    #[test]
    fn what_is_no_stream_is_refused_without_what_is_secret() {
        assert!(refused("ftp://example.com", Some(SECRET), Reach::Private).contains("file:PATH"));
        assert!(refused("https://example.com/?token=hunter2", None, Reach::Private).contains("secret"));
        assert!(!refused("https://example.com/?token=hunter2", None, Reach::Private).contains("hunter2"));
        assert!(refused("https://example.com/", Some("short"), Reach::Private).contains("16 characters"));
        for address in ["https://ada:hunter2@example.com/", "ftp://ada:hunter2@example.com/"] {
            assert!(!refused(address, Some(SECRET), Reach::Private).contains("hunter2"), "{address}");
        }
        assert!(refused("http://example.com/", Some(SECRET), Reach::Private).contains("https"));
        for address in ["https://169.254.169.254/latest", "https://127.0.0.1/", "https://[::1]/"] {
            for address in [address.to_owned(), format!("otlp:{address}")] {
                let told = refused(&address, Some(SECRET), Reach::Private);
                assert!(told.contains("does not connect to"), "{address}: {told}");
            }
        }
        assert!(refused("otlp:http://example.com/v1/logs", None, Reach::Private).contains("https"));
        assert!(refused("otlp:example.com:4318", None, Reach::Private).contains("otlp:https://"));
        let told = refused("otlp:https://ada:hunter2@example.com/", None, Reach::Private);
        assert!(told.contains("--audit-stream-header") && !told.contains("hunter2"), "{told}");
        assert!(refused("file:", None, Reach::Private).contains("no path"));
    }

    #[tokio::test]
    async fn a_file_is_appended_to_and_is_its_owners() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let sinks = open(&[format!("file:{}", path.display())], NONE, Reach::Private).unwrap();
        sinks[0].send("1", "a\n").await.unwrap();
        sinks[0].send("2", "b\n").await.unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a\nb\n");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(sinks[0].send("3", "c\n").await.unwrap_err().contains("cannot write"));
    }

    type Seen = Arc<(Mutex<Vec<(String, String, String)>>, AtomicU16)>;

    async fn take(State(seen): State<Seen>, headers: HeaderMap, body: Bytes) -> StatusCode {
        let of = |name: &str| {
            headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
        };
        let body = String::from_utf8(body.to_vec()).unwrap();
        seen.0.lock().push((of("x-plural-delivery"), of("x-plural-signature-256"), body));
        StatusCode::from_u16(seen.1.load(Ordering::SeqCst)).unwrap()
    }

    #[tokio::test]
    async fn a_webhook_gets_what_is_signed_and_a_redirect_is_not_followed() {
        let seen: Seen = Arc::new((Mutex::default(), AtomicU16::new(204)));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/audit", listener.local_addr().unwrap());
        let service = post(take).with_state(Arc::clone(&seen)).into_make_service();
        let server = tokio::spawn(async move { axum::serve(listener, service).await });
        let secret = SecretString::from(SECRET);
        let sinks =
            open(&[address], StreamSecrets { webhook: Some(&secret), headers: &[] }, Reach::Local).unwrap();
        sinks[0].send("7", "a\nb\n").await.unwrap();
        let (delivery, signature, body) = seen.0.lock()[0].clone();
        assert_eq!((delivery.as_str(), body.as_str()), ("7", "a\nb\n"));
        assert_eq!(signature, format!("sha256={}", sign(&secret, "a\nb\n").unwrap()));
        for status in [302, 400, 503] {
            seen.1.store(status, Ordering::SeqCst);
            assert!(sinks[0].send("8", "c\n").await.unwrap_err().contains(&status.to_string()));
        }
        server.abort();
    }
}
