//! Removing lines of the audit log that were kept long enough, with a signed statement of it: `core/src/audit_expiry.rs`.
//!
//! What a statement covers is what the one before it covered and what this console removes now, never what the database says is gone:
//! else the console would sign whatever somebody marked there.

use chrono::{DateTime, TimeDelta, Utc};
use plural_core::audit_chain::{AuditDigest, AuditLog};
use plural_core::audit_expiry::{AuditExpired, EXPIRED_ACTION, ExpiredFloors, MOST_FOREIGN};
use plural_core::ids::AuditBatchId;
use plural_core::{Error, Result};

use crate::access::{Installation, Noun as _, entry};
use crate::app::App;

/// Batches of each log whose lines are removed in one transaction.
const EXPIRE: u64 = 50;
/// Lines of the log about expiry that are looked at.
const TOLD: u64 = 1_000;
/// The folder of the blob store's notes where statements are.
const NOTES: &str = "audit-expiry";
/// Statements of the blob store that are looked at.
const NOTED: usize = 50;

/// What is to be removed and said.
struct Removal {
    floors: ExpiredFloors,
    foreign: Vec<u64>,
    batches: Vec<(AuditLog, AuditBatchId)>,
}

impl App {
    /// What the log says of expired lines, with this log's key and in this history.
    pub(crate) async fn audit_expired_told(&self) -> Result<Vec<AuditExpired>> {
        let told = self.store.audit_expire_lines(TOLD).await?;
        self.of_this_history(told.iter().filter_map(|name| AuditExpired::in_name(name)).collect()).await
    }

    /// Those that this log's key signed at a batch that the chain has. A statement covers all that earlier ones do: the last is enough.
    async fn of_this_history(&self, mut statements: Vec<AuditExpired>) -> Result<Vec<AuditExpired>> {
        let chain = self.audit_chain_own();
        // Whoever writes an older one again makes it the newest line, and no more than that.
        statements.sort_unstable_by_key(|one| std::cmp::Reverse((one.sequence, one.console, one.clusters)));
        for statement in statements.into_iter().filter(|one| one.is_of(&chain)) {
            let digest = self.digest_of_batch(statement.sequence).await?;
            if digest.is_some_and(|digest| statement.is_at(&digest)) {
                return Ok(vec![statement]);
            }
        }
        Ok(Vec::new())
    }

    /// What the batch says, not what is stored beside it as its digest.
    async fn digest_of_batch(&self, sequence: u64) -> Result<Option<AuditDigest>> {
        let Some(before) = sequence.checked_sub(1) else { return Ok(Some(self.audit_chain_own().origin())) };
        let found = self.store.audit_batches(before, 1).await?;
        Ok(found.iter().find(|stored| stored.batch.sequence == sequence).map(|stored| stored.batch.digest()))
    }

    /// Removes lines that were kept long enough; how many.
    pub async fn audit_forget(&self) -> Result<u64> {
        let mut said = self.audit_expired_base().await?;
        let mut removed = 0;
        while let Some(removal) = self.audit_removal(&said).await? {
            let statement = self.audit_say_expired(&removal).await?;
            let ctx = self.system_ctx();
            let line = entry(&ctx, EXPIRED_ACTION, Installation::NOUN, None, statement.name());
            removed += self.store.audit_expire(&line, &removal.batches).await?;
            self.audit_note_expired(&statement).await;
            said = statement;
        }
        if let Some(before) = self.days_ago(self.settings.cluster_audit_days) {
            removed += self.store.audit_forget_unchained(before).await?;
        }
        Ok(removed)
    }

    fn days_ago(&self, days: Option<u32>) -> Option<DateTime<Utc>> {
        days.map(|days| self.now() - TimeDelta::days(i64::from(days)))
    }

    /// What can be removed now, in order, from behind what was.
    async fn audit_removal(&self, said: &AuditExpired) -> Result<Option<Removal>> {
        // Streams have not sent what is after it.
        let up_to = self.audit_streams_sent().await?.unwrap_or(u64::MAX);
        let mut removal =
            Removal { floors: said.floors(), foreign: said.foreign.clone(), batches: Vec::new() };
        let mut is_news = false;
        for (log, before) in [
            (AuditLog::Console, self.days_ago(self.settings.audit_days)),
            (AuditLog::Clusters, self.days_ago(self.settings.cluster_audit_days)),
        ] {
            let Some(before) = before else { continue };
            let after = said.floors().of(log);
            for batch in self.store.audit_old_batches(log, after, EXPIRE).await? {
                if batch.sequence > up_to || batch.last_at >= before {
                    break;
                }
                if batch.expired {
                    if removal.foreign.len() >= MOST_FOREIGN {
                        tracing::error!(
                            "too many batches of the audit log were marked as expired by another hand; no line is removed \
                             any more: run `plural audit verify`"
                        );
                        return Ok(None);
                    }
                    removal.foreign.push(batch.sequence);
                    tracing::error!(
                        batch = batch.sequence,
                        "lines of the audit log are marked as expired, and this console did not remove them: \
                         run `plural audit verify`"
                    );
                } else {
                    removal.batches.push((log, batch.id));
                }
                *removal.floors.of_mut(log) = batch.sequence;
                is_news = true;
            }
        }
        Ok(is_news.then_some(removal))
    }

    /// What was said last: in the log, or in the blob store, which tells more where somebody removed the line.
    async fn audit_expired_base(&self) -> Result<AuditExpired> {
        let chain = self.audit_chain_own();
        let notes = self.blobs.notes(NOTES, NOTED).await?;
        let noted: Vec<AuditExpired> = notes
            .iter()
            .rev()
            .filter_map(|(_, content)| AuditExpired::parse(std::str::from_utf8(content).ok()?).ok())
            .filter(|statement| statement.is_of(&chain))
            .collect();
        let was_noted = !noted.is_empty();
        let told = self.audit_expired_told().await?.into_iter().chain(self.of_this_history(noted).await?);
        if let Some(last) = told.max_by_key(|one| (one.sequence, one.console, one.clusters)) {
            return Ok(last);
        }
        // Nothing was signed yet: what earlier releases removed, in lines that they wrote without a signature, is taken over once.
        // Where the blob store knows better, it is not.
        let said = self.store.audit_expire_lines(1).await?;
        let said = said.first().and_then(|name| ExpiredFloors::parse(name)).filter(|_| !was_noted);
        let marked = self.store.audit_marked_floors().await?;
        let floors = said.map_or_else(ExpiredFloors::default, |said| ExpiredFloors {
            console: said.console.min(marked.console),
            clusters: said.clusters.min(marked.clusters),
        });
        let removal = Removal { floors, foreign: Vec::new(), batches: Vec::new() };
        let statement = self.audit_say_expired(&removal).await?;
        if floors != ExpiredFloors::default() {
            tracing::warn!(
                console = floors.console,
                clusters = floors.clusters,
                "an earlier release removed lines of the audit log up to these batches without a signature; this console \
                 answers for it from now on"
            );
            let ctx = self.system_ctx();
            let line = entry(&ctx, EXPIRED_ACTION, Installation::NOUN, None, statement.name());
            self.store.audit_expire(&line, &[]).await?;
        }
        self.audit_note_expired(&statement).await;
        Ok(statement)
    }

    async fn audit_say_expired(&self, removal: &Removal) -> Result<AuditExpired> {
        let at = self.store.audit_digest_at(None).await?.map_or(0, |(sequence, _)| sequence);
        let digest = self
            .digest_of_batch(at)
            .await?
            .ok_or_else(|| Error::unavailable("the audit log's chain moved meanwhile; it is tried again"))?;
        let Removal { floors, foreign, .. } = removal;
        Ok(AuditExpired::sign(&self.audit_key, *floors, foreign.clone(), (at, digest), self.now()))
    }

    /// Keeps it outside of the database, too.
    async fn audit_note_expired(&self, statement: &AuditExpired) {
        let AuditExpired { sequence, console, clusters, .. } = statement;
        let name = format!("{sequence:020}-{console:020}-{clusters:020}.json");
        if let Err(error) = self.blobs.note_keep(NOTES, &name, statement.text().into_bytes()).await {
            // The log has it, and the next one covers what this one does.
            tracing::warn!(
                error = error.log_text(),
                "a statement of what expired in the audit log is not in the blob store"
            );
        }
    }
}
