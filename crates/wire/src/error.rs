//! Why a call to the console failed, in words that say what to do next.

use std::{error::Error as _, io};

use plural_kit::tls_words;
use serde::Deserialize;
use serde_json::Value;

use crate::error_code::ErrorCode;

/// One entry of a GraphQL answer's `errors`.
#[derive(Debug, Clone, Deserialize)]
pub struct GraphQlError {
    /// What went wrong, for a person.
    pub message: String,
    /// The field it went wrong at.
    #[serde(default)]
    pub path: Vec<Value>,
    /// The stable part.
    #[serde(default)]
    pub extensions: GraphQlErrorExtensions,
}

/// The machine-readable part of a [`GraphQlError`].
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GraphQlErrorExtensions {
    /// What programs branch on; absent when the document itself is not valid.
    pub code: Option<ErrorCode>,
    /// Finds the request in the console's log.
    pub request_id: Option<String>,
    /// The argument at fault.
    pub field: Option<String>,
}

/// Why a call failed. [`ClientError::hint`] says what to try.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The console's address cannot be used.
    #[error("{url:?} is not the address of a console: {reason}")]
    Url {
        /// The address as given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Passwords and tokens would cross a network in clear.
    #[error(
        "{url} is plain HTTP beyond this machine: passwords and tokens would go over the network in clear"
    )]
    PlainHttp {
        /// The address.
        url: String,
    },
    /// The proxy's address cannot be used.
    #[error("{url:?} is not the address of a proxy: {reason}")]
    Proxy {
        /// The address as given, without user name and password.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The token holds characters that no header may carry.
    #[error("the token is not in a valid form")]
    TokenForm,
    /// The HTTP client cannot be set up.
    #[error("cannot set up the connection to {url}")]
    Setup {
        /// The console's address.
        url: String,
        /// What the HTTP library says.
        #[source]
        cause: reqwest::Error,
    },
    /// The host name has no address.
    #[error("cannot find the host {host}")]
    Dns {
        /// The host in the console's address.
        host: String,
        /// What the HTTP library says.
        #[source]
        cause: reqwest::Error,
    },
    /// Nothing listens there.
    #[error("nothing answers at {url}: connection refused")]
    Refused {
        /// The console's address.
        url: String,
        /// What the HTTP library says.
        #[source]
        cause: reqwest::Error,
    },
    /// The server's certificate is not trusted, or the two sides speak no common TLS.
    #[error("cannot trust the console at {url}: {reason}")]
    Tls {
        /// The console's address.
        url: String,
        /// What the TLS library says.
        reason: String,
    },
    /// No answer in time.
    #[error("no answer from {url} within {seconds} s")]
    Timeout {
        /// The console's address.
        url: String,
        /// How long we waited.
        seconds: u64,
    },
    /// The connection broke in some other way.
    #[error("cannot talk to {url}: {reason}")]
    Transport {
        /// The console's address.
        url: String,
        /// The innermost cause in words.
        reason: String,
        /// What the HTTP library says.
        #[source]
        cause: reqwest::Error,
    },
    /// The credential is missing, wrong, expired or revoked.
    #[error("not logged in to {url}, or the login is no longer valid")]
    Unauthenticated {
        /// The console's address.
        url: String,
    },
    /// An HTTP status that no GraphQL answer has.
    #[error("{url} answered HTTP {status}{}", detail.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
    Status {
        /// The console's address.
        url: String,
        /// The HTTP status.
        status: u16,
        /// The first line of what it said, if that was text.
        detail: Option<String>,
    },
    /// The answer cannot be understood: not a console, or one of another version.
    #[error("the answer to {operation} cannot be read: {reason}")]
    Answer {
        /// The operation's name.
        operation: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The console understood and refused.
    #[error("{message}")]
    Refusal {
        /// The console's words.
        message: String,
        /// What programs branch on.
        code: Option<ErrorCode>,
        /// Finds the request in the console's log.
        request_id: Option<String>,
    },
}

impl ClientError {
    /// What the caller could do next, as one sentence.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Url { .. } => {
                Some("give an address like https://console.example.com or http://127.0.0.1:8080".into())
            }
            Self::PlainHttp { .. } => Some(
                "give an https:// address; if something in between encrypts, `plural login --insecure-http` or \
                 PLURAL_CONSOLE_INSECURE_HTTP=true allows it"
                    .into(),
            ),
            Self::TokenForm => {
                Some("check PLURAL_CONSOLE_TOKEN for a line break or a stray quote".into())
            }
            Self::Proxy { .. } => Some(
                "give an address like http://proxy.example.com:3128 in HTTPS_PROXY, or name the console's host in \
                 NO_PROXY"
                    .into(),
            ),
            Self::Dns { .. } => Some("check the host name in --url or PLURAL_CONSOLE_URL".into()),
            Self::Refused { url, .. } => {
                Some(format!("is the console running, and is {url} its address? `plural console` starts one"))
            }
            Self::Tls { reason, .. } if reason.contains("not valid for name") => Some(
                "the certificate is for another name: use that name in --url or PLURAL_CONSOLE_URL, or a certificate that names \
                 this host"
                    .into(),
            ),
            Self::Tls { .. } => Some(
                "if its certificate is signed by an authority of your own, name that authority's PEM file in \
                 --ca-file or PLURAL_CONSOLE_CA_FILE"
                    .into(),
            ),
            Self::Transport { url, reason, .. } if url.starts_with("http://") && reason.contains("HTTP version") => {
                Some("what answers there does not speak plain HTTP: if it is TLS, the address begins with https://".into())
            }
            Self::Timeout { .. } | Self::Transport { .. } => {
                Some("check the network path to the console; proxies must let POST /gql through".into())
            }
            Self::Unauthenticated { url } => Some(format!(
                "log in with `plural login --url {url}`, or set PLURAL_CONSOLE_TOKEN to a valid access token"
            )),
            Self::Status { status: 404, url, .. } => {
                Some(format!("{url} answers but has no /gql: it does not seem to be a console"))
            }
            Self::Status { status: 413, .. } => Some(
                "what was sent is too large for one request: put long values and charts into files of the repository and name \
                 them there (valuesFiles)"
                    .into(),
            ),
            Self::Status { .. } => Some("try again; if it stays, look at the console's log".into()),
            Self::Answer { .. } => {
                Some("is this a console of the same version? compare with `plural version`".into())
            }
            Self::Refusal { code: Some(ErrorCode::Internal), request_id: Some(id), .. } => {
                Some(format!("the console's log tells more under request id {id}"))
            }
            Self::Setup { .. } | Self::Refusal { .. } => None,
        }
    }

    /// The console's code, if it was the console that refused.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refusal { code, .. } => *code,
            Self::Unauthenticated { .. } => Some(ErrorCode::Unauthenticated),
            _ => None,
        }
    }

    /// Whether the credential is missing, wrong, expired or revoked.
    pub fn is_unauthenticated(&self) -> bool {
        self.code() == Some(ErrorCode::Unauthenticated)
    }

    /// Whether the thing asked for is absent (or invisible to the caller).
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(ErrorCode::NotFound)
    }

    /// Sorts a transport error by its cause.
    pub(crate) fn transport(url: &str, host: &str, timeout_seconds: u64, cause: reqwest::Error) -> Self {
        // The library's message ends in the URL it was for; ours names it already.
        let cause = cause.without_url();
        if cause.is_timeout() {
            return Self::Timeout { url: url.into(), seconds: timeout_seconds };
        }
        let mut link: Option<&(dyn std::error::Error + 'static)> = cause.source();
        let mut innermost = cause.to_string();
        while let Some(error) = link {
            innermost = error.to_string();
            if error.downcast_ref::<io::Error>().is_some_and(is_refused) {
                return Self::Refused { url: url.into(), cause };
            }
            if let Some(tls) = tls_error(error) {
                return Self::Tls { url: url.into(), reason: tls_words(&tls.to_string()).into_owned() };
            }
            if innermost.starts_with("dns error") {
                return Self::Dns { host: host.into(), cause };
            }
            link = error.source();
        }
        Self::Transport { url: url.into(), reason: innermost, cause }
    }
}

fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

/// The TLS library's error in `error`. An `io::Error`'s `source` skips what it wraps, and wrappers nest.
fn tls_error<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a rustls::Error> {
    if let Some(tls) = error.downcast_ref::<rustls::Error>() {
        return Some(tls);
    }
    tls_error(error.downcast_ref::<io::Error>()?.get_ref()?)
}
