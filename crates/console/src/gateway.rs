//! Where the gateway to clusters is served.

use std::sync::Arc;

use plural_api::Routes;
use plural_gateway::{Proxy, handle, handle_from_replica};

/// For clients.
pub(crate) fn routes(proxy: Arc<Proxy>) -> Routes {
    Routes::new()
        .any("/k8s/{cluster}", handle)
        .any("/k8s/{cluster}/", handle)
        .any("/k8s/{cluster}/{*rest}", handle)
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
