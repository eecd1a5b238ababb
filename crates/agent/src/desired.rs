//! What the console wants of this cluster: held in memory, kept on disk for a start without console.

mod file;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::Path,
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use plural_core::ids::{ServiceId, StackRunId};
use plural_tunnel::{
    v1::{self, WorkKind, work::Item},
    work::{self, CONTRACT, WANT_MAX, stack_run_work, work_ref},
};
use sha2::{Digest, Sha256};

use self::file::{File, Owner};

/// What a poll changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    /// New or changed: look at them.
    pub(crate) changed: Vec<ServiceId>,
    /// As they were, but somebody wants to know what a sync would do.
    pub(crate) asked: Vec<ServiceId>,
    /// Not ours any more: forget them, leave their objects.
    pub(crate) forgotten: Vec<ServiceId>,
    /// Runs came, changed or went.
    pub(crate) runs: bool,
    /// There may be Secrets of automations to write or to delete.
    pub(crate) secrets: bool,
    /// The answer was the whole state: whatever is not in it is not ours.
    pub(crate) snapshot: bool,
}

/// A run as the console wants it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WantedRun {
    /// Grows with each change that the console made.
    pub(crate) sequence: u64,
    /// What its Job is to be.
    pub(crate) job: v1::StackRunJob,
    /// The console had heard of the Job that it names, and says now that it has not: it ended that one, and wants another.
    pub(crate) again: bool,
}

/// The first contract whose answers name all runs. One of an earlier console says nothing of them: their Jobs go on.
const RUNS: u32 = 4;

impl Moved {
    /// There is something to keep.
    pub(crate) fn is_any(&self) -> bool {
        let Self { changed, asked, forgotten, runs, secrets, snapshot } = self;
        *snapshot || *runs || *secrets || !changed.is_empty() || !asked.is_empty() || !forgotten.is_empty()
    }
}

#[derive(Debug, Default)]
struct State {
    /// The contract of the snapshot that the rest began with, as the console said it.
    contract: u32,
    cursor: Option<v1::Cursor>,
    services: HashMap<ServiceId, Arc<v1::Service>>,
    cluster: Option<Arc<v1::ClusterData>>,
    runs: BTreeMap<StackRunId, Arc<WantedRun>>,
    /// Services that moved from a state that is not known here, and those that the console could not read: it has to send all of
    /// each.
    missing: BTreeSet<ServiceId>,
    /// Runs that the console could not read, and those whose news is late.
    missing_runs: BTreeSet<StackRunId>,
    /// It was logged that the console names work of an unknown kind.
    warned: bool,
}

/// The desired state.
#[derive(Debug)]
pub(crate) struct Desired {
    state: Mutex<State>,
    file: File,
    url: String,
    /// Whose state the file holds: another console or token must not read it.
    owner: Mutex<Owner>,
}

impl Desired {
    /// Nothing yet, and a folder of its own that only its owner may read: the file holds configuration in clear.
    pub(crate) fn open(folder: &Path, url: &str) -> io::Result<Self> {
        plural_kit::private_folder(folder)?;
        // A volume belongs to root, who may do anything in any case. Another owner could change what we keep.
        let owner = fs::metadata(folder)?.uid();
        if owner != 0 && owner != fs::metadata("/proc/self")?.uid() {
            let reason = "it belongs to another user; choose another with --cache-dir";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        Ok(Self {
            state: Mutex::default(),
            file: File::in_folder(folder),
            url: url.to_owned(),
            owner: Mutex::new([0; 32]),
        })
    }

    /// Takes in the state as it was last known under one of these tokens. From now on it is kept under the first.
    ///
    /// A file that cannot be read, or that belongs to another cluster, is as good as none.
    pub(crate) fn adopt(&self, tokens: &[String]) {
        let owners: Vec<Owner> = tokens.iter().map(|token| self.owner_of(token)).collect();
        let Some(first) = owners.first() else { return };
        *self.owner.lock() = *first;
        let Some(v1::Kept { contract, cursor, work, missing }) = self.file.read(&owners) else { return };
        self.take(v1::PollResponse { cursor, snapshot: true, work, contract, ..v1::PollResponse::default() });
        let mut state = self.lock();
        state.missing = missing.iter().filter_map(service_of).collect();
        state.missing_runs = missing.iter().filter_map(run_of).collect();
    }

    /// The state is kept under another token of the same cluster.
    pub(crate) fn own(&self, token: &str) -> io::Result<()> {
        let new = self.owner_of(token);
        let old = std::mem::replace(&mut *self.owner.lock(), new);
        // What is not known needs no keeping.
        if old == new || self.lock().cursor.is_none() { Ok(()) } else { self.save() }
    }

    fn owner_of(&self, token: &str) -> [u8; 32] {
        Sha256::new().chain_update(&self.url).chain_update([0]).chain_update(token).finalize().into()
    }

    /// Where to poll from.
    pub(crate) fn cursor(&self) -> Option<v1::Cursor> {
        self.lock().cursor.clone()
    }

    /// The state was received under an older contract: its cursor says nothing of the kinds of work that only the newer one
    /// carries, so that a snapshot is needed.
    pub(crate) fn is_outdated(&self) -> bool {
        self.lock().contract < CONTRACT
    }

    /// What the console has to send whole: as much as one poll may ask for.
    pub(crate) fn want(&self) -> Vec<v1::WorkRef> {
        let state = self.lock();
        let runs = state.missing_runs.iter().map(|id| work_ref(WorkKind::StackRun, id));
        let services = state.missing.iter().map(|id| work_ref(WorkKind::Service, id));
        runs.chain(services).take(WANT_MAX).collect()
    }

    /// All runs that are this cluster's.
    pub(crate) fn runs(&self) -> BTreeMap<StackRunId, Arc<WantedRun>> {
        self.lock().runs.clone()
    }

    /// What is known of a run is late: it is asked for with the next poll.
    pub(crate) fn miss_run(&self, id: StackRunId) {
        self.lock().missing_runs.insert(id);
    }

    pub(crate) fn service(&self, id: ServiceId) -> Option<Arc<v1::Service>> {
        self.lock().services.get(&id).cloned()
    }

    pub(crate) fn services(&self) -> Vec<ServiceId> {
        self.lock().services.keys().copied().collect()
    }

    /// Whether a service is this cluster's, as far as is known: also one that the console named and has not sent yet.
    pub(crate) fn names(&self, id: ServiceId) -> bool {
        let state = self.lock();
        state.services.contains_key(&id) || state.missing.contains(&id)
    }

    pub(crate) fn cluster(&self) -> Option<Arc<v1::ClusterData>> {
        self.lock().cluster.clone()
    }

    /// Takes the answer of a poll, in the shape of any contract.
    pub(crate) fn take(&self, answer: v1::PollResponse) -> Moved {
        let v1::PollResponse {
            cursor,
            snapshot,
            work,
            moved: moves,
            forgotten,
            services: _,
            forgotten_service_ids: _,
            cluster: _,
            contract,
            rotate_token: _,
        } = answer.normal();
        let mut moved = Moved { snapshot, ..Moved::default() };
        let mut state = self.lock();
        // A console that forgot what it told is not followed back. One that says it was restored names another history.
        if let (Some(known), Some(told)) = (&state.cursor, &cursor)
            && known.epoch == told.epoch
            && known.sequence > told.sequence
        {
            tracing::error!(
                known = known.sequence,
                told = told.sequence,
                "the console's state is older than the agent's and was ignored; after restoring a backup \
                 start the console once with --restored"
            );
            return Moved::default();
        }
        if snapshot {
            let named: HashSet<ServiceId> = work.iter().filter_map(named).collect();
            moved.forgotten = state.services.keys().filter(|id| !named.contains(id)).copied().collect();
            // Of what a later build kept, this one takes only what it knows.
            state.contract = contract.min(CONTRACT);
            state.missing.clear();
            state.missing_runs.clear();
        }
        if snapshot && contract >= RUNS {
            let named: HashSet<&str> =
                work.iter().filter(|work| is_run(work)).map(|work| work.id.as_str()).collect();
            let before = state.runs.len();
            state.runs.retain(|id, _| named.contains(id.to_string().as_str()));
            moved.runs = state.runs.len() < before;
        }
        for id in forgotten.iter().filter_map(run_of) {
            state.missing_runs.remove(&id);
            moved.runs |= state.runs.remove(&id).is_some();
        }
        moved.forgotten.extend(forgotten.iter().filter_map(service_of));
        for id in &moved.forgotten {
            state.services.remove(id);
            state.missing.remove(id);
        }
        let mut unknown = 0_usize;
        for work in work {
            match work.item {
                Some(Item::Service(service)) => state.put(*service, &mut moved),
                Some(Item::Cluster(cluster)) => state.put_cluster(cluster, &mut moved),
                Some(Item::StackRun(run)) => state.put_run(work.sequence, run, &mut moved),
                None if work.kind == i32::from(WorkKind::Service) => state.keep(&work.id),
                None if work.kind == i32::from(WorkKind::StackRun) => state.keep_run(&work.id),
                None => unknown += 1,
            }
        }
        if unknown > 0 && !std::mem::replace(&mut state.warned, true) {
            tracing::warn!(
                count = unknown,
                "skipping work of an unknown kind: the agent's image is older than the console's"
            );
        }
        for to in &moves {
            state.shift(to, &mut moved);
        }
        moved.changed.sort_unstable();
        moved.changed.dedup();
        moved.asked.retain(|id| moved.changed.binary_search(id).is_err());
        if cursor.is_some() {
            state.cursor = cursor;
        }
        moved
    }

    /// Writes the state to disk, whole or not at all.
    pub(crate) fn save(&self) -> io::Result<()> {
        let kept = self.lock().kept();
        let owner = *self.owner.lock();
        self.file.write(owner, &kept)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// Takes a whole service.
    fn put(&mut self, service: v1::Service, moved: &mut Moved) {
        let Ok(id) = service.id.parse::<ServiceId>() else {
            tracing::warn!(service.id = %service.id, "the console sent an invalid service id");
            return;
        };
        self.missing.remove(&id);
        match self.services.get(&id) {
            Some(known) if **known == service => return,
            Some(known) if asks_only(known, &service) => moved.asked.push(id),
            Some(_) | None => moved.changed.push(id),
        }
        self.services.insert(id, Arc::new(service));
    }

    /// Takes what is known of the cluster.
    fn put_cluster(&mut self, cluster: v1::ClusterData, moved: &mut Moved) {
        let known = self.cluster.as_deref();
        if known == Some(&cluster) {
            return;
        }
        moved.secrets |= known.map_or(0, |known| known.secrets) != cluster.secrets;
        let seen = |of: &v1::ClusterData| v1::ClusterData { secrets: 0, ..of.clone() };
        // What templates see of the cluster may change what any service renders to.
        if known.map(seen) != Some(seen(&cluster)) {
            moved.changed.extend(self.services.keys().copied());
        }
        self.cluster = Some(Arc::new(cluster));
    }

    /// Takes a run.
    fn put_run(&mut self, sequence: u64, job: v1::StackRunJob, moved: &mut Moved) {
        let Ok(id) = job.id.parse::<StackRunId>() else {
            tracing::warn!(run.id = %job.id, "the console sent an invalid run id");
            return;
        };
        self.missing_runs.remove(&id);
        let known = self.runs.get(&id);
        let again = !job.spoken
            && known.is_some_and(|known| {
                let is_same = known.job.phase == job.phase && known.job.attempt == job.attempt;
                is_same && (known.job.spoken || known.again)
            });
        let run = WantedRun { sequence, job, again };
        if known.is_none_or(|known| **known != run) {
            moved.runs = true;
            self.runs.insert(id, Arc::new(run));
        }
    }

    /// Keeps what is known of a run that the console cannot read, until it can.
    fn keep_run(&mut self, id: &str) {
        let Ok(id) = id.parse::<StackRunId>() else {
            tracing::warn!(run.id = %id, "the console sent an invalid run id");
            return;
        };
        if self.missing_runs.insert(id) {
            tracing::error!(run.id = %id, "the console cannot read a run: its Job stays as it is; see the console's log");
        }
    }

    /// Keeps what is known of a service that the console cannot read, until it can.
    fn keep(&mut self, id: &str) {
        let Ok(id) = id.parse::<ServiceId>() else {
            tracing::warn!(service.id = %id, "the console sent an invalid service id");
            return;
        };
        if self.missing.insert(id) {
            tracing::error!(
                service.id = %id, known = self.services.contains_key(&id),
                "the console cannot read a service: it stays as it is here until the console can; see the console's log"
            );
        }
    }

    /// Takes a move. Where it does not fit, the service goes on as it is until the console sends all of it.
    fn shift(&mut self, to: &v1::ServiceMove, moved: &mut Moved) {
        let Ok(id) = to.id.parse::<ServiceId>() else {
            tracing::warn!(service.id = %to.id, "the console moved a service with an invalid id");
            return;
        };
        let known = self.services.get(&id);
        let Some(service) = known.and_then(|known| work::moved(known, to)) else {
            tracing::warn!(
                service.id = %id, from = to.from, known = known.map(|known| known.sequence),
                "the console moved a service from a state that this agent does not have; requesting a \
                 snapshot"
            );
            self.missing.insert(id);
            return;
        };
        self.missing.remove(&id);
        if known.is_none_or(|known| **known != service) {
            moved.changed.push(id);
            self.services.insert(id, Arc::new(service));
        }
    }

    fn kept(&self) -> v1::Kept {
        let Self { contract, cursor, services, cluster, runs, missing, missing_runs, warned: _ } = self;
        let cluster = cluster.iter().map(|cluster| work::cluster_work((**cluster).clone()));
        let services = services.values().map(|service| work::service_work((**service).clone()));
        let runs = runs.values().map(|run| stack_run_work(run.job.clone(), run.sequence));
        let missing = missing.iter().map(|id| work_ref(WorkKind::Service, id));
        let missing_runs = missing_runs.iter().map(|id| work_ref(WorkKind::StackRun, id));
        v1::Kept {
            contract: *contract,
            cursor: cursor.clone(),
            work: cluster.chain(services).chain(runs).collect(),
            missing: missing.chain(missing_runs).collect(),
        }
    }
}

/// The service that a piece of work may be. What is of an unknown kind is named all the same.
fn named(work: &v1::Work) -> Option<ServiceId> {
    match &work.item {
        Some(Item::Service(service)) => service.id.parse().ok(),
        Some(Item::Cluster(_)) | None => work.id.parse().ok(),
        Some(Item::StackRun(_)) => None,
    }
}

/// Whether a piece of work is a run, also one that the console could not read.
fn is_run(work: &v1::Work) -> bool {
    matches!(work.item, Some(Item::StackRun(_))) || work.kind == i32::from(WorkKind::StackRun)
}

/// The service that is named, if it is one.
fn service_of(work: &v1::WorkRef) -> Option<ServiceId> {
    match work.kind() {
        WorkKind::Service => work.id.parse().ok(),
        WorkKind::Cluster | WorkKind::StackRun | WorkKind::Unknown => None,
    }
}

/// The run that is named, if it is one.
fn run_of(work: &v1::WorkRef) -> Option<StackRunId> {
    match work.kind() {
        WorkKind::StackRun => work.id.parse().ok(),
        WorkKind::Service | WorkKind::Cluster | WorkKind::Unknown => None,
    }
}

/// Nothing is new but that plans are asked for.
pub(crate) fn asks_only(known: &v1::Service, told: &v1::Service) -> bool {
    let is_new = |candidate: &v1::PlanCandidate| !known.candidates.iter().any(|old| old.id == candidate.id);
    let asked = !told.plan_request_id.is_empty() && told.plan_request_id != known.plan_request_id;
    let as_before = || v1::Service {
        plan_request_id: known.plan_request_id.clone(),
        candidates: known.candidates.clone(),
        sequence: known.sequence,
        ..told.clone()
    };
    (asked || told.candidates.iter().any(is_new)) && as_before() == *known
}

#[cfg(test)]
#[path = "desired_tests.rs"]
mod tests;
