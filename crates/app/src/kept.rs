//! Sealed values that are kept outside of the database: the row names an object of a backend, the object holds what a data key sealed.
//!
//! `3 | data key (16) | backend (1) | project (16) | object (16) | SHA-256 of the object (32)`. An object is put under a name of its own,
//! and read back, before the row that names it is written: a console that dies in between leaves an object that nothing names, and
//! never a row without its object. Nobody changes an object, so one that is in memory is as good as the one in the backend.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures::{StreamExt as _, stream};
use parking_lot::{Mutex, RwLock};
use plural_core::ids::ProjectId;
use plural_core::secret_backend::SecretBackend;
use plural_core::{Error, Result};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::ctx::Clock;
use crate::keyring::is_of_data_key;
use crate::ports::secret_backend::{KeeperError, ObjectName, SecretKeeper};
use crate::seal::Sealed;
use crate::secret_backend::SecretObject;
use crate::store::Store;

/// The first byte of a value that is kept elsewhere.
pub const VERSION: u8 = 3;
/// Bytes of an id.
pub const ID: usize = 16;
/// Where the id of the data key begins; as in what that key seals.
pub const KEY: usize = 1;
/// Where the byte of the backend is.
pub const BACKEND: usize = KEY + ID;
const PROJECT: usize = BACKEND + 1;
/// Where the id of the object begins.
pub const OBJECT: usize = PROJECT + ID;
const DIGEST: usize = OBJECT + ID;
const LENGTH: usize = DIGEST + 32;

/// How long somebody waits for a backend while the object is in memory, and where it is not: less than an agent waits for us (10 s), so
/// that the failure is known and remembered before the request is given up.
const PATIENCE: Duration = Duration::from_secs(3);
const PATIENCE_UNHELD: Duration = Duration::from_secs(7);
/// How long an object may take to be put and read back, or to be deleted.
const PATIENCE_TO_PUT: Duration = Duration::from_secs(20);
/// Requests to one backend at once.
const AT_ONCE: usize = 16;
/// How long an object is used before the backend is asked again: it may have taken away this console's right to read it.
const FRESH: TimeDelta = TimeDelta::minutes(5);
/// How long it is used while the backend does not answer.
const LONGEST: TimeDelta = TimeDelta::hours(1);
/// How long one that does not answer is left alone.
const AGAIN: TimeDelta = TimeDelta::seconds(5);
/// How long it is not looked up where a project keeps its values. Who seals for the former backend meanwhile is found by the next pass.
const WANTED: TimeDelta = TimeDelta::seconds(10);
/// Bytes of objects in memory.
const MOST_BYTES: usize = 64 << 20;
/// Projects that are remembered.
const MOST_PROJECTS: usize = 20_000;

/// What a row has in the place of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    key: [u8; ID],
    backend: SecretBackend,
    name: ObjectName,
    digest: [u8; 32],
}

impl Kept {
    fn of(sealed: &Sealed) -> Option<Self> {
        let bytes = sealed.as_bytes();
        if bytes.len() != LENGTH || bytes[0] != VERSION {
            return None;
        }
        let id = |at: usize| bytes[at..at + ID].try_into().ok();
        let name = ObjectName {
            project: ProjectId::from_uuid(Uuid::from_bytes(id(PROJECT)?)),
            id: Uuid::from_bytes(id(OBJECT)?),
        };
        let backend = SecretBackend::from_code(bytes[BACKEND]).filter(|b| *b != SecretBackend::Database)?;
        Some(Self { key: id(KEY)?, backend, name, digest: bytes[DIGEST..].try_into().ok()? })
    }

    fn sealed(&self) -> Sealed {
        let Self { key, backend, name, digest } = self;
        let mut bytes = Vec::with_capacity(LENGTH);
        bytes.push(VERSION);
        bytes.extend_from_slice(key);
        bytes.push(backend.code());
        bytes.extend_from_slice(name.project.uuid().as_bytes());
        bytes.extend_from_slice(name.id.as_bytes());
        bytes.extend_from_slice(digest);
        Sealed::from_bytes(bytes)
    }
}

/// Where a value is. What names no backend that this build knows is in the row at least.
pub(crate) fn backend_of(sealed: &Sealed) -> SecretBackend {
    Kept::of(sealed).map_or(SecretBackend::Database, |kept| kept.backend)
}

/// The value is kept elsewhere.
pub(crate) fn is_kept(sealed: &Sealed) -> bool {
    sealed.as_bytes().first() == Some(&VERSION)
}

/// Objects in memory, sealed.
#[derive(Default)]
struct Seen {
    objects: HashMap<Uuid, (Arc<[u8]>, DateTime<Utc>)>,
    bytes: usize,
}

/// Reads and writes what is kept outside of the database.
pub(crate) struct Keeper {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    backends: Vec<Arc<dyn SecretKeeper>>,
    wanted: RwLock<HashMap<ProjectId, (SecretBackend, DateTime<Utc>)>>,
    seen: Mutex<Seen>,
    /// Until when one that did not answer is left alone.
    away: Mutex<HashMap<SecretBackend, DateTime<Utc>>>,
    /// Of each backend: one that hangs holds up no other.
    permits: HashMap<SecretBackend, Semaphore>,
}

/// What only the values of one project's backend have.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct OfBackend(String);

/// The backend of one project is away, refuses, or is none of this console: the values of other projects have nothing to do with it.
pub(crate) fn is_of_backend(error: &Error) -> bool {
    matches!(error, Error::Unavailable { cause: Some(cause), .. } if cause.is::<OfBackend>())
}

impl Keeper {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        backends: Vec<Arc<dyn SecretKeeper>>,
    ) -> Self {
        let permits = backends.iter().map(|keeper| (keeper.backend(), Semaphore::new(AT_ONCE))).collect();
        Self {
            store,
            clock,
            backends,
            wanted: RwLock::default(),
            seen: Mutex::default(),
            away: Mutex::default(),
            permits,
        }
    }

    /// Puts a value of a project where its values are to be: what its row is to hold.
    ///
    /// # Errors
    /// When the backend is away, refuses, or does not answer with what was put; when the value is too large for it.
    pub(crate) async fn put(&self, project: ProjectId, sealed: Sealed) -> Result<Sealed> {
        let backend = self.wanted(project).await?;
        if backend == SecretBackend::Database || !is_of_data_key(&sealed) {
            return Ok(sealed);
        }
        let keeper = self.keeper(backend)?;
        let bytes = sealed.as_bytes();
        if bytes.len() > keeper.largest() {
            return Err(Error::conflict(format!(
                "a value of {} bytes is too large for the secret backend {backend}, which takes {}: make it smaller, or keep the \
                 project's secrets in another backend",
                bytes.len(),
                keeper.largest()
            )));
        }
        let key: [u8; ID] = bytes[KEY..][..ID]
            .try_into()
            .map_err(|_| Error::internal("keeping a value", "it has no data key"))?;
        let name = ObjectName { project, id: Uuid::now_v7() };
        // Noted before it is there: what is put is found again, whatever becomes of its row.
        self.store.secret_object_note(&SecretObject { name, backend }).await?;
        let asked = async {
            keeper.put(&name, bytes).await?;
            keeper.get(&name).await
        };
        let back = self.ask(backend, PATIENCE_TO_PUT, asked).await;
        let back = back.map_err(|error| told(backend, &name, &error))?;
        if back.as_deref() != Some(bytes) {
            return Err(changed(backend, &name));
        }
        self.remember(name.id, bytes.into());
        Ok(Kept { key, backend, name, digest: digest(bytes) }.sealed())
    }

    /// What a data key sealed, of the object that a row names.
    ///
    /// # Errors
    /// When the backend is away or refuses, or has no such object or another one.
    pub(crate) async fn get(&self, sealed: &Sealed) -> Result<Sealed> {
        let kept =
            Kept::of(sealed).ok_or_else(|| Error::internal("reading a value", "not a sealed value"))?;
        let Kept { key: _, backend, name, digest: wanted } = kept;
        let found = match self.known(name.id, FRESH) {
            Some(bytes) => bytes,
            None => self.read(backend, &name).await?,
        };
        if digest(&found) != wanted {
            self.forget(name.id);
            return Err(changed(backend, &name));
        }
        Ok(Sealed::from_bytes(found.to_vec()))
    }

    async fn read(&self, backend: SecretBackend, name: &ObjectName) -> Result<Arc<[u8]>> {
        let keeper = self.keeper(backend)?;
        let patience = if self.known(name.id, LONGEST).is_some() { PATIENCE } else { PATIENCE_UNHELD };
        let asked = async {
            // Perhaps whoever was in front asked for the same.
            match self.known(name.id, FRESH) {
                Some(bytes) => Ok(Some(bytes.to_vec())),
                None => keeper.get(name).await,
            }
        };
        let answer = self.ask(backend, patience, asked).await;
        match answer {
            Ok(Some(bytes)) => {
                let bytes: Arc<[u8]> = bytes.into();
                self.remember(name.id, Arc::clone(&bytes));
                Ok(bytes)
            }
            Ok(None) => {
                self.forget(name.id);
                Err(Error::conflict(format!(
                    "the secret backend {backend} has no object {name}: put it back from a backup of the backend, or set the \
                     value anew"
                )))
            }
            Err(error @ KeeperError::Unavailable(_)) => {
                self.known(name.id, LONGEST).ok_or_else(|| told(backend, name, &error))
            }
            Err(error @ KeeperError::Refused(_)) => {
                self.forget(name.id);
                Err(told(backend, name, &error))
            }
        }
    }

    /// Reads what is kept elsewhere of these, many at once, for whoever opens them next. A failure is told when one is opened.
    pub(crate) async fn fetch<'s>(&self, all: impl IntoIterator<Item = &'s Sealed>) {
        let wanted: Vec<Sealed> = all.into_iter().filter(|sealed| is_kept(sealed)).cloned().collect();
        if wanted.is_empty() {
            return;
        }
        // Futures of a loop instead of a closure's: what they borrow must not depend on the closure's lifetime.
        let mut asked = Vec::with_capacity(wanted.len());
        for sealed in &wanted {
            asked.push(self.get(sealed));
        }
        let mut asked = stream::iter(asked).buffer_unordered(AT_ONCE);
        while asked.next().await.is_some() {}
    }

    /// There is no such object from now on.
    ///
    /// # Errors
    /// When its backend is away or refuses.
    pub(crate) async fn delete(&self, object: &SecretObject) -> Result<()> {
        let SecretObject { name, backend } = object;
        let keeper = self.keeper(*backend)?;
        let gone = self.ask(*backend, PATIENCE_TO_PUT, keeper.delete(name)).await;
        gone.map_err(|error| told(*backend, name, &error))?;
        self.forget(name.id);
        Ok(())
    }

    /// Puts, reads and deletes an object: whether a backend is fit to keep the values of a project.
    ///
    /// # Errors
    /// What does not work.
    pub(crate) async fn check(&self, project: ProjectId, backend: SecretBackend) -> Result<()> {
        if backend == SecretBackend::Database {
            return Ok(());
        }
        let keeper = self.keeper(backend)?;
        let object = SecretObject { name: ObjectName { project, id: Uuid::now_v7() }, backend };
        self.store.secret_object_note(&object).await?;
        let tried = b"a trial: nothing is kept here";
        let asked = async {
            keeper.put(&object.name, tried).await?;
            let back = keeper.get(&object.name).await?;
            keeper.delete(&object.name).await?;
            Ok(back)
        };
        let back = self.ask(backend, PATIENCE_TO_PUT, asked).await;
        if back.map_err(|error| told(backend, &object.name, &error))?.as_deref() != Some(tried.as_slice()) {
            return Err(changed(backend, &object.name));
        }
        self.store.secret_objects_forget(&[object.name.id]).await
    }

    /// Where the values of a project are to be.
    async fn wanted(&self, project: ProjectId) -> Result<SecretBackend> {
        let now = self.clock.now();
        let known = self.wanted.read().get(&project).copied();
        if let Some((backend, until)) = known
            && now < until
            && until - now <= WANTED
        {
            return Ok(backend);
        }
        let backend = self.store.secret_backend(project).await?;
        let mut wanted = self.wanted.write();
        if wanted.len() >= MOST_PROJECTS {
            wanted.clear();
        }
        wanted.insert(project, (backend, now + WANTED));
        Ok(backend)
    }

    /// Another backend may keep the values of a project by now.
    pub(crate) fn forget_wanted(&self, project: ProjectId) {
        self.wanted.write().remove(&project);
    }

    /// The backends that this console was started with, beside the database.
    pub(crate) fn backends(&self) -> Vec<SecretBackend> {
        self.backends.iter().map(|keeper| keeper.backend()).collect()
    }

    /// This console was started with a backend.
    pub(crate) fn has(&self, backend: SecretBackend) -> bool {
        backend == SecretBackend::Database || self.backends.iter().any(|keeper| keeper.backend() == backend)
    }

    fn keeper(&self, backend: SecretBackend) -> Result<&Arc<dyn SecretKeeper>> {
        self.backends.iter().find(|keeper| keeper.backend() == backend).ok_or_else(|| {
            let reason = format!(
                "this console was started without the secret backend {backend}: name it with --secret-backend"
            );
            let cause = OfBackend(reason.clone());
            Error::Unavailable { reason: reason.into(), cause: Some(Box::new(cause)) }
        })
    }

    /// Asks a backend: a few at once, and no longer than `patience`. One that does not answer is left alone for a while.
    async fn ask<T>(
        &self,
        backend: SecretBackend,
        patience: Duration,
        asked: impl Future<Output = std::result::Result<T, KeeperError>> + Send,
    ) -> std::result::Result<T, KeeperError> {
        let alone = || Err(KeeperError::Unavailable("it did not answer a moment ago".to_owned()));
        if self.is_left_alone(backend) {
            return alone();
        }
        let behind_others = async {
            let _permit = match self.permits.get(&backend) {
                Some(permits) => permits.acquire().await.ok(),
                None => None,
            };
            // Perhaps it did not answer whoever was in front.
            if self.is_left_alone(backend) { alone() } else { asked.await }
        };
        let late = || KeeperError::Unavailable(format!("it does not answer within {} s", patience.as_secs()));
        let answer = tokio::time::timeout(patience, behind_others).await.unwrap_or_else(|_| Err(late()));
        if let Err(error @ KeeperError::Unavailable(_)) = &answer
            && !self.is_left_alone(backend)
        {
            tracing::warn!(backend = %backend, error = %error, "a secret backend does not answer");
            self.away.lock().insert(backend, self.clock.now() + AGAIN);
        }
        answer
    }

    fn is_left_alone(&self, backend: SecretBackend) -> bool {
        let now = self.clock.now();
        self.away.lock().get(&backend).is_some_and(|until| now < *until && *until - now <= AGAIN)
    }

    fn known(&self, id: Uuid, lasts: TimeDelta) -> Option<Arc<[u8]>> {
        let now = self.clock.now();
        let seen = self.seen.lock();
        let (bytes, at) = seen.objects.get(&id)?;
        (now >= *at && now - *at < lasts).then(|| Arc::clone(bytes))
    }

    fn remember(&self, id: Uuid, bytes: Arc<[u8]>) {
        let now = self.clock.now();
        let mut seen = self.seen.lock();
        if seen.bytes + bytes.len() > MOST_BYTES {
            *seen = Seen::default();
        }
        seen.bytes += bytes.len();
        if let Some((before, _)) = seen.objects.insert(id, (bytes, now)) {
            seen.bytes -= before.len();
        }
    }

    fn forget(&self, id: Uuid) {
        let mut seen = self.seen.lock();
        if let Some((bytes, _)) = seen.objects.remove(&id) {
            seen.bytes -= bytes.len();
        }
    }

    /// Objects that nobody asked for lately do not stay in memory; how many those were.
    pub(crate) fn sweep(&self) -> u64 {
        let now = self.clock.now();
        let mut seen = self.seen.lock();
        let before = seen.objects.len();
        seen.objects.retain(|_, (_, at)| now >= *at && now - *at < LONGEST);
        seen.bytes = seen.objects.values().map(|(bytes, _)| bytes.len()).sum();
        (before - seen.objects.len()) as u64
    }
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// A backend answers with something else than was put.
fn changed(backend: SecretBackend, name: &ObjectName) -> Error {
    tracing::error!(backend = %backend, object = %name, "a secret backend answers with something else than was put");
    Error::conflict(format!(
        "the secret backend {backend} answers with something else than was put as {name}: put that back from a backup of the backend, \
         or set the value anew"
    ))
}

/// What a caller is told; the words of a backend are for the log.
fn told(backend: SecretBackend, name: &ObjectName, error: &KeeperError) -> Error {
    let reason = match error {
        KeeperError::Unavailable(_) => {
            format!(
                "the secret backend {backend} does not answer: secrets cannot be opened or kept; try again later"
            )
        }
        KeeperError::Refused(_) => format!(
            "the secret backend {backend} refuses this console: its log says why; correct the rights that the console has there"
        ),
    };
    let cause = OfBackend(format!("{backend}: {name}: {error}"));
    Error::Unavailable { reason: reason.into(), cause: Some(Box::new(cause)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_names_one_object() {
        let name = ObjectName { project: ProjectId::new(), id: Uuid::now_v7() };
        let kept = Kept { key: [7; ID], backend: SecretBackend::Kubernetes, name, digest: digest(b"sealed") };
        let sealed = kept.sealed();
        assert_eq!(Kept::of(&sealed), Some(kept));
        assert!(is_kept(&sealed) && !is_of_data_key(&sealed));
        assert_eq!(backend_of(&sealed), SecretBackend::Kubernetes);
        let bytes = sealed.as_bytes();
        assert_eq!((bytes.len(), &bytes[KEY..BACKEND]), (LENGTH, [7; ID].as_slice()));
        assert_eq!(&bytes[OBJECT..OBJECT + ID], name.id.as_bytes());
        for length in 0..LENGTH {
            assert_eq!(Kept::of(&Sealed::from_bytes(bytes[..length].to_vec())), None, "{length} bytes");
        }
        for code in [0, 3, 255] {
            let mut bytes = bytes.to_vec();
            bytes[BACKEND] = code;
            assert_eq!(Kept::of(&Sealed::from_bytes(bytes)), None, "backend {code}");
        }
    }
}
