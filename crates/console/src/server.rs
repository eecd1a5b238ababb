//! One listener for everything: HTTP/1.1 and HTTP/2, with or without TLS.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    path::Path,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::ConnectInfo,
    http::{
        HeaderValue, Request, Response, StatusCode, Version,
        header::{CONNECTION, RETRY_AFTER},
    },
    routing::future::RouteFuture,
};
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::{body::Incoming, server::conn::http2, service::Service};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto::Builder, graceful::GracefulConnection},
};
use plural_api::Network;
use plural_kit::{Admission, AdmissionLimits, Ending, OpenRequest, ShutdownSignal, Visit};
use rustls::{
    client::danger::ServerCertVerifier as _,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpSocket},
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};
use tokio_rustls::TlsAcceptor;
use tower::Service as _;

use crate::StartError;

/// How long an HTTP/1 client may take for a request's head, and be idle between two requests. From accepting a connection to the end
/// of the first head, [`Admission`] counts the time, TLS included.
const HEAD: Duration = Duration::from_secs(10);
/// Between two looks at who is over their time.
const SWEEP: Duration = Duration::from_secs(1);
/// Bytes that one HTTP/2 connection may have on the way: 100 ms of 320 MB/s.
const WINDOW: u32 = 32 << 20;
/// Connections that the system keeps until they are accepted, as `TcpListener::bind` has it.
const BACKLOG: u32 = 1024;
/// Bytes of a request's headers.
const HEADERS: u32 = 16 << 10;
/// How often a silent connection is given or asked for a sign of life, if nothing else is said.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// Requests that one HTTP/2 connection may have open.
const STREAMS: u32 = 1024;

/// An address that is taken, whose certificate can be used, and at which nobody listens yet: what could refuse the settings of a
/// console has done so, and clients are refused until it is ready.
pub(crate) struct Bound {
    socket: TcpSocket,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
}

impl Bound {
    /// Take an address; `tls` are the files of a certificate chain and its key.
    ///
    /// # Errors
    /// When the address is taken or a file cannot be used.
    pub(crate) fn new(address: SocketAddr, tls: Option<(&Path, &Path)>) -> Result<Self, StartError> {
        let tls = tls.map(|(chain, key)| acceptor(chain, key)).transpose()?;
        Self::at(address, tls)
    }

    /// Take an address with a certificate that is in no file.
    pub(crate) fn with_certificate(
        address: SocketAddr,
        certificate: CertificateDer<'static>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, StartError> {
        let unusable = |error: rustls::Error| StartError::Tls {
            file: "the certificate for other replicas".to_owned(),
            reason: error.to_string(),
        };
        Self::at(address, Some(tls_acceptor(vec![certificate], key).map_err(unusable)?))
    }

    fn at(address: SocketAddr, tls: Option<TlsAcceptor>) -> Result<Self, StartError> {
        let taken = |cause| StartError::Listen { address, cause };
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
        let socket = socket.map_err(taken)?;
        // As `TcpListener::bind` does: a console that ended a moment ago is no reason to refuse.
        socket.set_reuseaddr(true).map_err(taken)?;
        socket.bind(address).map_err(taken)?;
        Ok(Self { socket, address, tls })
    }

    /// Where it is bound.
    ///
    /// # Errors
    /// When the system does not tell.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// `http` or `https`.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Clients may connect from now on.
    ///
    /// # Errors
    /// When another process listens there since.
    pub(crate) fn listen(self) -> Result<Server, StartError> {
        let Self { socket, address, tls } = self;
        let listener = socket.listen(BACKLOG).map_err(|cause| StartError::Listen { address, cause })?;
        Ok(Server::new(listener, tls))
    }
}

/// A bound listener that does not accept yet: the console's own stack, for a bench to serve something else on.
pub struct Server {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    keep_alive: Duration,
    admission: Arc<Admission>,
    asks: Asks,
}

/// What a connection has to show.
enum Asks {
    /// Nothing: what is served needs no credential.
    Nothing,
    /// A credential, unless one of these proxies made it.
    Credentials { trusted: Arc<[Network]> },
}

impl Asks {
    fn trusts(&self, peer: SocketAddr) -> bool {
        match self {
            Self::Nothing => true,
            Self::Credentials { trusted } => trusted.iter().any(|network| network.contains(peer.ip())),
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address().ok()).finish_non_exhaustive()
    }
}

impl Server {
    /// Bind an address; `tls` are the files of a certificate chain and its key.
    ///
    /// # Errors
    /// When the address is taken or a file cannot be used.
    pub fn bind(address: SocketAddr, tls: Option<(&Path, &Path)>) -> Result<Self, StartError> {
        Bound::new(address, tls)?.listen()
    }

    fn new(listener: TcpListener, tls: Option<TlsAcceptor>) -> Self {
        let admission = Admission::new(AdmissionLimits::of_descriptors(usize::MAX));
        Self { listener, tls, keep_alive: KEEP_ALIVE, admission, asks: Asks::Nothing }
    }

    /// Lets nobody keep a connection who shows no credential, but for these proxies.
    pub(crate) fn with_admission(self, admission: Arc<Admission>, trusted: Arc<[Network]>) -> Self {
        Self { admission, asks: Asks::Credentials { trusted }, ..self }
    }

    /// Notices within about three of these that whoever is at the other end of an HTTP/2 connection is gone.
    pub(crate) fn with_keep_alive(self, keep_alive: Duration) -> Self {
        Self { keep_alive, ..self }
    }

    /// Where it is bound.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until asked to stop, then lets open requests end for at most `drain`.
    pub async fn run(self, router: Router, stop: ShutdownSignal, drain: Duration) {
        let Self { listener, tls, keep_alive, admission, asks } = self;
        let mut connections = JoinSet::new();
        let mut sweeps = interval(SWEEP);
        sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.requested() => break,
                _ = sweeps.tick() => {
                    admission.sweep();
                    continue;
                }
                Some(_) = connections.join_next(), if !connections.is_empty() => continue,
                accepted = listener.accept() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, most likely: those who have shown nothing give some back.
                    tracing::warn!(error = %error, "cannot accept a connection");
                    admission.shed();
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let Some(visit) = admission.enter(peer, asks.trusts(peer)) else { continue };
            let (router, tls) = (router.clone(), tls.clone());
            connections.spawn(async move {
                if !visit.served().await {
                    return;
                }
                let _ = stream.set_nodelay(true);
                let guarded = Guarded { router, visit: Arc::clone(&visit) };
                match tls {
                    None => serve(stream, guarded, keep_alive).await,
                    Some(tls) => {
                        let accepted = tokio::select! {
                            accepted = tls.accept(stream) => accepted.ok(),
                            () = visit.ended() => None,
                        };
                        match accepted {
                            Some(stream) => serve(stream, guarded, keep_alive).await,
                            None => metrics::counter!("plural_tls_handshakes_failed_total").increment(1),
                        }
                    }
                }
            });
        }
        drop(listener);
        admission.stop();
        let ended = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(drain, ended).await.is_err() {
            tracing::info!("connections were still open when the time to drain was over");
        }
        connections.shutdown().await;
    }
}

async fn serve<I>(stream: I, guarded: Guarded, keep_alive: Duration)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let visit = Arc::clone(&guarded.visit);
    let builder = builder(keep_alive);
    drive(builder.serve_connection_with_upgrades(TokioIo::new(stream), guarded), &visit).await;
}

/// Runs a connection to its end, or until it has to end.
pub(crate) async fn drive<C>(connection: C, visit: &Visit)
where
    C: GracefulConnection,
    C::Error: std::fmt::Display,
{
    let mut connection = pin!(connection);
    let mut ending = Ending::No;
    let ended = std::future::poll_fn(|cx| {
        loop {
            if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                return Poll::Ready(ended);
            }
            match visit.poll_ending(cx, ending) {
                Poll::Ready(Ending::Now) => return Poll::Ready(Ok(())),
                Poll::Ready(now) => {
                    ending = now;
                    connection.as_mut().graceful_shutdown();
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    });
    if let Err(error) = ended.await {
        tracing::debug!(error = %error, "a connection ended with an error");
    }
}

/// The routes, for one connection: each request says which one it came on, and is counted until its answer is sent.
pub(crate) struct Guarded {
    pub(crate) router: Router,
    pub(crate) visit: Arc<Visit>,
}

impl Service<Request<Incoming>> for Guarded {
    type Response = Response<Counted>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, mut request: Request<Incoming>) -> Answering {
        let Some(open) = self.visit.open() else { return Answering::Refused };
        let extensions = request.extensions_mut();
        // Whoever guesses passwords is told apart by it.
        extensions.insert(ConnectInfo(self.visit.peer()));
        extensions.insert(Arc::clone(&self.visit));
        let read = (request.version() <= Version::HTTP_11 && !request.body().is_end_stream())
            .then(|| Arc::new(AtomicBool::new(false)));
        let request = request.map(|inner| Asked { inner, read: read.clone() });
        Answering::Routed { answer: self.router.clone().call(request), open: Some(open), read }
    }
}

/// An answer on its way.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every request is routed: a box would cost each of them an allocation"
)]
pub(crate) enum Answering {
    Refused,
    Routed {
        answer: RouteFuture<Infallible>,
        open: Option<OpenRequest>,
        /// Of HTTP/1, whether the request's body was read to its end.
        read: Option<Arc<AtomicBool>>,
    },
}

impl Future for Answering {
    type Output = Result<Response<Counted>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Refused => {
                let told = "too many requests at once on a connection that has shown no credential\n";
                let mut response = Response::new(Counted { inner: Body::from(told), _open: None });
                *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
                Poll::Ready(Ok(response))
            }
            Self::Routed { answer, open, read } => Pin::new(answer).poll(cx).map_ok(|mut response| {
                let is_unread = read.as_ref().is_some_and(|read| !read.load(Ordering::Relaxed));
                if is_unread && response.status() != StatusCode::SWITCHING_PROTOCOLS {
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                response.map(|inner| Counted { inner, _open: open.take() })
            }),
        }
    }
}

/// The body of a request. HTTP/1 cannot go on behind one that nobody read: hyper closes the connection then, and a client that was
/// not told so (RFC 9112, 9.6) loses the next request that it sends on it.
pub(crate) struct Asked {
    inner: Incoming,
    read: Option<Arc<AtomicBool>>,
}

impl http_body::Body for Asked {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        let is_read = match &polled {
            Poll::Ready(None) => true,
            Poll::Ready(Some(Ok(_))) => self.inner.is_end_stream(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => false,
        };
        if is_read && let Some(read) = &self.read {
            read.store(true, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The body of an answer; its request is open until it is sent.
pub(crate) struct Counted {
    inner: Body,
    _open: Option<OpenRequest>,
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

fn builder(keep_alive: Duration) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEADERS)
        // What agents send is read at once, into windows of its own; this one only has to fit a long line.
        // A handler that does not read lets a client keep so much here, and no more, for its whole connection.
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .keep_alive_interval(keep_alive * 3 / 2)
        .keep_alive_timeout(keep_alive);
    builder
}

/// The same for a connection that is known to be HTTP/2.
pub(crate) fn http2(keep_alive: Duration) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEADERS)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .keep_alive_interval(keep_alive * 3 / 2)
        .keep_alive_timeout(keep_alive);
    builder
}

fn acceptor(chain: &Path, key: &Path) -> Result<TlsAcceptor, StartError> {
    let cannot = |file: &Path, reason: String| StartError::Tls { file: file.display().to_string(), reason };
    let certificates = CertificateDer::pem_file_iter(chain)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| cannot(chain, error.to_string()))?;
    if certificates.is_empty() {
        return Err(cannot(chain, "it holds no certificate".to_owned()));
    }
    check_not_an_authority(&certificates).map_err(|reason| cannot(chain, reason))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| cannot(key, error.to_string()))?;
    tls_acceptor(certificates, private).map_err(|error| cannot(chain, error.to_string()))
}

/// `openssl req -x509` makes certificates of an authority. Browsers take such a one from a server when told to; agents, the CLI
/// and whoever else follows RFC 5280 never do, and say so in words that lead nowhere.
fn check_not_an_authority(certificates: &[CertificateDer<'static>]) -> Result<(), String> {
    let Some((own, others)) = certificates.split_first() else { return Ok(()) };
    let mut roots = rustls::RootCertStore::empty();
    if roots.add(own.clone()).is_err() {
        // What cannot be read is refused below, with its reason.
        return Ok(());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = verifier.build().map_err(|error| error.to_string())?;
    let name = ServerName::IpAddress(std::net::Ipv4Addr::LOCALHOST.into());
    match verifier.verify_server_cert(own, others, &name, &[], UnixTime::now()) {
        Err(error) if error.to_string().contains("CaUsedAsEndEntity") => Err(
            "it is the certificate of a certificate authority (basicConstraints CA:TRUE), which agents and the CLI refuse \
             from a server. Make one with CA:FALSE: docs/tls.md says how"
                .to_owned(),
        ),
        // Its names, times and signer are what clients judge.
        Ok(_) | Err(_) => Ok(()),
    }
}

fn tls_acceptor(
    certificates: Vec<CertificateDer<'static>>,
    private: PrivateKeyDer<'static>,
) -> Result<TlsAcceptor, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, private))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
