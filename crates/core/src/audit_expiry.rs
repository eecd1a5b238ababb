//! Which lines of the audit log were removed because they were kept long enough, in the words of the log's own key.
//!
//! A line `audit.expire` tells of each removal, and holds a signed statement: whoever can write to the database and has no key
//! cannot make lines look as if they had expired. A statement names the end of the chain when it was made, so that it counts in this
//! history only, and not in a copy of the database that went another way.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::audit_chain::{AuditChain, AuditDigest, AuditKey, AuditLog, text, time};
use crate::error::{Error, Result};

/// How an audit line says which lines were removed because they were kept long enough.
pub const EXPIRED_ACTION: &str = "audit.expire";

/// Batches that a statement names as marked by another hand, at most.
pub const MOST_FOREIGN: usize = 500;

/// What is between the words and the statement in the name of the line's target.
const BEFORE_STATEMENT: &str = "; ";

/// Up to which batch the lines of each log were removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExpiredFloors {
    /// Of the console's log.
    pub console: u64,
    /// Of the clusters'.
    pub clusters: u64,
}

impl ExpiredFloors {
    /// That of one log.
    pub const fn of(&self, log: AuditLog) -> u64 {
        match log {
            AuditLog::Console => self.console,
            AuditLog::Clusters => self.clusters,
        }
    }

    /// That of one log, to change it.
    pub const fn of_mut(&mut self, log: AuditLog) -> &mut u64 {
        match log {
            AuditLog::Console => &mut self.console,
            AuditLog::Clusters => &mut self.clusters,
        }
    }

    fn words(&self) -> String {
        format!("console up to batch {}, clusters up to batch {}", self.console, self.clusters)
    }

    /// What a line says in words, with or without a statement behind them.
    pub fn parse(name: &str) -> Option<Self> {
        let words = name.split_once(BEFORE_STATEMENT).map_or(name, |(words, _)| words);
        let (console, clusters) =
            words.strip_prefix("console up to batch ")?.split_once(", clusters up to batch ")?;
        Some(Self { console: console.parse().ok()?, clusters: clusters.parse().ok()? })
    }
}

/// The signed statement which lines were removed, from the beginning on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename = "expiry", rename_all = "camelCase")]
pub struct AuditExpired {
    /// Lines of the console's log are gone up to this batch.
    pub console: u64,
    /// Lines of the clusters' log are gone up to this batch.
    pub clusters: u64,
    /// Batches up to there that were marked as expired by another hand: the console does not answer for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign: Vec<u64>,
    /// The last batch of the chain when this was signed; 0 when there was none.
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

impl AuditExpired {
    /// Signs which lines were removed, at this end of the chain.
    pub fn sign(
        key: &AuditKey,
        floors: ExpiredFloors,
        foreign: Vec<u64>,
        head: (u64, AuditDigest),
        at: DateTime<Utc>,
    ) -> Self {
        let mut statement = Self {
            console: floors.console,
            clusters: floors.clusters,
            foreign,
            sequence: head.0,
            digest: hex::encode(head.1),
            at: time(at),
            key: key.chain().key(),
            signature: String::new(),
        };
        statement.signature = key.signature(&statement.signed());
        statement
    }

    /// What is signed: its text without the signature.
    fn signed(&self) -> Vec<u8> {
        let unsigned = Self { signature: String::new(), ..self.clone() };
        [b"plural audit expiry 1\0", text(&unsigned).as_bytes()].concat()
    }

    /// Whether this chain's key signed it.
    pub fn is_of(&self, chain: &AuditChain) -> bool {
        self.key == chain.key() && chain.has_signed(&self.signed(), &self.signature)
    }

    /// Whether the batch that it names as the end of the chain has this digest.
    pub fn is_at(&self, digest: &AuditDigest) -> bool {
        self.digest == hex::encode(digest)
    }

    /// Up to where lines are gone.
    pub const fn floors(&self) -> ExpiredFloors {
        ExpiredFloors { console: self.console, clusters: self.clusters }
    }

    /// Whether it says that the lines of this batch were removed.
    pub fn covers(&self, log: AuditLog, sequence: u64) -> bool {
        sequence <= self.floors().of(log) && !self.foreign.contains(&sequence)
    }

    /// Its text.
    pub fn text(&self) -> String {
        text(self)
    }

    /// The statement of a text.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is none.
    pub fn parse(line: &str) -> Result<Self> {
        serde_json::from_str(line)
            .map_err(|_| Error::invalid("expiry", "is not a statement of an audit log about what expired"))
    }

    /// The name of the target in the line that holds it.
    pub fn name(&self) -> String {
        format!("{}{BEFORE_STATEMENT}{}", self.floors().words(), self.text())
    }

    /// The statement in the name of a line's target.
    pub fn in_name(name: &str) -> Option<Self> {
        Self::parse(name.split_once(BEFORE_STATEMENT)?.1).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_of_one_key_and_every_part_of_it_is_signed() {
        let key = AuditKey::from_seed(&[7; 32]).unwrap();
        let floors = ExpiredFloors { console: 4, clusters: 17 };
        let signed = AuditExpired::sign(&key, floors, vec![2], (20, [1; 32]), DateTime::UNIX_EPOCH);
        let chain = key.chain();
        assert!(signed.is_of(&chain) && signed.is_at(&[1; 32]) && !signed.is_at(&[2; 32]));
        assert_eq!(AuditExpired::in_name(&signed.name()), Some(signed.clone()));
        assert_eq!(ExpiredFloors::parse(&signed.name()), Some(floors));
        assert_eq!(ExpiredFloors::parse(&floors.words()), Some(floors), "as earlier releases wrote it");
        assert_eq!(AuditExpired::in_name(&floors.words()), None);
        assert!(!signed.is_of(&AuditKey::from_seed(&[8; 32]).unwrap().chain()));
        let other = |change: fn(&mut AuditExpired)| {
            let mut changed = signed.clone();
            change(&mut changed);
            changed.is_of(&chain)
        };
        assert!(!other(|it| it.console = 5));
        assert!(!other(|it| it.clusters = 18));
        assert!(!other(|it| it.foreign.clear()));
        assert!(!other(|it| it.sequence = 21));
        assert!(!other(|it| it.digest = hex::encode([2; 32])));
        assert!(!other(|it| it.at.push('0')));
        assert!(!other(|it| it.signature = "bm8=".into()));
        // A checkpoint's signature is none of a statement.
        let checkpoint = key.sign(20, &[1; 32], DateTime::UNIX_EPOCH).signature;
        assert!(!AuditExpired { signature: checkpoint, ..signed.clone() }.is_of(&chain));
        assert!(signed.covers(AuditLog::Console, 4) && !signed.covers(AuditLog::Console, 5));
        assert!(signed.covers(AuditLog::Clusters, 17) && !signed.covers(AuditLog::Clusters, 2));
    }
}
