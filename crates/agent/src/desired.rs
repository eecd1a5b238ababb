//! What the console wants of this cluster: held in memory, kept on disk for a start without console.

use std::{
    collections::HashMap,
    fs, io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use plural_core::ServiceId;
use plural_tunnel::v1;
use prost::Message;
use sha2::{Digest, Sha256};

const FILE: &str = "desired.pb";

/// What a poll changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    /// New or changed: look at them.
    pub(crate) changed: Vec<ServiceId>,
    /// As they were, but somebody wants to know what a sync would do.
    pub(crate) asked: Vec<ServiceId>,
    /// Not ours any more: forget them, leave their objects.
    pub(crate) forgotten: Vec<ServiceId>,
    /// The answer was the whole state: whatever is not in it is not ours.
    pub(crate) snapshot: bool,
}

impl Moved {
    /// There is something to keep.
    pub(crate) fn is_any(&self) -> bool {
        let Self { changed, asked, forgotten, snapshot } = self;
        *snapshot || !changed.is_empty() || !asked.is_empty() || !forgotten.is_empty()
    }
}

#[derive(Debug, Default)]
struct State {
    cursor: Option<v1::Cursor>,
    services: HashMap<ServiceId, Arc<v1::Service>>,
    cluster: Option<Arc<v1::ClusterData>>,
}

/// The desired state.
#[derive(Debug)]
pub(crate) struct Desired {
    state: Mutex<State>,
    file: PathBuf,
    url: String,
    /// Whose state the file holds: another console or token must not read it.
    owner: Mutex<[u8; 32]>,
}

impl Desired {
    /// Nothing yet, and a folder of its own that only its owner may read: the file holds configuration in clear.
    pub(crate) fn open(folder: &Path, url: &str) -> io::Result<Self> {
        plural_kit::private_folder(folder)?;
        // A volume belongs to root, who may do anything in any case. Another owner could change what we keep.
        let owner = fs::metadata(folder)?.uid();
        if owner != 0 && owner != fs::metadata("/proc/self")?.uid() {
            let reason = "it belongs to another user: choose another with --cache-dir";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        Ok(Self {
            state: Mutex::default(),
            file: folder.join(FILE),
            url: url.to_owned(),
            owner: Mutex::new([0; 32]),
        })
    }

    /// Takes in the state as it was last known under one of these tokens. From now on it is kept under the first.
    ///
    /// A file that cannot be read, or that belongs to another cluster, is as good as none.
    pub(crate) fn adopt(&self, tokens: &[String]) {
        let Some(first) = tokens.first() else { return };
        *self.owner.lock().unwrap_or_else(PoisonError::into_inner) = self.owner_of(first);
        let Ok(bytes) = fs::read(&self.file) else { return };
        let ours = tokens.iter().find_map(|token| bytes.strip_prefix(&self.owner_of(token)));
        if let Some(answer) = ours.and_then(|bytes| v1::PollResponse::decode(bytes).ok()) {
            self.take(answer);
        }
    }

    /// The state is kept under another token of the same cluster.
    pub(crate) fn own(&self, token: &str) -> io::Result<()> {
        let new = self.owner_of(token);
        let old = std::mem::replace(&mut *self.owner.lock().unwrap_or_else(PoisonError::into_inner), new);
        // What is not known needs no keeping.
        if old == new || self.cursor().is_none() { Ok(()) } else { self.save() }
    }

    fn owner_of(&self, token: &str) -> [u8; 32] {
        Sha256::new().chain_update(&self.url).chain_update([0]).chain_update(token).finalize().into()
    }

    pub(crate) fn cursor(&self) -> Option<v1::Cursor> {
        self.lock().cursor.clone()
    }

    pub(crate) fn service(&self, id: ServiceId) -> Option<Arc<v1::Service>> {
        self.lock().services.get(&id).cloned()
    }

    pub(crate) fn services(&self) -> Vec<ServiceId> {
        self.lock().services.keys().copied().collect()
    }

    pub(crate) fn cluster(&self) -> Option<Arc<v1::ClusterData>> {
        self.lock().cluster.clone()
    }

    /// Takes the answer of a poll.
    pub(crate) fn take(&self, answer: v1::PollResponse) -> Moved {
        let v1::PollResponse { cursor, snapshot, services, forgotten_service_ids, cluster, .. } = answer;
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
                "the console tells older state than this agent knows, which stays as it is: after restoring a backup \
                 start the console once with --restored"
            );
            return Moved::default();
        }
        if snapshot {
            let named: std::collections::HashSet<ServiceId> =
                services.iter().filter_map(|service| service.id.parse().ok()).collect();
            moved.forgotten = state.services.keys().filter(|id| !named.contains(id)).copied().collect();
        }
        moved.forgotten.extend(forgotten_service_ids.iter().filter_map(|id| id.parse::<ServiceId>().ok()));
        for id in &moved.forgotten {
            state.services.remove(id);
        }
        // What templates see of the cluster may change what any service renders to.
        if let Some(cluster) = cluster
            && state.cluster.as_deref() != Some(&cluster)
        {
            state.cluster = Some(Arc::new(cluster));
            moved.changed.extend(state.services.keys().copied());
        }
        for service in services {
            let Ok(id) = service.id.parse() else {
                tracing::warn!(service.id = %service.id, "the console names a service by no id of ours");
                continue;
            };
            match state.services.get(&id) {
                Some(known) if **known == service => continue,
                Some(known) if asks_only(known, &service) => moved.asked.push(id),
                Some(_) | None => moved.changed.push(id),
            }
            state.services.insert(id, Arc::new(service));
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
        let bytes = {
            let state = self.lock();
            let answer = v1::PollResponse {
                cursor: state.cursor.clone(),
                snapshot: true,
                services: state.services.values().map(|service| (**service).clone()).collect(),
                forgotten_service_ids: Vec::new(),
                cluster: state.cluster.as_deref().cloned(),
                ..v1::PollResponse::default()
            };
            let mut bytes = self.owner.lock().unwrap_or_else(PoisonError::into_inner).to_vec();
            answer.encode(&mut bytes).map_err(io::Error::other)?;
            bytes
        };
        let new = self.file.with_extension("new");
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        io::Write::write_all(&mut file, &bytes)?;
        drop(file);
        fs::rename(&new, &self.file)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nothing is new but that a plan is asked for.
pub(crate) fn asks_only(known: &v1::Service, told: &v1::Service) -> bool {
    let asked = !told.plan_request_id.is_empty() && told.plan_request_id != known.plan_request_id;
    let as_before = || v1::Service {
        plan_request_id: known.plan_request_id.clone(),
        sequence: known.sequence,
        ..told.clone()
    };
    asked && as_before() == *known
}

#[cfg(test)]
#[path = "desired_tests.rs"]
mod tests;
