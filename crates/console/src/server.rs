//! One listener for everything: HTTP/1.1 and HTTP/2, with or without TLS.

use std::{io, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use axum::{Router, extract::ConnectInfo};
use hyper::server::conn::http2;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto::Builder, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use plural_kit::ShutdownSignal;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

use crate::StartError;

/// Connections at once; more wait in the system's queue.
const CONNECTIONS: usize = 50_000;
/// How long a client may take for its TLS handshake or its request's head.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Bytes that one HTTP/2 connection may have on the way: 100 ms of 320 MB/s.
const WINDOW: u32 = 32 << 20;
/// Bytes of a request's headers.
const HEADERS: u32 = 16 << 10;
/// How often a silent connection is given or asked for a sign of life, if nothing else is said.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// Requests that one HTTP/2 connection may have open.
const STREAMS: u32 = 1024;

/// A bound listener that does not accept yet: the console's own stack, for a bench to serve something else on.
pub struct Server {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    keep_alive: Duration,
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
    pub async fn bind(address: SocketAddr, tls: Option<(&Path, &Path)>) -> Result<Self, StartError> {
        let tls = tls.map(|(chain, key)| acceptor(chain, key)).transpose()?;
        let listener =
            TcpListener::bind(address).await.map_err(|cause| StartError::Listen { address, cause })?;
        Ok(Self { listener, tls, keep_alive: KEEP_ALIVE })
    }

    /// Bind an address with a certificate that is in no file.
    pub(crate) async fn bind_with(
        address: SocketAddr,
        certificate: CertificateDer<'static>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, StartError> {
        let unusable = |error: rustls::Error| StartError::Tls {
            file: "the certificate for other replicas".to_owned(),
            reason: error.to_string(),
        };
        let tls = tls_acceptor(vec![certificate], key).map_err(unusable)?;
        let listener =
            TcpListener::bind(address).await.map_err(|cause| StartError::Listen { address, cause })?;
        Ok(Self { listener, tls: Some(tls), keep_alive: KEEP_ALIVE })
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

    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Serves until asked to stop, then lets open requests end for at most `drain`.
    pub async fn run(self, router: Router, stop: ShutdownSignal, drain: Duration) {
        let keep_alive = self.keep_alive;
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.requested() => break,
                Some(_) = connections.join_next(), if !connections.is_empty() => continue,
                accepted = accept(&self.listener, &places) => accepted,
            };
            let (stream, peer, place) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, most likely: they come back.
                    tracing::warn!(error = %error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let (router, tls, watcher) = (router.clone(), self.tls.clone(), graceful.watcher());
            connections.spawn(async move {
                let _place = place;
                let _ = stream.set_nodelay(true);
                let router = router.map_request(move |mut request: hyper::Request<hyper::body::Incoming>| {
                    // Whoever guesses passwords is told apart by it.
                    request.extensions_mut().insert(ConnectInfo(peer));
                    request
                });
                let service = TowerToHyperService::new(router);
                let builder = builder(keep_alive);
                let served = match tls {
                    None => {
                        let connection =
                            builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
                        watcher.watch(connection.into_owned()).await
                    }
                    Some(tls) => {
                        let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await else {
                            metrics::counter!("plural_tls_handshakes_failed_total").increment(1);
                            return;
                        };
                        let connection =
                            builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
                        watcher.watch(connection.into_owned()).await
                    }
                };
                if let Err(error) = served {
                    tracing::debug!(error = %error, "a connection ended with an error");
                }
            });
        }
        drop(self.listener);
        if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
            tracing::info!("connections were still open when the time to drain was over");
        }
        connections.shutdown().await;
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, place))
}

fn builder(keep_alive: Duration) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HANDSHAKE);
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
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| cannot(key, error.to_string()))?;
    tls_acceptor(certificates, private).map_err(|error| cannot(chain, error.to_string()))
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
