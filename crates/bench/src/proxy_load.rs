//! A client that asks and reads, with nothing between it and its connection.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::{body::Incoming, client::conn::http1::SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use tokio::{net::TcpStream, task::JoinSet};
use tokio_rustls::TlsConnector;

use crate::samples::Samples;

/// A server, and how to be let in.
#[derive(Clone)]
pub(crate) struct Target {
    address: SocketAddr,
    tls: Option<TlsConnector>,
    prefix: String,
    token: Option<String>,
}

impl Target {
    /// A server without TLS.
    pub(crate) fn plain(address: SocketAddr) -> Self {
        Self { address, tls: None, prefix: String::new(), token: None }
    }

    /// A server with a certificate; paths stand behind `prefix`.
    pub(crate) fn secure(
        address: SocketAddr,
        ca_pem: &str,
        prefix: &str,
        token: &str,
    ) -> anyhow::Result<Self> {
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            address,
            tls: Some(TlsConnector::from(Arc::new(config))),
            prefix: prefix.to_owned(),
            token: Some(token.to_owned()),
        })
    }

    /// One connection.
    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let mut driver = JoinSet::new();
        let sender = match &self.tls {
            None => {
                let (sender, connection) =
                    hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
                driver.spawn(async move { drop(connection.await) });
                sender
            }
            Some(tls) => {
                let stream = tls.connect(ServerName::try_from("127.0.0.1")?, stream).await?;
                let (sender, connection) =
                    hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
                driver.spawn(async move { drop(connection.await) });
                sender
            }
        };
        Ok(Connection { sender, target: self.clone(), _driver: driver })
    }

    /// GETs one after another on one connection.
    pub(crate) async fn latencies(&self, path: &str, count: usize) -> anyhow::Result<Samples> {
        let mut connection = self.connect().await?;
        let mut samples = Samples::default();
        for _ in 0..count {
            let from = Instant::now();
            connection.get(path).await?;
            samples.add(from.elapsed());
        }
        Ok(samples)
    }

    /// GETs a second, from so many connections at once.
    pub(crate) async fn rate(
        &self,
        path: &'static str,
        connections: usize,
        time: Duration,
    ) -> anyhow::Result<f64> {
        let mut tasks = JoinSet::new();
        let mut open = Vec::new();
        for _ in 0..connections {
            open.push(self.connect().await?);
        }
        let started = Instant::now();
        for mut connection in open {
            tasks.spawn(async move {
                let mut done = 0_usize;
                while started.elapsed() < time {
                    connection.get(path).await?;
                    done += 1;
                }
                anyhow::Ok(done)
            });
        }
        let mut done = 0;
        while let Some(one) = tasks.join_next().await {
            done += one??;
        }
        Ok(done as f64 / started.elapsed().as_secs_f64())
    }

    /// Bytes a second of one answer: of all of it, and of its second half.
    pub(crate) async fn throughput(&self, path: &str, bytes: usize) -> anyhow::Result<(f64, f64)> {
        let mut connection = self.connect().await?;
        let started = Instant::now();
        let mut body = connection.send(path).await?.into_body();
        let (mut read, mut half) = (0, None);
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            read += data.len();
            if half.is_none() && read >= bytes / 2 {
                half = Some((Instant::now(), read));
            }
        }
        anyhow::ensure!(read == bytes, "{read} of {bytes} bytes came");
        let (at, before) = half.context("nothing came")?;
        let steady = (read - before) as f64 / at.elapsed().as_secs_f64();
        Ok((read as f64 / started.elapsed().as_secs_f64(), steady))
    }
}

/// One connection; one request at a time.
pub(crate) struct Connection {
    sender: SendRequest<Empty<Bytes>>,
    target: Target,
    _driver: JoinSet<()>,
}

impl Connection {
    /// Asks, and returns when the answer begins.
    pub(crate) async fn send(&mut self, path: &str) -> anyhow::Result<Response<Incoming>> {
        let mut request = Request::get(format!("{}{path}", self.target.prefix)).header(header::HOST, "bench");
        if let Some(token) = &self.target.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        self.sender.ready().await?;
        let response = self.sender.send_request(request.body(Empty::new())?).await?;
        if response.status() != 200 {
            let status = response.status();
            let body = response.into_body().collect().await?.to_bytes();
            anyhow::bail!("{path}: {status} {}", String::from_utf8_lossy(&body));
        }
        Ok(response)
    }

    async fn get(&mut self, path: &str) -> anyhow::Result<()> {
        let mut body = self.send(path).await?.into_body();
        while let Some(frame) = body.frame().await {
            frame?;
        }
        Ok(())
    }
}
