//! What seals and opens secrets: data keys in memory, for a while, as key-encryption keys open them.
//!
//! A key is asked for again after [`FRESH`], in the way of whoever needs it then. While its key-encryption key does not answer, it
//! is used for [`LONGEST`] at most; when that refuses, no longer. So a fleet does not stop with its key management
//! service, and a key that was revoked there works for five minutes at most.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aes_gcm::aead::{Aead, Payload};
use aes_gcm::{Aes256Gcm, KeyInit, Nonce};
use chrono::{DateTime, TimeDelta, Utc};
use hmac::{Hmac, Mac};
use parking_lot::{Mutex, RwLock};
use plural_core::data_key::{DataKey, KeyOwner};
use plural_core::ids::{ClusterId, DataKeyId, ProjectId};
use plural_core::{Error, Result};
use secrecy::{ExposeSecret, SecretBox};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use uuid::Uuid;

use crate::ctx::Clock;
use crate::data_key::DataKeyRow;
use crate::kept::{self, Keeper};
use crate::ports::key_encryption::{ClearKey, KeyEncryption, KeyError};
use crate::ports::secret_backend::SecretKeeper;
use crate::seal::{Sealed, Sealer, tag, tagging_key};
use crate::secret::random;
use crate::store::Store;

/// How long a data key is used before its key-encryption key is asked again.
const FRESH: TimeDelta = TimeDelta::minutes(5);
/// How long it is used while that does not answer.
const LONGEST: TimeDelta = TimeDelta::hours(1);
/// How long one that does not answer is left alone.
const AGAIN: TimeDelta = TimeDelta::seconds(5);
/// How long it is left alone while the data key is held.
const BRIDGED: TimeDelta = TimeDelta::seconds(30);
/// How long somebody waits for it while the data key is held, and where it is not: less than an agent waits for us (10 s), so that the
/// failure is known and remembered before the request is given up.
const PATIENCE: Duration = Duration::from_secs(3);
const PATIENCE_UNHELD: Duration = Duration::from_secs(9);
/// How long it is not looked up which key seals for an owner. Shorter than a retired key is kept.
const CURRENT: TimeDelta = TimeDelta::minutes(1);
/// Keys, owners and clusters that are remembered.
const MOST: usize = 20_000;
/// Keys that are opened at once.
const DOORS: usize = 16;

/// What was done when a key-encryption key refused.
const USING: &str = "using a key-encryption key";

/// The first byte of what a data key sealed.
pub const VERSION: u8 = 2;
const ID: usize = 16;
/// Begins what a data key seals: the version and the id of the key.
pub const PREFIX: usize = 1 + ID;
const SALT: usize = 16;
const NONCE: usize = 12;
const TAG: usize = 16;
/// Bytes that a sealed value has besides those of what it is.
pub const OVERHEAD: usize = PREFIX + SALT + NONCE + TAG;

/// How everything begins that a data key seals.
pub fn prefix(id: DataKeyId) -> [u8; PREFIX] {
    let mut prefix = [VERSION; PREFIX];
    prefix[1..].copy_from_slice(id.uuid().as_bytes());
    prefix
}

/// A data key in memory. It is overwritten when the last user drops it.
pub struct OpenKey {
    id: DataKeyId,
    key: ClearKey,
}

impl OpenKey {
    /// The key of a row, as its key-encryption key opens it.
    ///
    /// # Errors
    /// When that does not.
    pub async fn of(row: &DataKeyRow, key: &dyn KeyEncryption) -> std::result::Result<Self, KeyError> {
        let destroyed = || KeyError::Refused("it was destroyed".to_owned());
        let wrapped = row.wrapped.as_deref().ok_or_else(destroyed)?;
        let DataKey { id, owner, .. } = &row.key;
        Ok(Self { id: *id, key: key.unwrap(&wrapped_for(*id, *owner), wrapped).await? })
    }

    /// `2 | id (16) | salt (16) | nonce (12) | value (+ 16)`. Each value has a key of its own, made of the data key and the salt: nobody
    /// has to count how often a data key seals.
    ///
    /// # Errors
    /// When the machine has no randomness.
    pub fn seal(&self, context: &str, value: &[u8]) -> Result<Sealed> {
        let failed = || Error::internal("sealing a value", "the cipher refused");
        let (salt, nonce) = (random::<SALT>()?, random::<NONCE>()?);
        let mut out = Vec::with_capacity(PREFIX + SALT + NONCE + value.len() + TAG);
        out.extend_from_slice(&prefix(self.id));
        out.extend_from_slice(&salt);
        out.extend_from_slice(&nonce);
        let payload = Payload { msg: value, aad: context.as_bytes() };
        let cipher = self.cipher(&salt).ok_or_else(failed)?;
        out.extend(cipher.encrypt(&Nonce::from(nonce), payload).map_err(|_| failed())?);
        Ok(Sealed::from_bytes(out))
    }

    /// What it sealed for `context`; nothing when it was changed, or sealed by another key or for another place.
    pub fn open(&self, context: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (salt, rest) = sealed.get(PREFIX..)?.split_at_checked(SALT)?;
        let (nonce, value) = rest.split_at_checked(NONCE)?;
        let nonce = <[u8; NONCE]>::try_from(nonce).ok()?;
        let payload = Payload { msg: value, aad: context.as_bytes() };
        self.cipher(salt)?.decrypt(&Nonce::from(nonce), payload).ok()
    }

    fn cipher(&self, salt: &[u8]) -> Option<Aes256Gcm> {
        let mac = Hmac::<Sha256>::new_from_slice(self.key.expose_secret()).ok()?;
        let key: [u8; 32] =
            mac.chain_update(b"plural value key").chain_update(salt).finalize().into_bytes().into();
        Some(Aes256Gcm::new(&key.into()))
    }
}

/// What seals values of an owner.
pub(crate) enum Sealing<'k> {
    /// Its data key.
    With(Arc<OpenKey>),
    /// What there was before data keys, while a replica is there that knows no others.
    Before(&'k Sealer),
}

impl Sealing<'_> {
    /// Seals `value` for the place that `context` names.
    ///
    /// # Errors
    /// When the machine has no randomness.
    pub(crate) fn seal(&self, context: &str, value: &[u8]) -> Result<Sealed> {
        match self {
            Self::With(key) => key.seal(context, value),
            Self::Before(sealer) => sealer.seal(context, value),
        }
    }
}

/// What is known of a key.
struct Held {
    /// In clear, unless it could not be opened.
    key: Option<Arc<OpenKey>>,
    /// When it was opened.
    opened: DateTime<Utc>,
    /// Until when nobody is asked again.
    until: DateTime<Utc>,
    /// Why it does not open.
    why: Option<KeyError>,
}

/// Seals and opens secrets.
pub(crate) struct Keyring {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// The first wraps, all unwrap.
    keys: Vec<Arc<dyn KeyEncryption>>,
    /// Opens what was sealed before there were data keys, and seals while replicas of that release are there.
    before: Sealer,
    held: RwLock<HashMap<DataKeyId, Held>>,
    current: RwLock<HashMap<KeyOwner, (DataKeyId, DateTime<Utc>)>>,
    /// A cluster stays in its project.
    clusters: RwLock<HashMap<ClusterId, ProjectId>>,
    doors: [tokio::sync::Mutex<()>; DOORS],
    /// What makes addresses that only this installation can make: the first makes, all are known.
    tagging: Vec<SecretBox<[u8; 32]>>,
    uses_data_keys: AtomicBool,
    asked: Mutex<Option<DateTime<Utc>>>,
    /// What is kept outside of the database.
    kept: Keeper,
}

impl Keyring {
    /// The keys of an installation, checked: they are those that its database was written with.
    ///
    /// # Errors
    /// When they are not, or a key-encryption key refuses or does not answer.
    pub(crate) async fn start(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        keys: Vec<Arc<dyn KeyEncryption>>,
        backends: Vec<Arc<dyn SecretKeeper>>,
    ) -> Result<Self> {
        let raw = |key: &Arc<dyn KeyEncryption>| key.raw().copied();
        let raws: Vec<[u8; 32]> = keys.iter().filter_map(raw).collect();
        let is_local = keys.first().is_some_and(|key| key.raw().is_some());
        let mut ring = Self {
            kept: Keeper::new(Arc::clone(&store), Arc::clone(&clock), backends),
            store,
            clock,
            before: Sealer::of(&raws),
            keys,
            held: RwLock::default(),
            current: RwLock::default(),
            clusters: RwLock::default(),
            doors: Default::default(),
            tagging: raws.iter().map(tagging_key).collect(),
            uses_data_keys: AtomicBool::new(false),
            asked: Mutex::default(),
        };
        ring.check().await?;
        if !is_local {
            // A key of a key management service makes no addresses: they would need that service for each request.
            let key = ring.current(KeyOwner::Addresses).await.map_err(refused_at_start)?;
            ring.tagging.insert(0, tagging_key(key.key.expose_secret()));
        }
        Ok(ring)
    }

    /// With another key nothing secret could be read: better not to start than to fail at every poll.
    async fn check(&self) -> Result<()> {
        let is_another = || {
            Error::conflict(
                "the encryption key is not the one that this database was written with: start the console with that key \
                 (--encryption-key-file, --key-encryption)",
            )
        };
        let kept = self.store.key_check_kept().await?;
        // Before a data key is made: one that another key-encryption key wrapped would be of no use to the right one.
        if let Some(kept) = kept.as_ref().filter(|kept| !is_of_data_key(kept)) {
            self.before.open(crate::app::KEY_CHECK, kept).map_err(|_| is_another())?;
        }
        if !self.uses_data_keys().await? && self.before.is_empty() {
            return Err(Error::conflict(
                "replicas of the release before data keys are running, and have no key management service: replace them first, \
                 with the key file that they have",
            ));
        }
        let row = self.store.data_key_current(KeyOwner::Installation).await?;
        let needed = match &row {
            Some(row) => self.keys.iter().find(|key| key.name() == row.key.encrypted_by),
            None => self.keys.first(),
        };
        let Some(needed) = needed else {
            let needed = row.map(|row| row.key.encrypted_by);
            tracing::error!(needed, "the key-encryption key of this database is missing");
            return Err(is_another());
        };
        let is_elsewhere = needed.raw().is_none();
        let kept = if let Some(kept) = kept {
            kept
        } else {
            let check = crate::app::KEY_CHECK;
            let fresh = self.seal(KeyOwner::Installation, check, check.as_bytes()).await;
            self.store.key_check(&fresh.map_err(refused_at_start)?).await?
        };
        match self.open(crate::app::KEY_CHECK, &kept).await {
            Ok(_) => Ok(()),
            Err(error @ Error::Unavailable { .. }) => Err(error),
            Err(error @ Error::Internal { doing: Cow::Borrowed(USING), .. }) if is_elsewhere => {
                Err(refused_at_start(error))
            }
            Err(error) => {
                tracing::error!(error = error.log_text(), "cannot use the encryption key");
                Err(is_another())
            }
        }
    }

    /// Seals `value` for the place that `context` names ("service:ID:configuration"), with the key of its owner.
    ///
    /// # Errors
    /// When the key cannot be opened, or the machine has no randomness.
    pub(crate) async fn seal(&self, owner: KeyOwner, context: &str, value: &[u8]) -> Result<Sealed> {
        self.sealing(owner).await?.seal(context, value)
    }

    /// Seals a value that may be kept elsewhere, and puts it where its project keeps such values: what its row is to hold.
    ///
    /// # Errors
    /// See [`Self::seal`]; when the backend of the project is away, refuses, or does not keep what it is given.
    pub(crate) async fn keep(&self, owner: KeyOwner, context: &str, value: &[u8]) -> Result<Sealed> {
        let sealed = self.seal(owner, context, value).await?;
        match owner {
            KeyOwner::Project(project) => Box::pin(self.kept.put(project, sealed)).await,
            KeyOwner::Installation | KeyOwner::Addresses | KeyOwner::Recordings(_) => Ok(sealed),
        }
    }

    /// What is kept outside of the database.
    pub(crate) fn kept(&self) -> &Keeper {
        &self.kept
    }

    /// The key of an owner, to seal many values at once.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(crate) async fn sealing(&self, owner: KeyOwner) -> Result<Sealing<'_>> {
        if self.uses_data_keys().await? {
            Ok(Sealing::With(self.current(owner).await?))
        } else {
            Ok(Sealing::Before(&self.before))
        }
    }

    /// Opens what was sealed for `context`.
    ///
    /// # Errors
    /// When its key cannot be opened, or was destroyed, or it was changed, or it was sealed for another place; when it is kept in a backend
    /// that is away, refuses, or does not have it.
    pub(crate) async fn open(&self, context: &str, sealed: &Sealed) -> Result<Vec<u8>> {
        let fetched;
        let sealed = if kept::is_kept(sealed) {
            fetched = Box::pin(self.kept.get(sealed)).await?;
            &fetched
        } else {
            sealed
        };
        let bytes = sealed.as_bytes();
        if !is_of_data_key(sealed) {
            return self.before.open(context, sealed);
        }
        let failed = |why: &'static str| Error::internal(format!("opening {context}"), why);
        let id = sealed_with(sealed).ok_or_else(|| failed("not a sealed value"))?;
        let key = self.key(id).await?;
        key.open(context, bytes).ok_or_else(|| failed("it was changed"))
    }

    /// Opens what a browser kept for us. No database and no key service is asked for a key that anybody may name: it is one that is open
    /// already, or seals for the installation now.
    ///
    /// # Errors
    /// As [`Self::open`]; and for any other key.
    pub(crate) async fn open_kept_outside(&self, context: &str, sealed: &Sealed) -> Result<Vec<u8>> {
        if kept::is_kept(sealed) {
            return Err(Error::internal(
                format!("opening {context}"),
                "it names a value that is kept elsewhere",
            ));
        }
        if is_of_data_key(sealed) {
            let id = sealed_with(sealed);
            let is_open = id.is_some_and(|id| self.known(id).is_some());
            if !is_open && id != Some(self.current(KeyOwner::Installation).await?.id) {
                return Err(Error::internal(format!("opening {context}"), "another key sealed it"));
            }
        }
        self.open(context, sealed).await
    }

    /// 32 bytes that only this installation can make for the place that `context` names: a secret that need not be kept.
    pub(crate) fn tag(&self, context: &str) -> [u8; 32] {
        self.tagging.first().map(|key| tag(key.expose_secret(), context)).unwrap_or_default()
    }

    /// Whether `given` is the tag of `context`, with the current key or a previous one.
    pub(crate) fn is_tag(&self, context: &str, given: &[u8]) -> bool {
        self.tagging.iter().any(|key| bool::from(tag(key.expose_secret(), context).ct_eq(given)))
    }

    /// The key-encryption key that wraps.
    pub(crate) fn first(&self) -> Result<&Arc<dyn KeyEncryption>> {
        self.keys.first().ok_or_else(|| Error::internal("sealing a value", "no key"))
    }

    /// The names of all key-encryption keys, the one that wraps first.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| key.name())
    }

    /// Whether values are sealed with data keys: once no replica is alive that cannot open them, and for ever after.
    pub(crate) async fn uses_data_keys(&self) -> Result<bool> {
        if self.uses_data_keys.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let now = self.clock.now();
        let is_early = |asked: DateTime<Utc>| now >= asked && now - asked < AGAIN;
        if self.asked.lock().is_some_and(is_early) {
            return Ok(false);
        }
        let since = Box::pin(self.store.data_keys_begin(now)).await?;
        *self.asked.lock() = Some(now);
        self.uses_data_keys.store(since.is_some(), Ordering::Relaxed);
        Ok(since.is_some())
    }

    /// What seals values of the services of a cluster.
    pub(crate) async fn owner_on(&self, cluster: ClusterId) -> Result<KeyOwner> {
        if let Some(project) = self.clusters.read().get(&cluster) {
            return Ok(KeyOwner::Project(*project));
        }
        let project = self.store.cluster_project(cluster).await?.ok_or(Error::not_found("cluster"))?;
        self.know_projects([(cluster, project)]);
        Ok(KeyOwner::Project(project))
    }

    /// Spares [`Self::owner_on`] a look-up for each of these clusters, of which somebody knows the project.
    pub(crate) fn know_projects(&self, known: impl IntoIterator<Item = (ClusterId, ProjectId)>) {
        let mut clusters = self.clusters.write();
        for (cluster, project) in known {
            if clusters.len() >= MOST {
                clusters.clear();
            }
            clusters.insert(cluster, project);
        }
    }

    /// A new key, wrapped, which nobody has yet.
    pub(crate) async fn new_key(&self, owner: KeyOwner) -> Result<DataKeyRow> {
        let id = DataKeyId::new();
        let clear = SecretBox::new(Box::new(random::<32>()?));
        let first = self.first()?;
        let wrapped =
            first.wrap(&wrapped_for(id, owner), &clear).await.map_err(|error| told(first.name(), &error))?;
        let key = DataKey {
            id,
            owner,
            encrypted_by: first.name().to_owned(),
            version: wrapped.version,
            created_at: self.clock.now(),
            retired_at: None,
            destroyed_at: None,
        };
        Ok(DataKeyRow { key, wrapped: Some(wrapped.bytes) })
    }

    /// The same key, wrapped by the key-encryption key that wraps now.
    pub(crate) async fn rewrapped(&self, row: &DataKeyRow) -> Result<DataKeyRow> {
        let clear = self.unwrap(row).await.map_err(|error| told(&row.key.encrypted_by, &error))?.key;
        let first = self.first()?;
        let context = wrapped_for(row.key.id, row.key.owner);
        let wrapped = first.wrap(&context, &clear).await.map_err(|error| told(first.name(), &error))?;
        let key =
            DataKey { encrypted_by: first.name().to_owned(), version: wrapped.version, ..row.key.clone() };
        Ok(DataKeyRow { key, wrapped: Some(wrapped.bytes) })
    }

    /// The version of the key-encryption key that wraps now.
    pub(crate) async fn version(&self) -> Result<Option<String>> {
        let first = self.first()?;
        first.version().await.map_err(|error| told(first.name(), &error))
    }

    /// Another key may seal for an owner by now.
    pub(crate) fn forget_current(&self, owner: KeyOwner) {
        self.current.write().remove(&owner);
    }

    /// Other keys may seal for all owners by now: another replica may have replaced them.
    pub(crate) fn forget_all_current(&self) {
        self.current.write().clear();
    }

    /// This key does not seal for the owner any more: it is forgotten, if it is remembered as the one that does.
    pub(crate) fn forget_retired(&self, owner: KeyOwner, retired: DataKeyId) {
        let is_remembered = self.current.read().get(&owner).is_some_and(|(id, _)| *id == retired);
        if is_remembered {
            self.forget_current(owner);
        }
    }

    /// The key that seals for an owner; made when there is none.
    async fn current(&self, owner: KeyOwner) -> Result<Arc<OpenKey>> {
        let now = self.clock.now();
        let known = self.current.read().get(&owner).copied();
        let id = match known.filter(|(_, until)| is_before(now, *until, CURRENT)) {
            Some((id, _)) => id,
            // Boxed, like whatever is rarely done here: what seals and opens is part of many large futures.
            None => Box::pin(self.current_stored(owner)).await?,
        };
        self.key(id).await
    }

    async fn current_stored(&self, owner: KeyOwner) -> Result<DataKeyId> {
        let row = match self.store.data_key_current(owner).await? {
            Some(row) => row,
            None => self.store.data_key_make(&self.new_key(owner).await?).await?,
        };
        let until = self.clock.now() + CURRENT;
        let mut current = self.current.write();
        if current.len() >= MOST {
            current.clear();
        }
        current.insert(owner, (row.key.id, until));
        Ok(row.key.id)
    }

    /// A key in clear.
    async fn key(&self, id: DataKeyId) -> Result<Arc<OpenKey>> {
        match self.known(id) {
            Some(known) => known,
            None => Box::pin(self.key_opened(id)).await,
        }
    }

    async fn key_opened(&self, id: DataKeyId) -> Result<Arc<OpenKey>> {
        let door = usize::from(id.uuid().as_bytes()[ID - 1]) % DOORS;
        let _door = self.doors[door].lock().await;
        // Perhaps whoever was in front asked for the same.
        if let Some(known) = self.known(id) {
            return known;
        }
        let Some(row) = self.store.data_key(id).await? else {
            return Err(Error::internal("opening a data key", format!("there is no data key {id}")));
        };
        if row.wrapped.is_none() {
            self.held.write().remove(&id);
            return Err(Error::internal("opening a data key", format!("data key {id} was destroyed")));
        }
        let asked = self.clock.now();
        let patience = if self.bridges(id, asked) { PATIENCE } else { PATIENCE_UNHELD };
        let opened = tokio::time::timeout(patience, self.unwrap(&row)).await.unwrap_or_else(|_| {
            Err(KeyError::Unavailable(format!("it does not answer within {} s", patience.as_secs())))
        });
        // Not `asked`: a key that was waited for is left alone from now on.
        let now = self.clock.now();
        let outcome = match &opened {
            Ok(_) => "done",
            Err(KeyError::Unavailable(_)) => "unavailable",
            Err(KeyError::Refused(_)) => "refused",
        };
        metrics::counter!("plural_data_keys_opened_total", "outcome" => outcome).increment(1);
        match opened {
            Ok(key) => {
                let key = Arc::new(key);
                let held = Held { key: Some(Arc::clone(&key)), opened: now, until: now + FRESH, why: None };
                self.hold(id, held);
                Ok(key)
            }
            Err(error) => self.not_opened(id, &row, error, now),
        }
    }

    /// Goes on with what is held, if that is young enough and its key-encryption key does not refuse.
    fn not_opened(
        &self,
        id: DataKeyId,
        row: &DataKeyRow,
        error: KeyError,
        now: DateTime<Utc>,
    ) -> Result<Arc<OpenKey>> {
        tracing::warn!(data_key.id = %id, key = row.key.encrypted_by, error = %error, "cannot open a data key");
        if matches!(error, KeyError::Unavailable(_))
            && let Some(held) = self.held.write().get_mut(&id)
            && let Some(key) = held.key.clone()
            && is_before(now, held.opened + LONGEST, LONGEST)
        {
            held.until = (now + BRIDGED).min(held.opened + LONGEST);
            return Ok(key);
        }
        let told = told(&row.key.encrypted_by, &error);
        self.hold(id, Held { key: None, opened: now, until: now + AGAIN, why: Some(error) });
        Err(told)
    }

    /// Whether a key is held that is young enough to go on with.
    fn bridges(&self, id: DataKeyId, now: DateTime<Utc>) -> bool {
        let held = self.held.read();
        held.get(&id).is_some_and(|held| held.key.is_some() && is_before(now, held.opened + LONGEST, LONGEST))
    }

    /// What needs nobody to be asked.
    fn known(&self, id: DataKeyId) -> Option<Result<Arc<OpenKey>>> {
        let now = self.clock.now();
        let held = self.held.read();
        let held = held.get(&id).filter(|held| is_before(now, held.until, FRESH))?;
        match (&held.key, &held.why) {
            (Some(key), _) => Some(Ok(Arc::clone(key))),
            (None, why) => why.clone().map(|why| Err(told("its key-encryption key", &why))),
        }
    }

    /// Keys that nobody used for long do not stay in memory; how many those were.
    pub(crate) fn sweep(&self) -> u64 {
        let now = self.clock.now();
        let mut held = self.held.write();
        let before = held.len();
        held.retain(|_, held| is_before(now, held.until + FRESH, FRESH + FRESH));
        (before - held.len()) as u64 + self.kept.sweep()
    }

    fn hold(&self, id: DataKeyId, new: Held) {
        let mut held = self.held.write();
        if held.len() >= MOST {
            held.clear();
        }
        held.insert(id, new);
    }

    async fn unwrap(&self, row: &DataKeyRow) -> std::result::Result<OpenKey, KeyError> {
        let missing = || KeyError::Refused("this console was not started with it".to_owned());
        let key = self.keys.iter().find(|key| key.name() == row.key.encrypted_by).ok_or_else(missing)?;
        OpenKey::of(row, &**key).await
    }
}

/// A data key sealed it.
pub(crate) fn is_of_data_key(sealed: &Sealed) -> bool {
    sealed.as_bytes().first() == Some(&VERSION)
}

/// The data key that sealed it, if one did, wherever it is kept.
pub(crate) fn sealed_with(sealed: &Sealed) -> Option<DataKeyId> {
    let is_known = is_of_data_key(sealed) || kept::is_kept(sealed);
    let id = sealed.as_bytes().get(1..PREFIX).filter(|_| is_known)?;
    Uuid::from_slice(id).ok().map(DataKeyId::from_uuid)
}

/// What a data key is wrapped for: another one, or one of another project, cannot be put in its place.
fn wrapped_for(id: DataKeyId, owner: KeyOwner) -> String {
    format!("plural data key {id} of {owner}")
}

/// `until` is not over, and not further away than it was when it was set: clocks go back, too.
fn is_before(now: DateTime<Utc>, until: DateTime<Utc>, lasts: TimeDelta) -> bool {
    now < until && until - now <= lasts
}

/// What a caller is told; the words of a key management service are for the log.
fn told(key: &str, error: &KeyError) -> Error {
    let cause = std::io::Error::other(format!("{key}: {error}"));
    match error {
        KeyError::Unavailable(_) => Error::Unavailable {
            reason: "the key management service does not answer: secrets cannot be opened; try again later"
                .into(),
            cause: Some(Box::new(cause)),
        },
        KeyError::Refused(_) => Error::internal(USING, cause),
    }
}

/// Whoever starts a console is its operator, and is told what the key-encryption key says.
fn refused_at_start(error: Error) -> Error {
    match error {
        Error::Internal { doing: Cow::Borrowed(USING), cause: Some(cause) } => {
            Error::conflict(format!("the encryption key refuses to be used: {cause}"))
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::key_encryption::LocalKey;

    fn key(byte: u8) -> OpenKey {
        OpenKey { id: DataKeyId::new(), key: SecretBox::new(Box::new([byte; 32])) }
    }

    #[test]
    fn a_value_opens_with_its_key_where_it_was_sealed() {
        let key = key(1);
        let sealed = key.seal("a", b"hunter2").unwrap();
        assert!(is_of_data_key(&sealed) && sealed.as_bytes().starts_with(&prefix(key.id)));
        assert_eq!(key.open("a", sealed.as_bytes()).unwrap(), b"hunter2");
        assert_eq!(key.open("b", sealed.as_bytes()), None, "another place");
        assert_eq!(self::key(2).open("a", sealed.as_bytes()), None, "another key");
        assert!(!sealed.as_bytes().windows(7).any(|window| window == b"hunter2"));
        for place in PREFIX..sealed.as_bytes().len() {
            let mut bytes = sealed.as_bytes().to_vec();
            bytes[place] ^= 1;
            assert_eq!(key.open("a", &bytes), None, "byte {place}");
        }
        for length in 0..sealed.as_bytes().len() {
            assert_eq!(key.open("a", &sealed.as_bytes()[..length]), None, "{length} bytes");
        }
        assert_ne!(sealed, key.seal("a", b"hunter2").unwrap(), "never the same twice");
    }

    #[tokio::test]
    async fn a_wrapped_key_is_of_one_owner_and_of_one_id() {
        let (local, clear) = (LocalKey::new(&[1; 32]), SecretBox::new(Box::new([9; 32])));
        let (id, project) = (DataKeyId::new(), ProjectId::new());
        let owner = KeyOwner::Project(project);
        let wrapped = local.wrap(&wrapped_for(id, owner), &clear).await.unwrap().bytes;
        let row = |id, owner| DataKeyRow {
            key: DataKey {
                id,
                owner,
                encrypted_by: local.name().to_owned(),
                version: None,
                created_at: DateTime::UNIX_EPOCH,
                retired_at: None,
                destroyed_at: None,
            },
            wrapped: Some(wrapped.clone()),
        };
        assert!(OpenKey::of(&row(id, owner), &local).await.is_ok());
        assert!(OpenKey::of(&row(DataKeyId::new(), owner), &local).await.is_err());
        for other in
            [KeyOwner::Installation, KeyOwner::Recordings(project), KeyOwner::Project(ProjectId::new())]
        {
            assert!(OpenKey::of(&row(id, other), &local).await.is_err(), "{other}");
        }
    }
}
