//! The HTTP client that asks key management services.

use std::{fmt::Write as _, time::Duration};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use plural_app::ports::key_encryption::KeyError;
use plural_kit::Backoff;
use plural_reach::{Guard, Reach};
use reqwest::{
    Certificate, Method, StatusCode, Url,
    header::{HeaderMap, HeaderValue, RETRY_AFTER},
};
use secrecy::{ExposeSecret, SecretString};

/// How long one request may take, with its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of an answer: far more than a wrapped key takes.
const LARGEST: usize = 1 << 20;
/// How often a service that does not answer is asked.
const TRIES: usize = 3;
/// The longest that a service may make us wait before it is asked again.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Characters of an answer that are told in a failure.
const TOLD: usize = 300;
/// What needs no escape in a form.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The client.
pub(crate) struct Http {
    client: reqwest::Client,
}

/// What is asked.
pub(crate) struct Request<'a> {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: &'a [u8],
    /// Whether an answer that refuses says to ask again, beside those of 5xx and 429.
    pub(crate) is_busy: fn(&Answer) -> bool,
}

/// What was answered.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Http {
    /// A client; `ca_pem` are authorities that it trusts besides those of the machine. It connects to what is in reach; what `is_here`,
    /// on this machine, is perhaps asked without TLS, so no proxy stands in between.
    pub(crate) fn new(ca_pem: Option<&[u8]>, reach: Reach, is_here: bool) -> Result<Self, String> {
        let mut builder = Self::builder().dns_resolver(Guard::new(reach));
        if is_here {
            builder = builder.no_proxy();
        }
        if let Some(pem) = ca_pem {
            let certificates = Certificate::from_pem_bundle(pem).map_err(|error| error.to_string())?;
            builder = builder.tls_certs_merge(certificates);
        }
        Ok(Self { client: builder.build().map_err(|error| error.to_string())? })
    }

    /// A client for the metadata service of a machine, which is at a link-local address. No proxy stands in between.
    pub(crate) fn to_metadata() -> Result<Self, String> {
        Ok(Self { client: Self::builder().no_proxy().build().map_err(|error| error.to_string())? })
    }

    /// One whose requests may take no longer than `patience`.
    #[cfg(test)]
    pub(crate) fn impatient(patience: Duration) -> Result<Self, String> {
        let builder = Self::builder().no_proxy().timeout(patience).connect_timeout(patience);
        Ok(Self { client: builder.build().map_err(|error| error.to_string())? })
    }

    fn builder() -> reqwest::ClientBuilder {
        // Losing the race to another caller that installs one is fine: they are the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        reqwest::Client::builder()
            .user_agent(concat!("plural/", env!("CARGO_PKG_VERSION")))
            .timeout(PATIENCE)
            .connect_timeout(PATIENCE)
            // A credential goes where it was meant to go.
            .redirect(reqwest::redirect::Policy::none())
    }

    /// Asks, and asks again while nobody answers or the service says that it is not well.
    pub(crate) async fn ask(&self, request: &Request<'_>) -> Result<Answer, KeyError> {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        let mut left = TRIES;
        loop {
            left -= 1;
            let asked = match self.once(request).await {
                Err(Away { error: KeyError::Unavailable(_), again }) if left > 0 => again,
                answer => return answer.map_err(|away| away.error),
            };
            tokio::time::sleep(wait_before_the_next(backoff.next_wait(), asked)).await;
        }
    }

    async fn once(&self, request: &Request<'_>) -> Result<Answer, Away> {
        let Request { method, url, headers, body, is_busy } = request;
        let host = url.host_str().unwrap_or_default();
        let away = |error: reqwest::Error| {
            let why = causes(&error.without_url());
            Away::from(KeyError::Unavailable(format!("{host} does not answer: {why}")))
        };
        let request = self.client.request(method.clone(), url.clone()).headers(headers.clone());
        let mut response = request.body(body.to_vec()).send().await.map_err(away)?;
        let status = response.status();
        let headers = response.headers().clone();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(away)? {
            if body.len() + chunk.len() > LARGEST {
                let why = format!("{host} answers with more than {LARGEST} bytes");
                return Err(KeyError::Refused(why).into());
            }
            body.extend_from_slice(&chunk);
        }
        if status.is_redirection() {
            return Err(KeyError::Refused(format!("{host} answers with a redirect")).into());
        }
        let answer = Answer { status, headers, body };
        let is_busy = !status.is_success() && is_busy(&answer);
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS || is_busy {
            let why = format!("{host} answers {status}: {}", told(&answer.body));
            return Err(Away { error: KeyError::Unavailable(why), again: answer.retry_after() });
        }
        Ok(answer)
    }
}

/// How long to wait before the next try: as the service asked, if that is longer than our own wait and no longer than is bearable.
pub(crate) fn wait_before_the_next(own: Duration, asked: Option<Duration>) -> Duration {
    own.max(asked.unwrap_or_default().min(LONGEST_WAIT))
}

/// Why there is no answer, and when the service wants to be asked again.
struct Away {
    error: KeyError,
    again: Option<Duration>,
}

impl From<KeyError> for Away {
    fn from(error: KeyError) -> Self {
        Self { error, again: None }
    }
}

impl Answer {
    /// What it says, if it is a success.
    pub(crate) fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, KeyError> {
        if !self.status.is_success() {
            return Err(self.refusal());
        }
        // The parser's own message could quote a key.
        serde_json::from_slice(&self.body)
            .map_err(|_| KeyError::Refused("its answer is not understood".to_owned()))
    }

    fn retry_after(&self) -> Option<Duration> {
        let seconds = self.headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
        Some(Duration::from_secs(seconds))
    }

    /// What it says, if it refuses.
    pub(crate) fn refusal(&self) -> KeyError {
        KeyError::Refused(format!("it answers {}: {}", self.status, told(&self.body)))
    }
}

/// No answer but those that HTTP has for it says to ask again.
pub(crate) fn by_status(_: &Answer) -> bool {
    false
}

/// A header that holds a credential.
pub(crate) fn secret_header(text: &SecretString) -> Result<HeaderValue, KeyError> {
    let mut value = HeaderValue::from_str(text.expose_secret().trim())
        .map_err(|_| KeyError::Refused("its credential is no header".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// `Bearer …`.
pub(crate) fn bearer(token: &SecretString) -> Result<HeaderValue, KeyError> {
    secret_header(&SecretString::from(format!("Bearer {}", token.expose_secret().trim())))
}

/// A body in the form of a form.
pub(crate) fn form(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut url = String::new();
    for (name, value) in fields {
        if !url.is_empty() {
            url.push('&');
        }
        let _ = write!(url, "{name}={}", utf8_percent_encode(value, UNRESERVED));
    }
    url.into_bytes()
}

/// The beginning of what a service says of a failure, printable.
pub(crate) fn told(body: &[u8]) -> String {
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
