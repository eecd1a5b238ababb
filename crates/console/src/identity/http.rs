//! The HTTP client that talks to identity providers.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse};
use plural_reach::Guard;
use reqwest::Url;

/// How long one request may take, with its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of an answer: far more than keys and the groups of one person take.
const LARGEST: usize = 1 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    /// It is not asked.
    #[error("{0}")]
    Refused(String),
    /// It was asked in vain.
    #[error("{what} did not answer")]
    Failed {
        what: String,
        #[source]
        cause: reqwest::Error,
    },
    /// It answered, and that is not taken.
    #[error("{0}")]
    Answer(String),
}

/// The client.
pub(crate) struct Http {
    client: reqwest::Client,
    guard: Guard,
}

impl Http {
    pub(crate) fn new(guard: Guard) -> Result<Self, HttpError> {
        // Losing the race to another caller that installs one is fine: they are the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .user_agent(concat!("plural/", env!("CARGO_PKG_VERSION")))
            .timeout(PATIENCE)
            .connect_timeout(PATIENCE)
            .pool_max_idle_per_host(4)
            .pool_idle_timeout(Duration::from_secs(20))
            // A provider's addresses are those that it describes.
            .redirect(reqwest::redirect::Policy::none())
            .dns_resolver(guard.clone())
            .build();
        let what = "the HTTP client for identity providers".to_owned();
        let client = client.map_err(|cause| HttpError::Failed { what, cause })?;
        Ok(Self { client, guard })
    }

    /// Asks a provider; `plain` is one that may be asked without TLS.
    pub(crate) async fn call(&self, plain: bool, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let refused = |why: &str| HttpError::Refused(why.to_owned());
        let url = Url::parse(&parts.uri.to_string()).map_err(|_| refused("its address is none"))?;
        let what = shown(&url);
        match url.scheme() {
            "https" => {}
            "http" if plain => {}
            _ => return Err(HttpError::Refused(format!("{what} is not at https://"))),
        }
        // A literal address is connected to without being looked up.
        let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = host.parse()
            && let Err(why) = self.guard.reach.check(address)
        {
            let told = format!("{what} {why}, which this console does not connect to");
            return Err(HttpError::Refused(told));
        }
        let failed =
            |cause: reqwest::Error| HttpError::Failed { what: what.clone(), cause: cause.without_url() };
        let request = self.client.request(parts.method, url.clone()).headers(parts.headers).body(body);
        let mut response = request.send().await.map_err(failed)?;
        if response.status().is_redirection() {
            return Err(HttpError::Answer(format!("{what} answers with a redirect")));
        }
        let too_large = || HttpError::Answer(format!("{what} answers with more than {LARGEST} bytes"));
        if response.content_length().is_some_and(|length| length > LARGEST as u64) {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if bytes.len() + chunk.len() > LARGEST {
                return Err(too_large());
            }
            bytes.extend_from_slice(&chunk);
        }
        let mut answer = HttpResponse::new(bytes);
        *answer.status_mut() = response.status();
        *answer.headers_mut() = response.headers().clone();
        Ok(answer)
    }
}

/// The client as `openidconnect` calls it.
pub(crate) struct Caller {
    pub(crate) http: Arc<Http>,
    /// The provider may be asked without TLS.
    pub(crate) plain: bool,
}

impl<'c> AsyncHttpClient<'c> for Caller {
    type Error = HttpError;
    type Future = BoxFuture<'c, Result<HttpResponse, HttpError>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.http.call(self.plain, request))
    }
}

/// An address without its query.
fn shown(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}
