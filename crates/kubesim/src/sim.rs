//! One process of simulated clusters.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::cluster::{Cluster, ClusterOptions};
use crate::identity::{Identity, IdentityError};

/// Why a simulated cluster did not start.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// No certificate.
    #[error("cannot start simulated clusters")]
    Identity(#[from] IdentityError),
    /// The address is taken or not allowed.
    #[error("cannot listen on {address} for simulated cluster {cluster}; choose another address or port 0")]
    Bind {
        /// Name of the cluster.
        cluster: String,
        /// Wanted address.
        address: SocketAddr,
        /// Cause.
        #[source]
        source: io::Error,
    },
}

/// Simulated clusters that share a certificate authority. Each cluster stops with its last handle or with
/// [`Cluster::stop`].
#[derive(Debug, Clone)]
pub struct Sim {
    identity: Identity,
}

impl Sim {
    /// A process of clusters with a fresh authority.
    ///
    /// # Errors
    /// If no certificate can be made.
    pub fn new() -> Result<Self, SimError> {
        Ok(Self { identity: Identity::generate()? })
    }

    /// PEM of the authority that signed the clusters' certificate.
    pub fn ca_pem(&self) -> &str {
        &self.identity.ca_pem
    }

    /// Starts a cluster on the current runtime; it answers when this returns.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn cluster(&self, options: ClusterOptions) -> Result<Cluster, SimError> {
        let listener = TcpListener::bind(options.bind).await.map_err(|source| SimError::Bind {
            cluster: options.name.clone(),
            address: options.bind,
            source,
        })?;
        let address = listener.local_addr().map_err(|source| SimError::Bind {
            cluster: options.name.clone(),
            address: options.bind,
            source,
        })?;
        Ok(Cluster::start(options, &self.identity, listener, address))
    }
}
