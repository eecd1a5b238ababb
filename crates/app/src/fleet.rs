//! The fleet in memory: who may call, what each cluster should run, what moved lately.
//!
//! Loaded once, then kept up to date by the feed. Authentication of agents and unchanged polls are
//! answered from here alone: two map reads and two atomic loads, no lock that a writer holds for long.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

use chrono::{DateTime, Utc};
use parking_lot::{Mutex, RwLock};
use plural_core::ids::{ClusterId, ServiceId};
use plural_core::specs::Handle;
use plural_core::work::{Contract, ServiceHead, WorkChange, WorkRef, WorkSummary};
use tokio::sync::watch;

use crate::agent_call::AgentCallKind;
use crate::agent_poll::PollAsked;
use crate::deploy_token::TokenStatus;
use crate::fingerprints::Fingerprints;
use crate::ports::agents::{
    ClusterCredential, EventFingerprint, FeedEvent, FeedPosition, FeedSubject, FleetLoad,
};
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
    /// Generations of the tokens that are accepted, zero where there is none; streams of any other end.
    valid: [AtomicU64; 2],
    tokens: Mutex<CellTokens>,
    /// Since when it has its token, in microseconds since the epoch.
    rotated_at: AtomicI64,
    /// Somebody asked for another token.
    asked: AtomicBool,
    state: RwLock<CellState>,
    wake: watch::Sender<u64>,
    /// The last report that was stored for this cluster, so that a repeated one is not stored twice.
    pub(crate) last_report: Mutex<Option<u64>>,
    /// The epoch in which it was logged that its agent knows more than this database.
    warned: Mutex<Option<Arc<str>>>,
    /// Calls of its agent that are open, by kind.
    pub(crate) calls: [AtomicU32; AgentCallKind::COUNT],
    /// The contract that its agent speaks, or [`UNKNOWN`].
    contract: AtomicU32,
}

impl Cell {
    /// Its agent holds a stream to this replica.
    pub(crate) fn has_stream(&self) -> bool {
        let [_, _, _, streams, _] = &self.calls;
        streams.load(Ordering::Acquire) > 0
    }
}

/// No agent of the cluster has polled this console yet.
const UNKNOWN: u32 = u32::MAX;

/// The tokens by which a cluster's agent is recognised.
struct CellTokens {
    current: KnownToken,
    /// Accepted beside it, until it is used.
    next: Option<KnownToken>,
    /// Opens the join, and nothing else.
    join: Option<TokenHash>,
    /// The latest generation that was given out.
    generation: u64,
}

#[derive(Clone, Copy)]
struct KnownToken {
    hash: TokenHash,
    /// Never given to another token of the cluster.
    generation: u64,
}

impl CellTokens {
    fn accepted(&self) -> impl Iterator<Item = KnownToken> {
        [Some(self.current), self.next].into_iter().flatten()
    }

    /// Takes in what is accepted from now on. What was accepted before keeps its generation.
    fn replace(&mut self, current: TokenHash, next: Option<TokenHash>) {
        let before: Vec<KnownToken> = self.accepted().collect();
        let mut known = |hash: TokenHash| {
            before.iter().find(|known| known.hash == hash).copied().unwrap_or_else(|| {
                self.generation += 1;
                KnownToken { hash, generation: self.generation }
            })
        };
        let current = known(current);
        let next = next.filter(|next| *next != current.hash).map(known);
        (self.current, self.next) = (current, next);
    }
}

/// One event about a piece of work, or several that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Position of the last one.
    pub(crate) at: FeedPosition,
    /// Which work.
    pub(crate) work: WorkRef,
    /// Its sequence before the first one.
    from: u64,
    /// Its sequence after the last one.
    to: u64,
    /// The strongest change among them.
    pub(crate) change: WorkChange,
}

impl Entry {
    /// One event.
    pub(crate) fn of(at: FeedPosition, work: WorkRef, sequence: u64, change: WorkChange) -> Self {
        Self { at, work, from: sequence.saturating_sub(1), to: sequence, change }
    }

    /// This one and a later one about the same work.
    pub(crate) fn and(self, later: Self) -> Self {
        // A gap hides a change that neither says anything of. Transactions that commit out of order leave one, too.
        let gap = if later.from == self.to { WorkChange::Moved } else { WorkChange::Changed };
        Self {
            at: later.at,
            work: self.work,
            from: self.from.min(later.from),
            to: self.to.max(later.to),
            change: self.change.max(later.change).max(gap),
        }
    }

    /// The move, if the service only moved and the summary is exactly what these events left. A summary is read after its
    /// events and may be newer: a revision of a later change must not come over the settings of an earlier one.
    fn step(&self, summary: &WorkSummary) -> Option<ServiceMove> {
        let id = self.work.as_service()?;
        let head = summary.head.as_ref().filter(|head| head.source.is_some())?;
        (self.change == WorkChange::Moved && summary.sequence == self.to).then(|| ServiceMove {
            id,
            from: self.from,
            sequence: self.to,
            head: head.clone(),
        })
    }
}

/// A service of which only the revision changed. Holds for an agent that has the service at `from` or later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceMove {
    /// Which.
    pub id: ServiceId,
    /// Its sequence before the first commit that this stands for.
    pub from: u64,
    /// Its sequence now.
    pub sequence: u64,
    /// What is desired now.
    pub head: ServiceHead,
}

#[derive(Default)]
struct CellState {
    work: BTreeMap<WorkRef, WorkSummary>,
    /// What changed, oldest first.
    log: VecDeque<Entry>,
    /// Cursors before this place are too old for the log.
    floor: FeedPosition,
    kicks: VecDeque<(FeedPosition, WorkRef)>,
}

impl CellState {
    /// Everything, for an agent of this contract.
    fn snapshot(&self, contract: Contract) -> Need {
        let work = self.work.keys().filter(|work| contract >= work.kind.since());
        Need::Snapshot { work: work.copied().collect() }
    }

    /// What changed after a position, and what an agent of this contract wants whole in any case.
    fn changes(&self, after: FeedPosition, contract: Contract, want: &[WorkRef]) -> Need {
        let mut changed: BTreeMap<WorkRef, Entry> = BTreeMap::new();
        for entry in self.log.iter().rev().take_while(|entry| entry.at > after) {
            changed.entry(entry.work).and_modify(|later| *later = entry.and(*later)).or_insert(*entry);
        }
        let (mut whole, mut moved, mut forgotten) = (BTreeSet::new(), Vec::new(), Vec::new());
        for (work, entry) in changed {
            match self.work.get(&work) {
                None => forgotten.push(work),
                Some(summary) => match entry.step(summary) {
                    Some(step) if contract >= Contract::WORK && !want.contains(&work) => moved.push(step),
                    Some(_) | None => {
                        whole.insert(work);
                    }
                },
            }
        }
        // What is wanted and is no work of this cluster any more is in the log or before its floor.
        whole.extend(want.iter().copied().filter(|work| self.work.contains_key(work)));
        let knows = |work: &WorkRef| contract >= work.kind.since();
        whole.retain(knows);
        forgotten.retain(knows);
        Need::Changes { whole: whole.into_iter().collect(), moved, forgotten }
    }

    fn shorten(&mut self) {
        while self.log.len() > LOG {
            if let Some(dropped) = self.log.pop_front() {
                // A cursor at the dropped place has seen it; one before it has not.
                self.floor = self.floor.max(dropped.at);
            }
        }
    }
}

/// What a poll has to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing changed.
    Nothing,
    /// What changed, services of which only the revision did, and what is gone.
    Changes { whole: Vec<WorkRef>, moved: Vec<ServiceMove>, forgotten: Vec<WorkRef> },
    /// All there is.
    Snapshot { work: Vec<WorkRef> },
}

/// Whom a deploy token belongs to, and which of the cluster's tokens it is.
type CellOfToken = (Arc<Cell>, u64);

/// All clusters.
pub(crate) struct Fleet {
    epoch: RwLock<Arc<str>>,
    /// Everything up to here is in the cells.
    head: AtomicU64,
    head_wake: watch::Sender<u64>,
    marks: RwLock<Fingerprints>,
    tokens: Vec<RwLock<HashMap<TokenHash, CellOfToken>>>,
    joins: RwLock<HashMap<TokenHash, Arc<Cell>>>,
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
            joins: RwLock::default(),
            cells: RwLock::default(),
        };
        fleet.reload(load);
        fleet
    }

    /// Replaces everything by a fresh load. Streams go on; an agent that stands before the events that came along gets a
    /// snapshot with its next poll, the others what changed.
    pub(crate) fn reload(&self, load: FleetLoad) {
        let FleetLoad { epoch, position, events, floor, clusters, work } = load;
        let known: BTreeSet<ClusterId> = clusters.iter().map(|cluster| cluster.id).collect();
        let gone: Vec<ClusterId> =
            self.cells.read().keys().filter(|id| !known.contains(id)).copied().collect();
        for id in gone {
            self.cluster_remove(id);
        }
        let mut by_cluster: HashMap<ClusterId, BTreeMap<WorkRef, WorkSummary>> = HashMap::new();
        for summary in work {
            by_cluster.entry(summary.cluster_id).or_default().insert(summary.work, summary);
        }
        let mut logs: HashMap<ClusterId, VecDeque<Entry>> = HashMap::new();
        for event in &events {
            if let Some(FeedSubject::Work { cluster_id, work, sequence, change }) = event.subject {
                let entry = Entry::of(event.position, work, sequence, change);
                logs.entry(cluster_id).or_default().push_back(entry);
            }
        }
        let mut cells = Vec::with_capacity(clusters.len());
        for cluster in clusters {
            let cell = self.cluster_upsert(cluster, floor);
            let mut state = cell.state.write();
            state.work = by_cluster.remove(&cell.id).unwrap_or_default();
            state.log = logs.remove(&cell.id).unwrap_or_default();
            state.kicks.clear();
            state.floor = floor;
            state.shorten();
            let changed = state.log.back().map_or(floor, |last| last.at);
            drop(state);
            cell.changed.store(changed, Ordering::Release);
            cells.push(cell);
        }
        *self.epoch.write() = Arc::from(epoch);
        *self.marks.write() = Fingerprints::of(events.iter().map(FeedEvent::mark).collect());
        self.advance(position);
        // What moved while the feed was out of reach is news to streams that are open.
        for cell in &cells {
            Self::wake(cell);
        }
    }

    pub(crate) fn epoch(&self) -> Arc<str> {
        Arc::clone(&self.epoch.read())
    }

    pub(crate) fn head(&self) -> FeedPosition {
        self.head.load(Ordering::Acquire)
    }

    /// Changes with every move of [`Fleet::head`].
    pub(crate) fn head_watch(&self) -> watch::Receiver<u64> {
        self.head_wake.subscribe()
    }

    /// Takes in the fingerprints of events that are about to be passed.
    pub(crate) fn mark(&self, marks: impl Iterator<Item = EventFingerprint>) {
        self.marks.write().extend(marks);
    }

    /// Whether a place was told of by this database: not by one that this one is an older copy of.
    pub(crate) fn is_ours(&self, cursor: &FeedCursor) -> bool {
        let FeedCursor { epoch, sequence, mark } = cursor;
        if *mark == 0 || *sequence > self.head() || *epoch != self.epoch() {
            return true;
        }
        self.marks.read().at(*sequence).is_none_or(|known| known == *mark)
    }

    /// Whether nobody has yet been warned, in this epoch, that the agent of a cluster knows more than this database: it asks
    /// again and again.
    pub(crate) fn warns(&self, cell: &Cell) -> bool {
        let epoch = self.epoch();
        cell.warned.lock().replace(Arc::clone(&epoch)) != Some(epoch)
    }

    /// Says that everything up to `position` is in the cells.
    pub(crate) fn advance(&self, position: FeedPosition) {
        self.head.store(position, Ordering::Release);
        self.head_wake.send_replace(position);
    }

    pub(crate) fn authenticate(&self, hash: &TokenHash) -> Option<(Arc<Cell>, u64)> {
        self.shard(hash).read().get(hash).cloned()
    }

    /// The cluster that a join token is of.
    pub(crate) fn join_authenticate(&self, hash: &TokenHash) -> Option<Arc<Cell>> {
        self.joins.read().get(hash).cloned()
    }

    /// What a poll has to be answered, and the agent's cursor afterwards.
    pub(crate) fn poll(&self, cell: &Cell, asked: &PollAsked) -> (FeedCursor, Need) {
        let PollAsked { cursor, contract, want, whole } = asked;
        let epoch = self.epoch();
        // Before the cell: a change that lands between the two is behind this place and told next time.
        let head = self.head();
        let mark = self.marks.read().at(head).unwrap_or_default();
        let next = FeedCursor { epoch, sequence: head, mark };
        let known = cursor.as_ref().filter(|cursor| cursor.epoch == next.epoch && cursor.sequence <= head);
        let Some(known) = known.filter(|_| !whole) else {
            return (next, cell.state.read().snapshot(*contract));
        };
        if want.is_empty() && cell.changed.load(Ordering::Acquire) <= known.sequence {
            return (next, Need::Nothing);
        }
        let state = cell.state.read();
        let need = if known.sequence < state.floor {
            state.snapshot(*contract)
        } else {
            state.changes(known.sequence, *contract, want)
        };
        (next, need)
    }

    /// Whether one of the cluster's services has this artifact.
    pub(crate) fn has_digest(cell: &Cell, digest: &[u8; 32]) -> bool {
        cell.state.read().work.values().any(|summary| {
            let source = summary.head.as_ref().and_then(|head| head.source.as_ref());
            source.is_some_and(|source| source.digest == *digest)
        })
    }

    pub(crate) fn cell(&self, id: ClusterId) -> Option<Arc<Cell>> {
        self.cells.read().get(&id).cloned()
    }

    /// Takes a cluster in, or its new tokens or handle.
    pub(crate) fn cluster_upsert(&self, cluster: ClusterCredential, position: FeedPosition) -> Arc<Cell> {
        let ClusterCredential { id, handle, token_hash, next_hash, join_hash, rotated_at, asked } = cluster;
        let existing = self.cells.read().get(&id).cloned();
        let cell = existing.unwrap_or_else(|| {
            let cell = Arc::new(Cell {
                id,
                handle: RwLock::new(handle.clone()),
                changed: AtomicU64::new(position),
                valid: [AtomicU64::new(0), AtomicU64::new(0)],
                tokens: Mutex::new(CellTokens {
                    current: KnownToken { hash: token_hash, generation: 1 },
                    next: None,
                    join: None,
                    generation: 1,
                }),
                rotated_at: AtomicI64::new(0),
                asked: AtomicBool::new(false),
                state: RwLock::new(CellState { floor: position, ..CellState::default() }),
                wake: watch::Sender::new(0),
                last_report: Mutex::new(None),
                warned: Mutex::new(None),
                calls: Default::default(),
                contract: AtomicU32::new(UNKNOWN),
            });
            self.cells.write().insert(id, Arc::clone(&cell));
            cell
        });
        *cell.handle.write() = handle;
        cell.rotated_at.store(rotated_at.timestamp_micros(), Ordering::Release);
        let is_asked_now = asked && !cell.asked.swap(asked, Ordering::AcqRel);
        cell.asked.store(asked, Ordering::Release);
        let mut tokens = cell.tokens.lock();
        let before: Vec<KnownToken> = tokens.accepted().collect();
        tokens.replace(token_hash, next_hash);
        let after: Vec<KnownToken> = tokens.accepted().collect();
        for (valid, generation) in
            cell.valid.iter().zip(after.iter().map(|known| known.generation).chain([0, 0]))
        {
            valid.store(generation, Ordering::Release);
        }
        let ended: Vec<TokenHash> = before
            .iter()
            .map(|known| known.hash)
            .filter(|hash| !after.iter().any(|known| known.hash == *hash))
            .collect();
        for hash in &ended {
            self.shard(hash).write().remove(hash);
        }
        for known in &after {
            self.shard(&known.hash).write().insert(known.hash, (Arc::clone(&cell), known.generation));
        }
        let join = std::mem::replace(&mut tokens.join, join_hash);
        if join != join_hash {
            let mut joins = self.joins.write();
            if let Some(join) = join {
                joins.remove(&join);
            }
            if let Some(join) = join_hash {
                joins.insert(join, Arc::clone(&cell));
            }
        }
        drop(tokens);
        if !ended.is_empty() || is_asked_now {
            Self::wake(&cell);
        }
        cell
    }

    /// Forgets a cluster and ends its agent's streams.
    pub(crate) fn cluster_remove(&self, id: ClusterId) {
        let Some(cell) = self.cells.write().remove(&id) else { return };
        let mut tokens = cell.tokens.lock();
        for known in tokens.accepted() {
            self.shard(&known.hash).write().remove(&known.hash);
        }
        if let Some(join) = tokens.join.take() {
            self.joins.write().remove(&join);
        }
        for valid in &cell.valid {
            valid.store(0, Ordering::Release);
        }
        drop(tokens);
        Self::wake(&cell);
    }

    /// Work of a cluster was made, changed or (`None`) is gone.
    pub(crate) fn work_changed(cell: &Cell, entry: Entry, summary: Option<WorkSummary>) {
        let Entry { at: position, work, from: _, to: _, change } = entry;
        let mut state = cell.state.write();
        match summary {
            Some(summary) => {
                state.work.insert(work, summary);
            }
            None => {
                state.work.remove(&work);
            }
        }
        state.log.push_back(entry);
        state.shorten();
        if change == WorkChange::Kicked {
            state.kicks.push_back((position, work));
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
        let cells = self.cells.read();
        (cells.len(), cells.values().map(|cell| cell.wake.receiver_count()).sum())
    }

    /// Clusters whose agent is of an earlier build.
    pub(crate) fn outdated(&self) -> usize {
        let is_outdated = |cell: &&Arc<Cell>| cell.contract().is_some_and(|known| known < Contract::NEWEST);
        self.cells.read().values().filter(is_outdated).count()
    }

    fn shard(&self, hash: &TokenHash) -> &RwLock<HashMap<TokenHash, (Arc<Cell>, u64)>> {
        // The hash is uniform, so that any byte of it spreads.
        &self.tokens[usize::from(hash.as_bytes()[0]) % SHARDS]
    }
}

impl Cell {
    pub(crate) fn handle(&self) -> Handle {
        self.handle.read().clone()
    }

    /// The contract that its agent speaks, if it has polled this console.
    pub(crate) fn contract(&self) -> Option<Contract> {
        known_contract(self.contract.load(Ordering::Relaxed))
    }

    /// Takes in the contract that its agent speaks; the one before.
    pub(crate) fn speaks(&self, contract: Contract) -> Option<Contract> {
        known_contract(self.contract.swap(contract.0, Ordering::Relaxed))
    }

    pub(crate) fn is_current(&self, generation: u64) -> bool {
        generation != 0 && self.valid.iter().any(|valid| valid.load(Ordering::Acquire) == generation)
    }

    /// Whether its agent is to replace its token: somebody asked, or it has had it since before `before`.
    pub(crate) fn token_is_due(&self, before: Option<DateTime<Utc>>) -> bool {
        self.asked.load(Ordering::Acquire)
            || before.is_some_and(|at| self.rotated_at.load(Ordering::Acquire) <= at.timestamp_micros())
    }

    /// What a token is to the cluster.
    pub(crate) fn standing(&self, hash: &TokenHash) -> Option<TokenStatus> {
        let tokens = self.tokens.lock();
        if tokens.current.hash == *hash {
            return Some(TokenStatus::Current);
        }
        tokens.next.filter(|next| next.hash == *hash).map(|_| TokenStatus::Next)
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
            told_to_rotate: false,
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
    told_to_rotate: bool,
}

/// One hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentHint {
    /// The place of the latest change; zero: poll, whatever your place is.
    pub sequence: FeedPosition,
    /// Work that a user asked to reconcile.
    pub kicked: Vec<WorkRef>,
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
            let asked = self.cell.asked.load(Ordering::Acquire);
            if asked && !std::mem::replace(&mut self.told_to_rotate, asked) {
                // What else there is to say is still to be said.
                self.wake.mark_changed();
                return Some(AgentHint { sequence: 0, kicked: Vec::new() });
            }
            self.told_to_rotate = asked;
            let sequence = self.cell.changed.load(Ordering::Acquire);
            if sequence <= self.seen {
                continue;
            }
            let state = self.cell.state.read();
            let kicked: BTreeSet<WorkRef> =
                state.kicks.iter().filter(|(at, _)| *at > self.seen_kick).map(|(_, work)| *work).collect();
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

fn known_contract(stored: u32) -> Option<Contract> {
    (stored != UNKNOWN).then_some(Contract(stored))
}

#[cfg(test)]
#[path = "fleet_tests.rs"]
mod tests;
