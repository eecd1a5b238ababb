//! A client that asks and reads, with nothing between it and its connection.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
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

/// Requests a second that the search for the highest rate begins with.
const FIRST: f64 = 250.0;
/// How long each rate is tried for.
const TRIED: Duration = Duration::from_secs(4);
/// A rate is reached when this share of its requests was answered in time.
const REACHED: f64 = 0.95;
/// How often the gap between what was reached and what was not is halved.
const HALVINGS: usize = 3;

/// What came of requests at a rate.
#[derive(Debug)]
pub(crate) struct Paced {
    /// Requests that were answered.
    pub(crate) done: u64,
    /// From the first request to the last answer.
    pub(crate) took: Duration,
    /// Those of each whole minute.
    pub(crate) minutes: Vec<u64>,
}

impl Paced {
    /// Answers a second.
    pub(crate) fn rate(&self) -> f64 {
        self.done as f64 / self.took.as_secs_f64()
    }

    /// Answers a second in the slowest whole minute; over all of the time when there is none.
    pub(crate) fn slowest(&self) -> f64 {
        self.minutes.iter().min().map_or_else(|| self.rate(), |slowest| *slowest as f64 / 60.0)
    }
}

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

    /// GETs at a rate for some time, from so many connections. What is late is asked as soon as a connection is free.
    ///
    /// # Errors
    /// The first answer that is not 200 ends all of it.
    pub(crate) async fn paced(
        &self,
        path: &'static str,
        connections: usize,
        rate: f64,
        time: Duration,
    ) -> anyhow::Result<Paced> {
        let mut open = Vec::new();
        for _ in 0..connections {
            open.push(self.connect().await?);
        }
        let next = Arc::new(AtomicU64::new(0));
        let done = Arc::new(AtomicU64::new(0));
        let minutes: Arc<[AtomicU64]> = (0..time.as_secs() / 60).map(|_| AtomicU64::new(0)).collect();
        let started = tokio::time::Instant::now();
        let mut tasks = JoinSet::new();
        for mut connection in open {
            let (next, done, minutes) = (Arc::clone(&next), Arc::clone(&done), Arc::clone(&minutes));
            tasks.spawn(async move {
                loop {
                    let due = Duration::from_secs_f64(next.fetch_add(1, Ordering::Relaxed) as f64 / rate);
                    if due >= time || started.elapsed() >= time {
                        return anyhow::Ok(());
                    }
                    tokio::time::sleep_until(started + due).await;
                    connection.get(path).await?;
                    done.fetch_add(1, Ordering::Relaxed);
                    let minute = usize::try_from(started.elapsed().as_secs() / 60)?;
                    if let Some(minute) = minutes.get(minute) {
                        minute.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            // The others end with the set.
            ended??;
        }
        Ok(Paced {
            done: done.load(Ordering::Relaxed),
            took: started.elapsed(),
            minutes: minutes.iter().map(|minute| minute.load(Ordering::Relaxed)).collect(),
        })
    }

    /// The highest rate that is reached for a few seconds: doubled until one is not, then looked for in between.
    pub(crate) async fn highest(&self, path: &'static str, connections: usize) -> anyhow::Result<f64> {
        let reaches = async |rate: f64| -> anyhow::Result<bool> {
            let found = self.paced(path, connections, rate, TRIED).await?.rate();
            eprintln!("asked for {rate:.0} requests a second, answered were {found:.0}");
            Ok(found >= rate * REACHED)
        };
        let (mut reached, mut rate) = (0.0, FIRST);
        while reaches(rate).await? {
            reached = rate;
            rate *= 2.0;
        }
        anyhow::ensure!(reached > 0.0, "not even {FIRST} requests a second are answered");
        let mut missed = rate;
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(reached, missed);
            if reaches(middle).await? {
                reached = middle;
            } else {
                missed = middle;
            }
        }
        Ok(reached)
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::StatusCode;
    use http_body_util::Full;
    use hyper::service::service_fn;
    use tokio::net::TcpListener;

    use super::*;

    /// A server that answers so many requests and refuses all others.
    async fn server(answered: u64) -> anyhow::Result<(SocketAddr, JoinSet<()>)> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let asked = Arc::new(AtomicU64::new(0));
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let asked = Arc::clone(&asked);
                connections.spawn(async move {
                    let service = service_fn(move |_: Request<Incoming>| {
                        let is_answered = asked.fetch_add(1, Ordering::Relaxed) < answered;
                        let mut response = Response::new(Full::new(Bytes::from_static(b"why")));
                        if !is_answered {
                            *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
                        }
                        std::future::ready(Ok::<_, Infallible>(response))
                    });
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Ok((address, task))
    }

    #[tokio::test]
    async fn the_first_refusal_ends_it() {
        let (address, _server) = server(u64::MAX).await.unwrap();
        let second = Duration::from_secs(1);
        let all = Target::plain(address).paced("/", 2, 50.0, second).await.unwrap();
        assert!((1..=50).contains(&all.done) && all.minutes.is_empty(), "{all:?}");
        assert!(all.rate() > 0.0 && (all.slowest() - all.rate()).abs() < f64::EPSILON);

        let (address, _server) = server(5).await.unwrap();
        let refused = Target::plain(address).paced("/", 2, 1000.0, Duration::from_hours(1)).await;
        let told = refused.unwrap_err().to_string();
        assert!(told.contains("429") && told.contains("why"), "{told}");
    }

    #[test]
    fn the_slowest_minute_counts() {
        let paced = Paced { done: 300, took: Duration::from_secs(125), minutes: vec![180, 120] };
        assert!((paced.slowest() - 2.0).abs() < f64::EPSILON);
    }
}
