//! HTTP said as a test wants it: over HTTP/2 or HTTP/1, plainly, inside a WebSocket or TLS, with bodies that are late or never end.

use std::{
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use anyhow::Context as _;
use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, Method, Request, Version};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{body::Frame, client::conn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use plural_tunnel::WebSocketIo;
use rustls::{
    DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpSocket, TcpStream},
    task::AbortHandle,
};
use tokio_rustls::TlsConnector;

use crate::world::PATIENCE;

/// How a request travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    Http1,
    Http2,
    /// HTTP/2 inside the WebSocket of the agents' door.
    WebSocket,
    /// HTTP/1 inside TLS with whatever certificate.
    Tls,
}

/// What follows a request's head.
#[derive(Debug, Clone)]
pub(crate) enum Said {
    /// These bytes.
    All(Bytes),
    /// These, and then nothing more, without an end.
    Never(Bytes),
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    trailers: HeaderMap,
}

impl Told {
    /// The code of a gRPC answer.
    pub(crate) fn grpc(&self) -> Option<u16> {
        let value = self.headers.get("grpc-status").or_else(|| self.trailers.get("grpc-status"))?;
        value.to_str().ok()?.parse().ok()
    }

    /// What a gRPC answer says, escapes and all.
    pub(crate) fn grpc_message(&self) -> String {
        let value = self.headers.get("grpc-message").or_else(|| self.trailers.get("grpc-message"));
        value.and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    }
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// One connection.
pub(crate) struct Raw {
    send: Send,
    driver: AbortHandle,
}

enum Send {
    Http1(conn::http1::SendRequest<Body>),
    Http2(conn::http2::SendRequest<Body>),
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Raw {
    pub(crate) async fn connect(address: SocketAddr, via: Via) -> anyhow::Result<Self> {
        Self::connect_from(Ipv4Addr::LOCALHOST, address, via).await
    }

    /// From another address of this machine.
    pub(crate) async fn connect_from(from: Ipv4Addr, address: SocketAddr, via: Via) -> anyhow::Result<Self> {
        let stream = tcp_from(from, address).await?;
        match via {
            Via::Http1 => Self::http1(stream).await,
            Via::Http2 => Self::http2(stream).await,
            Via::WebSocket => Self::http2(WebSocketIo::connect(stream, &address.to_string()).await?).await,
            Via::Tls => {
                let connector = TlsConnector::from(Arc::new(trusting()?));
                Self::http1(connector.connect(ServerName::try_from("replica")?, stream).await?).await
            }
        }
    }

    async fn http1(
        io: impl AsyncRead + AsyncWrite + Unpin + std::marker::Send + 'static,
    ) -> anyhow::Result<Self> {
        let (send, connection) = conn::http1::handshake(TokioIo::new(io)).await?;
        let driver = tokio::spawn(connection).abort_handle();
        Ok(Self { send: Send::Http1(send), driver })
    }

    pub(crate) async fn http2(
        io: impl AsyncRead + AsyncWrite + Unpin + std::marker::Send + 'static,
    ) -> anyhow::Result<Self> {
        let (send, connection) = conn::http2::handshake(TokioExecutor::new(), TokioIo::new(io)).await?;
        let driver = tokio::spawn(connection).abort_handle();
        Ok(Self { send: Send::Http2(send), driver })
    }

    /// Asks and reads all of the answer.
    pub(crate) async fn ask(
        &mut self,
        method: Method,
        path: &str,
        headers: &HeaderMap,
        said: Said,
    ) -> anyhow::Result<Told> {
        let body = match said {
            Said::All(bytes) => Full::new(bytes).boxed_unsync(),
            Said::Never(bytes) => {
                let first = stream::once(async move { Ok::<_, Infallible>(Frame::data(bytes)) });
                StreamBody::new(futures::StreamExt::chain(first, stream::pending())).boxed_unsync()
            }
        };
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.headers_mut() = headers.clone();
        let asked = async {
            let answer = match &mut self.send {
                Send::Http1(send) => {
                    *request.uri_mut() = path.parse()?;
                    request.headers_mut().insert("host", http::HeaderValue::from_static("console"));
                    send.send_request(request).await?
                }
                Send::Http2(send) => {
                    *request.version_mut() = Version::HTTP_2;
                    *request.uri_mut() = format!("http://console{path}").parse()?;
                    send.ready().await?;
                    send.send_request(request).await?
                }
            };
            let (head, body) = answer.into_parts();
            let body = body.collect().await?;
            let trailers = body.trailers().cloned().unwrap_or_default();
            anyhow::Ok(Told {
                status: head.status.as_u16(),
                headers: head.headers,
                body: body.to_bytes(),
                trailers,
            })
        };
        tokio::time::timeout(PATIENCE, asked).await.context("no answer")?
    }
}

/// A connection from one of this machine's addresses.
pub(crate) async fn tcp_from(from: Ipv4Addr, address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(from.into(), 0))?;
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Trusts any certificate: the other replicas' are believed by their digest, which only replicas know.
pub(crate) fn trusting() -> anyhow::Result<rustls::ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trusting))
        .with_no_client_auth())
}

#[derive(Debug)]
struct Trusting;

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Most memory that a process ever held, in bytes.
pub(crate) fn peak_memory(pid: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no peak is told")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib << 10)
}

/// One message of gRPC, plain.
pub(crate) fn grpc_frame(message: &[u8]) -> Bytes {
    prefixed(0, message)
}

/// One message of gRPC that says it is compressed.
pub(crate) fn grpc_compressed(message: &[u8]) -> anyhow::Result<Bytes> {
    Ok(prefixed(1, &zstd::bulk::compress(message, 19)?))
}

fn prefixed(flag: u8, message: &[u8]) -> Bytes {
    let mut bytes = vec![flag];
    bytes.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    bytes.extend_from_slice(message);
    bytes.into()
}
