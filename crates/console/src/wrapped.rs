//! Agents whose network lets only WebSockets through: inside one is the HTTP/2 connection that others make directly.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, Response, StatusCode, header},
    routing::get,
};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use plural_kit::ShutdownSignal;
use plural_tunnel::{WEBSOCKET_PATH, WEBSOCKET_PROTOCOL, WebSocketIo, websocket_accept};
use tokio::task::JoinSet;

use crate::server;

/// What the connections share.
struct Wrapped {
    /// What is served inside: the routes of agents, and no others.
    agents: Router,
    stop: ShutdownSignal,
    keep_alive: Duration,
    connections: Mutex<JoinSet<()>>,
}

/// The route that such agents ask for.
pub(crate) fn router(agents: Router, stop: ShutdownSignal, keep_alive: Duration) -> Router {
    let wrapped = Arc::new(Wrapped { agents, stop, keep_alive, connections: Mutex::default() });
    Router::new().route(WEBSOCKET_PATH, get(connect)).with_state(wrapped)
}

async fn connect(State(wrapped): State<Arc<Wrapped>>, mut request: Request) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    let Some(accept) = websocket_accept(request.headers()) else {
        *response.status_mut() = StatusCode::UPGRADE_REQUIRED;
        return response;
    };
    let upgrade = hyper::upgrade::on(&mut request);
    let serving = {
        let (agents, stop) = (wrapped.agents.clone(), wrapped.stop.clone());
        let keep_alive = wrapped.keep_alive;
        async move {
            let Ok(upgraded) = upgrade.await else { return };
            let stream = WebSocketIo::accept(TokioIo::new(upgraded)).await;
            let service = TowerToHyperService::new(agents);
            let mut connection =
                std::pin::pin!(server::http2(keep_alive).serve_connection(TokioIo::new(stream), service));
            let mut stopping = false;
            loop {
                tokio::select! {
                    ended = connection.as_mut() => {
                        if let Err(error) = ended {
                            tracing::debug!(error = %error, "a wrapped connection ended with an error");
                        }
                        return;
                    }
                    () = stop.requested(), if !stopping => {
                        stopping = true;
                        connection.as_mut().graceful_shutdown();
                    }
                }
            }
        }
    };
    {
        let mut connections = wrapped.connections.lock().unwrap_or_else(PoisonError::into_inner);
        while connections.try_join_next().is_some() {}
        connections.spawn(serving);
    }
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(WEBSOCKET_PROTOCOL));
    response
}
