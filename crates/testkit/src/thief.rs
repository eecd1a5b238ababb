//! A server that takes every credential that it is sent: plain HTTP, HTTPS with a certificate of its own authority, and a
//! proxy that opens the tunnels that it is asked for.

use std::{io, net::SocketAddr, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use crate::background::Background;

/// Bytes of the head of a request.
const HEAD: usize = 64 << 10;
/// The first byte of a TLS connection.
const HANDSHAKE: u8 = 0x16;

/// A server that asks everybody for credentials, and takes down what it is given. Stops on drop.
#[derive(Debug)]
pub struct Thief {
    background: Background,
    ca_pem: String,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    connections: Mutex<usize>,
    credentials: Mutex<Vec<String>>,
    paths: Mutex<Vec<String>>,
}

impl Thief {
    /// One with an authority of its own.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn start() -> anyhow::Result<Self> {
        // Another test may have installed the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut authority = CertificateParams::new(Vec::<String>::new())?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Another name than that of the certificate, or this would look like one that signed itself.
        authority.distinguished_name.push(DnType::CommonName, "an authority of nobody's");
        let authority_key = KeyPair::generate()?;
        let ca_pem = authority.self_signed(&authority_key)?.pem();
        let issuer = Issuer::new(authority, authority_key);
        let key = KeyPair::generate()?;
        let names = ["localhost", "127.0.0.1", "::1", "git.invalid"].map(str::to_owned);
        let leaf = CertificateParams::new(names)?.signed_by(&key, &issuer)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let shared = Arc::new(Shared::default());
        let state = Arc::clone(&shared);
        let background = Background::start("thief", move |listener| accept(listener, acceptor, state))?;
        Ok(Self { background, ca_pem, shared })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.background.address()
    }

    /// The authority that signed its certificate, which is for `localhost`, `127.0.0.1`, `::1` and `git.invalid`.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// How many connections were made to it.
    pub fn connections(&self) -> usize {
        *self.shared.connections.lock()
    }

    /// Whether somebody asked for a path that begins so, with credentials or without.
    pub fn was_asked(&self, path: &str) -> bool {
        self.shared.paths.lock().iter().any(|asked| asked.starts_with(path))
    }

    /// Of each request with an `Authorization` or `Proxy-Authorization` header its path and the header's value, decoded
    /// where it is Basic.
    pub fn credentials(&self) -> Vec<String> {
        self.shared.credentials.lock().clone()
    }

    /// Whether this text was in any of them.
    pub fn has(&self, secret: &str) -> bool {
        self.credentials().iter().any(|value| value.contains(secret))
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        *shared.connections.lock() += 1;
        let (acceptor, shared) = (acceptor.clone(), Arc::clone(&shared));
        connections.spawn(async move {
            // A connection that breaks has nothing more to give.
            let _ = serve(stream, &acceptor, &shared).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(mut stream: TcpStream, acceptor: &TlsAcceptor, shared: &Shared) -> io::Result<()> {
    loop {
        let mut first = [0];
        if stream.peek(&mut first).await? == 0 {
            return Ok(());
        }
        if first[0] == HANDSHAKE {
            let mut stream = acceptor.accept(stream).await?;
            while ask(&mut stream, shared).await? != Asked::Nothing {}
            return Ok(());
        }
        if ask(&mut stream, shared).await? == Asked::Nothing {
            return Ok(());
        }
    }
}

#[derive(PartialEq, Eq)]
enum Asked {
    Nothing,
    Request,
    Tunnel,
}

/// Reads one request and answers it.
async fn ask<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, shared: &Shared) -> io::Result<Asked> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if head.len() > HEAD || stream.read(&mut byte).await? == 0 {
            return Ok(Asked::Nothing);
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    shared.paths.lock().push(path.clone());
    let mut signed_in = false;
    for (name, value) in head.lines().filter_map(|line| line.split_once(": ")) {
        if ["authorization", "proxy-authorization"].iter().any(|wanted| name.eq_ignore_ascii_case(wanted)) {
            let decoded = value.strip_prefix("Basic ").and_then(|basic| STANDARD.decode(basic.trim()).ok());
            let value = decoded
                .map_or_else(|| value.to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned());
            shared.credentials.lock().push(format!("{path} {value}"));
            signed_in = true;
        }
    }
    if head.starts_with("CONNECT ") {
        stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
        return Ok(Asked::Tunnel);
    }
    let answer: &[u8] = if signed_in {
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    } else {
        b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n"
    };
    stream.write_all(answer).await?;
    Ok(Asked::Request)
}
