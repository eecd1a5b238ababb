//! From an address to a connection: through an HTTP proxy where there is one, with TLS where it is asked for, as
//! HTTP/2 or inside a WebSocket.

use std::{
    fmt, io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use http::Uri;
use percent_encoding::percent_decode_str;
use plural_kit::tls_words;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use crate::{client::TunnelError, websocket::WebSocketIo};

/// Bytes of a proxy's answer that we are willing to read.
const PROXY_HEAD: usize = 16 << 10;

/// Streams that fail on connections that came about, before the other way is tried.
const FAILURES: u32 = 3;

/// How the console is spoken to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Transport {
    /// HTTP/2; inside a WebSocket while that does not come through.
    #[default]
    Auto,
    /// HTTP/2 only.
    Http2,
    /// HTTP/2 inside a WebSocket only.
    WebSocket,
}

/// The way to the console.
#[derive(Clone)]
pub struct Line {
    /// How to speak.
    pub transport: Transport,
    /// `http://[user:password@]host:port`, or `https://…` with TLS to the proxy itself.
    pub proxy: Option<String>,
    /// Hosts that are reached without the proxy: names, `.suffixes`, `*`.
    pub no_proxy: Vec<String>,
    /// Between two signs of life on a silent connection: shorter than the silence that anything in between allows.
    /// A peer that does not answer one within half as long again is gone.
    pub keep_alive: Duration,
    /// Speak plain HTTP to a console that is not on this machine: token, configuration and secrets go over the network in
    /// clear unless something else encrypts it.
    pub insecure_http: bool,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            transport: Transport::Auto,
            proxy: None,
            no_proxy: Vec::new(),
            keep_alive: Duration::from_secs(20),
            insecure_http: false,
        }
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A proxy's address may hold a password.
        f.debug_struct("Line")
            .field("transport", &self.transport)
            .field("proxied", &self.proxy.is_some())
            .finish_non_exhaustive()
    }
}

/// A connection of whatever kind.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}
pub(crate) type BoxIo = Box<dyn Io>;

/// Dials one console.
#[derive(Clone)]
pub(crate) struct Dialer {
    host: String,
    port: u16,
    tls: Option<Arc<ClientConfig>>,
    proxy: Option<Proxy>,
    transport: Transport,
    state: Arc<State>,
}

/// What was learnt of the way.
#[derive(Debug, Default)]
struct State {
    /// HTTP/2 is believed not to come through.
    wrapped: AtomicBool,
    /// The last connection came about; what failed then is the way, not the console's absence.
    connected: AtomicBool,
    /// Calls that failed on connections that came about.
    failures: AtomicU32,
}

#[derive(Clone)]
struct Proxy {
    host: String,
    port: u16,
    tls: Option<Arc<ClientConfig>>,
    authorization: Option<String>,
}

impl Dialer {
    /// For the console at `uri`, which is `http` or `https`.
    pub(crate) fn new(uri: &Uri, ca_pem: Option<&str>, line: &Line) -> Result<Self, TunnelError> {
        let bad = |reason: String| TunnelError::Options { url: uri.to_string(), reason };
        let secure = uri.scheme_str() == Some("https");
        let host = uri.host().ok_or_else(|| bad("it has no host".to_owned()))?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let roots = || roots(ca_pem).map_err(bad);
        let proxy = match line.proxy.as_deref().filter(|_| !is_exempt(&host, &line.no_proxy)) {
            None => None,
            Some(url) => Some(
                Proxy::parse(url, roots)
                    .map_err(|reason| TunnelError::Options { url: "the proxy's".to_owned(), reason })?,
            ),
        };
        let tls = if secure { Some(Arc::new(client_config(roots()?).map_err(bad)?)) } else { None };
        Ok(Self {
            host,
            port,
            tls,
            proxy,
            transport: line.transport,
            state: Arc::new(State {
                wrapped: AtomicBool::new(line.transport == Transport::WebSocket),
                ..State::default()
            }),
        })
    }

    /// The stream came through.
    pub(crate) fn worked(&self) {
        self.state.failures.store(0, Ordering::Relaxed);
    }

    /// The stream did not come through. Whether another way is tried from now on: after a few failures on
    /// connections that did come about. A console that is down is no reason.
    pub(crate) fn failed(&self) -> bool {
        if !self.state.connected.load(Ordering::Relaxed) {
            return false;
        }
        let failures = self.state.failures.fetch_add(1, Ordering::Relaxed) + 1;
        failures.is_multiple_of(FAILURES) && self.turn()
    }

    /// Takes the other way next time, if that is left to us.
    fn turn(&self) -> bool {
        let may = self.transport == Transport::Auto;
        if may {
            let was = self.state.wrapped.fetch_xor(true, Ordering::Relaxed);
            tracing::info!(websocket = !was, "trying another connection method");
        }
        may
    }

    pub(crate) async fn dial(&self) -> io::Result<BoxIo> {
        self.state.connected.store(false, Ordering::Relaxed);
        let wrapped = self.state.wrapped.load(Ordering::Relaxed);
        let stream: BoxIo = match &self.proxy {
            None => Box::new(tcp(&self.host, self.port).await?),
            Some(proxy) => proxy.tunnel(&self.host, self.port).await?,
        };
        let stream = match &self.tls {
            None => stream,
            Some(config) => {
                let mut config = ClientConfig::clone(config);
                let protocol: &[u8] = if wrapped { b"http/1.1" } else { b"h2" };
                config.alpn_protocols = vec![protocol.to_vec()];
                let name = ServerName::try_from(self.host.clone()).map_err(io::Error::other)?;
                let connected = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
                let stream = connected.map_err(in_words)?;
                if !wrapped && stream.get_ref().1.alpn_protocol() != Some(b"h2") {
                    self.turn();
                    return Err(io::Error::other(
                        "the server does not speak HTTP/2, possibly because of a proxy; trying inside a \
                         WebSocket",
                    ));
                }
                Box::new(stream) as BoxIo
            }
        };
        if wrapped {
            let authority = format!("{}:{}", self.host, self.port);
            let stream = match WebSocketIo::connect(stream, &authority).await {
                Ok(stream) => stream,
                Err(error) => {
                    self.turn();
                    return Err(error);
                }
            };
            self.state.connected.store(true, Ordering::Relaxed);
            return Ok(Box::new(stream));
        }
        self.state.connected.store(true, Ordering::Relaxed);
        Ok(stream)
    }
}

impl Proxy {
    fn parse(url: &str, roots: impl FnOnce() -> Result<RootCertStore, TunnelError>) -> Result<Self, String> {
        let text = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let uri: Uri = text.parse().map_err(|_| "it is not an address".to_owned())?;
        let tls = match uri.scheme_str() {
            Some("http") => None,
            Some("https") => {
                let roots = roots().map_err(|error| error.to_string())?;
                Some(Arc::new(client_config(roots)?))
            }
            _ => return Err("a proxy's address begins with http:// or https://".to_owned()),
        };
        let authority = uri.authority().ok_or("it has no host")?.as_str();
        let (user, _) =
            authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        let host = uri.host().ok_or("it has no host")?;
        let port = uri.port_u16().unwrap_or(if tls.is_some() { 443 } else { 80 });
        Ok(Self {
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port,
            tls,
            authorization: user
                .map(|user| format!("Basic {}", base64(&percent_decode_str(user).collect::<Vec<u8>>()))),
        })
    }

    /// A connection to a host, made by the proxy.
    async fn tunnel(&self, host: &str, port: u16) -> io::Result<BoxIo> {
        let stream = tcp(&self.host, self.port).await?;
        let mut stream: BoxIo = match &self.tls {
            None => Box::new(stream),
            Some(config) => {
                let name = ServerName::try_from(self.host.clone()).map_err(io::Error::other)?;
                let connected = TlsConnector::from(Arc::clone(config)).connect(name, stream).await;
                Box::new(connected.map_err(in_words)?)
            }
        };
        let target = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let mut request = format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n");
        if let Some(authorization) = &self.authorization {
            request.push_str("proxy-authorization: ");
            request.push_str(authorization);
            request.push_str("\r\n");
        }
        request.push_str("\r\n");
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        // Byte by byte: what follows the head belongs to the console.
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() >= PROXY_HEAD {
                return Err(io::Error::other("the proxy's answer does not end"));
            }
            head.push(stream.read_u8().await?);
        }
        let first = String::from_utf8_lossy(&head);
        let status = first.lines().next().unwrap_or_default();
        match status.split(' ').nth(1) {
            Some(code) if code.starts_with('2') => Ok(stream),
            Some("407") => Err(io::Error::other("the proxy requires a user and a password")),
            _ => Err(io::Error::other(format!("the proxy refuses to connect: {}", status.trim()))),
        }
    }
}

async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn roots(ca_pem: Option<&str>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match ca_pem {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                let certificate = certificate
                    .map_err(|error| format!("the certificate authority is not valid PEM: {error}"))?;
                roots
                    .add(certificate)
                    .map_err(|error| format!("the certificate authority cannot be used: {error}"))?;
            }
        }
        None => {
            // Some of a system's certificates may be too old to be read; the others count.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        return Err("no certificate authority is known; set a file with one".to_owned());
    }
    Ok(roots)
}

/// What TLS refuses, as a person would say it.
fn in_words(error: io::Error) -> io::Error {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(tls) => io::Error::other(TlsFault(tls_words(&tls.to_string()).into_owned())),
        None => error,
    }
}

/// TLS did not come about: time alone does not mend it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct TlsFault(String);

/// Whether TLS is why an attempt failed.
pub(crate) fn is_of_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.any(|error| {
        // The source of an error of input and output is not what is in it, but what is below that.
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let inner = inner.and_then(|inner| inner.downcast_ref::<TlsFault>());
        inner.is_some() || error.is::<TlsFault>()
    })
}

fn client_config(roots: RootCertStore) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Whether a host is reached without the proxy.
fn is_exempt(host: &str, no_proxy: &[String]) -> bool {
    let host = host.to_ascii_lowercase();
    no_proxy.iter().map(|rule| rule.trim().to_ascii_lowercase()).filter(|rule| !rule.is_empty()).any(|rule| {
        let name = rule.trim_start_matches("*.").trim_start_matches('.');
        rule == "*" || host == name || host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'))
    })
}

fn base64(bytes: &[u8]) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    STANDARD.encode(bytes)
}

/// [`Dialer`] as tonic wants a connector.
#[derive(Clone)]
pub(crate) struct Connector(pub(crate) Dialer);

impl tower::Service<Uri> for Connector {
    type Response = hyper_util::rt::TokioIo<BoxIo>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let dialer = self.0.clone();
        Box::pin(async move { dialer.dial().await.map(hyper_util::rt::TokioIo::new) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_without_a_proxy() {
        let rules = |rules: &[&str]| rules.iter().map(|rule| (*rule).to_owned()).collect::<Vec<_>>();
        let some = rules(&["example.com", ".corp", "127.0.0.1"]);
        for host in ["example.com", "a.example.com", "x.corp", "127.0.0.1", "EXAMPLE.com"] {
            assert!(is_exempt(host, &some), "{host}");
        }
        for host in ["badexample.com", "example.org", "10.0.0.1"] {
            assert!(!is_exempt(host, &some), "{host}");
        }
        assert!(is_exempt("anything", &rules(&["*"])));
    }

    #[test]
    fn a_proxys_address() {
        let parse = |url: &str| Proxy::parse(url, || roots(None).map_err(|_| unreachable!()));
        let proxy = parse("http://ada:p%40ss@proxy.example.com:3128").unwrap();
        assert_eq!((proxy.host.as_str(), proxy.port), ("proxy.example.com", 3128));
        assert_eq!(proxy.authorization.unwrap(), format!("Basic {}", base64(b"ada:p@ss")));
        assert_eq!(parse("proxy:3128").unwrap().port, 3128);
        assert!(parse("socks5://proxy").is_err());
        assert!(parse("http://").is_err());
    }
}
