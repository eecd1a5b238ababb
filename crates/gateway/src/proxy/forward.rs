//! A request for a cluster whose agent is connected to another replica, passed on to that one: the whole request with the
//! client's own token, so that the other replica decides, asks and tells as it does for its own clients.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, Uri, header},
};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::{
    body::Incoming,
    client::conn::http1::SendRequest,
    upgrade::{OnUpgrade, Upgraded},
};
use hyper_util::rt::TokioIo;
use plural_app::replica::Replica;
use plural_core::ids::{ClusterId, ReplicaId};
use plural_kit::Visit;
use tokio::io::{AsyncWriteExt, copy};

use super::{ClientAddress, HEAD, Proxy, answer::Refusal, upgrade};
use crate::replicas::CallError;

/// How much longer than the other replica this one waits: the other's answer says more.
const LONGER: Duration = Duration::from_secs(30);
/// Headers about one connection, which end with it.
const OF_ONE_CONNECTION: [HeaderName; 9] = [
    header::CONNECTION,
    header::UPGRADE,
    header::TRANSFER_ENCODING,
    header::CONTENT_LENGTH,
    header::TE,
    header::TRAILER,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("keep-alive"),
];

/// Tells another replica from which address a client asks. Believed of replicas only.
pub(super) const CLIENT: HeaderName = HeaderName::from_static("x-plural-client");

/// Marks an answer of another replica.
#[derive(Debug, Clone, Copy)]
pub(super) struct PassedOn;

/// Passes a request on to the replica that holds the stream of the cluster's agent. It goes no further from there.
pub(super) async fn pass_on(
    proxy: &Arc<Proxy>,
    replica: &Replica,
    cluster: ClusterId,
    request: Request,
) -> Result<Response<Body>, Refusal> {
    let gone = |error: &CallError| {
        proxy.peers.forget(cluster);
        tracing::warn!(replica.id = %replica.id, error = %error, "cannot reach another replica");
        Refusal::replica(
            StatusCode::SERVICE_UNAVAILABLE,
            "the replica of the console that holds the connection of the cluster's agent does not answer; \
             the agent is reconnecting: try again",
        )
    };
    let mut request = request;
    let visit = request.extensions().get::<Arc<Visit>>().cloned();
    let upgrade = upgrade::wanted(request.headers())?;
    let client = upgrade.is_some().then(|| hyper::upgrade::on(&mut request));
    let address = request.extensions().get::<ClientAddress>().copied();
    let mut request = prepared(request, upgrade.as_deref())?;
    request.headers_mut().remove(CLIENT);
    if let Some(ClientAddress(address)) = address
        && let Ok(value) = HeaderValue::from_str(&address.to_string())
    {
        request.headers_mut().insert(CLIENT, value);
    }
    proxy.peers.sign(&proxy.app, replica, &mut request);
    let sent = async {
        let mut request = request;
        // A connection that was used before may be closed by the other side just now; then nothing was sent.
        if let Some(mut connection) = proxy.peers.idle(replica.id) {
            match connection.try_send_request(request).await {
                Ok(answer) => return Ok((connection, answer)),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(CallError::Http(error.into_error())),
                },
            }
        }
        let (mut connection, drive) = proxy.peers.connect(replica).await?;
        proxy.spawn(drive);
        let answer = connection.send_request(request).await.map_err(CallError::Http)?;
        Ok((connection, answer))
    };
    let (connection, mut answer) = match tokio::time::timeout(HEAD + LONGER, sent).await {
        Ok(Ok(answered)) => answered,
        Ok(Err(error)) => return Err(gone(&error)),
        Err(_) => return Err(gone(&CallError::Late)),
    };
    metrics::counter!("plural_proxy_passed_on_total").increment(1);
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.status();
    response.extensions_mut().insert(PassedOn);
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        let (Some(client), Some(protocol)) = (client, upgrade) else {
            return Err(Refusal::new(
                StatusCode::BAD_GATEWAY,
                "the other replica switched protocols unasked",
            ));
        };
        let server = hyper::upgrade::on(&mut answer);
        proxy.spawn(async move {
            // The connection below keeps its place.
            let _visit = visit;
            raw(client, server).await;
        });
        *response.headers_mut() = without_connection(answer.headers());
        let (head, body) = response.into_parts();
        let head = upgrade::head(Response::from_parts(head, ()), &protocol)?;
        return Ok(head.map(|()| body));
    }
    *response.headers_mut() = without_connection(answer.headers());
    let body = PassedBody {
        body: answer.into_body(),
        connection: Some(connection),
        proxy: Arc::clone(proxy),
        replica: replica.id,
    };
    *response.body_mut() = Body::new(body);
    Ok(response)
}

/// The request as the other replica gets it.
fn prepared(request: Request, upgrade: Option<&str>) -> Result<Request, Refusal> {
    let (mut parts, body) = request.into_parts();
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    parts.uri = target
        .parse::<Uri>()
        .map_err(|_| Refusal::new(StatusCode::BAD_REQUEST, "the path cannot be passed on"))?;
    parts.headers = without_connection(&parts.headers);
    parts.version = axum::http::Version::HTTP_11;
    parts.extensions.clear();
    let Some(protocol) = upgrade else { return Ok(Request::from_parts(parts, body)) };
    let protocol = HeaderValue::from_str(protocol)
        .map_err(|_| Refusal::new(StatusCode::BAD_REQUEST, "the protocol cannot be named"))?;
    parts.headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    parts.headers.insert(header::UPGRADE, protocol);
    Ok(Request::from_parts(parts, Body::empty()))
}

fn without_connection(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in OF_ONE_CONNECTION {
        headers.remove(name);
    }
    headers
}

/// Raw bytes both ways, until the cluster's side ends or the client is gone.
async fn raw(client: OnUpgrade, server: OnUpgrade) {
    let (Ok(client), Ok(server)) = tokio::join!(client, server) else { return };
    let halves = |side: Upgraded| tokio::io::split(TokioIo::new(side));
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (halves(client), halves(server));
    let up = async {
        let copied = copy(&mut from_client, &mut to_server).await;
        // The client says nothing more and may still listen.
        let _ = to_server.shutdown().await;
        if copied.is_ok() {
            std::future::pending::<()>().await;
        }
    };
    let down = async {
        let _ = copy(&mut from_server, &mut to_client).await;
        let _ = to_client.shutdown().await;
    };
    tokio::select! {
        () = up => {}
        () = down => {}
    }
}

/// The body of an answer; gives the connection back at its end.
struct PassedBody {
    body: Incoming,
    connection: Option<SendRequest<Body>>,
    proxy: Arc<Proxy>,
    replica: ReplicaId,
}

impl http_body::Body for PassedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(None) = &polled
            && let Some(connection) = self.connection.take()
        {
            self.proxy.peers.give_back(self.replica, connection);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        // Until it is polled to its end the connection is not given back.
        self.connection.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
