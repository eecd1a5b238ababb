//! The fleet in memory: who may call, what each cluster should run, what moved lately.
//!
//! Loaded once, then kept up to date by the feed. Authentication of agents and unchanged polls are
//! answered from here alone: two map reads and two atomic loads, no lock that a writer holds for long.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use plural_core::{ClusterId, Handle, ServiceId, ServiceSummary};
use tokio::sync::watch;

use crate::agent_call::AgentCallKind;
use crate::marks::Marks;
use crate::ports::{ClusterCredential, EventMark, FeedEvent, FeedPosition, FeedSubject, FleetLoad};
use crate::secret::TokenHash;

/// Changes that are remembered per cluster; an agent further behind gets a snapshot.
const LOG: usize = 512;
/// Shards of the token map, so that polls on many cores do not meet on one lock word.
const SHARDS: usize = 64;

/// How far an agent has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedCursor {
    /// Names the history: positions of different epochs cannot be compared.
    pub epoch: Arc<str>,
    /// The place in it.
    pub sequence: FeedPosition,
    /// Fingerprint of the last event up to it; zero when there is none to tell.
    pub mark: u64,
}

/// One cluster.
pub(crate) struct Cell {
    pub(crate) id: ClusterId,
    handle: RwLock<Handle>,
    /// Place of the last change, or the floor of the log: at or behind an agent's cursor, nothing is new for it.
    changed: AtomicU64,
    /// Moves on when the token does; streams of an older token end.
    generation: AtomicU64,
    token: Mutex<TokenHash>,
    state: RwLock<CellState>,
    wake: watch::Sender<u64>,
    /// The last report that was stored for this cluster, so that a repeated one is not stored twice.
    pub(crate) last_report: Mutex<Option<u64>>,
    /// The epoch in which it was logged that its agent knows more than this database.
    warned: Mutex<Option<Arc<str>>>,
    /// Calls of its agent that are open, by kind.
    pub(crate) calls: [AtomicU32; AgentCallKind::COUNT],
}

#[derive(Default)]
struct CellState {
    services: BTreeMap<ServiceId, ServiceSummary>,
    /// Services that moved, by place, oldest first.
    log: VecDeque<(FeedPosition, ServiceId)>,
    /// Cursors before this place are too old for the log.
    floor: FeedPosition,
    kicks: VecDeque<(FeedPosition, ServiceId)>,
}

impl CellState {
    fn shorten(&mut self) {
        while self.log.len() > LOG {
            if let Some((dropped, _)) = self.log.pop_front() {
                // A cursor at the dropped place has seen it; one before it has not.
                self.floor = self.floor.max(dropped);
            }
        }
    }
}

/// What a poll has to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing moved.
    Nothing,
    /// These moved, those are gone.
    Changes { services: Vec<ServiceId>, forgotten: Vec<ServiceId> },
    /// All of it.
    Snapshot { services: Vec<ServiceId> },
}

/// All clusters.
pub(crate) struct Fleet {
    epoch: RwLock<Arc<str>>,
    /// Everything up to here is in the cells.
    head: AtomicU64,
    head_wake: watch::Sender<u64>,
    marks: RwLock<Marks>,
    tokens: Vec<RwLock<HashMap<TokenHash, Arc<Cell>>>>,
    cells: RwLock<HashMap<ClusterId, Arc<Cell>>>,
}

impl Fleet {
    pub(crate) fn new(load: FleetLoad) -> Self {
        let fleet = Self {
            epoch: RwLock::new(Arc::from("")),
            head: AtomicU64::new(0),
            head_wake: watch::Sender::new(0),
            marks: RwLock::default(),
            tokens: (0..SHARDS).map(|_| RwLock::default()).collect(),
            cells: RwLock::default(),
        };
        fleet.reload(load);
        fleet
    }

    /// Replaces everything by a fresh load. Streams go on; an agent that stands before the events that came along gets a
    /// snapshot with its next poll, the others what changed.
    pub(crate) fn reload(&self, load: FleetLoad) {
        let FleetLoad { epoch, position, events, floor, clusters, services } = load;
        let known: BTreeSet<ClusterId> = clusters.iter().map(|cluster| cluster.id).collect();
        let gone: Vec<ClusterId> =
            read(&self.cells).keys().filter(|id| !known.contains(id)).copied().collect();
        for id in gone {
            self.cluster_remove(id);
        }
        let mut by_cluster: HashMap<ClusterId, Vec<ServiceSummary>> = HashMap::new();
        for service in services {
            by_cluster.entry(service.cluster_id).or_default().push(service);
        }
        let mut logs: HashMap<ClusterId, VecDeque<(FeedPosition, ServiceId)>> = HashMap::new();
        for event in &events {
            if let FeedSubject::Service { cluster_id, service_id, kick: _ } = event.subject {
                logs.entry(cluster_id).or_default().push_back((event.position, service_id));
            }
        }
        let mut cells = Vec::with_capacity(clusters.len());
        for cluster in clusters {
            let cell = self.cluster_upsert(cluster, floor);
            let mut state = write(&cell.state);
            state.services =
                by_cluster.remove(&cell.id).unwrap_or_default().into_iter().map(|s| (s.id, s)).collect();
            state.log = logs.remove(&cell.id).unwrap_or_default();
            state.kicks.clear();
            state.floor = floor;
            state.shorten();
            let changed = state.log.back().map_or(floor, |(last, _)| *last);
            drop(state);
            cell.changed.store(changed, Ordering::Release);
            cells.push(cell);
        }
        *write(&self.epoch) = Arc::from(epoch);
        *write(&self.marks) = Marks::of(events.iter().map(FeedEvent::mark).collect());
        self.advance(position);
        // What moved while the feed was out of reach is news to streams that are open.
        for cell in &cells {
            Self::wake(cell);
        }
    }

    pub(crate) fn epoch(&self) -> Arc<str> {
        Arc::clone(&read(&self.epoch))
    }

    pub(crate) fn head(&self) -> FeedPosition {
        self.head.load(Ordering::Acquire)
    }

    /// Changes with every move of [`Fleet::head`].
    pub(crate) fn head_watch(&self) -> watch::Receiver<u64> {
        self.head_wake.subscribe()
    }

    /// Takes in the fingerprints of events that are about to be passed.
    pub(crate) fn mark(&self, marks: impl Iterator<Item = EventMark>) {
        write(&self.marks).extend(marks);
    }

    /// Whether a place was told of by this database: not by one that this one is an older copy of.
    pub(crate) fn is_ours(&self, cursor: &FeedCursor) -> bool {
        let FeedCursor { epoch, sequence, mark } = cursor;
        if *mark == 0 || *sequence > self.head() || *epoch != self.epoch() {
            return true;
        }
        read(&self.marks).at(*sequence).is_none_or(|known| known == *mark)
    }

    /// Whether nobody has yet been warned, in this epoch, that the agent of a cluster knows more than this database: it asks
    /// again and again.
    pub(crate) fn warns(&self, cell: &Cell) -> bool {
        let epoch = self.epoch();
        lock(&cell.warned).replace(Arc::clone(&epoch)) != Some(epoch)
    }

    /// Says that everything up to `position` is in the cells.
    pub(crate) fn advance(&self, position: FeedPosition) {
        self.head.store(position, Ordering::Release);
        self.head_wake.send_replace(position);
    }

    pub(crate) fn authenticate(&self, hash: &TokenHash) -> Option<(Arc<Cell>, u64)> {
        let cell = Arc::clone(read(self.shard(hash)).get(hash)?);
        let generation = cell.generation.load(Ordering::Acquire);
        Some((cell, generation))
    }

    /// What an agent at `cursor` has to be told, and where it stands afterwards.
    pub(crate) fn poll(&self, cell: &Cell, cursor: Option<&FeedCursor>) -> (FeedCursor, Need) {
        let epoch = self.epoch();
        // Before the cell: a change that lands between the two is behind this place and told next time.
        let head = self.head();
        let mark = read(&self.marks).at(head).unwrap_or_default();
        let next = FeedCursor { epoch, sequence: head, mark };
        let known = cursor.filter(|cursor| cursor.epoch == next.epoch && cursor.sequence <= head);
        let Some(known) = known else {
            return (next, Need::Snapshot { services: read(&cell.state).services.keys().copied().collect() });
        };
        if cell.changed.load(Ordering::Acquire) <= known.sequence {
            return (next, Need::Nothing);
        }
        let state = read(&cell.state);
        if known.sequence < state.floor {
            return (next, Need::Snapshot { services: state.services.keys().copied().collect() });
        }
        let moved: BTreeSet<ServiceId> =
            state.log.iter().rev().take_while(|(at, _)| *at > known.sequence).map(|(_, id)| *id).collect();
        let (services, forgotten) = moved.into_iter().partition(|id| state.services.contains_key(id));
        (next, Need::Changes { services, forgotten })
    }

    /// Whether one of the cluster's services has this artifact.
    pub(crate) fn has_digest(cell: &Cell, digest: &[u8; 32]) -> bool {
        read(&cell.state).services.values().any(|service| service.digest.as_ref() == Some(digest))
    }

    pub(crate) fn cell(&self, id: ClusterId) -> Option<Arc<Cell>> {
        read(&self.cells).get(&id).cloned()
    }

    /// Takes a cluster in, or its new token or handle.
    pub(crate) fn cluster_upsert(&self, cluster: ClusterCredential, position: FeedPosition) -> Arc<Cell> {
        let ClusterCredential { id, handle, token_hash } = cluster;
        let existing = read(&self.cells).get(&id).cloned();
        let cell = if let Some(cell) = existing {
            *write(&cell.handle) = handle;
            let old = std::mem::replace(&mut *lock(&cell.token), token_hash);
            if old != token_hash {
                write(self.shard(&old)).remove(&old);
                cell.generation.fetch_add(1, Ordering::AcqRel);
                cell.wake.send_modify(|wakes| *wakes += 1);
            }
            cell
        } else {
            let cell = Arc::new(Cell {
                id,
                handle: RwLock::new(handle),
                changed: AtomicU64::new(position),
                generation: AtomicU64::new(0),
                token: Mutex::new(token_hash),
                state: RwLock::new(CellState { floor: position, ..CellState::default() }),
                wake: watch::Sender::new(0),
                last_report: Mutex::new(None),
                warned: Mutex::new(None),
                calls: Default::default(),
            });
            write(&self.cells).insert(id, Arc::clone(&cell));
            cell
        };
        write(self.shard(&token_hash)).insert(token_hash, Arc::clone(&cell));
        cell
    }

    /// Forgets a cluster and ends its agent's streams.
    pub(crate) fn cluster_remove(&self, id: ClusterId) {
        let Some(cell) = write(&self.cells).remove(&id) else { return };
        let hash = *lock(&cell.token);
        write(self.shard(&hash)).remove(&hash);
        cell.generation.fetch_add(1, Ordering::AcqRel);
        cell.wake.send_modify(|wakes| *wakes += 1);
    }

    /// A service of a cluster came, moved or (`None`) went.
    pub(crate) fn service_moved(
        cell: &Cell,
        id: ServiceId,
        summary: Option<ServiceSummary>,
        position: FeedPosition,
        kick: bool,
    ) {
        let mut state = write(&cell.state);
        match summary {
            Some(summary) => {
                state.services.insert(id, summary);
            }
            None => {
                state.services.remove(&id);
            }
        }
        state.log.push_back((position, id));
        state.shorten();
        if kick {
            state.kicks.push_back((position, id));
            if state.kicks.len() > LOG {
                state.kicks.pop_front();
            }
        }
        drop(state);
        cell.changed.store(position, Ordering::Release);
    }

    /// Tells the cluster's streams to look.
    pub(crate) fn wake(cell: &Cell) {
        cell.wake.send_modify(|wakes| *wakes += 1);
    }

    /// Clusters in memory, and streams that listen.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let cells = read(&self.cells);
        (cells.len(), cells.values().map(|cell| cell.wake.receiver_count()).sum())
    }

    fn shard(&self, hash: &TokenHash) -> &RwLock<HashMap<TokenHash, Arc<Cell>>> {
        // The hash is uniform, so that any byte of it spreads.
        &self.tokens[usize::from(hash.as_bytes()[0]) % SHARDS]
    }
}

impl Cell {
    pub(crate) fn handle(&self) -> Handle {
        read(&self.handle).clone()
    }

    pub(crate) fn is_current(&self, generation: u64) -> bool {
        self.generation.load(Ordering::Acquire) == generation
    }

    pub(crate) fn hints(self: &Arc<Self>, generation: u64, seen: FeedPosition) -> AgentHints {
        let mut wake = self.wake.subscribe();
        // The first look is free: what moved before the stream opened is a hint too.
        wake.mark_changed();
        AgentHints {
            cell: Arc::clone(self),
            wake,
            generation,
            seen,
            seen_kick: self.changed.load(Ordering::Acquire),
        }
    }
}

/// "Something of yours moved", for one open stream.
pub struct AgentHints {
    cell: Arc<Cell>,
    wake: watch::Receiver<u64>,
    generation: u64,
    seen: FeedPosition,
    seen_kick: FeedPosition,
}

/// One hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentHint {
    /// The place of the latest change.
    pub sequence: FeedPosition,
    /// Services that a person asked to reconcile.
    pub kicked: Vec<ServiceId>,
}

impl AgentHints {
    /// Waits for the next change; many changes meanwhile are one hint. `None` when the cluster or its
    /// token is gone: the stream should end. Safe to drop and call again.
    pub async fn next(&mut self) -> Option<AgentHint> {
        loop {
            self.wake.changed().await.ok()?;
            if !self.cell.is_current(self.generation) {
                return None;
            }
            let sequence = self.cell.changed.load(Ordering::Acquire);
            if sequence <= self.seen {
                continue;
            }
            let state = read(&self.cell.state);
            let kicked: BTreeSet<ServiceId> =
                state.kicks.iter().filter(|(at, _)| *at > self.seen_kick).map(|(_, id)| *id).collect();
            drop(state);
            self.seen = sequence;
            self.seen_kick = sequence;
            return Some(AgentHint { sequence, kicked: kicked.into_iter().collect() });
        }
    }
}

impl std::fmt::Debug for AgentHints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentHints")
            .field("cluster", &self.cell.id)
            .field("seen", &self.seen)
            .finish_non_exhaustive()
    }
}

// A panic while one of these locks is held leaves plain data behind, so a poisoned lock is still good.
fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn lock<T>(lock: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use plural_core::{Intent, RevisionId};

    use super::*;

    fn credential(token: &str) -> ClusterCredential {
        ClusterCredential {
            id: ClusterId::new(),
            handle: "blue".parse().unwrap(),
            token_hash: TokenHash::of(token),
        }
    }

    fn summary(cluster_id: ClusterId) -> ServiceSummary {
        ServiceSummary {
            id: ServiceId::new(),
            cluster_id,
            repository_id: None,
            revision_id: RevisionId::new(),
            digest: Some([7; 32]),
            sequence: 1,
            intent: Intent::Apply,
        }
    }

    fn load(
        cluster: &ClusterCredential,
        services: Vec<ServiceSummary>,
        (floor, events, position): (u64, Vec<FeedEvent>, u64),
    ) -> FleetLoad {
        FleetLoad { epoch: "e".into(), position, floor, events, clusters: vec![cluster.clone()], services }
    }

    fn event(position: u64, service: &ServiceSummary) -> FeedEvent {
        let subject =
            FeedSubject::Service { cluster_id: service.cluster_id, service_id: service.id, kick: false };
        FeedEvent { position, subject, mark: position * 10 }
    }

    fn fleet(cluster: &ClusterCredential, services: Vec<ServiceSummary>) -> (Fleet, Arc<Cell>) {
        let elsewhere = event(9, &summary(ClusterId::new()));
        let fleet = Fleet::new(load(cluster, services, (10, vec![elsewhere], 10)));
        let cell = fleet.cell(cluster.id).unwrap();
        (fleet, cell)
    }

    #[test]
    fn snapshot_then_nothing_then_changes() {
        let cluster = credential("a");
        let service = summary(cluster.id);
        let (fleet, cell) = fleet(&cluster, vec![service.clone()]);
        let (cursor, need) = fleet.poll(&cell, None);
        assert_eq!(need, Need::Snapshot { services: vec![service.id] });
        assert_eq!(fleet.poll(&cell, Some(&cursor)).1, Need::Nothing);

        let second = summary(cluster.id);
        Fleet::service_moved(&cell, second.id, Some(second.clone()), 11, false);
        Fleet::service_moved(&cell, service.id, None, 12, false);
        fleet.advance(12);
        let (next, need) = fleet.poll(&cell, Some(&cursor));
        assert_eq!(need, Need::Changes { services: vec![second.id], forgotten: vec![service.id] });
        assert_eq!(fleet.poll(&cell, Some(&next)).1, Need::Nothing);
    }

    #[test]
    fn old_foreign_and_future_cursors_get_a_snapshot() {
        let cluster = credential("a");
        let service = summary(cluster.id);
        let (fleet, cell) = fleet(&cluster, vec![service.clone()]);
        let at = |epoch: &str, sequence| FeedCursor { epoch: Arc::from(epoch), sequence, mark: 0 };
        for cursor in [at("other", 10), at("e", 11), at("e", 9)] {
            let (_, need) = fleet.poll(&cell, Some(&cursor));
            assert!(matches!(need, Need::Snapshot { .. }), "{cursor:?}");
        }
        let start = at("e", 10);
        for position in 11..11 + LOG as u64 {
            Fleet::service_moved(&cell, service.id, Some(service.clone()), position, false);
        }
        fleet.advance(11 + LOG as u64);
        assert!(matches!(fleet.poll(&cell, Some(&start)).1, Need::Changes { .. }));
        Fleet::service_moved(&cell, service.id, Some(service.clone()), 11 + LOG as u64, false);
        assert!(matches!(fleet.poll(&cell, Some(&start)).1, Need::Snapshot { .. }));
    }

    #[test]
    fn a_fresh_load_remembers_what_the_feed_does() {
        let cluster = credential("a");
        let (first, second) = (summary(cluster.id), summary(cluster.id));
        let services = vec![first.clone(), second.clone()];
        let events = vec![event(4, &first), event(6, &second)];
        let fleet = Fleet::new(load(&cluster, services.clone(), (3, events, 10)));
        let cell = fleet.cell(cluster.id).unwrap();
        let at = |sequence| FeedCursor { epoch: Arc::from("e"), sequence, mark: 0 };
        let need = |sequence| fleet.poll(&cell, Some(&at(sequence))).1;
        let changes = |services: Vec<ServiceId>| Need::Changes { services, forgotten: Vec::new() };
        // Others moved since; nothing of this cluster did.
        assert_eq!((need(6), need(8), need(10)), (Need::Nothing, Need::Nothing, Need::Nothing));
        assert_eq!(need(5), changes(vec![second.id]));
        let mut both = vec![first.id, second.id];
        both.sort();
        assert_eq!(need(3), changes(both));
        assert!(matches!(need(2), Need::Snapshot { .. }), "what was before is forgotten");
    }

    #[tokio::test]
    async fn what_moved_while_the_feed_was_out_of_reach_is_told() {
        let cluster = credential("a");
        let service = summary(cluster.id);
        let (fleet, cell) = fleet(&cluster, vec![service.clone()]);
        let (_, generation) = fleet.authenticate(&cluster.token_hash).unwrap();
        let mut hints = cell.hints(generation, 10);
        let (cursor, _) = fleet.poll(&cell, None);
        fleet.reload(load(&cluster, vec![service.clone()], (20, vec![event(25, &service)], 30)));
        assert_eq!(hints.next().await.map(|hint| hint.sequence), Some(25));
        assert!(matches!(fleet.poll(&cell, Some(&cursor)).1, Need::Snapshot { .. }));
        // Who was told by another replica meanwhile has it already.
        let told = FeedCursor { sequence: 26, ..cursor };
        assert_eq!(fleet.poll(&cell, Some(&told)).1, Need::Nothing);
        // With nothing of its own among the events, it may have been before them.
        fleet.reload(load(&cluster, vec![service], (40, Vec::new(), 50)));
        assert!(matches!(fleet.poll(&cell, Some(&told)).1, Need::Snapshot { .. }));
    }

    #[test]
    fn attack_36_a_place_in_another_history_is_none_of_ours() {
        let (fleet, cell) = fleet(&credential("a"), Vec::new());
        let (cursor, _) = fleet.poll(&cell, None);
        assert_eq!((cursor.sequence, cursor.mark), (10, 90));
        fleet.mark([EventMark { position: 12, mark: 120 }].into_iter());
        fleet.advance(12);
        assert!(fleet.is_ours(&cursor));
        // The same place, after another event.
        assert!(!fleet.is_ours(&FeedCursor { mark: 91, ..cursor.clone() }));
        assert!(!fleet.is_ours(&FeedCursor { sequence: 12, ..cursor.clone() }));
        // What cannot be judged is let pass: an older agent's, one before what is remembered, one of another epoch.
        assert!(fleet.is_ours(&FeedCursor { mark: 0, ..cursor.clone() }));
        assert!(fleet.is_ours(&FeedCursor { sequence: 5, mark: 1, ..cursor.clone() }));
        assert!(fleet.is_ours(&FeedCursor { epoch: "other".into(), mark: 1, ..cursor }));
    }

    #[tokio::test]
    async fn hints_coalesce_and_end_with_the_token() {
        let cluster = credential("a");
        let service = summary(cluster.id);
        let (fleet, cell) = fleet(&cluster, vec![service.clone()]);
        let (_, generation) = fleet.authenticate(&cluster.token_hash).unwrap();
        let mut hints = cell.hints(generation, 10);
        Fleet::service_moved(&cell, service.id, Some(service.clone()), 11, true);
        Fleet::service_moved(&cell, service.id, Some(service.clone()), 12, true);
        Fleet::wake(&cell);
        assert_eq!(hints.next().await, Some(AgentHint { sequence: 12, kicked: vec![service.id] }));

        let rotated = ClusterCredential { token_hash: TokenHash::of("b"), ..cluster.clone() };
        fleet.cluster_upsert(rotated.clone(), 13);
        assert_eq!(hints.next().await, None);
        assert!(fleet.authenticate(&cluster.token_hash).is_none());
        assert!(fleet.authenticate(&rotated.token_hash).is_some());
        fleet.cluster_remove(cluster.id);
        assert!(fleet.authenticate(&rotated.token_hash).is_none());
    }

    #[tokio::test]
    async fn a_stream_that_opens_late_is_told_at_once() {
        let cluster = credential("a");
        let (fleet, cell) = fleet(&cluster, vec![summary(cluster.id)]);
        let (_, generation) = fleet.authenticate(&cluster.token_hash).unwrap();
        let mut hints = cell.hints(generation, 0);
        assert_eq!(hints.next().await.map(|hint| hint.sequence), Some(10));
    }

    #[test]
    fn only_its_own_artifacts() {
        let cluster = credential("a");
        let (_, cell) = fleet(&cluster, vec![summary(cluster.id)]);
        assert!(Fleet::has_digest(&cell, &[7; 32]));
        assert!(!Fleet::has_digest(&cell, &[8; 32]));
    }
}
