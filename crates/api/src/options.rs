//! What the API is told by whoever starts it.

use std::time::Duration;

use crate::client_address::Network;

/// Settings of the API.
#[derive(Debug, Clone)]
pub struct ApiOptions {
    /// The console's address as people, agents and forges reach it, without a final slash. It is told in
    /// `Cluster.agentUrl`; absent, that field is null.
    pub public_url: Option<String>,
    /// The same for kubectl, where that is another address: `Cluster.kasUrl` tells it.
    pub kubernetes_url: Option<String>,
    /// The authority (PEM) of that address's certificate, where no system knows it: `Cluster.kasCaCertificate`.
    pub kubernetes_authority: Option<String>,
    /// Handle or id of the cluster that the console runs in, which is told in `Cluster.self`.
    pub own_cluster: Option<String>,
    /// How long one request may take.
    pub timeout: Duration,
    /// Proxies in front of the console, whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<Network>,
}

impl Default for ApiOptions {
    fn default() -> Self {
        Self {
            public_url: None,
            kubernetes_url: None,
            kubernetes_authority: None,
            own_cluster: None,
            timeout: Duration::from_secs(30),
            trusted_proxies: Vec::new(),
        }
    }
}
