//! Where the gateway to clusters is served.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::Response,
};
use plural_api::{Network, Routes, client_address};
use plural_gateway::{ClientAddress, Proxy, handle, handle_from_replica};

/// For clients, some of which are behind proxies that are trusted.
pub(crate) fn routes(proxy: Arc<Proxy>, trusted: Arc<[Network]>) -> Routes {
    Routes::new()
        .any("/k8s/{cluster}", handle)
        .any("/k8s/{cluster}/", handle)
        .any("/k8s/{cluster}/{*rest}", handle)
        .layer(from_fn_with_state(trusted, with_address))
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

/// The audit log tells from which address a request came.
async fn with_address(State(trusted): State<Arc<[Network]>>, mut request: Request, next: Next) -> Response {
    if let Some(address) = client_address(request.extensions(), request.headers(), &trusted) {
        request.extensions_mut().insert(ClientAddress(address));
    }
    next.run(request).await
}
