//! The chain that the audit log proves itself by.
//!
//! Every line of both logs has one text, JSON, and its digest is the SHA-256 of that text. A *batch* names the lines that it covers
//! by id and digest, and the digest of the batch before it: whoever changes, removes or adds a line changes a digest that is
//! told somewhere else. A *checkpoint* is the signed statement how far the chain went and what its last digest was; kept
//! outside of the database, it finds a chain that was cut or written anew.
//!
//! All of it is text that other programs can check: `sha256sum` of an exported line is its digest.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, SecondsFormat, Utc};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::audit::AuditRow;
use crate::cluster_audit::ClusterAuditRow;
use crate::error::{Error, Result};
use crate::ids::AuditBatchId;

/// SHA-256.
pub type AuditDigest = [u8; 32];

/// Bytes of one line in a batch's list: its id and its digest.
const LISTED: usize = 16 + 32;

/// Which log a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditLog {
    /// What was done in the console.
    Console,
    /// What was asked of clusters through it.
    Clusters,
}

impl AuditLog {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Console, Self::Clusters];

    /// The word in the database and in exports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Console => "console",
            Self::Clusters => "clusters",
        }
    }

    /// The log of this word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|log| log.as_str() == text)
    }
}

/// A line as text. Fields that are absent are not written: a field that a later release adds changes no earlier digest.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Line<'a> {
    #[serde(rename_all = "camelCase")]
    Change {
        id: Uuid,
        at: String,
        action: &'a str,
        actor: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        user_id: Option<Uuid>,
        #[serde(skip_serializing_if = "Option::is_none")]
        token_id: Option<Uuid>,
        #[serde(skip_serializing_if = "Option::is_none")]
        address: Option<IpAddr>,
        noun: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        target_id: Option<Uuid>,
        target_name: &'a str,
        request_id: Uuid,
        times: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        before: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        after: Option<String>,
    },
    #[serde(rename_all = "camelCase")]
    Request {
        id: Uuid,
        at: String,
        cluster_id: Uuid,
        user_id: Uuid,
        actor: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        address: Option<IpAddr>,
        #[serde(skip_serializing_if = "Option::is_none")]
        token_id: Option<Uuid>,
        method: &'a str,
        path: &'a str,
        response_code: u16,
        #[serde(skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
        received_bytes: u64,
        sent_bytes: u64,
        request_id: Uuid,
        #[serde(skip_serializing_if = "Option::is_none")]
        recording_id: Option<Uuid>,
        #[serde(skip_serializing_if = "Option::is_none")]
        impersonated_user: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        impersonated_groups: Option<&'a [String]>,
    },
}

pub(crate) fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Micros, true)
}

pub(crate) fn text(of: &impl Serialize) -> String {
    // Texts, numbers and ids always have a JSON.
    serde_json::to_string(of).unwrap_or_default()
}

/// A line of either log.
pub trait AuditText {
    /// Its one text, without a line break.
    fn audit_text(&self) -> String;

    /// The SHA-256 of its text.
    fn audit_digest(&self) -> AuditDigest {
        digest(self.audit_text().as_bytes())
    }
}

impl AuditText for AuditRow {
    fn audit_text(&self) -> String {
        let Self { id, entry } = self;
        text(&Line::Change {
            id: id.uuid(),
            at: time(entry.at),
            action: &entry.action,
            actor: &entry.actor,
            user_id: entry.user_id.map(crate::ids::UserId::uuid),
            token_id: entry.token_id.map(crate::ids::TokenId::uuid),
            address: entry.address,
            noun: &entry.target.noun,
            target_id: entry.target.id,
            target_name: &entry.target.name,
            request_id: entry.request_id.uuid(),
            times: entry.times,
            before: entry.before.map(hex::encode),
            after: entry.after.map(hex::encode),
        })
    }
}

impl AuditText for ClusterAuditRow {
    fn audit_text(&self) -> String {
        let Self { id, entry } = self;
        text(&Line::Request {
            id: id.uuid(),
            at: time(entry.at),
            cluster_id: entry.cluster_id.uuid(),
            user_id: entry.user_id.uuid(),
            actor: &entry.actor,
            address: entry.address,
            token_id: entry.token_id.map(crate::ids::TokenId::uuid),
            method: &entry.method,
            path: &entry.path,
            response_code: entry.response_code,
            duration_ms: entry.duration_ms,
            received_bytes: entry.received_bytes,
            sent_bytes: entry.sent_bytes,
            request_id: entry.request_id.uuid(),
            recording_id: entry.recording_id.map(crate::ids::RecordingId::uuid),
            impersonated_user: entry.impersonated.as_ref().map(|who| who.user.as_str()),
            impersonated_groups: entry.impersonated.as_ref().map(|who| who.groups.as_slice()),
        })
    }
}

/// The SHA-256 of bytes.
pub fn digest(bytes: &[u8]) -> AuditDigest {
    Sha256::digest(bytes).into()
}

/// The lines of a batch in order, by id and digest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineList(Vec<u8>);

impl LineList {
    /// Adds a line at the end.
    pub fn push(&mut self, id: Uuid, digest: AuditDigest) {
        self.0.extend_from_slice(id.as_bytes());
        self.0.extend_from_slice(&digest);
    }

    /// The list that these bytes are, if they are one.
    pub fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        bytes.len().is_multiple_of(LISTED).then_some(Self(bytes))
    }

    /// The bytes to keep.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// How many lines.
    pub fn len(&self) -> usize {
        self.0.len() / LISTED
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The lines.
    pub fn iter(&self) -> impl Iterator<Item = (Uuid, AuditDigest)> {
        self.0.chunks_exact(LISTED).map(|line| {
            let (mut id, mut digest) = ([0; 16], [0; 32]);
            id.copy_from_slice(&line[..16]);
            digest.copy_from_slice(&line[16..]);
            (Uuid::from_bytes(id), digest)
        })
    }

    /// What a batch says of it.
    pub fn digest(&self) -> AuditDigest {
        digest(&self.0)
    }
}

/// A link of the chain: a batch, what it covers, and what comes before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditBatch {
    /// Id.
    pub id: AuditBatchId,
    /// Its place in the chain, from 1.
    pub sequence: u64,
    /// Whose lines.
    pub log: AuditLog,
    /// How many.
    pub lines: u32,
    /// Of [`LineList`].
    pub content: AuditDigest,
    /// The time of the earliest line.
    pub first_at: DateTime<Utc>,
    /// The time of the last line.
    pub last_at: DateTime<Utc>,
    /// When it was put into the chain.
    pub chained_at: DateTime<Utc>,
    /// The digest of the batch before it; of the chain's own text for the first one.
    pub previous: AuditDigest,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename = "batch", rename_all = "camelCase")]
struct BatchText {
    id: Uuid,
    sequence: u64,
    log: AuditLog,
    lines: u32,
    content: String,
    first_at: String,
    last_at: String,
    chained_at: String,
    previous: String,
}

impl AuditBatch {
    /// Its one text.
    pub fn text(&self) -> String {
        let Self { id, sequence, log, lines, content, first_at, last_at, chained_at, previous } = self;
        text(&BatchText {
            id: id.uuid(),
            sequence: *sequence,
            log: *log,
            lines: *lines,
            content: hex::encode(content),
            first_at: time(*first_at),
            last_at: time(*last_at),
            chained_at: time(*chained_at),
            previous: hex::encode(previous),
        })
    }

    /// The SHA-256 of its text: what the next batch and checkpoints name.
    pub fn digest(&self) -> AuditDigest {
        digest(self.text().as_bytes())
    }

    /// The batch of a text.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is none.
    pub fn parse(line: &str) -> Result<Self> {
        let bad = || Error::invalid("batch", "is not a batch of an audit log");
        let read: BatchText = serde_json::from_str(line).map_err(|_| bad())?;
        let at = |text: &str| DateTime::parse_from_rfc3339(text).map(|at| at.to_utc()).map_err(|_| bad());
        Ok(Self {
            id: AuditBatchId::from_uuid(read.id),
            sequence: read.sequence,
            log: read.log,
            lines: read.lines,
            content: digest_of(&read.content).ok_or_else(bad)?,
            first_at: at(&read.first_at)?,
            last_at: at(&read.last_at)?,
            chained_at: at(&read.chained_at)?,
            previous: digest_of(&read.previous).ok_or_else(bad)?,
        })
    }
}

/// The digest that this text writes in hexadecimal digits.
pub fn digest_of(text: &str) -> Option<AuditDigest> {
    let mut digest = [0; 32];
    hex::decode_to_slice(text, &mut digest).ok()?;
    Some(digest)
}

/// Which chain: named by the public key that its checkpoints are signed with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditChain {
    key: [u8; 32],
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename = "chain", rename_all = "camelCase")]
struct ChainText {
    version: u32,
    key: String,
}

impl AuditChain {
    /// The chain of a public key.
    pub const fn of_key(key: [u8; 32]) -> Self {
        Self { key }
    }

    /// The public key in base64.
    pub fn key(&self) -> String {
        STANDARD.encode(self.key)
    }

    /// The chain of a key in base64.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is none.
    pub fn parse_key(text: &str) -> Result<Self> {
        let key = STANDARD.decode(text.trim()).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        key.map(Self::of_key).ok_or_else(|| Error::invalid("key", "is not a public key of an audit log"))
    }

    /// Its one text: the first line of an export.
    pub fn text(&self) -> String {
        text(&ChainText { version: 1, key: self.key() })
    }

    /// The chain of a text.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is none that this release reads.
    pub fn parse(line: &str) -> Result<Self> {
        let bad = || Error::invalid("chain", "is not the beginning of an audit log that this release reads");
        let read: ChainText = serde_json::from_str(line).map_err(|_| bad())?;
        if read.version != 1 {
            return Err(bad());
        }
        Self::parse_key(&read.key)
    }

    /// Whether its key signed this; the signature in base64.
    pub(crate) fn has_signed(&self, signed: &[u8], signature: &str) -> bool {
        let Ok(signature) = STANDARD.decode(signature) else { return false };
        UnparsedPublicKey::new(&ED25519, self.key).verify(signed, &signature).is_ok()
    }

    /// What the first batch names as the one before it.
    pub fn origin(&self) -> AuditDigest {
        digest(self.text().as_bytes())
    }
}

/// The signed statement how far the chain went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename = "checkpoint", rename_all = "camelCase")]
pub struct AuditCheckpoint {
    /// The last batch.
    pub sequence: u64,
    /// Its digest in hexadecimal digits.
    pub digest: String,
    /// When it was signed.
    pub at: String,
    /// The public key in base64.
    pub key: String,
    /// Over everything else, in base64.
    pub signature: String,
}

impl AuditCheckpoint {
    /// What is signed: its text without the signature.
    fn signed(&self) -> Vec<u8> {
        let unsigned = Self { signature: String::new(), ..self.clone() };
        [b"plural audit checkpoint 1\0", text(&unsigned).as_bytes()].concat()
    }

    /// Its text.
    pub fn text(&self) -> String {
        text(self)
    }

    /// The checkpoint of a text.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is none.
    pub fn parse(line: &str) -> Result<Self> {
        serde_json::from_str(line)
            .map_err(|_| Error::invalid("checkpoint", "is not a checkpoint of an audit log"))
    }

    /// Whether this chain's key signed it.
    pub fn is_of(&self, chain: &AuditChain) -> bool {
        self.key == chain.key() && chain.has_signed(&self.signed(), &self.signature)
    }
}

/// The key that checkpoints are signed with.
pub struct AuditKey(Ed25519KeyPair);

impl std::fmt::Debug for AuditKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AuditKey")
    }
}

impl AuditKey {
    /// The key of a seed.
    ///
    /// # Errors
    /// When the seed is none.
    pub fn from_seed(seed: &[u8; 32]) -> Result<Self> {
        Ed25519KeyPair::from_seed_unchecked(seed)
            .map(Self)
            .map_err(|_| Error::internal("opening the key of the audit log", "it is no key"))
    }

    /// The chain that it signs.
    pub fn chain(&self) -> AuditChain {
        let mut key = [0; 32];
        for (to, from) in key.iter_mut().zip(self.0.public_key().as_ref()) {
            *to = *from;
        }
        AuditChain::of_key(key)
    }

    /// Signs how far the chain went.
    pub fn sign(&self, sequence: u64, digest: &AuditDigest, at: DateTime<Utc>) -> AuditCheckpoint {
        let mut checkpoint = AuditCheckpoint {
            sequence,
            digest: hex::encode(digest),
            at: time(at),
            key: self.chain().key(),
            signature: String::new(),
        };
        checkpoint.signature = self.signature(&checkpoint.signed());
        checkpoint
    }

    /// Its signature of these bytes in base64.
    pub(crate) fn signature(&self, of: &[u8]) -> String {
        STANDARD.encode(self.0.sign(of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{AuditEntry, AuditTarget};
    use crate::ids::{AuditId, RequestId};

    #[test]
    fn a_line_has_one_text_and_absent_fields_are_not_in_it() {
        let row = AuditRow {
            id: AuditId::from_uuid(Uuid::nil()),
            entry: AuditEntry {
                action: "cluster.create".into(),
                user_id: None,
                actor: "ada@example.com".into(),
                token_id: None,
                address: Some("192.0.2.1".parse().unwrap()),
                target: AuditTarget { noun: "cluster".into(), id: None, name: "blue \"one\"".into() },
                request_id: RequestId::from_uuid(Uuid::nil()),
                at: DateTime::UNIX_EPOCH,
                times: 1,
                before: None,
                after: None,
            },
        };
        assert_eq!(
            row.audit_text(),
            r#"{"kind":"change","id":"00000000-0000-0000-0000-000000000000","at":"1970-01-01T00:00:00.000000Z","action":"cluster.create","actor":"ada@example.com","address":"192.0.2.1","noun":"cluster","targetName":"blue \"one\"","requestId":"00000000-0000-0000-0000-000000000000","times":1}"#
        );
    }

    #[test]
    fn a_checkpoint_is_of_one_key_and_every_part_of_it_is_signed() {
        let key = AuditKey::from_seed(&[7; 32]).unwrap();
        let signed = key.sign(41, &[1; 32], DateTime::UNIX_EPOCH);
        let chain = key.chain();
        assert!(signed.is_of(&chain));
        assert!(AuditCheckpoint::parse(&signed.text()).unwrap().is_of(&chain));
        assert!(!signed.is_of(&AuditKey::from_seed(&[8; 32]).unwrap().chain()));
        let other = |change: fn(&mut AuditCheckpoint)| {
            let mut changed = signed.clone();
            change(&mut changed);
            changed.is_of(&chain)
        };
        assert!(!other(|checkpoint| checkpoint.sequence = 42));
        assert!(!other(|checkpoint| checkpoint.digest = hex::encode([2; 32])));
        assert!(!other(|checkpoint| checkpoint.at.push('0')));
        assert!(!other(|checkpoint| checkpoint.signature = "bm8=".into()));
    }

    #[test]
    fn texts_are_read_as_they_were_written() {
        let chain = AuditKey::from_seed(&[7; 32]).unwrap().chain();
        assert_eq!(AuditChain::parse(&chain.text()).unwrap(), chain);
        let batch = AuditBatch {
            id: AuditBatchId::new(),
            sequence: 3,
            log: AuditLog::Clusters,
            lines: 2,
            content: [1; 32],
            first_at: DateTime::UNIX_EPOCH,
            last_at: DateTime::UNIX_EPOCH,
            chained_at: DateTime::UNIX_EPOCH,
            previous: chain.origin(),
        };
        assert_eq!(AuditBatch::parse(&batch.text()).unwrap(), batch);
        assert_eq!(AuditBatch::parse(&batch.text()).unwrap().digest(), batch.digest());
    }
}
