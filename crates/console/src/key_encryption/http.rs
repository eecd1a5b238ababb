//! The HTTP client that asks key management services.

use std::time::Duration;

use plural_app::ports::key_encryption::KeyError;
use plural_kit::Backoff;
use reqwest::{Certificate, Method, StatusCode, Url, header::HeaderMap};

/// How long one request may take, with its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of an answer: far more than a wrapped key takes.
const LARGEST: usize = 1 << 20;
/// How often a service that does not answer is asked.
const TRIES: usize = 3;
/// Characters of an answer that are told in a failure.
const TOLD: usize = 300;

/// The client.
pub(super) struct Http {
    client: reqwest::Client,
}

/// What is asked.
pub(super) struct Request<'a> {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: &'a [u8],
}

/// What was answered.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
}

impl Http {
    /// A client; `ca_pem` are authorities that it trusts besides those of the machine.
    pub(super) fn new(ca_pem: Option<&[u8]>) -> Result<Self, String> {
        // Losing the race to another caller that installs one is fine: they are the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("plural/", env!("CARGO_PKG_VERSION")))
            .timeout(PATIENCE)
            .connect_timeout(PATIENCE)
            // A credential goes where it was meant to go.
            .redirect(reqwest::redirect::Policy::none());
        if let Some(pem) = ca_pem {
            let certificates = Certificate::from_pem_bundle(pem).map_err(|error| error.to_string())?;
            builder = builder.tls_certs_merge(certificates);
        }
        Ok(Self { client: builder.build().map_err(|error| error.to_string())? })
    }

    /// Asks, and asks again while nobody answers or the service says that it is not well.
    pub(super) async fn ask(&self, request: &Request<'_>) -> Result<Answer, KeyError> {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        let mut left = TRIES;
        loop {
            left -= 1;
            match self.once(request).await {
                Err(KeyError::Unavailable(_)) if left > 0 => {}
                answer => return answer,
            }
            tokio::time::sleep(backoff.next_wait()).await;
        }
    }

    async fn once(&self, request: &Request<'_>) -> Result<Answer, KeyError> {
        let Request { method, url, headers, body } = request;
        let host = url.host_str().unwrap_or_default();
        let away = |error: reqwest::Error| {
            KeyError::Unavailable(format!("{host} does not answer: {}", causes(&error.without_url())))
        };
        let request = self.client.request(method.clone(), url.clone()).headers(headers.clone());
        let mut response = request.body(body.to_vec()).send().await.map_err(away)?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(away)? {
            if body.len() + chunk.len() > LARGEST {
                return Err(KeyError::Refused(format!("{host} answers with more than {LARGEST} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        if status.is_redirection() {
            return Err(KeyError::Refused(format!("{host} answers with a redirect")));
        }
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Err(KeyError::Unavailable(format!("{host} answers {status}: {}", told(&body))));
        }
        Ok(Answer { status, body })
    }
}

impl Answer {
    /// What it says, if it is a success.
    pub(super) fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, KeyError> {
        if !self.status.is_success() {
            return Err(self.refusal());
        }
        // The parser's own message could quote a key.
        serde_json::from_slice(&self.body)
            .map_err(|_| KeyError::Refused("its answer is not understood".to_owned()))
    }

    /// What it says, if it refuses.
    pub(super) fn refusal(&self) -> KeyError {
        KeyError::Refused(format!("it answers {}: {}", self.status, told(&self.body)))
    }
}

/// The beginning of what a service says of a failure, printable.
fn told(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    text.chars().filter(|c| !c.is_control()).take(TOLD).collect()
}

fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
