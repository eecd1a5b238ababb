//! This replica among the others on its database: signs of life, leases, and which of them does what.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use plural_core::Result;
use plural_core::ids::{ClusterId, ReplicaId};
use plural_kit::{ShutdownSignal, about};
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::app::App;
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
pub struct ReplicaUpdate {
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
    async fn replica_join(&self, beat: &ReplicaBeat) -> Result<ReplicaUpdate>;
    /// A sign of life.
    async fn replica_beat(&self, beat: &ReplicaBeat) -> Result<ReplicaUpdate>;
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
    /// Those of the clusters whose agents' streams a replica holds that is alive.
    async fn agent_streams(&self, clusters: &[ClusterId]) -> Result<HashSet<ClusterId>>;
    /// The replica that holds the stream of a cluster's agent, if one that is alive does.
    async fn agent_stream(&self, cluster: ClusterId) -> Result<Option<Replica>>;
}

/// Between two signs of life.
const BEAT: Duration = Duration::from_secs(3);
/// After a failed one.
const BEAT_AGAIN: Duration = Duration::from_millis(500);
/// How long a replica counts as alive after one. A killed one is replaced after so long.
const HOLDS: Duration = Duration::from_secs(12);
/// How long before that a replica that cannot reach the database stops what it does, though the fence holds anyway.
const MARGIN: Duration = Duration::from_secs(2);
/// Between two tries to get a lease that another holds.
const TRY: Duration = Duration::from_secs(3);

/// What this replica knows of itself and the others.
pub(crate) struct Replicas {
    id: ReplicaId,
    place: String,
    address: Mutex<Option<ReplicaAddress>>,
    state: Mutex<State>,
    /// Moves when another set of replicas is alive, or this one is among them again.
    moved: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    alive: Vec<Replica>,
    /// Until when the others take this one for alive, at least.
    until: Option<Instant>,
    held: HashMap<Arc<str>, Held>,
    /// Cancelled while the others may think that this replica is gone.
    doubted: CancellationToken,
}

struct Held {
    fence: Fence,
    since: Instant,
    lost: CancellationToken,
}

impl Replicas {
    pub(crate) fn new(place: String) -> Self {
        Self {
            id: ReplicaId::new(),
            place,
            address: Mutex::default(),
            state: Mutex::default(),
            moved: watch::Sender::new(0),
        }
    }

    /// Changes whenever another set of replicas is alive, or this one is among them again.
    pub(crate) fn moved(&self) -> watch::Receiver<u64> {
        self.moved.subscribe()
    }

    /// Whether this replica is the one of all alive that should do `what`: each chooses the same one, and when one goes,
    /// only what it did moves (rendezvous hashing); and to the next process in its place, which has its mirrors, it comes back.
    pub(crate) fn is_chosen(&self, what: &str) -> bool {
        let state = self.state.lock();
        let chosen = state.alive.iter().max_by_key(|replica| weight(what, replica));
        chosen.is_some_and(|replica| replica.id == self.id)
    }

    fn beat(&self) -> ReplicaBeat {
        ReplicaBeat {
            id: self.id,
            place: self.place.clone(),
            address: self.address.lock().clone(),
            holds: HOLDS,
        }
    }

    /// Takes in what the database said to a sign of life that was sent at `sent`.
    fn heard(&self, news: ReplicaUpdate, sent: Instant) {
        let ReplicaUpdate { alive, held } = news;
        let mut state = self.state.lock();
        state.until = Some(sent + HOLDS);
        let returned = state.doubted.is_cancelled();
        if returned {
            state.doubted = CancellationToken::new();
        }
        state.held.retain(|_, known| {
            // One that was given to us while this was on its way need not be in it.
            let stays = known.since >= sent || held.contains(&known.fence);
            if !stays {
                known.lost.cancel();
            }
            stays
        });
        let changed = returned || state.alive != alive;
        state.alive = alive;
        drop(state);
        if changed {
            self.moved.send_modify(|moves| *moves += 1);
        }
    }

    /// Gives everything up when the others may think by now that this replica is gone.
    fn doubt(&self) {
        let mut state = self.state.lock();
        if state.until.is_some_and(|until| Instant::now() + MARGIN < until) {
            return;
        }
        state.doubted.cancel();
        for (_, held) in state.held.drain() {
            tracing::warn!(lease = %held.fence.name, "the database does not answer: giving a lease up");
            held.lost.cancel();
        }
    }

    /// How long a sign of life may take: as long as it is worth something, then this replica must begin to doubt.
    fn patience(&self) -> Duration {
        let left =
            self.state.lock().until.map(|until| until.saturating_duration_since(Instant::now() + MARGIN));
        left.unwrap_or(HOLDS).clamp(BEAT_AGAIN, HOLDS)
    }

    fn keep(&self, fence: &Fence) -> CancellationToken {
        let lost = CancellationToken::new();
        let held = Held { fence: fence.clone(), since: Instant::now(), lost: lost.clone() };
        if let Some(old) = self.state.lock().held.insert(Arc::clone(&fence.name), held) {
            old.lost.cancel();
        }
        lost
    }

    fn drop(&self, fence: &Fence) {
        let mut state = self.state.lock();
        if state.held.get(&fence.name).is_some_and(|held| held.fence == *fence) {
            state.held.remove(&fence.name);
        }
    }

    /// The lease of this name, if this replica holds it as far as it knows.
    pub(crate) fn held(&self, name: &str) -> Option<Fence> {
        self.state.lock().held.get(name).map(|held| held.fence.clone())
    }

    /// While the others know that this replica is alive: what is cancelled as soon as they may not.
    pub(crate) fn presence(&self) -> Option<CancellationToken> {
        let state = self.state.lock();
        (state.until.is_some() && !state.doubted.is_cancelled()).then(|| state.doubted.clone())
    }

    fn is_in(&self) -> bool {
        self.state.lock().until.is_some()
    }
}

fn weight(what: &str, replica: &Replica) -> ([u8; 32], ReplicaId) {
    let Replica { id, place, address: _ } = replica;
    let place = Sha256::new().chain_update(place).chain_update([0]).chain_update(what);
    (place.finalize().into(), *id)
}

impl App {
    /// Names this process among the replicas on its database.
    pub fn replica_id(&self) -> ReplicaId {
        self.replicas.id
    }

    /// Says where other replicas reach this one. Known to them with the next sign of life.
    pub fn replica_listens(&self, address: ReplicaAddress) {
        *self.replicas.address.lock() = Some(address);
    }

    pub(crate) fn replica_is_reachable(&self) -> bool {
        self.replicas.address.lock().is_some()
    }

    /// The replicas that were alive a moment ago, this one among them.
    pub fn replicas_alive(&self) -> Vec<Replica> {
        self.replicas.state.lock().alive.clone()
    }

    /// Gives signs of life until asked to stop: after all that holds leases and claims has ended.
    pub(crate) async fn replica_run(&self, stop: &ShutdownSignal) -> Result<()> {
        let mut joined = false;
        loop {
            let sent = Instant::now();
            let beat = self.replicas.beat();
            let asked = async {
                if joined {
                    self.store.replica_beat(&beat).await
                } else {
                    self.store.replica_join(&beat).await
                }
            };
            let Some(answered) = stop.or(tokio::time::timeout(self.replicas.patience(), asked)).await else {
                return Ok(());
            };
            let wait = match answered {
                Ok(Ok(news)) => {
                    joined = true;
                    self.replicas.heard(news, sent);
                    if !self.store.is_shared() {
                        // Nobody else can take anything over, or ask who is alive: an idle console writes nothing.
                        stop.requested().await;
                        return Ok(());
                    }
                    BEAT
                }
                Ok(Err(error)) => {
                    tracing::warn!(error = error.log_text(), "cannot give a sign of life; trying again");
                    BEAT_AGAIN
                }
                Err(_) => BEAT_AGAIN,
            };
            self.replicas.doubt();
            if stop.or(tokio::time::sleep(wait)).await.is_none() {
                return Ok(());
            }
        }
    }

    /// Says that this replica ends, so that others go on at once with what it did.
    pub(crate) async fn replica_leave(&self) {
        match tokio::time::timeout(BEAT, self.store.replica_leave(self.replicas.id)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::debug!(
                    error = error.log_text(),
                    "cannot say that this replica ends; the others notice"
                );
            }
            Err(_) => {
                tracing::debug!("the database does not answer: the others notice that this replica ends");
            }
        }
    }

    /// Does `work` whenever this replica holds the lease `name`, until asked to stop. Work that lost the lease is
    /// dropped where it stands: its next write would be refused.
    ///
    /// # Errors
    /// What the work could not go on for.
    pub(crate) async fn lead<F>(
        self: &Arc<Self>,
        name: &str,
        stop: &ShutdownSignal,
        work: impl Fn(Arc<Self>, ShutdownSignal) -> F,
    ) -> Result<()>
    where
        F: Future<Output = Result<()>>,
    {
        let name: Arc<str> = Arc::from(name);
        loop {
            let Some((fence, lost)) = stop.or(self.lease_wait(&name)).await else { return Ok(()) };
            tracing::debug!(lease = %name, epoch = fence.epoch, "this replica leads");
            metrics::gauge!("plural_lease_held", "lease" => name.to_string()).set(1.0);
            let ended = stop.child();
            let worked = tokio::select! {
                worked = fence.clone().guard(work(Arc::clone(self), ended.signal())) => Some(worked),
                () = lost.cancelled() => None,
            };
            metrics::gauge!("plural_lease_held", "lease" => name.to_string()).set(0.0);
            let Some(worked) = worked else {
                tracing::warn!(lease = %name, epoch = fence.epoch, "another replica leads now");
                continue;
            };
            self.lease_give_back(&fence).await;
            return worked;
        }
    }

    async fn lease_wait(&self, name: &Arc<str>) -> (Fence, CancellationToken) {
        let mut moved = self.replicas.moved();
        loop {
            moved.mark_unchanged();
            match self.lease_try(name).await {
                Ok(Some(held)) => return held,
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(lease = %name, error = error.log_text(), "cannot ask for a lease; trying again");
                }
            }
            // Who is gone left its leases: that is the moment to ask.
            let _ = tokio::time::timeout(about(TRY), moved.changed()).await;
        }
    }

    async fn lease_try(&self, name: &Arc<str>) -> Result<Option<(Fence, CancellationToken)>> {
        // Before the others know that this replica is alive, they would take away what it was given.
        if !self.replicas.is_in() {
            return Ok(None);
        }
        let fence = self.store.lease_acquire(name, self.replicas.id).await?;
        Ok(fence.map(|fence| {
            let lost = self.replicas.keep(&fence);
            (fence, lost)
        }))
    }

    async fn lease_give_back(&self, fence: &Fence) {
        self.replicas.drop(fence);
        if let Err(error) = self.store.lease_release(fence).await {
            tracing::debug!(lease = %fence.name, error = error.log_text(), "cannot give a lease back; it ends by itself");
        }
    }

    /// The right to do `what`, when this replica is the one of all alive that should; what it should not do any more
    /// it gives back.
    pub(crate) async fn turn(&self, what: &str) -> Result<Option<Fence>> {
        let held = self.replicas.held(what);
        match (self.replicas.is_chosen(what), held) {
            (true, Some(fence)) => Ok(Some(fence)),
            (true, None) => Ok(self.lease_try(&Arc::from(what)).await?.map(|(fence, _)| fence)),
            (false, Some(fence)) => {
                self.lease_give_back(&fence).await;
                Ok(None)
            }
            (false, None) => Ok(None),
        }
    }

    /// Forgets the right to do what there is no more to do of.
    pub(crate) async fn turn_over(&self, what: &str) {
        if let Some(fence) = self.replicas.held(what) {
            self.lease_give_back(&fence).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replicas(ids: &[ReplicaId]) -> Vec<Replica> {
        ids.iter().map(|id| Replica { id: *id, place: id.to_string(), address: None }).collect()
    }

    fn chosen(what: &str, ids: &[ReplicaId]) -> ReplicaId {
        let mut found: Vec<ReplicaId> = Vec::new();
        for id in ids {
            let known = Replicas { id: *id, ..Replicas::new(String::new()) };
            known.heard(ReplicaUpdate { alive: replicas(ids), held: Vec::new() }, Instant::now());
            if known.is_chosen(what) {
                found.push(*id);
            }
        }
        assert_eq!(found.len(), 1, "{what}: {found:?}");
        found[0]
    }

    #[test]
    fn one_replica_is_chosen_and_only_what_the_gone_one_did_moves() {
        let three = [ReplicaId::new(), ReplicaId::new(), ReplicaId::new()];
        let mut of = HashMap::new();
        for n in 0..300 {
            let what = format!("repository:{n}");
            let before = chosen(&what, &three);
            *of.entry(before).or_insert(0) += 1;
            let after = chosen(&what, &three[..2]);
            assert!(before == three[2] || before == after, "{what} moved for no reason");
        }
        assert!(of.values().all(|count| *count > 50), "{of:?}");
    }

    #[test]
    fn presence_ends_with_doubt_and_returns_with_the_next_heartbeat() {
        let known = Replicas::new("here".into());
        assert!(known.presence().is_none(), "nothing was heard yet");
        let news = || ReplicaUpdate { alive: replicas(&[known.id]), held: Vec::new() };
        known.heard(news(), Instant::now());
        let presence = known.presence().unwrap();
        known.doubt();
        assert!(!presence.is_cancelled());
        known.heard(news(), Instant::now().checked_sub(HOLDS).unwrap());
        known.doubt();
        assert!(presence.is_cancelled() && known.presence().is_none());
        known.heard(news(), Instant::now());
        assert!(known.presence().is_some_and(|presence| !presence.is_cancelled()));
    }

    #[test]
    fn what_the_database_gave_to_another_is_lost() {
        let known = Replicas::new("here".into());
        let fence = |epoch| Fence { name: "a".into(), holder: known.id, epoch };
        let alive = replicas(&[known.id]);
        let early = Instant::now();
        let lost = known.keep(&fence(3));
        // Asked before it was given: says nothing about it.
        known.heard(ReplicaUpdate { alive: alive.clone(), held: Vec::new() }, early);
        assert!(!lost.is_cancelled());
        known.heard(ReplicaUpdate { alive: alive.clone(), held: vec![fence(3)] }, Instant::now());
        assert!(!lost.is_cancelled());
        known.heard(ReplicaUpdate { alive, held: Vec::new() }, Instant::now());
        assert!(lost.is_cancelled());
        assert!(known.held("a").is_none());
    }
}
