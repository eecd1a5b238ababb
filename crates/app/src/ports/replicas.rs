//! What consoles that share a database need of it to share the work: who is alive, who does what, who holds which
//! agent's stream.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plural_core::{ClusterId, ReplicaId, Result};

use crate::lease::Fence;

/// Where other replicas reach one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ReplicaAddress {
    /// `HOST:PORT` of its listener for replicas.
    pub authority: String,
    /// SHA-256 of the certificate that it shows there.
    pub certificate: [u8; 32],
}

/// A replica that is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replica {
    /// Which.
    pub id: ReplicaId,
    /// Host and folder: what an earlier process kept there, this one finds.
    pub place: String,
    /// Where others reach it; none when it takes no calls of others.
    pub address: Option<ReplicaAddress>,
}

/// A sign of life.
#[derive(Debug, Clone)]
pub struct ReplicaBeat {
    /// Whose.
    pub id: ReplicaId,
    /// Host and folder: one process after another may run there, never two at once.
    pub place: String,
    /// Where others reach it.
    pub address: Option<ReplicaAddress>,
    /// How long it counts as alive without another one, by the database's clock.
    pub holds: Duration,
}

/// What a replica learns with a sign of life.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplicaNews {
    /// All that are alive, in the order of their ids; the one that asks is among them.
    pub alive: Vec<Replica>,
    /// The leases that it holds.
    pub held: Vec<Fence>,
}

/// Replicas, leases and the agents' streams.
///
/// # Guarantees
/// A lease is held by one replica at a time, and each time it is given out its epoch grows. It is given to another only
/// when it was released, or when its holder gave no sign of life for as long as it said. A write inside of
/// [`Fence::guard`] fails, and writes nothing, when the lease was given to another in between.
#[async_trait]
pub trait ReplicaStore: Send + Sync + 'static {
    /// Whether several consoles can have this database open.
    fn is_shared(&self) -> bool;
    /// Begins: earlier processes of the same place count as gone, and with them what they held.
    async fn replica_join(&self, beat: &ReplicaBeat) -> Result<ReplicaNews>;
    /// A sign of life.
    async fn replica_beat(&self, beat: &ReplicaBeat) -> Result<ReplicaNews>;
    /// Ends: everything that it held is free.
    async fn replica_leave(&self, id: ReplicaId) -> Result<()>;
    /// The lease, if it is free or its holder is gone; a new epoch also when `holder` has it already.
    async fn lease_acquire(&self, name: &Arc<str>, holder: ReplicaId) -> Result<Option<Fence>>;
    /// Gives a lease back; nothing happens when somebody else has it by now.
    async fn lease_release(&self, fence: &Fence) -> Result<()>;
    /// Records which agents' streams a replica holds and which it does not hold any more.
    async fn agent_streams_put(
        &self,
        replica: ReplicaId,
        here: &[ClusterId],
        gone: &[ClusterId],
    ) -> Result<()>;
    /// The replica that holds the stream of a cluster's agent, if one that is alive does.
    async fn agent_stream(&self, cluster: ClusterId) -> Result<Option<Replica>>;
}
