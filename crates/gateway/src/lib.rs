//! The gateway to clusters: `https://console/k8s/CLUSTER/…` for users, through the agent of each cluster.
//!
//! # Guarantees
//! - It holds no credential of a cluster and opens no connection to one: a request goes down a channel that the agent opened.
//! - No request passes without a grant of [`plural_app`] and a line in the clusters' audit log.
//! - A shell that must be recorded is not opened while it cannot be.

pub mod fuzzing;
mod proxy;
mod replicas;

pub use proxy::{AgentConnections, ClientAddress, ConnectionGuard, Proxy, handle, handle_from_replica};
pub use replicas::ReplicaIdentity;
