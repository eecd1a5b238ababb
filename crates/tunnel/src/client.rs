//! The agent's end: one channel to the console, the token on every call, a deadline on every answer.

use std::{fmt, net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::Uri;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Code, Request, Status, Streaming,
    codec::CompressionEncoding,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Channel, Endpoint},
};

use crate::{
    dial::{Connector, Dialer, Line, is_of_tls},
    digest::ArtifactDigest,
    proxy::Outgoing,
    v1::{
        AgentMessage, ArtifactRequest, ConsoleMessage, Cursor, DeployToken, PollRequest, PollResponse,
        ProxyFrame, ReportRequest, ReportResponse, SecretsRequest, SecretsResponse, TakeRunRequest,
        TakeRunResponse, WorkRef, agent_service_client::AgentServiceClient,
        proxy_service_client::ProxyServiceClient,
    },
    work::CONTRACT,
};

/// A snapshot of ten thousand services with their configuration fits; anything larger is refused.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// A frame of the proxy holds 32 KiB of data, or the headers of one request.
const MAX_FRAME_BYTES: usize = 1 << 20;

/// Bytes on the way at once: 100 ms of 320 MB/s.
const STREAM_WINDOW: u32 = 32 << 20;

/// Least time for the answer to a PING: it waits behind what fills the windows of a slow line.
const ANSWER: Duration = Duration::from_secs(10);

const AUTHORIZATION: &str = "authorization";

/// Where the console is and who we are.
#[derive(Clone)]
pub struct ConsoleOptions {
    /// `https://console.example.org` or, for a console on this machine, `http://127.0.0.1:8080`.
    pub url: String,
    /// Deploy token of the cluster; sent as `authorization: Bearer …`. Empty where it is known later.
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
        "the console rejected this agent's token ({message}). If the cluster was deleted or its token \
         rotated, create a new one with `plural cd clusters bootstrap NAME --rejoin`"
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
    /// Somebody answered, and TLS with them did not come about. Trying again helps only once that is mended.
    #[error("no secure connection to the console: {message}")]
    Tls {
        /// What TLS says.
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

    /// Whether TLS with the console does not come about.
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::Tls { .. })
    }

    /// Whether the console is of a release that does not know the call.
    pub fn is_unknown_call(&self) -> bool {
        matches!(self, Self::Refused { code: Code::Unimplemented, .. })
    }

    /// Whether what was asked about is elsewhere by now (a run that the console moved on).
    pub fn is_outdated(&self) -> bool {
        matches!(self, Self::Refused { code: Code::FailedPrecondition, .. })
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

/// The token that calls carry unless they bring one of their own. Shared by all clones, so that another one holds for
/// all of them at once.
#[derive(Clone)]
struct BearerToken(Arc<Mutex<MetadataValue<Ascii>>>);

impl Interceptor for BearerToken {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if !request.metadata().contains_key(AUTHORIZATION) {
            let token = self.0.lock().clone();
            request.metadata_mut().insert(AUTHORIZATION, token);
        }
        Ok(request)
    }
}

fn bearer(token: &str) -> Option<MetadataValue<Ascii>> {
    let mut bearer = MetadataValue::try_from(format!("Bearer {}", token.trim())).ok()?;
    bearer.set_sensitive(true);
    Some(bearer)
}

/// Messages of the console on an open stream.
pub type HintStream = Streaming<ConsoleMessage>;

/// Frames of the console on an open proxy channel.
pub type ProxyStream = Streaming<ProxyFrame>;

/// Pieces of an artifact's tar, in order.
pub type ArtifactStream = std::pin::Pin<Box<dyn Stream<Item = Result<Bytes, TunnelError>> + Send>>;

/// A console to talk to. Cheap to clone: all clones share one connection.
///
/// The connection is made on first use and made again whenever it is needed after a loss; pacing
/// those attempts is the caller's business.
#[derive(Clone)]
pub struct Console {
    /// Replaced when another way is tried.
    client: Arc<Mutex<Client>>,
    /// On the same connection.
    proxies: Arc<Mutex<Proxies>>,
    way: Arc<ConnectionParts>,
    deadline: Duration,
}

type Client = AgentServiceClient<InterceptedService<Channel, BearerToken>>;
type Proxies = ProxyServiceClient<InterceptedService<Channel, BearerToken>>;

/// What a connection is made from.
struct ConnectionParts {
    endpoint: Endpoint,
    dialer: Dialer,
    bearer: BearerToken,
}

impl ConnectionParts {
    fn clients(&self) -> (Client, Proxies) {
        let channel = self.endpoint.connect_with_connector_lazy(Connector(self.dialer.clone()));
        let client = AgentServiceClient::with_interceptor(channel.clone(), self.bearer.clone())
            .accept_compressed(CompressionEncoding::Zstd)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let proxies = ProxyServiceClient::with_interceptor(channel, self.bearer.clone())
            .max_decoding_message_size(MAX_FRAME_BYTES);
        (client, proxies)
    }
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").finish_non_exhaustive()
    }
}

/// Whether a host of an address is this machine.
fn is_here(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

impl Console {
    /// A console described by `options`. Opens no connection yet; must run inside a runtime.
    ///
    /// # Errors
    /// When the URL, token or certificate cannot be used.
    pub fn new(options: &ConsoleOptions) -> Result<Self, TunnelError> {
        Self::along(options, &Line::default())
    }

    /// The same, reached in a certain way.
    ///
    /// # Errors
    /// As [`Console::new`], and when the proxy's address cannot be used.
    pub fn along(options: &ConsoleOptions, line: &Line) -> Result<Self, TunnelError> {
        let bad = |reason: String| TunnelError::Options { url: options.url.clone(), reason };
        let uri: Uri =
            options.url.trim_end_matches('/').parse().map_err(|_| bad("it is not an address".to_owned()))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(bad("it must begin with https:// (or http://)".to_owned()));
        }
        let authority = uri.authority().ok_or_else(|| bad("it has no host".to_owned()))?.as_str();
        if uri.scheme_str() == Some("http") && !line.insecure_http && !is_here(uri.host().unwrap_or_default())
        {
            return Err(bad("plain HTTP would send the deploy token and the services' secrets over the \
                            network in clear; use an https:// address, or --insecure-http if something in \
                            between encrypts, such as a service mesh"
                .to_owned()));
        }
        let dialer = Dialer::new(&uri, options.ca_pem.as_deref(), line)?;
        // Without TLS as far as tonic is concerned: that is the dialer's, since a proxy may be below it and a
        // WebSocket above.
        let endpoint = Endpoint::from_shared(format!("http://{authority}"))
            .map_err(|error| bad(error.to_string()))?
            .origin(uri.clone())
            .connect_timeout(options.deadline)
            // A dead peer is noticed even when the stream is silent.
            .http2_keep_alive_interval(line.keep_alive)
            .keep_alive_timeout((line.keep_alive / 2).max(ANSWER))
            .keep_alive_while_idle(true)
            // What arrives is read at once, into windows of its own; this one only has to fit the line.
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(STREAM_WINDOW);
        let bearer = bearer(&options.token)
            .ok_or_else(|| bad("the deploy token holds characters no header may carry".to_owned()))?;
        let way = ConnectionParts { endpoint, dialer, bearer: BearerToken(Arc::new(Mutex::new(bearer))) };
        let (client, proxies) = way.clients();
        Ok(Self {
            client: Arc::new(Mutex::new(client)),
            proxies: Arc::new(Mutex::new(proxies)),
            way: Arc::new(way),
            deadline: options.deadline,
        })
    }

    fn client(&self) -> Client {
        self.client.lock().clone()
    }

    /// Calls carry this token from now on; streams that are open stay as they are.
    ///
    /// # Errors
    /// When the token holds characters that no header may carry.
    pub fn set_token(&self, token: &str) -> Result<(), TunnelError> {
        let bearer = bearer(token).ok_or_else(unusable)?;
        *self.way.bearer.0.lock() = bearer;
        Ok(())
    }

    /// Makes `token` the cluster's deploy token, by a join token. Can be repeated with the same token.
    ///
    /// # Errors
    /// As [`TunnelError`] says; [`TunnelError::Unauthorized`] for a join token that was used for another token.
    pub async fn join(&self, join_token: &str, token: &str) -> Result<(), TunnelError> {
        let request = carrying(join_token, DeployToken { token: token.to_owned() })?;
        let mut client = self.client();
        self.within(client.join(request)).await.map(drop)
    }

    /// Tells the console of `next`, in a call that carries `token`: with the token so far both are accepted from then on,
    /// with `next` itself it is the only one. Whether it is.
    ///
    /// # Errors
    /// As [`TunnelError`] says.
    pub async fn rotate_token(&self, token: &str, next: &str) -> Result<bool, TunnelError> {
        let request = carrying(token, DeployToken { token: next.to_owned() })?;
        let mut client = self.client();
        Ok(self.within(client.rotate_token(request)).await?.into_inner().in_use)
    }

    /// Opens the stream of hints. What is sent on `outgoing` (hello first) goes up.
    ///
    /// # Errors
    /// When the console cannot be reached, refuses the token or speaks no streams.
    pub async fn stream(&self, outgoing: mpsc::Receiver<AgentMessage>) -> Result<HintStream, TunnelError> {
        let mut client = self.client();
        let opened = self.within(client.stream(ReceiverStream::new(outgoing))).await;
        match &opened {
            Ok(_) => self.way.dialer.worked(),
            Err(TunnelError::Unavailable { .. }) if self.way.dialer.failed() => {
                // The old connection may still stand, and not let streams through.
                let (client, proxies) = self.way.clients();
                *self.client.lock() = client;
                *self.proxies.lock() = proxies;
            }
            Err(_) => {}
        }
        Ok(opened?.into_inner())
    }

    /// Opens the call on which the console sends the requests of people. What `outgoing` says goes up.
    ///
    /// # Errors
    /// When the console cannot be reached or refuses.
    pub async fn proxy(&self, outgoing: Outgoing) -> Result<ProxyStream, TunnelError> {
        let mut client = self.proxies.lock().clone();
        Ok(self.within(client.serve(outgoing)).await?.into_inner())
    }

    /// What changed since `cursor`; everything when it is `None`. What `want` names comes whole in any case; the console
    /// reads the first [`WANT_MAX`](crate::work::WANT_MAX).
    ///
    /// # Errors
    /// As [`TunnelError`] says.
    pub async fn poll(
        &self,
        cursor: Option<Cursor>,
        want: Vec<WorkRef>,
    ) -> Result<PollResponse, TunnelError> {
        self.ask(PollRequest { cursor, contract: CONTRACT, want, whole: false }).await
    }

    /// Everything, from a console whose history is that of `cursor`. A console of an earlier build answers as it does to
    /// [`Self::poll`]: with what changed, and what `want` names.
    ///
    /// # Errors
    /// As [`TunnelError`] says.
    pub async fn poll_whole(
        &self,
        cursor: Option<Cursor>,
        want: Vec<WorkRef>,
    ) -> Result<PollResponse, TunnelError> {
        self.ask(PollRequest { cursor, contract: CONTRACT, want, whole: true }).await
    }

    async fn ask(&self, request: PollRequest) -> Result<PollResponse, TunnelError> {
        let mut client = self.client();
        Ok(self.within(client.poll(request)).await?.into_inner())
    }

    /// Sends one batch of reports without a stream.
    ///
    /// # Errors
    /// As [`TunnelError`] says.
    pub async fn report(&self, report: ReportRequest) -> Result<ReportResponse, TunnelError> {
        let mut client = self.client();
        Ok(self.within(client.report(report)).await?.into_inner())
    }

    /// The credential of the Job of a run that is about to be made, and the number of that Job. The console counts it: an answer
    /// that is lost makes the next call with the same number [`TunnelError::is_outdated`].
    ///
    /// # Errors
    /// As [`TunnelError`] says.
    pub async fn take_run(&self, request: TakeRunRequest) -> Result<TakeRunResponse, TunnelError> {
        let mut client = self.client();
        Ok(self.within(client.take_run(request)).await?.into_inner())
    }

    /// Tells what came of Secrets that automations ask for; what the agent has to do with some now.
    ///
    /// # Errors
    /// As [`TunnelError`] says.
    pub async fn secrets(&self, request: SecretsRequest) -> Result<SecretsResponse, TunnelError> {
        let mut client = self.client();
        Ok(self.within(client.secrets(request)).await?.into_inner())
    }

    /// The bytes of one artifact's tar. The caller verifies the digest.
    ///
    /// # Errors
    /// As [`TunnelError`] says; each piece may fail as well.
    pub async fn artifact(&self, digest: &ArtifactDigest) -> Result<ArtifactStream, TunnelError> {
        let mut client = self.client();
        let request = ArtifactRequest { digest: digest.as_str().to_owned() };
        let chunks = self.within(client.artifact(request)).await?.into_inner();
        Ok(Box::pin(chunks.map(|chunk| chunk.map(|chunk| chunk.data).map_err(TunnelError::from))))
    }

    async fn within<T>(&self, call: impl Future<Output = Result<T, Status>>) -> Result<T, TunnelError> {
        match tokio::time::timeout(self.deadline, call).await {
            Ok(answer) => answer.map_err(|status| {
                // tonic hides a refused connection behind "transport error": say the cause.
                if status.code() == Code::Unavailable || status.code() == Code::Unknown {
                    let message = chain(&status);
                    if is_of_tls(&status) {
                        TunnelError::Tls { message }
                    } else {
                        TunnelError::Unavailable { message }
                    }
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

/// A request with a token of its own.
fn carrying<T>(token: &str, message: T) -> Result<Request<T>, TunnelError> {
    let mut request = Request::new(message);
    request.metadata_mut().insert(AUTHORIZATION, bearer(token).ok_or_else(unusable)?);
    Ok(request)
}

fn unusable() -> TunnelError {
    TunnelError::Unauthorized { message: "the token holds characters no header may carry".to_owned() }
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
