//! Checks the chain of the audit log, batch by batch: what was edited, removed, inserted, reordered, cut or written anew is named.

use std::collections::HashMap;

use uuid::Uuid;

use crate::audit_chain::{AuditBatch, AuditChain, AuditCheckpoint, AuditDigest, AuditLog, LineList};
use crate::audit_expiry::{AuditExpired, EXPIRED_ACTION};

/// Problems that are told; more of them are counted.
const MOST: usize = 200;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuditProblemKind {
    /// A line says something else than when it was written.
    Edited,
    /// A line is gone.
    Removed,
    /// A line was added to a batch, or stands in another one.
    Inserted,
    /// The lines of a batch are in another order.
    Reordered,
    /// A batch itself was changed.
    Batch,
    /// Batches are missing.
    Gap,
    /// The chain ends before a checkpoint.
    Cut,
    /// The chain has another batch than a checkpoint says.
    Rewritten,
    /// The lines of a batch were removed, and no line of the log that its key signed says so.
    Expired,
    /// A checkpoint that this chain's key did not sign.
    Checkpoint,
}

impl AuditProblemKind {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Edited,
        Self::Removed,
        Self::Inserted,
        Self::Reordered,
        Self::Batch,
        Self::Gap,
        Self::Cut,
        Self::Rewritten,
        Self::Expired,
        Self::Checkpoint,
    ];
}

/// Something that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditProblem {
    /// What.
    pub kind: AuditProblemKind,
    /// Of which log, where it is about a batch.
    pub log: Option<AuditLog>,
    /// The batch.
    pub sequence: Option<u64>,
    /// The line.
    pub line: Option<Uuid>,
    /// In words.
    pub message: String,
}

/// The lines of a batch as they were found.
#[derive(Debug)]
pub enum FoundLines<'a> {
    /// They were kept long enough.
    Expired,
    /// In no order of their own: rows of a database.
    Rows(&'a [(Uuid, AuditDigest)]),
    /// In this order: an exported file.
    InOrder(&'a [(Uuid, AuditDigest)]),
}

/// Checks batches one after the other.
#[derive(Debug)]
pub struct AuditVerifier {
    chain: AuditChain,
    checkpoints: Vec<AuditCheckpoint>,
    /// Checkpoints by the batch that they name.
    named: HashMap<u64, Vec<usize>>,
    /// The place and the digest of the batch before the next one.
    head: (u64, AuditDigest),
    /// Batches whose lines are marked as expired.
    expired: Vec<(AuditLog, u64)>,
    lines: u64,
    problems: Vec<AuditProblem>,
    more: u64,
}

impl AuditVerifier {
    /// From the beginning of a chain, against these checkpoints.
    pub fn new(chain: AuditChain, checkpoints: Vec<AuditCheckpoint>) -> Self {
        let origin = chain.origin();
        Self::after(chain, checkpoints, (0, origin))
    }

    /// From behind a batch that was checked before.
    pub fn after(chain: AuditChain, checkpoints: Vec<AuditCheckpoint>, head: (u64, AuditDigest)) -> Self {
        let mut verifier = Self {
            chain,
            checkpoints: Vec::new(),
            named: HashMap::new(),
            head,
            expired: Vec::new(),
            lines: 0,
            problems: Vec::new(),
            more: 0,
        };
        for checkpoint in checkpoints {
            if !checkpoint.is_of(&verifier.chain) {
                let told = format!(
                    "the checkpoint of {} for batch {} is not signed with this log's key ({}): it is of another console, or \
                     the key was replaced",
                    checkpoint.at,
                    checkpoint.sequence,
                    verifier.chain.key()
                );
                verifier.tell(AuditProblemKind::Checkpoint, None, Some(checkpoint.sequence), None, told);
                continue;
            }
            verifier.named.entry(checkpoint.sequence).or_default().push(verifier.checkpoints.len());
            verifier.checkpoints.push(checkpoint);
        }
        verifier
    }

    fn tell(
        &mut self,
        kind: AuditProblemKind,
        log: Option<AuditLog>,
        sequence: Option<u64>,
        line: Option<Uuid>,
        message: String,
    ) {
        if self.problems.len() >= MOST {
            self.more += 1;
            return;
        }
        self.problems.push(AuditProblem { kind, log, sequence, line, message });
    }

    /// The next batch. `list` is what names its lines; without it they are compared as a whole.
    pub fn batch(&mut self, batch: &AuditBatch, list: Option<&LineList>, found: &FoundLines<'_>) {
        let AuditBatch { sequence, log, .. } = *batch;
        let about = (Some(log), Some(sequence));
        let (last, digest) = self.head;
        if sequence <= last {
            let told =
                format!("batch {sequence} comes after batch {last}: batches were reordered or doubled");
            self.tell(AuditProblemKind::Reordered, about.0, about.1, None, told);
        } else if sequence > last + 1 {
            let told = match (last + 1, sequence - 1) {
                (one, same) if one == same => format!("batch {one} is missing"),
                (from, to) => format!("batches {from} to {to} are missing"),
            };
            self.tell(AuditProblemKind::Gap, None, Some(last + 1), None, told);
        } else if batch.previous != digest {
            let told = if last == 0 {
                format!("batch {sequence} does not begin this chain: it, or the log's key, was replaced")
            } else {
                format!(
                    "batch {sequence} does not follow batch {last} as it is now: one of both was changed (batch {last} has the digest {}, \
                     batch {sequence} names {})",
                    hex::encode(digest),
                    hex::encode(batch.previous)
                )
            };
            self.tell(AuditProblemKind::Batch, about.0, about.1, None, told);
        }
        if sequence > last {
            self.head = (sequence, batch.digest());
        }
        self.compare_checkpoints(batch);
        match found {
            FoundLines::Expired => self.expired.push((log, sequence)),
            FoundLines::Rows(lines) => self.compare(batch, list, lines, false),
            FoundLines::InOrder(lines) => self.compare(batch, list, lines, true),
        }
    }

    fn compare_checkpoints(&mut self, batch: &AuditBatch) {
        let Some(named) = self.named.remove(&batch.sequence) else { return };
        let digest = hex::encode(batch.digest());
        for at in named {
            let Some(checkpoint) = self.checkpoints.get(at) else { continue };
            if checkpoint.digest != digest {
                let told = format!(
                    "the chain was written anew: the checkpoint of {} says that batch {} has the digest {}, and it has {digest}",
                    checkpoint.at, batch.sequence, checkpoint.digest
                );
                self.tell(AuditProblemKind::Rewritten, Some(batch.log), Some(batch.sequence), None, told);
            }
        }
    }

    fn compare(
        &mut self,
        batch: &AuditBatch,
        list: Option<&LineList>,
        lines: &[(Uuid, AuditDigest)],
        in_order: bool,
    ) {
        self.lines += lines.len() as u64;
        let AuditBatch { sequence, log, .. } = *batch;
        let list =
            list.filter(|list| list.digest() == batch.content && list.len() as u64 == u64::from(batch.lines));
        let Some(list) = list else {
            let mut actual = LineList::default();
            for (id, digest) in lines {
                actual.push(*id, *digest);
            }
            if !in_order || actual.digest() != batch.content {
                let told = format!(
                    "the list of the {} lines of batch {sequence} was changed or is missing: which of them were is not known",
                    batch.lines
                );
                self.tell(AuditProblemKind::Batch, Some(log), Some(sequence), None, told);
            }
            return;
        };
        let mut there: HashMap<Uuid, AuditDigest> = HashMap::with_capacity(lines.len());
        let mut is_changed = false;
        for (id, digest) in lines {
            if there.insert(*id, *digest).is_some() {
                is_changed = true;
                let told = format!("line {id} is in batch {sequence} twice");
                self.tell(AuditProblemKind::Inserted, Some(log), Some(sequence), Some(*id), told);
            }
        }
        for (id, listed) in list.iter() {
            match there.remove(&id) {
                Some(digest) if digest == listed => {}
                Some(digest) => {
                    is_changed = true;
                    let told = format!(
                        "line {id} of batch {sequence} was edited: it has the digest {} and had {}",
                        hex::encode(digest),
                        hex::encode(listed)
                    );
                    self.tell(AuditProblemKind::Edited, Some(log), Some(sequence), Some(id), told);
                }
                None => {
                    is_changed = true;
                    let told = format!("line {id} of batch {sequence} was removed");
                    self.tell(AuditProblemKind::Removed, Some(log), Some(sequence), Some(id), told);
                }
            }
        }
        let mut added: Vec<Uuid> = there.into_keys().collect();
        added.sort_unstable();
        for id in added {
            is_changed = true;
            let told = format!("line {id} was inserted: batch {sequence} had none of this id");
            self.tell(AuditProblemKind::Inserted, Some(log), Some(sequence), Some(id), told);
        }
        if in_order && !is_changed {
            let moved = list.iter().zip(lines).find(|((listed, _), (id, _))| listed != id);
            if let Some(((id, _), _)) = moved {
                let told = format!("the lines of batch {sequence} were reordered, from line {id} on");
                self.tell(AuditProblemKind::Reordered, Some(log), Some(sequence), Some(id), told);
            }
        }
    }

    /// A line that names a batch which is none, or which its lines have left.
    pub fn stray(&mut self, log: AuditLog, line: Uuid, batch: Uuid) {
        let told = format!(
            "line {line} was inserted: it names batch {batch}, which is not in the chain or has expired"
        );
        self.tell(AuditProblemKind::Inserted, Some(log), None, Some(line), told);
    }

    /// Lines may have been removed where one of these says so. Whether they are of this history is for the caller to know: each names
    /// a batch, and the digest that it has to have. One with a wrong signature counts for nothing.
    pub fn expired_by(&mut self, statements: &[AuditExpired]) {
        let signed: Vec<&AuditExpired> = statements.iter().filter(|one| one.is_of(&self.chain)).collect();
        let expired = std::mem::take(&mut self.expired);
        for log in AuditLog::ALL {
            let unsaid: Vec<u64> = expired
                .iter()
                .filter(|(of, at)| *of == log && !signed.iter().any(|one| one.covers(log, *at)))
                .map(|(_, at)| *at)
                .collect();
            let (Some(first), Some(last)) = (unsaid.first(), unsaid.last()) else { continue };
            let message = format!(
                "the lines of {} batches of the {} log, from batch {first} to batch {last}, are marked as expired, and no line \
                 {EXPIRED_ACTION:?} of the log that is signed with its key says so: they were removed by somebody else than this console",
                unsaid.len(),
                log.as_str()
            );
            self.tell(AuditProblemKind::Expired, Some(log), Some(*last), None, message);
        }
    }

    /// The chain ends here.
    pub fn end(&mut self) {
        let (last, _) = self.head;
        let mut beyond: Vec<usize> =
            self.named.iter().filter(|(at, _)| **at > last).flat_map(|(_, at)| at.clone()).collect();
        beyond.sort_unstable();
        let Some(furthest) =
            beyond.into_iter().filter_map(|at| self.checkpoints.get(at)).max_by_key(|it| it.sequence)
        else {
            return;
        };
        let (sequence, at) = (furthest.sequence, furthest.at.clone());
        let told = format!(
            "the chain was cut: it ends with batch {last}, and the checkpoint of {at} says that there was a batch {sequence}; or the \
             database was restored from a backup"
        );
        self.tell(AuditProblemKind::Cut, None, Some(sequence), None, told);
    }

    /// The place and the digest of the last batch so far.
    pub fn head(&self) -> (u64, AuditDigest) {
        self.head
    }

    /// Lines that were looked at.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// What is wrong, and how many more problems there are than are told.
    pub fn into_problems(self) -> (Vec<AuditProblem>, u64) {
        (self.problems, self.more)
    }
}

#[cfg(test)]
#[path = "audit_verify_tests.rs"]
mod tests;
