//! Where the gateway to clusters is served.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{
        HeaderValue,
        header::{AUTHORIZATION, COOKIE},
    },
    middleware::{Next, from_fn_with_state},
    response::Response,
};
use plural_api::{ClusterSessions, Network, Routes, client_address};
use plural_gateway::{ClientAddress, Proxy, handle, handle_from_replica};
use secrecy::ExposeSecret as _;

/// For clients, some of which are behind proxies that are trusted, and some of which are our own pages.
pub(crate) fn routes(proxy: Arc<Proxy>, trusted: Arc<[Network]>, sessions: ClusterSessions) -> Routes {
    Routes::new()
        .any("/k8s/{cluster}", handle)
        .any("/k8s/{cluster}/", handle)
        .any("/k8s/{cluster}/{*rest}", handle)
        .layer(from_fn_with_state(trusted, with_address))
        .layer(from_fn_with_state(Arc::new(sessions), with_session))
        .with_state(proxy)
}

/// The same for other replicas, which pass on requests for clusters whose agents are not connected to them.
pub(crate) fn routes_for_replicas(proxy: Arc<Proxy>) -> Routes {
    Routes::new()
        .any("/k8s/{cluster}", handle_from_replica)
        .any("/k8s/{cluster}/", handle_from_replica)
        .any("/k8s/{cluster}/{*rest}", handle_from_replica)
        .with_state(proxy)
}

/// Where a session may reach a cluster, its token stands in the place of the cookie from here on. The cookie goes no further, to
/// another replica or to an agent.
async fn with_session(
    State(sessions): State<Arc<ClusterSessions>>,
    mut request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    // Behind `/k8s/CLUSTER`.
    let asked = path.splitn(4, '/').nth(3).map(|rest| format!("/{rest}")).unwrap_or_default();
    if let Some(token) = sessions.token(request.method(), &asked, request.headers())
        && let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()))
    {
        value.set_sensitive(true);
        let headers = request.headers_mut();
        headers.insert(AUTHORIZATION, value);
        headers.remove(COOKIE);
    }
    next.run(request).await
}

/// The audit log tells from which address a request came.
async fn with_address(State(trusted): State<Arc<[Network]>>, mut request: Request, next: Next) -> Response {
    if let Some(address) = client_address(request.extensions(), request.headers(), &trusted) {
        request.extensions_mut().insert(ClientAddress(address));
    }
    next.run(request).await
}
