//! Encryption at rest: every secret column is sealed here before a store sees it.
//!
//! Envelope: each value has a random data key of its own, wrapped by the installation's key. Rotating
//! the installation's key re-wraps 60 bytes a row and touches no value. Layout:
//! `1 | key id (8) | nonce (12) | wrapped data key (32 + 16) | nonce (12) | value (+ 16)`.
//! What a value belongs to is authenticated with it, so that a row's secret cannot be moved to another.

use std::fmt;

use aes_gcm::aead::{Aead, Payload};
use aes_gcm::{Aes256Gcm, KeyInit, Nonce};
use async_trait::async_trait;
use hmac::{Hmac, Mac};
use plural_core::ids::RecordingId;
use plural_core::{Error, Result};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use uuid::Uuid;

use crate::recording::RecordingPiece;
use crate::secret::random;

/// A place of the database that holds sealed values. One that is not among these keeps an old key in use for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealedColumn {
    /// What tells whether the key is the right one.
    KeyCheck,
    /// The key that agents know this console by.
    ProxyKey,
    /// The key that the audit log's checkpoints are signed with.
    AuditKey,
    /// Credentials of git repositories.
    RepositoryCredentials,
    /// Proxies, certificates, host keys and signers of git repositories.
    RepositoryReach,
    /// Secrets of repositories' webhooks.
    RepositoryWebhook,
    /// Credentials of chart repositories.
    HelmRepositoryAccess,
    /// What a service's random values are made from.
    ServiceSeed,
    /// Configuration of revisions.
    Configuration,
    /// Helm values of revisions.
    HelmValues,
    /// Values of revisions' renderers.
    RendererValues,
    /// Secrets of global services' templates.
    GlobalServiceSecrets,
    /// Secrets of contexts.
    ContextSecrets,
    /// Command lines of recordings.
    RecordingCommand,
    /// Client secrets of identity providers.
    IdentityProviderSecret,
    /// Refresh tokens of people who signed in with an identity provider.
    IdentityRefresh,
    /// What people's authenticator apps make their codes of.
    SecondFactor,
}

impl SealedColumn {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::KeyCheck,
        Self::ProxyKey,
        Self::AuditKey,
        Self::RepositoryCredentials,
        Self::RepositoryReach,
        Self::RepositoryWebhook,
        Self::HelmRepositoryAccess,
        Self::ServiceSeed,
        Self::Configuration,
        Self::HelmValues,
        Self::RendererValues,
        Self::GlobalServiceSecrets,
        Self::ContextSecrets,
        Self::RecordingCommand,
        Self::IdentityProviderSecret,
        Self::IdentityRefresh,
        Self::SecondFactor,
    ];
}

/// A sealed value, and the thing that it belongs to: the nil id where there is one only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedValue {
    /// The thing.
    pub of: Uuid,
    /// The value.
    pub sealed: Sealed,
}

/// Sealed values by the key that they are sealed with. Nobody's questions: values stay sealed.
#[async_trait]
pub trait SealStore: Send + Sync + 'static {
    /// Values of a column whose key has another id than `key`, the first `skip` of them left out.
    async fn sealed_otherwise(
        &self,
        column: SealedColumn,
        key: [u8; 8],
        skip: u64,
        limit: u64,
    ) -> Result<Vec<SealedValue>>;
    /// Puts values in the place of others; one that was changed meanwhile stays.
    async fn sealed_replace(&self, column: SealedColumn, changes: &[(SealedValue, Sealed)]) -> Result<()>;
    /// Pieces of recordings that are not known to be sealed with this key.
    async fn pieces_otherwise(
        &self,
        key: [u8; 8],
        skip: u64,
        limit: u64,
    ) -> Result<Vec<(RecordingId, RecordingPiece)>>;
    /// A piece is in the blob `digest` by now, sealed with this key.
    async fn piece_resealed(
        &self,
        id: RecordingId,
        piece: &RecordingPiece,
        digest: [u8; 32],
        key: [u8; 8],
    ) -> Result<()>;
}

const VERSION: u8 = 1;
const KEY_ID: usize = 8;
const NONCE: usize = 12;
const KEY: usize = 32;
const TAG: usize = 16;
const HEADER: usize = 1 + KEY_ID + NONCE + KEY + TAG + NONCE;

/// A sealed value: what a store keeps.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed(Vec<u8>);

impl Sealed {
    /// The bytes that a store kept.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The bytes to keep.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes to keep.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} bytes)", self.0.len())
    }
}

/// The installation's keys. The first seals; all open.
pub struct Sealer {
    keys: Vec<([u8; KEY_ID], Aes256Gcm)>,
    /// For [`Sealer::tag`], derived from the same keys.
    tagging: Vec<[u8; KEY]>,
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealer({} keys)", self.keys.len())
    }
}

impl Sealer {
    /// A sealer with `current`, and `previous` keys that still open what they sealed.
    pub fn new(current: &[u8; KEY], previous: &[[u8; KEY]]) -> Self {
        let all = || std::iter::once(current).chain(previous);
        let keys = all().map(|key| (key_id(key), cipher(key))).collect();
        let tagging =
            |key| Sha256::new_with_prefix(b"plural tagging key").chain_update(key).finalize().into();
        Self { keys, tagging: all().map(tagging).collect() }
    }

    /// 32 bytes that only this installation can make for the place that `context` names: a secret that need not be kept.
    pub(crate) fn tag(&self, context: &str) -> [u8; KEY] {
        self.tagging.first().map(|key| tag(key, context)).unwrap_or_default()
    }

    /// Whether `given` is the tag of `context`, with the current key or a previous one.
    pub(crate) fn is_tag(&self, context: &str, given: &[u8]) -> bool {
        self.tagging.iter().any(|key| bool::from(tag(key, context).ct_eq(given)))
    }

    /// Seals `value` for the place that `context` names: "service:ID:configuration".
    ///
    /// # Errors
    /// When the machine has no randomness.
    pub fn seal(&self, context: &str, value: &[u8]) -> Result<Sealed> {
        let failed = |_| Error::internal("sealing a value", "the cipher refused");
        let Some((id, key)) = self.keys.first() else {
            return Err(Error::internal("sealing a value", "no key"));
        };
        let data_key = random::<KEY>()?;
        let (outer, inner) = (random::<NONCE>()?, random::<NONCE>()?);
        let mut out = Vec::with_capacity(HEADER + value.len() + TAG);
        out.push(VERSION);
        out.extend_from_slice(id);
        out.extend_from_slice(&outer);
        let payload = Payload { msg: &data_key, aad: context.as_bytes() };
        out.extend(key.encrypt(&Nonce::from(outer), payload).map_err(failed)?);
        out.extend_from_slice(&inner);
        let payload = Payload { msg: value, aad: context.as_bytes() };
        out.extend(cipher(&data_key).encrypt(&Nonce::from(inner), payload).map_err(failed)?);
        Ok(Sealed(out))
    }

    /// Opens what was sealed for `context`.
    ///
    /// # Errors
    /// When its key is not among ours, or it was changed, or it was sealed for another place.
    pub fn open(&self, context: &str, sealed: &Sealed) -> Result<Vec<u8>> {
        let failed = |why: &'static str| Error::internal(format!("opening {context}"), why);
        let (data_key, value) = self.data_key(context, sealed)?;
        let (inner, value) = value.split_at(NONCE);
        decrypt(&cipher(&data_key), inner, value, context).ok_or_else(|| failed("it was changed"))
    }

    /// The key of a value, and what that key sealed: its nonce and the value.
    fn data_key<'a>(&self, context: &str, sealed: &'a Sealed) -> Result<([u8; KEY], &'a [u8])> {
        let failed = |why: &'static str| Error::internal(format!("opening {context}"), why);
        let bytes = sealed.as_bytes();
        if bytes.len() < HEADER + TAG || bytes[0] != VERSION {
            return Err(failed("not a sealed value"));
        }
        let (id, rest) = bytes[1..].split_at(KEY_ID);
        let (outer, rest) = rest.split_at(NONCE);
        let (wrapped, value) = rest.split_at(KEY + TAG);
        let Some((_, key)) = self.keys.iter().find(|(known, _)| known == id) else {
            return Err(failed("it was sealed with a key that this console was not started with"));
        };
        let data_key =
            decrypt(key, outer, wrapped, context).ok_or_else(|| failed("its key does not open"))?;
        let data_key: [u8; KEY] = data_key.try_into().map_err(|_| failed("its key has the wrong size"))?;
        Ok((data_key, value))
    }

    /// The same value under the current key. Only its data key is sealed anew: the value itself is copied as it is.
    ///
    /// # Errors
    /// As [`Sealer::open`], except that a value that was changed behind its data key is not noticed.
    pub(crate) fn rewrap(&self, context: &str, sealed: &Sealed) -> Result<Sealed> {
        let failed = |why: &'static str| Error::internal(format!("sealing {context} anew"), why);
        let bytes = sealed.as_bytes();
        let (data_key, value) = self.data_key(context, sealed)?;
        let Some((id, key)) = self.keys.first() else { return Err(failed("no key")) };
        let outer = random::<NONCE>()?;
        let mut out = Vec::with_capacity(bytes.len());
        out.push(VERSION);
        out.extend_from_slice(id);
        out.extend_from_slice(&outer);
        let payload = Payload { msg: &data_key, aad: context.as_bytes() };
        out.extend(key.encrypt(&Nonce::from(outer), payload).map_err(|_| failed("the cipher refused"))?);
        out.extend_from_slice(value);
        Ok(Sealed(out))
    }

    /// The id of the current key, as it stands in what that seals.
    pub(crate) fn key_id(&self) -> [u8; KEY_ID] {
        self.keys.first().map_or([0; KEY_ID], |(id, _)| *id)
    }

    /// The ids of the keys besides the current one.
    pub(crate) fn previous_ids(&self) -> impl Iterator<Item = [u8; KEY_ID]> {
        self.keys.iter().skip(1).map(|(id, _)| *id)
    }

    /// Whether there are keys besides the current one.
    pub(crate) fn has_previous(&self) -> bool {
        self.keys.len() > 1
    }

    /// Whether [`Sealer::open`] would need a key other than the current one.
    pub fn is_old(&self, sealed: &Sealed) -> bool {
        self.keys.first().is_some_and(|(id, _)| sealed.as_bytes().get(1..=KEY_ID) != Some(&id[..]))
    }
}

fn tag(key: &[u8; KEY], context: &str) -> [u8; KEY] {
    // A key of any length is one.
    Hmac::<Sha256>::new_from_slice(key)
        .map(|mac| mac.chain_update(context).finalize().into_bytes().into())
        .unwrap_or_default()
}

fn cipher(key: &[u8; KEY]) -> Aes256Gcm {
    Aes256Gcm::new(&(*key).into())
}

fn key_id(key: &[u8; KEY]) -> [u8; KEY_ID] {
    let digest = Sha256::new_with_prefix(b"plural key id").chain_update(key).finalize();
    let mut id = [0; KEY_ID];
    id.copy_from_slice(&digest[..KEY_ID]);
    id
}

fn decrypt(cipher: &Aes256Gcm, nonce: &[u8], message: &[u8], context: &str) -> Option<Vec<u8>> {
    let nonce: [u8; NONCE] = nonce.try_into().ok()?;
    cipher.decrypt(&Nonce::from(nonce), Payload { msg: message, aad: context.as_bytes() }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_only_where_it_was_sealed() {
        let sealer = Sealer::new(&[1; 32], &[]);
        let sealed = sealer.seal("a", b"hunter2").unwrap();
        assert_eq!(sealer.open("a", &sealed).unwrap(), b"hunter2");
        assert!(sealer.open("b", &sealed).is_err());
        assert!(!sealed.as_bytes().windows(7).any(|w| w == b"hunter2"));
        for i in 0..sealed.as_bytes().len() {
            let mut bytes = sealed.as_bytes().to_vec();
            bytes[i] ^= 1;
            assert!(sealer.open("a", &Sealed::from_bytes(bytes)).is_err(), "byte {i}");
        }
        for len in 0..sealed.as_bytes().len() {
            assert!(sealer.open("a", &Sealed::from_bytes(sealed.as_bytes()[..len].to_vec())).is_err());
        }
    }

    #[test]
    fn tags_are_of_a_key_and_a_place() {
        let sealer = Sealer::new(&[1; 32], &[]);
        let tag = sealer.tag("a");
        assert!(sealer.is_tag("a", &tag) && !sealer.is_tag("b", &tag));
        assert!(!sealer.is_tag("a", &tag[..31]) && !sealer.is_tag("a", &[]));
        assert!(!Sealer::new(&[2; 32], &[]).is_tag("a", &tag));
        assert!(Sealer::new(&[2; 32], &[[1; 32]]).is_tag("a", &tag), "what was given out before still works");
    }

    #[test]
    fn what_is_sealed_anew_needs_the_new_key_only() {
        let old = Sealer::new(&[1; 32], &[]);
        let sealed = old.seal("a", b"hunter2").unwrap();
        let both = Sealer::new(&[2; 32], &[[1; 32]]);
        let anew = both.rewrap("a", &sealed).unwrap();
        assert!(both.has_previous() && both.is_old(&sealed) && !both.is_old(&anew));
        assert_eq!(Sealer::new(&[2; 32], &[]).open("a", &anew).unwrap(), b"hunter2");
        assert!(old.open("a", &anew).is_err());
        assert_eq!(anew.as_bytes()[1..=KEY_ID], both.key_id());
        assert!(both.rewrap("b", &sealed).is_err(), "it was sealed for another place");
        assert!(Sealer::new(&[2; 32], &[]).rewrap("a", &sealed).is_err(), "its key is gone");
        for len in 0..HEADER + TAG {
            assert!(both.rewrap("a", &Sealed::from_bytes(sealed.as_bytes()[..len].to_vec())).is_err());
        }
    }

    #[test]
    fn old_keys_still_open() {
        let old = Sealer::new(&[1; 32], &[]);
        let sealed = old.seal("a", b"x").unwrap();
        let rotated = Sealer::new(&[2; 32], &[[1; 32]]);
        assert_eq!(rotated.open("a", &sealed).unwrap(), b"x");
        assert!(rotated.is_old(&sealed));
        assert!(!old.is_old(&sealed));
        let error = Sealer::new(&[2; 32], &[]).open("a", &sealed).unwrap_err();
        assert!(error.log_text().contains("a key that this console was not started with"));
    }
}
