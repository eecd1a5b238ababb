//! Agents whose network lets only WebSockets through: inside one is the HTTP/2 connection that others make directly.

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, Response, StatusCode, header},
};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use plural_api::{Network, Routes, client_address};
use plural_kit::Visit;
use plural_tunnel::{WEBSOCKET_PATH, WEBSOCKET_PROTOCOL, WebSocketIo, websocket_accept};
use tokio::task::JoinSet;

use crate::server::{self, Guarded};

/// What the connections share.
struct Wrapped {
    /// What is served inside: the routes of agents, and no others.
    agents: Router,
    keep_alive: Duration,
    trusted_proxies: Arc<[Network]>,
    connections: Mutex<JoinSet<()>>,
}

/// The route that such agents ask for.
pub(crate) fn routes(agents: Router, keep_alive: Duration, trusted_proxies: Arc<[Network]>) -> Routes {
    let wrapped = Arc::new(Wrapped { agents, keep_alive, trusted_proxies, connections: Mutex::default() });
    Routes::new().get(WEBSOCKET_PATH, connect).with_state(wrapped)
}

async fn connect(State(wrapped): State<Arc<Wrapped>>, mut request: Request) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    let Some(accept) = websocket_accept(request.headers()) else {
        *response.status_mut() = StatusCode::UPGRADE_REQUIRED;
        return response;
    };
    let client = client_address(request.extensions(), request.headers(), &wrapped.trusted_proxies);
    let outer = request.extensions().get::<Arc<Visit>>().cloned();
    let Some((outer, inner)) =
        outer.and_then(|outer| Some((Arc::clone(&outer), inner_visit(&outer, client)?)))
    else {
        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        return response;
    };
    let upgrade = hyper::upgrade::on(&mut request);
    let serving = {
        let (router, keep_alive) = (wrapped.agents.clone(), wrapped.keep_alive);
        async move {
            // The connection below keeps its place for as long as there is one inside.
            let _outer = outer;
            let Ok(upgraded) = upgrade.await else { return };
            inner.begin_anew();
            if !inner.served().await {
                return;
            }
            let stream = WebSocketIo::accept(TokioIo::new(upgraded)).await;
            let guarded = Guarded { router, visit: Arc::clone(&inner) };
            let connection = server::http2(keep_alive).serve_connection(TokioIo::new(stream), guarded);
            server::drive(connection, &inner).await;
        }
    };
    {
        let mut connections = wrapped.connections.lock();
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

/// What the agent inside is counted by: the connection itself, or, when a proxy made that, one of its own.
fn inner_visit(outer: &Arc<Visit>, client: Option<IpAddr>) -> Option<Arc<Visit>> {
    match client {
        Some(client) if outer.is_proxy() => outer.behind_proxy(client),
        _ => Some(Arc::clone(outer)),
    }
}
