//! What stands behind the agent: a simulated cluster, with paths of the bench's own that cost next to nothing.

use std::{convert::Infallible, net::SocketAddr, time::Duration};

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use tokio::{net::TcpListener, task::JoinSet};

/// A small answer, as large as a small object.
pub(crate) const SMALL: &str = "/api/v1/namespaces/bench/configmaps/small";
/// As many bytes as `?bytes=` says.
pub(crate) const LARGE: &str = "/api/v1/namespaces/bench/pods/large/log";
/// A line every few seconds, for ever.
pub(crate) const WATCH: &str = "/api/v1/namespaces/bench/configmaps";
/// Between two lines of a watch.
pub(crate) const EVERY: Duration = Duration::from_secs(2);

const BODY: &str = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"small","namespace":"bench","uid":"0190b8a2-7c11-7def-8000-0123456789ab","resourceVersion":"1"},"data":{"key":"value"}}"#;
const PIECE: usize = 128 << 10;

type Body = UnsyncBoxBody<Bytes, hyper::Error>;

/// A server on loopback; ends when it is dropped.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    _task: JoinSet<()>,
}

impl Upstream {
    /// Everything that is not the bench's goes on to `cluster`, an address without TLS.
    pub(crate) async fn start(cluster: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let client = Client::builder(TokioExecutor::new()).build_http();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                while connections.try_join_next().is_some() {}
                let _ = stream.set_nodelay(true);
                let client = client.clone();
                connections.spawn(async move {
                    let service = service_fn(move |request| answer(client.clone(), cluster, request));
                    // The other side hears of whatever went wrong.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Ok(Self { address, _task: task })
    }
}

async fn answer(
    client: Client<HttpConnector, Incoming>,
    cluster: SocketAddr,
    request: Request<Incoming>,
) -> Result<Response<Body>, hyper_util::client::legacy::Error> {
    let query = request.uri().query().unwrap_or_default();
    match request.uri().path() {
        SMALL => Ok(json(whole(BODY))),
        LARGE => {
            let bytes = query.strip_prefix("bytes=").and_then(|n| n.parse().ok()).unwrap_or(0);
            Ok(json(zeros(bytes)))
        }
        WATCH if query.contains("watch=") => Ok(json(lines())),
        path => {
            let target = format!("http://{cluster}{path}?{query}");
            let mut request = request;
            if let Ok(uri) = target.parse::<Uri>() {
                *request.uri_mut() = uri;
            }
            Ok(client.request(request).await?.map(BodyExt::boxed_unsync))
        }
    }
}

fn json(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

fn never(never: Infallible) -> hyper::Error {
    match never {}
}

fn whole(text: &'static str) -> Body {
    Full::new(Bytes::from_static(text.as_bytes())).map_err(never).boxed_unsync()
}

fn zeros(bytes: usize) -> Body {
    let piece = Bytes::from(vec![0; PIECE]);
    let pieces = futures::stream::unfold(bytes, move |left| {
        let piece = piece.slice(..PIECE.min(left));
        async move { (!piece.is_empty()).then(|| (Ok(Frame::data(piece.clone())), left - piece.len())) }
    });
    StreamBody::new(pieces).boxed_unsync()
}

fn lines() -> Body {
    let line = Bytes::from(format!("{{\"type\":\"MODIFIED\",\"object\":{BODY}}}\n"));
    let ticks = futures::stream::unfold(tokio::time::interval(EVERY), |mut every| async move {
        every.tick().await;
        Some(((), every))
    });
    StreamBody::new(ticks.map(move |()| Ok(Frame::data(line.clone())))).boxed_unsync()
}
