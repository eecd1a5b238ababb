//! Encryption at rest: every secret column is sealed before a store sees it.
//!
//! The data key of a project seals its values ([`crate::keyring`]). Here is how they were sealed before there were such keys:
//! each value has a random key of its own, wrapped by the installation's key. Layout:
//! `1 | key id (8) | nonce (12) | wrapped key (32 + 16) | nonce (12) | value (+ 16)`.
//! What a value belongs to is authenticated with it, so that a row's secret cannot be moved to another.

use std::fmt;

use aes_gcm::aead::{Aead, Payload};
use aes_gcm::{Aes256Gcm, KeyInit, Nonce};
use async_trait::async_trait;
use hmac::{Hmac, Mac};
use plural_core::data_key::KeyOwner;
use plural_core::ids::RecordingId;
use plural_core::{Error, Result};
use secrecy::SecretBox;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::keyring;
use crate::ports::key_encryption::key_id;
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
    /// Pieces of stacks' states.
    StackState,
    /// Variables of the environment of stacks' runs.
    StackEnvironment,
    /// Files of stacks' runs.
    StackFiles,
    /// The environment that a run was made with.
    StackRunEnvironment,
    /// The files that a run was made with.
    StackRunFiles,
    /// What a run takes from other stacks and the tool does not call sensitive.
    StackRunTaken,
    /// What was found of plans.
    StackRunFinding,
    /// Pieces of plans.
    StackPlan,
    /// Outputs of stacks.
    StackOutput,
    /// Fields of resources that drifted.
    StackDrift,
    /// Tokens, keys and proxies of connections to git hosts.
    ScmSecrets,
    /// Secrets of webhooks of git hosts.
    ScmWebhookHmac,
    /// What somebody answered to an automation, until its pull request is open.
    PullRequestAsked,
    /// What random filters of a generated instance drew from.
    PrInstanceSeed,
    /// Digests of what was asked with a key.
    PrRequestKey,
    /// Values of Secrets that automations ask for, until they are in their cluster.
    PrSecret,
    /// What calls to governances of pull requests are signed with.
    PrGovernanceSecret,
    /// What the governance of a pull request wants to have back.
    PullRequestGovernance,
    /// What the plan of a preview is made of.
    FleetPlanAsked,
}

impl SealedColumn {
    /// All of them.
    pub const ALL: [Self; 36] = [
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
        Self::StackState,
        Self::StackEnvironment,
        Self::StackFiles,
        Self::StackRunEnvironment,
        Self::StackRunFiles,
        Self::StackRunTaken,
        Self::StackRunFinding,
        Self::StackPlan,
        Self::StackOutput,
        Self::StackDrift,
        Self::ScmSecrets,
        Self::ScmWebhookHmac,
        Self::PullRequestAsked,
        Self::PrInstanceSeed,
        Self::PrRequestKey,
        Self::PrSecret,
        Self::PrGovernanceSecret,
        Self::PullRequestGovernance,
        Self::FleetPlanAsked,
    ];

    /// A project may keep such values outside of the database: those of its services, templates and contexts.
    pub const fn is_movable(self) -> bool {
        match self {
            Self::ServiceSeed
            | Self::Configuration
            | Self::HelmValues
            | Self::RendererValues
            | Self::GlobalServiceSecrets
            | Self::ContextSecrets => true,
            Self::KeyCheck
            | Self::ProxyKey
            | Self::AuditKey
            | Self::RepositoryCredentials
            | Self::RepositoryReach
            | Self::RepositoryWebhook
            | Self::HelmRepositoryAccess
            | Self::RecordingCommand
            | Self::IdentityProviderSecret
            | Self::IdentityRefresh
            | Self::SecondFactor
            | Self::StackState
            | Self::StackEnvironment
            | Self::StackFiles
            | Self::StackRunEnvironment
            | Self::StackRunFiles
            | Self::StackRunTaken
            | Self::StackRunFinding
            | Self::StackPlan
            | Self::StackOutput
            | Self::StackDrift
            | Self::ScmSecrets
            | Self::ScmWebhookHmac
            | Self::PullRequestAsked
            | Self::PrInstanceSeed
            | Self::PrRequestKey
            | Self::PrSecret
            | Self::PrGovernanceSecret
            | Self::PullRequestGovernance
            | Self::FleetPlanAsked => false,
        }
    }
}

/// A row of a table with sealed values, by its primary key, in whose order such tables are walked. The nil id where there is one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SealedRow {
    /// The id, or the first column of a key with two.
    pub id: Uuid,
    /// The second column of such a key; else 0.
    pub number: i64,
}

/// What a step of a walk found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedStep<T> {
    /// In the order of the table; perhaps nothing in these rows, though more follow.
    pub found: Vec<T>,
    /// The last row that was looked at, to go on behind it; none at the end of the table.
    pub next: Option<SealedRow>,
}

/// A sealed value, and the thing that it belongs to: the nil id where there is one only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedValue {
    /// The row that has it.
    pub row: SealedRow,
    /// The thing.
    pub of: Uuid,
    /// Whose key has to seal it.
    pub owner: KeyOwner,
    /// The value.
    pub sealed: Sealed,
}

/// A piece of a recording that is not known to be sealed with the key of its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedPiece {
    /// Of this recording.
    pub of: RecordingId,
    /// Whose key has to seal it.
    pub owner: KeyOwner,
    /// The piece.
    pub piece: RecordingPiece,
}

/// Sealed values by the key that they are sealed with. Nobody's questions: values stay sealed.
#[async_trait]
pub trait SealStore: Send + Sync + 'static {
    /// Values of a column that are not sealed with the current data key of their owner: at most `limit`, in a bounded number of rows
    /// behind `after`. From step to step each row is looked at once.
    async fn sealed_otherwise(
        &self,
        column: SealedColumn,
        after: Option<SealedRow>,
        limit: u64,
    ) -> Result<SealedStep<SealedValue>>;
    /// Puts values in the place of others; one that was changed meanwhile stays.
    async fn sealed_replace(&self, column: SealedColumn, changes: &[(SealedValue, Sealed)]) -> Result<()>;
    /// Pieces of recordings that are not known to be sealed with the current data key of their owner, step by step likewise.
    async fn pieces_otherwise(&self, after: Option<SealedRow>, limit: u64)
    -> Result<SealedStep<SealedPiece>>;
    /// A piece is in this blob by now, sealed with this key, unless it was stored anew meanwhile.
    async fn piece_resealed(&self, before: &SealedPiece, after: &RecordingPiece) -> Result<()>;
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

    /// How everything begins that its data key sealed, if one did.
    pub(crate) fn data_key_prefix(&self) -> Option<Vec<u8>> {
        self.0.get(..keyring::PREFIX).filter(|_| keyring::is_of_data_key(self)).map(<[u8]>::to_vec)
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

/// How the installation's keys sealed before there were data keys. The first seals; all open.
pub struct Sealer {
    keys: Vec<([u8; KEY_ID], Aes256Gcm)>,
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealer({} keys)", self.keys.len())
    }
}

impl Sealer {
    /// A sealer with these keys.
    pub fn of(keys: &[[u8; KEY]]) -> Self {
        Self { keys: keys.iter().map(|key| (key_id(key), cipher(key))).collect() }
    }

    /// There is no key.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
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
}

/// What tags are made with, of a key.
pub(crate) fn tagging_key(key: &[u8; KEY]) -> SecretBox<[u8; KEY]> {
    SecretBox::new(Box::new(
        Sha256::new_with_prefix(b"plural tagging key").chain_update(key).finalize().into(),
    ))
}

/// 32 bytes that only whoever has the key can make for the place that `context` names.
pub(crate) fn tag(key: &[u8; KEY], context: &str) -> [u8; KEY] {
    // A key of any length is one.
    Hmac::<Sha256>::new_from_slice(key)
        .map(|mac| mac.chain_update(context).finalize().into_bytes().into())
        .unwrap_or_default()
}

fn cipher(key: &[u8; KEY]) -> Aes256Gcm {
    Aes256Gcm::new(&(*key).into())
}

fn decrypt(cipher: &Aes256Gcm, nonce: &[u8], message: &[u8], context: &str) -> Option<Vec<u8>> {
    let nonce: [u8; NONCE] = nonce.try_into().ok()?;
    cipher.decrypt(&Nonce::from(nonce), Payload { msg: message, aad: context.as_bytes() }).ok()
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    #[test]
    fn opens_only_where_it_was_sealed() {
        let sealer = Sealer::of(&[[1; 32]]);
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
        let [one, other] = [[1; 32], [2; 32]].map(|key| *tagging_key(&key).expose_secret());
        assert_eq!(tag(&one, "a"), tag(&one, "a"));
        assert_ne!(tag(&one, "a"), tag(&one, "b"));
        assert_ne!(tag(&one, "a"), tag(&other, "a"));
        assert_ne!(one, [1; 32], "it is not the key itself");
    }

    #[test]
    fn old_keys_still_open() {
        let sealed = Sealer::of(&[[1; 32]]).seal("a", b"x").unwrap();
        assert_eq!(Sealer::of(&[[2; 32], [1; 32]]).open("a", &sealed).unwrap(), b"x");
        let error = Sealer::of(&[[2; 32]]).open("a", &sealed).unwrap_err();
        assert!(error.log_text().contains("a key that this console was not started with"));
    }
}
