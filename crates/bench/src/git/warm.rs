//! Bytes that are in memory already, given out again and again: by the console, by a server that does nothing else, and
//! by a bare socket.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context as _;
use bytes::{BufMut as _, Bytes, BytesMut};
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, client::conn::http2::SendRequest, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// Method of the agents' service that gives out an artifact.
const ARTIFACT: &str = "/plural.agent.v1.AgentService/Artifact";
/// Room for answers under way: loopback is never the limit.
const WINDOW: u32 = 16 << 20;
const FRAME: u32 = 1 << 20;
/// Bytes read from, and written to, a bare socket at a time.
const PIECE: usize = 256 << 10;

/// What was read in some time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    /// Answers a second.
    pub(super) answers: f64,
    /// 10⁶ bytes a second.
    pub(super) megabytes: f64,
}

/// Who is asked, and with which token.
#[derive(Debug, Clone)]
pub(super) struct Door {
    address: SocketAddr,
    token: String,
}

impl Door {
    /// A console at `http://ADDRESS`.
    pub(super) fn console(url: &str, token: &str) -> anyhow::Result<Self> {
        let address = url.strip_prefix("http://").and_then(|address| address.parse().ok());
        Ok(Self {
            address: address.context("the console's address is no plain one")?,
            token: token.to_owned(),
        })
    }

    /// Asks for these artifacts in turn, over so many connections, one request at a time on each, for so long.
    pub(super) async fn read(
        &self,
        digests: &[String],
        connections: usize,
        time: Duration,
    ) -> anyhow::Result<Rate> {
        let digests: Arc<[String]> = digests.into();
        let mut open = Vec::new();
        for _ in 0..connections {
            open.push(Connection::open(self).await?);
        }
        let next = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        let started = Instant::now();
        for mut connection in open {
            let (digests, next) = (Arc::clone(&digests), Arc::clone(&next));
            tasks.spawn(async move {
                let (mut answers, mut bytes) = (0_usize, 0_usize);
                while started.elapsed() < time {
                    let place = next.fetch_add(1, Ordering::Relaxed) % digests.len().max(1);
                    let Some(digest) = digests.get(place) else { break };
                    bytes += connection.artifact(digest).await?;
                    answers += 1;
                }
                anyhow::Ok((answers, bytes))
            });
        }
        total(tasks, started).await
    }
}

async fn total(mut tasks: JoinSet<anyhow::Result<(usize, usize)>>, started: Instant) -> anyhow::Result<Rate> {
    let (mut answers, mut bytes) = (0, 0);
    while let Some(done) = tasks.join_next().await {
        let (more_answers, more_bytes) = done??;
        answers += more_answers;
        bytes += more_bytes;
    }
    let seconds = started.elapsed().as_secs_f64();
    Ok(Rate { answers: answers as f64 / seconds, megabytes: bytes as f64 / seconds / 1e6 })
}

/// HTTP/2 as an agent speaks it, without unpacking what comes.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    door: Door,
    _driver: JoinSet<()>,
}

impl Connection {
    async fn open(door: &Door) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(door.address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_frame_size(FRAME)
            .handshake(TokioIo::new(stream))
            .await?;
        let mut driver = JoinSet::new();
        driver.spawn(async move { drop(connection.await) });
        Ok(Self { sender, door: door.clone(), _driver: driver })
    }

    /// Reads one artifact to its end; how many bytes came.
    async fn artifact(&mut self, digest: &str) -> anyhow::Result<usize> {
        let request = Request::post(format!("http://{}{ARTIFACT}", self.door.address))
            .header(header::CONTENT_TYPE, "application/grpc")
            .header(header::TE, "trailers")
            .header("grpc-accept-encoding", "zstd")
            .header(header::AUTHORIZATION, format!("Bearer {}", self.door.token))
            .body(Full::new(message(digest)))?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        anyhow::ensure!(response.status() == 200, "the server answered {}", response.status());
        let mut status = response.headers().get("grpc-status").cloned();
        let mut body = response.into_body();
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            let frame = frame?;
            if let Some(data) = frame.data_ref() {
                bytes += data.len();
            } else if let Some(trailers) = frame.trailers_ref() {
                status = trailers.get("grpc-status").cloned();
            }
        }
        anyhow::ensure!(status.is_some_and(|status| status == "0"), "the artifact {digest} is not given out");
        Ok(bytes)
    }
}

/// An `ArtifactRequest` as gRPC frames it: field 1, a text.
fn message(digest: &str) -> Bytes {
    let mut message = BytesMut::new();
    message.put_u8(0);
    message.put_u32(digest.len() as u32 + 2);
    message.put_slice(&[0x0a, digest.len() as u8]);
    message.put_slice(digest.as_bytes());
    message.freeze()
}

/// A server that answers everything with the same bytes, over HTTP/2 too. Ends when it is dropped.
pub(super) struct Static {
    pub(super) door: Door,
    _task: JoinSet<()>,
}

impl Static {
    pub(super) async fn start(content: Bytes) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let door = Door { address: listener.local_addr()?, token: "any".to_owned() };
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let _ = stream.set_nodelay(true);
                let content = content.clone();
                connections.spawn(async move {
                    let service = service_fn(move |request: Request<Incoming>| {
                        let content = content.clone();
                        async move {
                            // A request whose body is dropped is reset, and too many of those end the connection.
                            request.into_body().collect().await?;
                            let answer = Response::builder().header("grpc-status", "0");
                            anyhow::Ok(answer.body(Full::new(content))?)
                        }
                    });
                    // The other side hears of whatever went wrong.
                    let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Ok(Self { door, _task: task })
    }
}

/// As many connections as those above, nothing but bytes on them.
pub(super) async fn socket(connections: usize, time: Duration) -> anyhow::Result<Rate> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let mut writers: JoinSet<Result<Infallible, std::io::Error>> = JoinSet::new();
    let mut readers = JoinSet::new();
    let piece = Bytes::from(vec![0; PIECE]);
    let started = Instant::now();
    for _ in 0..connections {
        let mut from = TcpStream::connect(address).await?;
        let (mut to, _) = listener.accept().await?;
        let piece = piece.clone();
        writers.spawn(async move {
            loop {
                to.write_all(&piece).await?;
            }
        });
        readers.spawn(async move {
            let (mut buffer, mut bytes) = (vec![0; PIECE], 0);
            while started.elapsed() < time {
                bytes += from.read(&mut buffer).await?;
            }
            anyhow::Ok((0, bytes))
        });
    }
    total(readers, started).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whole_answers_are_counted() {
        let server = Static::start(Bytes::from(vec![7; 1000])).await.unwrap();
        let rate = server.door.read(&["0".repeat(64)], 2, Duration::from_millis(100)).await.unwrap();
        assert!(
            rate.answers > 0.0 && (rate.megabytes * 1e6 / rate.answers - 1000.0).abs() < 1e-6,
            "{rate:?}"
        );
        assert!(socket(2, Duration::from_millis(100)).await.unwrap().megabytes > 0.0);
    }

    #[test]
    fn a_request_is_framed() {
        let digest = "ab".repeat(32);
        let message = message(&digest);
        assert_eq!(message.len(), 5 + 2 + 64);
        assert_eq!(&message[..7], [0, 0, 0, 0, 66, 0x0a, 64]);
    }
}
