//! Checking the audit log's chain, and exporting it with its proof.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use plural_core::access::Scope;
use plural_core::audit_chain::{AuditChain, AuditCheckpoint, AuditDigest, LineList};
use plural_core::audit_verify::{AuditProblem, AuditVerifier, FoundLines};
use plural_core::{Error, Result};
use uuid::Uuid;

use crate::access::{Installation, Read, authorize_installation};
use crate::app::App;
use crate::audit_chain::{NOTES, OUTSIDE, StoredBatch};
use crate::ctx::OpCtx;
use crate::store::Store;

/// Batches that one question checks at most.
const MOST_BATCHES: u64 = 100;
/// Checkpoints that one question brings at most.
pub const MOST_CHECKPOINTS: usize = 1_000;
/// Lines without a place that are named.
const MOST_STRAYS: u64 = 100;
/// Batches that an export reads at once.
const AT_ONCE: u64 = 16;

/// What is to be checked.
#[derive(Debug, Clone, Default)]
pub struct AuditVerify {
    /// Behind this batch, which was checked before.
    pub after: u64,
    /// Batches at most.
    pub limit: u64,
    /// Checkpoints that were kept outside.
    pub checkpoints: Vec<AuditCheckpoint>,
    /// Compare with those of the blob store, too.
    pub blob_store: bool,
}

/// What was found.
#[derive(Debug, Clone)]
pub struct AuditVerification {
    /// Batches that were checked.
    pub batches: u64,
    /// Lines that were checked.
    pub lines: u64,
    /// Lines that are not in the chain yet, so that nothing can be said of them.
    pub unchained: u64,
    /// Checkpoints that were compared with, besides those that came with the question.
    pub kept_outside: u64,
    /// The last batch that was checked.
    pub sequence: u64,
    /// Its digest.
    pub digest: AuditDigest,
    /// There are more batches behind it.
    pub more: bool,
    /// What is wrong.
    pub problems: Vec<AuditProblem>,
    /// Problems beyond those.
    pub more_problems: u64,
}

impl App {
    /// Checks a part of the chain: administrators only. What is asked with the last batch of one answer as `after` continues it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a batch that there is none of, or too many checkpoints.
    pub async fn audit_verify(&self, ctx: &OpCtx, verify: AuditVerify) -> Result<AuditVerification> {
        authorize_installation::<Read>(ctx, Scope::AdminOnly)?;
        let AuditVerify { after, limit, mut checkpoints, blob_store } = verify;
        if checkpoints.len() > MOST_CHECKPOINTS {
            return Err(Error::invalid("checkpoints", format!("must be {MOST_CHECKPOINTS} at most")));
        }
        let chain = self.audit_chain_own();
        let head = match after {
            0 => (0, chain.origin()),
            // What the batch says, not what is stored beside it as its digest: that one could have been left as it was.
            after => self
                .store
                .audit_batches(after - 1, 1)
                .await?
                .into_iter()
                .find(|stored| stored.batch.sequence == after)
                .map(|stored| (after, stored.batch.digest()))
                .ok_or_else(|| Error::invalid("after", "is not a batch of the audit log"))?,
        };
        let mut kept_outside = 0;
        if blob_store {
            for (name, content) in self.blobs.notes(NOTES, OUTSIDE).await? {
                let read =
                    std::str::from_utf8(&content).ok().and_then(|text| AuditCheckpoint::parse(text).ok());
                match read {
                    Some(checkpoint) => {
                        kept_outside += 1;
                        checkpoints.push(checkpoint);
                    }
                    None => {
                        tracing::warn!(name, "a checkpoint in the blob store cannot be read; it is left out");
                    }
                }
            }
        }
        // What lies before the part was compared with when that was checked.
        checkpoints.retain(|checkpoint| checkpoint.sequence > after || !checkpoint.is_of(&chain));
        let mut verifier = AuditVerifier::after(chain, checkpoints, head);
        let limit = limit.clamp(1, MOST_BATCHES);
        let mut batches = self.store.audit_batches(after, limit + 1).await?;
        let more = batches.len() as u64 > limit;
        batches.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        for StoredBatch { batch, list, expired } in &batches {
            if *expired {
                verifier.batch(batch, None, &FoundLines::Expired);
            } else {
                let found = self.store.audit_lines(batch).await?.digests();
                verifier.batch(batch, list.as_ref(), &FoundLines::Rows(&found));
            }
        }
        verifier.expired_by(&self.audit_expired_told().await?);
        let mut unchained = 0;
        if !more {
            verifier.end();
            for (log, line, batch) in self.store.audit_strays(MOST_STRAYS).await? {
                verifier.stray(log, line, batch);
            }
            unchained = self.store.audit_unchained_count().await?;
        }
        let (sequence, digest) = verifier.head();
        let lines = verifier.lines();
        let (problems, more_problems) = verifier.into_problems();
        Ok(AuditVerification {
            batches: batches.len() as u64,
            lines,
            unchained,
            kept_outside,
            sequence,
            digest,
            more,
            problems,
            more_problems,
        })
    }

    /// The chain with its lines behind a batch, as lines of JSON that can be checked without this console; administrators only.
    /// That it was read is told in the log.
    pub async fn audit_export(&self, ctx: &OpCtx, after: u64) -> Result<BoxStream<'static, Result<Bytes>>> {
        let by = authorize_installation::<Read>(ctx, Scope::AdminOnly)?;
        self.audit_read::<Installation, Read>(ctx, &by, "audit.export").await?;
        // It ends where the chain ends now, not where it will.
        let end = self.store.audit_digest_at(None).await?.map_or(0, |(sequence, _)| sequence);
        let (store, chain) = (Arc::clone(&self.store), self.audit_chain_own());
        let state = Export { store, chain, at: after, end, batches: VecDeque::new(), begun: false };
        let pieces = futures::stream::try_unfold(state, |mut export| async move {
            Ok(export.next().await?.map(|piece| (piece, export)))
        });
        Ok(pieces.boxed())
    }
}

/// An export under way.
struct Export {
    store: Arc<dyn Store>,
    chain: AuditChain,
    at: u64,
    end: u64,
    batches: VecDeque<StoredBatch>,
    begun: bool,
}

impl Export {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        if !self.begun {
            self.begun = true;
            return Ok(Some(Bytes::from(format!("{}\n", self.chain.text()))));
        }
        if self.batches.is_empty() && self.at < self.end {
            self.batches = self.store.audit_batches(self.at, AT_ONCE).await?.into();
        }
        let Some(stored) = self.batches.pop_front() else {
            if self.at == u64::MAX {
                return Ok(None);
            }
            self.at = u64::MAX;
            return Ok(Some(self.checkpoints().await?));
        };
        self.at = stored.batch.sequence.max(self.at + 1);
        Ok(Some(Bytes::from(exported(&*self.store, &stored).await?)))
    }

    /// What was signed of the part that was exported.
    async fn checkpoints(&self) -> Result<Bytes> {
        let mut out = String::new();
        let mut signed = self.store.audit_checkpoints(100).await?;
        signed.retain(|checkpoint| checkpoint.sequence <= self.end);
        for checkpoint in signed.iter().rev() {
            out.push_str(&checkpoint.text());
            out.push('\n');
        }
        Ok(Bytes::from(out))
    }
}

/// A batch with its lines as text: the batch, the list of its lines, and the lines in order.
pub(crate) async fn exported(store: &dyn Store, stored: &StoredBatch) -> Result<String> {
    let StoredBatch { batch, list, expired } = stored;
    let mut out = format!("{}\n", batch.text());
    if *expired {
        out.push_str("{\"kind\":\"expired\"}\n");
        return Ok(out);
    }
    let texts = store.audit_lines(batch).await?.texts();
    if let Some(list) = list {
        out.push_str("{\"kind\":\"list\",\"list\":\"");
        out.push_str(&STANDARD.encode(list.as_bytes()));
        out.push_str("\"}\n");
    }
    for text in ordered(list.as_ref(), texts) {
        out.push_str(&text);
        out.push('\n');
    }
    Ok(out)
}

/// Lines in the order of their batch; those that it does not name come last.
fn ordered(list: Option<&LineList>, texts: Vec<(Uuid, String)>) -> Vec<String> {
    let Some(list) = list else { return texts.into_iter().map(|(_, text)| text).collect() };
    let place: HashMap<Uuid, usize> = list.iter().enumerate().map(|(place, (id, _))| (id, place)).collect();
    let mut placed: Vec<(usize, String)> =
        texts.into_iter().map(|(id, text)| (place.get(&id).copied().unwrap_or(usize::MAX), text)).collect();
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, text)| text).collect()
}
