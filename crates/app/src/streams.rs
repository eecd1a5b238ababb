//! Which agents' streams this replica holds, told to the others, so that a person's request finds the one that does.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use plural_core::Result;
use plural_core::cluster::Cluster;
use plural_core::ids::ClusterId;
use plural_core::service_reason::AgentPresence;
use plural_kit::ShutdownSignal;
use tokio::sync::Notify;

use crate::app::App;
use crate::ctx::OpCtx;
use crate::replica::Replica;

/// How long changes wait for others to be written with them: a thousand agents that come back are a few writes.
const GATHER: Duration = Duration::from_millis(50);
/// After a failed write.
const AGAIN: Duration = Duration::from_secs(1);

/// What the others do not know yet. One entry per cluster, hence bounded by the fleet.
#[derive(Default)]
pub(crate) struct PendingStreams {
    changed: Mutex<HashMap<ClusterId, bool>>,
    wake: Notify,
}

impl App {
    /// The agent of a cluster opened its stream here, and lets people through.
    pub fn agent_stream_opened(&self, cluster: ClusterId) {
        self.agent_stream_changed(cluster, true);
    }

    /// It closed it.
    pub fn agent_stream_closed(&self, cluster: ClusterId) {
        self.agent_stream_changed(cluster, false);
    }

    /// Another replica that holds the stream of a cluster's agent and takes calls, if there is one.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn agent_stream_holder(&self, cluster: ClusterId) -> Result<Option<Replica>> {
        let holder = self.store.agent_stream(cluster).await?;
        Ok(holder.filter(|replica| replica.id != self.replica_id() && replica.address.is_some()))
    }

    /// Whether the agents of these clusters are connected, here or to another replica. An agent of an earlier build, which may
    /// hold no stream, counts by its last sign of life.
    ///
    /// # Errors
    /// When the database does not answer.
    pub(crate) async fn agents_presence(
        &self,
        clusters: impl IntoIterator<Item = &Cluster>,
    ) -> Result<HashMap<ClusterId, AgentPresence>> {
        let now = self.clock.now();
        let mut found = HashMap::new();
        let mut elsewhere = Vec::new();
        for cluster in clusters {
            let is_heard = cluster.agent_is_outdated() == Some(true) && cluster.is_healthy(now);
            let connected = is_heard || self.fleet.cell(cluster.id).is_some_and(|cell| cell.has_stream());
            if !connected {
                elsewhere.push(cluster.id);
            }
            let (cluster, id, stored) = (cluster.handle.to_string(), cluster.id, cluster.pinged_at);
            let seen_at = stored.max(self.pings.last(id));
            found.insert(id, AgentPresence { cluster, connected, seen_at });
        }
        if !elsewhere.is_empty() && self.store.is_shared() {
            for id in self.store.agent_streams(&elsewhere).await? {
                if let Some(presence) = found.get_mut(&id) {
                    presence.connected = true;
                }
            }
        }
        Ok(found)
    }

    /// [`Self::agents_presence`] of clusters that the caller may see.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn clusters_presence(
        &self,
        ctx: &OpCtx,
        ids: &[ClusterId],
    ) -> Result<HashMap<ClusterId, AgentPresence>> {
        let clusters = self.get_many::<Cluster>(ctx, ids).await?;
        self.agents_presence(clusters.values()).await
    }

    fn agent_stream_changed(&self, cluster: ClusterId, is_here: bool) {
        // Another replica may be asked whether the agent is connected, or for a way to it.
        if self.store.is_shared() || self.replica_is_reachable() {
            self.streams.changed.lock().insert(cluster, is_here);
            self.streams.wake.notify_one();
        }
    }

    /// Tells the others, until asked to stop.
    pub(crate) async fn streams_run(&self, stop: &ShutdownSignal) -> Result<()> {
        loop {
            let gathered = async {
                self.streams.wake.notified().await;
                tokio::time::sleep(GATHER).await;
            };
            if stop.or(gathered).await.is_none() {
                return Ok(());
            }
            let changed = std::mem::take(&mut *self.streams.changed.lock());
            let (mut here, mut gone) = (Vec::new(), Vec::new());
            for (cluster, is_here) in &changed {
                if *is_here { here.push(*cluster) } else { gone.push(*cluster) }
            }
            // Always in the same order, so that two replicas never wait for each other.
            here.sort_unstable();
            gone.sort_unstable();
            if let Err(error) = self.store.agent_streams_put(self.replica_id(), &here, &gone).await {
                tracing::warn!(error = error.log_text(), "cannot tell whose streams are here; trying again");
                {
                    let mut waiting = self.streams.changed.lock();
                    for (cluster, is_here) in changed {
                        // What happened meanwhile is newer.
                        waiting.entry(cluster).or_insert(is_here);
                    }
                }
                if stop.or(tokio::time::sleep(AGAIN)).await.is_none() {
                    return Ok(());
                }
                self.streams.wake.notify_one();
            }
        }
    }
}
