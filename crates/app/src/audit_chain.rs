//! The chain of the audit log: lines are written by use cases in their own transactions, and put into the chain about a second
//! later, by the replica that leads. So no use case waits for the chain's head.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use plural_core::access::Scope;
use plural_core::audit::{AuditEntry, AuditRow};
use plural_core::audit_chain::{
    AuditBatch, AuditChain, AuditCheckpoint, AuditDigest, AuditKey, AuditLog, AuditText as _, LineList,
};
use plural_core::audit_expiry::ExpiredFloors;
use plural_core::cluster_audit::ClusterAuditRow;
use plural_core::data_key::KeyOwner;
use plural_core::ids::AuditBatchId;
use plural_core::{Error, Result};
use plural_kit::ShutdownSignal;
use tokio::time::Instant;
use uuid::Uuid;

use crate::access::{Read, authorize_installation};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::keyring::Keyring;
use crate::seal::Sealed;
use crate::secret::random;
use crate::store::Store;

/// Lines of a batch at most.
pub(crate) const BATCH: u64 = 2_000;
/// Batches of the clusters' log that get their places at once.
const LINKS: u64 = 200;
/// Between two looks for lines on a console where something was written.
const EVERY: Duration = Duration::from_secs(1);
/// Between two looks where nothing was: another replica, or the release before this one, may have written something.
const SELDOM: Duration = Duration::from_secs(3);
/// Lines of proxied requests without a batch that are older than this are of an earlier release, and are left to expire.
const OLD: TimeDelta = TimeDelta::days(29);
/// A console that stops gives what is still being written so long to come.
const LAST: Duration = Duration::from_millis(50);
/// And takes so long for its last pass.
const LAST_PASS: Duration = Duration::from_secs(5);
/// Checkpoints of the blob store that are compared with.
pub(crate) const OUTSIDE: usize = 50;
/// The folder of the blob store's notes where checkpoints are.
pub(crate) const NOTES: &str = "audit-checkpoints";

/// A batch that has no place in the chain yet.
#[derive(Debug, Clone)]
pub struct UnchainedBatch {
    /// Id.
    pub id: AuditBatchId,
    /// Whose lines.
    pub log: AuditLog,
    /// The lines.
    pub list: LineList,
    /// The time of the earliest.
    pub first_at: DateTime<Utc>,
    /// The time of the last.
    pub last_at: DateTime<Utc>,
}

/// A batch whose lines were stored with it, without its list.
#[derive(Debug, Clone)]
pub struct StoredUnchained {
    /// Id.
    pub id: AuditBatchId,
    /// Whose lines.
    pub log: AuditLog,
    /// How many.
    pub lines: u32,
    /// Digest of the list.
    pub content: AuditDigest,
    /// The time of the earliest.
    pub first_at: DateTime<Utc>,
    /// The time of the last.
    pub last_at: DateTime<Utc>,
}

/// What is not in the chain yet, up to a limit of each.
#[derive(Debug, Default)]
pub struct Unchained {
    /// The place and the digest of the last batch.
    pub head: Option<(u64, AuditDigest)>,
    /// Batches without a place, oldest first.
    pub batches: Vec<StoredUnchained>,
    /// Lines of the console's log without a batch.
    pub console: Vec<AuditRow>,
    /// Lines of the clusters' without one: of an earlier release.
    pub clusters: Vec<ClusterAuditRow>,
}

/// A batch that gets its place; with the list of its lines where it is new.
#[derive(Debug)]
pub struct NewLink {
    /// The batch.
    pub batch: AuditBatch,
    /// The lines; absent where they were stored with the batch.
    pub list: Option<LineList>,
}

/// A batch of the chain as it is stored.
#[derive(Debug, Clone)]
pub struct StoredBatch {
    /// The batch.
    pub batch: AuditBatch,
    /// What names its lines; absent when they have expired.
    pub list: Option<LineList>,
    /// Its lines were removed because they were kept long enough.
    pub expired: bool,
}

/// Lines of one batch.
#[derive(Debug)]
pub enum BatchLines {
    /// Of the console's log.
    Console(Vec<AuditRow>),
    /// Of the clusters'.
    Clusters(Vec<ClusterAuditRow>),
}

impl BatchLines {
    /// By id and digest.
    pub fn digests(&self) -> Vec<(Uuid, AuditDigest)> {
        match self {
            Self::Console(rows) => rows.iter().map(|row| (row.id.uuid(), row.audit_digest())).collect(),
            Self::Clusters(rows) => rows.iter().map(|row| (row.id.uuid(), row.audit_digest())).collect(),
        }
    }

    /// As text, by id.
    pub fn texts(&self) -> Vec<(Uuid, String)> {
        match self {
            Self::Console(rows) => rows.iter().map(|row| (row.id.uuid(), row.audit_text())).collect(),
            Self::Clusters(rows) => rows.iter().map(|row| (row.id.uuid(), row.audit_text())).collect(),
        }
    }
}

/// A line that names a batch which has no such lines: its log, its id, the batch.
pub type Stray = (AuditLog, Uuid, Uuid);

/// A batch that may be old.
#[derive(Debug, Clone, Copy)]
pub struct OldBatch {
    /// Id.
    pub id: AuditBatchId,
    /// Its place in the chain.
    pub sequence: u64,
    /// The time of its last line.
    pub last_at: DateTime<Utc>,
    /// Its lines are gone.
    pub expired: bool,
}

/// The chain's part of a store. What changes it is the console's own work: it tells of the log, and is nobody's wish.
#[async_trait]
pub trait AuditChainStore: Send + Sync + 'static {
    /// The sealed seed of the key that checkpoints are signed with; `fresh` when none was kept before.
    async fn audit_key(&self, fresh: &Sealed) -> Result<Sealed>;
    /// Grows when this process has written lines.
    fn audit_written(&self) -> u64;
    /// What is not in the chain. Lines of the clusters' log without a batch count from `since` on.
    async fn audit_unchained(&self, since: DateTime<Utc>, lines: u64, links: u64) -> Result<Unchained>;
    /// Puts batches behind `head`, which nothing has followed yet.
    ///
    /// # Errors
    /// [`Error::Conflict`] when the chain has another end by now, or a line another batch: nothing was written.
    async fn audit_link(&self, head: u64, links: &[NewLink]) -> Result<()>;
    /// The place and the digest of a batch; of the last one without a place.
    async fn audit_digest_at(&self, sequence: Option<u64>) -> Result<Option<(u64, AuditDigest)>>;
    /// Batches behind this one, in order.
    async fn audit_batches(&self, after: u64, limit: u64) -> Result<Vec<StoredBatch>>;
    /// The lines that name a batch, by id; somewhat more than it should have at most.
    async fn audit_lines(&self, batch: &AuditBatch) -> Result<BatchLines>;
    /// Lines that name a batch which does not exist or has expired.
    async fn audit_strays(&self, limit: u64) -> Result<Vec<Stray>>;
    /// Lines that are not in the chain.
    async fn audit_unchained_count(&self) -> Result<u64>;
    /// The last batch of each log that is marked as expired, whoever marked it.
    async fn audit_marked_floors(&self) -> Result<ExpiredFloors>;
    /// What the lines of the log about expiry say, newest first: the names of their targets.
    async fn audit_expire_lines(&self, limit: u64) -> Result<Vec<String>>;
    /// Keeps a checkpoint; one of the same place stays.
    async fn audit_checkpoint_keep(&self, checkpoint: &AuditCheckpoint) -> Result<()>;
    /// The newest checkpoints, newest first.
    async fn audit_checkpoints(&self, limit: u64) -> Result<Vec<AuditCheckpoint>>;
    /// Batches of a log behind this one, in order.
    async fn audit_old_batches(&self, log: AuditLog, after: u64, limit: u64) -> Result<Vec<OldBatch>>;
    /// Removes the lines of batches, and writes the line that says so; how many lines went.
    ///
    /// # Errors
    /// [`Error::Conflict`] when one has expired already: nothing was removed.
    async fn audit_expire(&self, by: &AuditEntry, batches: &[(AuditLog, AuditBatchId)]) -> Result<u64>;
    /// Removes lines of the clusters' log before this that were never put into the chain, of an earlier release; how many.
    async fn audit_forget_unchained(&self, before: DateTime<Utc>) -> Result<u64>;
    /// Up to which batch a stream has sent.
    async fn audit_stream_at(&self, name: &str) -> Result<Option<u64>>;
    /// A stream has sent up to this batch.
    async fn audit_stream_moved(&self, name: &str, sequence: u64) -> Result<()>;
}

/// What the key's seed is sealed for.
pub(crate) const KEY: &str = "installation:audit-key";

/// Opens the key that checkpoints are signed with.
pub(crate) async fn open_key(store: &dyn Store, sealer: &Keyring) -> Result<AuditKey> {
    let fresh = sealer.seal(KeyOwner::Installation, KEY, &random::<32>()?).await?;
    let kept = store.audit_key(&fresh).await?;
    let seed = <[u8; 32]>::try_from(sealer.open(KEY, &kept).await?)
        .map_err(|_| Error::internal("opening the key of the audit log", "it has the wrong size"))?;
    AuditKey::from_seed(&seed)
}

/// Links for what is not in the chain yet.
fn links_of(chain: &AuditChain, unchained: Unchained, at: DateTime<Utc>) -> Vec<NewLink> {
    let Unchained { head, batches, console, clusters } = unchained;
    let (mut sequence, mut previous) = head.unwrap_or_else(|| (0, chain.origin()));
    let mut links = Vec::new();
    let mut link = |of: StoredUnchained, list: Option<LineList>| {
        let StoredUnchained { id, log, lines, content, first_at, last_at } = of;
        sequence += 1;
        let batch =
            AuditBatch { id, sequence, log, lines, content, first_at, last_at, chained_at: at, previous };
        previous = batch.digest();
        links.push(NewLink { batch, list });
    };
    for batch in batches {
        link(batch, None);
    }
    let fresh = [
        list_of(
            AuditLog::Console,
            console.iter().map(|row| (row.id.uuid(), row.audit_digest(), row.entry.at)),
        ),
        list_of(
            AuditLog::Clusters,
            clusters.iter().map(|row| (row.id.uuid(), row.audit_digest(), row.entry.at)),
        ),
    ];
    for (new, list) in fresh.into_iter().flatten() {
        link(new, Some(list));
    }
    links
}

fn list_of(
    log: AuditLog,
    lines: impl Iterator<Item = (Uuid, AuditDigest, DateTime<Utc>)>,
) -> Option<(StoredUnchained, LineList)> {
    let mut list = LineList::default();
    let mut times: Option<(DateTime<Utc>, DateTime<Utc>)> = None;
    for (id, digest, at) in lines {
        list.push(id, digest);
        let (first, last) = times.unwrap_or((at, at));
        times = Some((first.min(at), last.max(at)));
    }
    let (first_at, last_at) = times?;
    let lines = u32::try_from(list.len()).unwrap_or(u32::MAX);
    let content = list.digest();
    Some((StoredUnchained { id: AuditBatchId::new(), log, lines, content, first_at, last_at }, list))
}

/// What the leader remembers between two passes.
struct Pace {
    written: u64,
    looked: Instant,
    /// The last checkpoint: its batch, and when it was signed.
    signed: (u64, Instant),
}

impl App {
    /// The chain of this installation's audit log, named by its public key.
    pub(crate) fn audit_chain_own(&self) -> AuditChain {
        self.audit_key.chain()
    }

    /// Puts lines into the chain until asked to stop, then what is left, as far as that takes no longer than [`LAST_PASS`].
    pub(crate) async fn audit_chain_run(self: &Arc<Self>, stop: &ShutdownSignal) -> Result<()> {
        let now = Instant::now();
        let signed =
            self.store.audit_checkpoints(1).await.ok().and_then(|found| found.first().map(|it| it.sequence));
        let mut pace = Pace { written: u64::MAX, looked: now, signed: (signed.unwrap_or_default(), now) };
        while stop.or(tokio::time::sleep(EVERY)).await.is_some() {
            let written = self.store.audit_written();
            if pace.written == written && pace.looked.elapsed() < SELDOM {
                continue;
            }
            (pace.written, pace.looked) = (written, Instant::now());
            // A backlog may take long. Each step is a transaction: what is left is chained by whoever leads next.
            let Some(passed) = stop.or(self.audit_pass(&mut pace)).await else { break };
            if let Err(error) = passed {
                pace.written = u64::MAX;
                tracing::warn!(
                    error = error.log_text(),
                    "cannot put lines into the audit log's chain; trying again"
                );
            }
        }
        // What others still write of what they were doing.
        tokio::time::sleep(LAST).await;
        let last = async {
            self.audit_chain_all().await?;
            self.audit_checkpoint(&mut pace, Duration::ZERO).await
        };
        match tokio::time::timeout(LAST_PASS, last).await {
            Ok(Err(error)) => {
                tracing::warn!(
                    error = error.log_text(),
                    "stopping with lines that are not in the audit log's chain"
                );
            }
            Err(_) => tracing::warn!("stopping with lines that may not be in the audit log's chain"),
            Ok(Ok(())) => {}
        }
        Ok(())
    }

    async fn audit_pass(&self, pace: &mut Pace) -> Result<()> {
        self.audit_chain_all().await?;
        let every = Duration::from_secs(self.settings.audit_checkpoint_seconds);
        self.audit_checkpoint(pace, every).await
    }

    /// Puts into the chain whatever is not in it.
    pub async fn audit_chain_all(&self) -> Result<()> {
        loop {
            let now = self.now();
            let unchained = self.store.audit_unchained(now - OLD, BATCH, LINKS).await?;
            let is_full = unchained.console.len() as u64 >= BATCH
                || unchained.clusters.len() as u64 >= BATCH
                || unchained.batches.len() as u64 >= LINKS;
            let head = unchained.head.map_or(0, |(sequence, _)| sequence);
            let links = links_of(&self.audit_chain_own(), unchained, now);
            if !links.is_empty() {
                self.store.audit_link(head, &links).await?;
                let lines: u64 = links.iter().map(|link| u64::from(link.batch.lines)).sum();
                metrics::counter!("plural_audit_chained_lines_total").increment(lines);
                self.audit_linked.send_modify(|links| *links += 1);
            }
            if !is_full {
                return Ok(());
            }
        }
    }

    /// Signs how far the chain went, unless that was said less than `every` ago or is not news.
    async fn audit_checkpoint(&self, pace: &mut Pace, every: Duration) -> Result<()> {
        let (last, at) = pace.signed;
        let Some((sequence, _)) = self.store.audit_digest_at(None).await? else { return Ok(()) };
        if sequence <= last || (at.elapsed() < every && last > 0) {
            return Ok(());
        }
        self.audit_checkpoint_now().await?;
        pace.signed = (sequence, Instant::now());
        Ok(())
    }

    /// Signs how far the chain went, and keeps that in the database and in the blob store.
    pub async fn audit_checkpoint_now(&self) -> Result<Option<AuditCheckpoint>> {
        let Some((sequence, digest)) = self.store.audit_digest_at(None).await? else { return Ok(None) };
        let checkpoint = self.audit_key.sign(sequence, &digest, self.now());
        self.store.audit_checkpoint_keep(&checkpoint).await?;
        // Names in order: the newest are last.
        let name = format!("{sequence:020}.json");
        if let Err(error) = self.blobs.note_keep(NOTES, &name, checkpoint.text().into_bytes()).await {
            // The next one covers what this one would have.
            metrics::counter!("plural_audit_checkpoints_unkept_total").increment(1);
            tracing::warn!(
                error = error.log_text(),
                "a checkpoint of the audit log is not in the blob store"
            );
        }
        Ok(Some(checkpoint))
    }

    /// The public key of the audit log's checkpoints, in base64; administrators only.
    pub fn audit_public_key(&self, ctx: &OpCtx) -> Result<String> {
        authorize_installation::<Read>(ctx, Scope::AdminOnly)?;
        Ok(self.audit_chain_own().key())
    }

    /// The newest checkpoints, newest first; administrators only.
    pub async fn audit_checkpoint_list(&self, ctx: &OpCtx, limit: u64) -> Result<Vec<AuditCheckpoint>> {
        authorize_installation::<Read>(ctx, Scope::AdminOnly)?;
        self.store.audit_checkpoints(limit.clamp(1, 1_000)).await
    }
}
