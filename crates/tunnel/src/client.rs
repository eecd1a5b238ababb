//! The agent's end: one channel to the console, the token on every call, a deadline on every answer.

use std::{fmt, time::Duration};

use futures::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Code, Request, Status, Streaming,
    codec::CompressionEncoding,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint},
};

use crate::{
    digest::ArtifactDigest,
    v1::{
        AgentMessage, ArtifactRequest, ConsoleMessage, Cursor, PollRequest, PollResponse, ReportRequest,
        ReportResponse, agent_service_client::AgentServiceClient,
    },
};

/// A snapshot of ten thousand services with their configuration fits; anything larger is refused.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// Where the console is and who we are.
#[derive(Clone)]
pub struct ConsoleOptions {
    /// `https://console.example.org` or, for a console on this machine, `http://127.0.0.1:8080`.
    pub url: String,
    /// Deploy token of the cluster; sent as `authorization: Bearer …`.
    pub token: String,
    /// Certificate authority of the console in PEM, where the system's roots do not know it.
    pub ca_pem: Option<String>,
    /// How long a connection or a unary answer may take.
    pub deadline: Duration,
}

impl fmt::Debug for ConsoleOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsoleOptions").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Why a call to the console failed.
#[derive(Debug, thiserror::Error)]
pub enum TunnelError {
    /// The URL or certificate cannot be used at all.
    #[error("cannot use console URL {url:?}: {reason}")]
    Options {
        /// As given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The console does not accept the token. Trying again helps only once it is replaced.
    #[error(
        "the console refuses this agent's token ({message}): was the cluster deleted or its token replaced? \
         take a new one with `plural cd clusters bootstrap`"
    )]
    Unauthorized {
        /// The console's words.
        message: String,
    },
    /// No console answered: it is down, or the way to it is.
    #[error("cannot reach the console: {message}")]
    Unavailable {
        /// The transport's words.
        message: String,
    },
    /// The console answered with a refusal.
    #[error("the console answered {code:?}: {message}")]
    Refused {
        /// gRPC status code.
        code: Code,
        /// The console's words.
        message: String,
    },
}

impl TunnelError {
    /// Whether the token, not the network, is the problem.
    pub fn is_unauthorized(&self) -> bool {
        matches!(self, Self::Unauthorized { .. })
    }

    /// Whether the console has no such thing (an artifact that left its store).
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { code: Code::NotFound, .. })
    }
}

impl From<Status> for TunnelError {
    fn from(status: Status) -> Self {
        let message = status.message().to_owned();
        match status.code() {
            Code::Unauthenticated | Code::PermissionDenied => Self::Unauthorized { message },
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown => {
                Self::Unavailable { message }
            }
            code => Self::Refused { code, message },
        }
    }
}

#[derive(Clone)]
struct BearerToken(MetadataValue<Ascii>);

impl Interceptor for BearerToken {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("authorization", self.0.clone());
        Ok(request)
    }
}

/// Messages of the console on an open stream.
pub type HintStream = Streaming<ConsoleMessage>;

/// Pieces of an artifact's tar, in order.
pub type ArtifactStream = std::pin::Pin<Box<dyn Stream<Item = Result<Vec<u8>, TunnelError>> + Send>>;

/// A console to talk to. Cheap to clone: all clones share one connection.
///
/// The connection is made on first use and made again whenever it is needed after a loss; pacing
/// those attempts is the caller's business.
#[derive(Clone)]
pub struct Console {
    client: AgentServiceClient<InterceptedService<Channel, BearerToken>>,
    deadline: Duration,
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").finish_non_exhaustive()
    }
}

impl Console {
    /// A console described by `options`. Opens no connection yet; must run inside a runtime.
    ///
    /// # Errors
    /// When the URL, token or certificate cannot be used.
    pub fn new(options: &ConsoleOptions) -> Result<Self, TunnelError> {
        let bad = |reason: String| TunnelError::Options { url: options.url.clone(), reason };
        let mut endpoint = Endpoint::from_shared(options.url.trim_end_matches('/').to_owned())
            .map_err(|error| bad(error.to_string()))?
            .connect_timeout(options.deadline)
            // A dead peer is noticed within half a minute even when the stream is silent.
            .http2_keep_alive_interval(Duration::from_secs(20))
            .keep_alive_timeout(Duration::from_secs(10))
            .keep_alive_while_idle(true)
            .tcp_nodelay(true)
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(2 << 20);
        match endpoint.uri().scheme_str() {
            Some("http") => {}
            Some("https") => {
                let tls = match &options.ca_pem {
                    Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
                    None => ClientTlsConfig::new().with_native_roots(),
                };
                endpoint = endpoint.tls_config(tls).map_err(|error| bad(chain(&error)))?;
            }
            _ => return Err(bad("it must begin with https:// (or http://)".to_owned())),
        }
        let mut bearer = MetadataValue::try_from(format!("Bearer {}", options.token.trim()))
            .map_err(|_| bad("the deploy token holds characters no header may carry".to_owned()))?;
        bearer.set_sensitive(true);
        let client = AgentServiceClient::with_interceptor(endpoint.connect_lazy(), BearerToken(bearer))
            .accept_compressed(CompressionEncoding::Zstd)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        Ok(Self { client, deadline: options.deadline })
    }

    /// Opens the stream of hints. What is sent on `outgoing` (hello first) goes up.
    ///
    /// # Errors
    /// When the console cannot be reached, refuses the token or speaks no streams.
    pub async fn stream(&self, outgoing: mpsc::Receiver<AgentMessage>) -> Result<HintStream, TunnelError> {
        let mut client = self.client.clone();
        let open = client.stream(ReceiverStream::new(outgoing));
        Ok(self.within(open).await?.into_inner())
    }

    /// What changed since `cursor`; everything when it is `None`.
    ///
    /// # Errors
    /// As [`TunnelError`] says.
    pub async fn poll(&self, cursor: Option<Cursor>) -> Result<PollResponse, TunnelError> {
        let mut client = self.client.clone();
        let answer = self.within(client.poll(PollRequest { cursor })).await?;
        Ok(answer.into_inner())
    }

    /// Sends one batch of reports without a stream.
    ///
    /// # Errors
    /// As [`TunnelError`] says.
    pub async fn report(&self, report: ReportRequest) -> Result<ReportResponse, TunnelError> {
        let mut client = self.client.clone();
        Ok(self.within(client.report(report)).await?.into_inner())
    }

    /// The bytes of one artifact's tar. The caller verifies the digest.
    ///
    /// # Errors
    /// As [`TunnelError`] says; each piece may fail as well.
    pub async fn artifact(&self, digest: &ArtifactDigest) -> Result<ArtifactStream, TunnelError> {
        let mut client = self.client.clone();
        let request = ArtifactRequest { digest: digest.as_str().to_owned() };
        let chunks = self.within(client.artifact(request)).await?.into_inner();
        Ok(Box::pin(chunks.map(|chunk| chunk.map(|chunk| chunk.data).map_err(TunnelError::from))))
    }

    async fn within<T>(&self, call: impl Future<Output = Result<T, Status>>) -> Result<T, TunnelError> {
        match tokio::time::timeout(self.deadline, call).await {
            Ok(answer) => answer.map_err(|status| {
                // tonic hides a refused connection behind "transport error": say the cause.
                if status.code() == Code::Unavailable || status.code() == Code::Unknown {
                    TunnelError::Unavailable { message: chain(&status) }
                } else {
                    status.into()
                }
            }),
            Err(_) => {
                Err(TunnelError::Unavailable { message: format!("no answer within {:.0?}", self.deadline) })
            }
        }
    }
}

/// An error and what caused it, outermost first, each said once.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut words = match error.downcast_ref::<Status>() {
        Some(status) => status.message().to_owned(),
        None => error.to_string(),
    };
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
