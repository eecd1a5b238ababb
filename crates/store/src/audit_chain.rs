//! The chain of the audit log.

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::audit_chain::{
    AuditChainStore, BatchLines, NewLink, OldBatch, StoredBatch, StoredUnchained, Stray, Unchained,
    UnchainedBatch,
};
use plural_app::seal::Sealed;
use plural_core::audit::AuditEntry;
use plural_core::audit_chain::{AuditBatch, AuditCheckpoint, AuditDigest, AuditLog, LineList};
use plural_core::audit_expiry::{EXPIRED_ACTION, ExpiredFloors};
use plural_core::ids::AuditBatchId;
use plural_core::{Error, Result};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use uuid::Uuid;

use crate::audit::first_id_of;
use crate::convert::bytes32;
use crate::database::{Database, corrupt};
use crate::error::db;
use crate::transaction::{Write, set};
use crate::{audit, cluster_audit};

/// Lines of one statement.
const AT_ONCE: usize = 500;
/// Batches that one statement goes over in an index of lines.
const WALKED: i32 = 1_000;
/// Lines that are read beyond those that a batch should have.
const BEYOND: u64 = 1_000;

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "audit_batches")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub sequence: Option<i64>,
        pub log: String,
        pub lines: i64,
        pub list: Option<Vec<u8>>,
        pub content: Vec<u8>,
        pub first_at: DateTimeUtc,
        pub last_at: DateTimeUtc,
        pub chained_at: Option<DateTimeUtc>,
        pub previous: Option<Vec<u8>>,
        pub digest: Option<Vec<u8>>,
        pub expired: bool,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

fn log_of(text: &str) -> Result<AuditLog> {
    AuditLog::parse(text).ok_or_else(|| corrupt("a batch of the audit log"))
}

fn table(log: AuditLog) -> &'static str {
    match log {
        AuditLog::Console => "audit_rows",
        AuditLog::Clusters => "cluster_audit_rows",
    }
}

fn number(lines: i64) -> Result<u32> {
    u32::try_from(lines).map_err(|_| corrupt("a batch of the audit log"))
}

/// A batch with its list, and with its place in the chain if it has one.
pub(crate) async fn insert_in_tx(
    write: &Write<'_>,
    new: &UnchainedBatch,
    chained: Option<&AuditBatch>,
) -> Result<()> {
    let UnchainedBatch { id, log, list, first_at, last_at } = new;
    let row = row::ActiveModel {
        id: set(id.uuid()),
        sequence: set(chained.map(|batch| batch.sequence.cast_signed())),
        log: set(log.as_str().to_owned()),
        lines: set(i64::try_from(list.len()).unwrap_or(i64::MAX)),
        list: set(Some(list.as_bytes().to_vec())),
        content: set(list.digest().to_vec()),
        first_at: set(*first_at),
        last_at: set(*last_at),
        chained_at: set(chained.map(|batch| batch.chained_at)),
        previous: set(chained.map(|batch| batch.previous.to_vec())),
        digest: set(chained.map(|batch| batch.digest().to_vec())),
        expired: set(false),
    };
    let doing = "writing a batch of the audit log";
    row::Entity::insert(row).exec_without_returning(&write.tx).await.map(drop).map_err(db(doing))
}

impl TryFrom<row::Model> for StoredBatch {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            sequence,
            log,
            lines,
            list,
            content,
            first_at,
            last_at,
            chained_at,
            previous,
            digest: _,
            expired,
        } = row;
        let bad = || corrupt("a batch of the audit log");
        let batch = AuditBatch {
            id: AuditBatchId::from_uuid(id),
            sequence: sequence.ok_or_else(bad)?.cast_unsigned(),
            log: log_of(&log)?,
            lines: number(lines)?,
            content: bytes32(&content, "a batch of the audit log")?,
            first_at,
            last_at,
            chained_at: chained_at.ok_or_else(bad)?,
            previous: bytes32(&previous.ok_or_else(bad)?, "a batch of the audit log")?,
        };
        Ok(Self { batch, list: list.and_then(LineList::from_bytes), expired })
    }
}

impl Database {
    /// Lines were written: whoever puts them into the chain looks.
    pub(crate) fn audit_wrote(&self) {
        self.audit_written.fetch_add(1, Ordering::Relaxed);
    }

    /// Lines of a log that name a batch which does not exist or has expired. Goes over the index from one batch to the next, some at a
    /// time: a log has a thousand times as many lines as batches.
    async fn strays_of(&self, log: AuditLog, limit: u64) -> Result<Vec<Stray>> {
        let doing = "looking for lines whose batch is none";
        let table = table(log);
        let batches = format!(
            "WITH RECURSIVE named(batch_id, place) AS (\
             SELECT (SELECT r.batch_id FROM {table} r WHERE r.batch_id >= $1 ORDER BY r.batch_id LIMIT 1), 1 \
             UNION ALL \
             SELECT (SELECT r.batch_id FROM {table} r WHERE r.batch_id > n.batch_id ORDER BY r.batch_id LIMIT 1), n.place + 1 \
             FROM named n WHERE n.batch_id IS NOT NULL AND n.place < {WALKED}) \
             SELECT n.batch_id, n.place, CASE WHEN b.id IS NULL THEN 1 ELSE 0 END AS stray FROM named n \
             LEFT JOIN audit_batches b ON b.id = n.batch_id AND b.log = $2 AND NOT b.expired \
             WHERE n.batch_id IS NOT NULL AND (b.id IS NULL OR n.place = {WALKED}) ORDER BY n.batch_id"
        );
        let lines = format!("SELECT id FROM {table} WHERE batch_id = $1 ORDER BY id LIMIT $2");
        let (mut strays, mut from) = (Vec::new(), Some(Uuid::nil()));
        while let Some(first) = from.take() {
            let values = [first.into(), log.as_str().into()];
            let rows =
                self.reader.query_all_raw(self.statement(&batches, values)).await.map_err(db(doing))?;
            for row in rows {
                let batch: Uuid = row.try_get("", "batch_id").map_err(db(doing))?;
                let place: i32 = row.try_get("", "place").map_err(db(doing))?;
                let is_stray: i32 = row.try_get("", "stray").map_err(db(doing))?;
                if place == WALKED {
                    from = batch.as_u128().checked_add(1).map(Uuid::from_u128);
                }
                let room = limit.saturating_sub(strays.len() as u64);
                if is_stray == 0 || room == 0 {
                    continue;
                }
                let values = [batch.into(), room.cast_signed().into()];
                let found =
                    self.reader.query_all_raw(self.statement(&lines, values)).await.map_err(db(doing))?;
                for line in found {
                    let id: Uuid = line.try_get("", "id").map_err(db(doing))?;
                    strays.push((log, id, batch));
                }
            }
            if strays.len() as u64 >= limit {
                break;
            }
        }
        Ok(strays)
    }

    async fn link_in_tx(&self, write: &Write<'_>, link: &NewLink) -> Result<()> {
        let doing = "putting lines into the audit log's chain";
        let NewLink { batch, list } = link;
        let moved = || Error::conflict("a line of the audit log has a batch already: nothing was written");
        let Some(list) = list else {
            let sql = "UPDATE audit_batches SET sequence = $1, chained_at = $2, previous = $3, digest = $4 \
                       WHERE id = $5 AND sequence IS NULL";
            let values = [
                batch.sequence.cast_signed().into(),
                batch.chained_at.into(),
                batch.previous.to_vec().into(),
                batch.digest().to_vec().into(),
                batch.id.uuid().into(),
            ];
            let done = write.tx.execute_raw(self.statement(sql, values)).await.map_err(db(doing))?;
            return if done.rows_affected() == 1 { Ok(()) } else { Err(moved()) };
        };
        let AuditBatch { id, log, first_at, last_at, .. } = *batch;
        let new = UnchainedBatch { id, log, list: list.clone(), first_at, last_at };
        insert_in_tx(write, &new, Some(batch)).await?;
        let ids: Vec<Uuid> = list.iter().map(|(id, _)| id).collect();
        let mut updated = 0;
        for chunk in ids.chunks(AT_ONCE) {
            let (batch, chunk) = (Some(id.uuid()), chunk.iter().copied());
            let done = match log {
                AuditLog::Console => {
                    audit::row::Entity::update_many()
                        .col_expr(audit::row::Column::BatchId, batch.into())
                        .filter(audit::row::Column::Id.is_in(chunk))
                        .filter(audit::row::Column::BatchId.is_null())
                        .exec(&write.tx)
                        .await
                }
                AuditLog::Clusters => {
                    cluster_audit::row::Entity::update_many()
                        .col_expr(cluster_audit::row::Column::BatchId, batch.into())
                        .filter(cluster_audit::row::Column::Id.is_in(chunk))
                        .filter(cluster_audit::row::Column::BatchId.is_null())
                        .exec(&write.tx)
                        .await
                }
            };
            updated += done.map_err(db(doing))?.rows_affected;
        }
        if updated == ids.len() as u64 { Ok(()) } else { Err(moved()) }
    }
}

#[async_trait]
impl AuditChainStore for Database {
    async fn audit_key(&self, fresh: &Sealed) -> Result<Sealed> {
        let doing = "reading the key of the audit log";
        let write = self.write().await?;
        let sql = "UPDATE installation SET audit_key = $1 WHERE id = 1 AND audit_key IS NULL";
        let fresh = fresh.as_bytes().to_vec();
        write.tx.execute_raw(self.statement(sql, [fresh.into()])).await.map_err(db(doing))?;
        let sql = "SELECT audit_key FROM installation WHERE id = 1";
        let row = write.tx.query_one_raw(self.statement(sql, [])).await.map_err(db(doing))?;
        let kept: Vec<u8> =
            row.ok_or_else(|| corrupt("the installation"))?.try_get("", "audit_key").map_err(db(doing))?;
        write.commit().await?;
        Ok(Sealed::from_bytes(kept))
    }

    fn audit_written(&self) -> u64 {
        self.audit_written.load(Ordering::Relaxed)
    }

    async fn audit_unchained(&self, since: DateTime<Utc>, lines: u64, links: u64) -> Result<Unchained> {
        let doing = "looking for lines that are not in the audit log's chain";
        let head = self.audit_digest_at(None).await?;
        let rows: Vec<(Uuid, String, i64, Vec<u8>, DateTime<Utc>, DateTime<Utc>)> = row::Entity::find()
            .select_only()
            .columns([
                row::Column::Id,
                row::Column::Log,
                row::Column::Lines,
                row::Column::Content,
                row::Column::FirstAt,
                row::Column::LastAt,
            ])
            .filter(row::Column::Sequence.is_null())
            .order_by_asc(row::Column::Id)
            .limit(links)
            .into_tuple()
            .all(&self.reader)
            .await
            .map_err(db(doing))?;
        let batches = rows
            .into_iter()
            .map(|(id, log, lines, content, first_at, last_at)| {
                Ok(StoredUnchained {
                    id: AuditBatchId::from_uuid(id),
                    log: log_of(&log)?,
                    lines: number(lines)?,
                    content: bytes32(&content, "a batch of the audit log")?,
                    first_at,
                    last_at,
                })
            })
            .collect::<Result<_>>()?;
        let console = audit::row::Entity::find()
            .filter(audit::row::Column::BatchId.is_null())
            .order_by_asc(audit::row::Column::Id)
            .limit(lines)
            .all(&self.reader)
            .await
            .map_err(db(doing))?;
        let clusters = cluster_audit::row::Entity::find()
            .filter(cluster_audit::row::Column::BatchId.is_null())
            .filter(cluster_audit::row::Column::Id.gte(first_id_of(since)))
            .order_by_asc(cluster_audit::row::Column::Id)
            .limit(lines)
            .all(&self.reader)
            .await
            .map_err(db(doing))?;
        Ok(Unchained {
            head,
            batches,
            console: console.into_iter().map(Into::into).collect(),
            clusters: clusters.into_iter().map(Into::into).collect(),
        })
    }

    async fn audit_link(&self, head: u64, links: &[NewLink]) -> Result<()> {
        let doing = "putting lines into the audit log's chain";
        let write = self.write().await?;
        let sql = "SELECT COALESCE(MAX(sequence), 0) AS head FROM audit_batches";
        let row = write.tx.query_one_raw(self.statement(sql, [])).await.map_err(db(doing))?;
        let now: i64 = row.ok_or_else(|| corrupt("the audit log"))?.try_get("", "head").map_err(db(doing))?;
        if now.cast_unsigned() != head {
            return Err(Error::conflict("the audit log's chain goes on already: nothing was written"));
        }
        for link in links {
            self.link_in_tx(&write, link).await?;
        }
        write.commit().await
    }

    async fn audit_digest_at(&self, sequence: Option<u64>) -> Result<Option<(u64, AuditDigest)>> {
        let mut rows = row::Entity::find().filter(row::Column::Sequence.is_not_null());
        if let Some(sequence) = sequence {
            rows = rows.filter(row::Column::Sequence.eq(sequence.cast_signed()));
        }
        let found: Option<(i64, Option<Vec<u8>>)> = rows
            .select_only()
            .columns([row::Column::Sequence, row::Column::Digest])
            .order_by_desc(row::Column::Sequence)
            .into_tuple()
            .one(&self.reader)
            .await
            .map_err(db("reading the end of the audit log's chain"))?;
        let Some((sequence, digest)) = found else { return Ok(None) };
        let digest = digest.ok_or_else(|| corrupt("a batch of the audit log"))?;
        Ok(Some((sequence.cast_unsigned(), bytes32(&digest, "a batch of the audit log")?)))
    }

    async fn audit_batches(&self, after: u64, limit: u64) -> Result<Vec<StoredBatch>> {
        let rows = row::Entity::find()
            .filter(row::Column::Sequence.gt(after.cast_signed()))
            .order_by_asc(row::Column::Sequence)
            .limit(limit)
            .all(&self.reader)
            .await
            .map_err(db("reading the audit log's chain"))?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    async fn audit_lines(&self, batch: &AuditBatch) -> Result<BatchLines> {
        let doing = "reading the lines of a batch";
        let (id, limit) = (batch.id.uuid(), u64::from(batch.lines) + BEYOND);
        Ok(match batch.log {
            AuditLog::Console => {
                let rows = audit::row::Entity::find()
                    .filter(audit::row::Column::BatchId.eq(id))
                    .order_by_asc(audit::row::Column::Id)
                    .limit(limit)
                    .all(&self.reader)
                    .await
                    .map_err(db(doing))?;
                BatchLines::Console(rows.into_iter().map(Into::into).collect())
            }
            AuditLog::Clusters => {
                let rows = cluster_audit::row::Entity::find()
                    .filter(cluster_audit::row::Column::BatchId.eq(id))
                    .order_by_asc(cluster_audit::row::Column::Id)
                    .limit(limit)
                    .all(&self.reader)
                    .await
                    .map_err(db(doing))?;
                BatchLines::Clusters(rows.into_iter().map(Into::into).collect())
            }
        })
    }

    async fn audit_strays(&self, limit: u64) -> Result<Vec<Stray>> {
        let mut strays = Vec::new();
        for log in AuditLog::ALL {
            strays.extend(self.strays_of(log, limit).await?);
        }
        Ok(strays)
    }

    async fn audit_unchained_count(&self) -> Result<u64> {
        let doing = "counting lines that are not in the audit log's chain";
        let sql = "SELECT (SELECT COUNT(*) FROM audit_rows WHERE batch_id IS NULL) \
                   + (SELECT COUNT(*) FROM cluster_audit_rows WHERE batch_id IS NULL) \
                   + (SELECT CAST(COALESCE(SUM(lines), 0) AS BIGINT) FROM audit_batches WHERE sequence IS NULL) AS lines";
        let row = self.reader.query_one_raw(self.statement(sql, [])).await.map_err(db(doing))?;
        let lines: i64 =
            row.ok_or_else(|| corrupt("the audit log"))?.try_get("", "lines").map_err(db(doing))?;
        Ok(lines.cast_unsigned())
    }

    async fn audit_marked_floors(&self) -> Result<ExpiredFloors> {
        let doing = "reading how far the audit log expired";
        let sql = "SELECT log, MAX(sequence) AS last FROM audit_batches WHERE expired GROUP BY log";
        let rows = self.reader.query_all_raw(self.statement(sql, [])).await.map_err(db(doing))?;
        let mut floors = ExpiredFloors::default();
        for row in rows {
            let log: String = row.try_get("", "log").map_err(db(doing))?;
            let last: i64 = row.try_get("", "last").map_err(db(doing))?;
            *floors.of_mut(log_of(&log)?) = last.cast_unsigned();
        }
        Ok(floors)
    }

    async fn audit_expire_lines(&self, limit: u64) -> Result<Vec<String>> {
        audit::row::Entity::find()
            .select_only()
            .column(audit::row::Column::TargetName)
            .filter(audit::row::Column::Action.eq(EXPIRED_ACTION))
            .order_by_desc(audit::row::Column::Id)
            .limit(limit)
            .into_tuple()
            .all(&self.reader)
            .await
            .map_err(db("reading how far the audit log expired"))
    }

    async fn audit_checkpoint_keep(&self, checkpoint: &AuditCheckpoint) -> Result<()> {
        let write = self.write().await?;
        let sql =
            "INSERT INTO audit_checkpoints (sequence, checkpoint) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        let values = [checkpoint.sequence.cast_signed().into(), checkpoint.text().into()];
        let done = write.tx.execute_raw(self.statement(sql, values)).await;
        done.map_err(db("keeping a checkpoint of the audit log"))?;
        write.commit().await
    }

    async fn audit_checkpoints(&self, limit: u64) -> Result<Vec<AuditCheckpoint>> {
        let doing = "reading checkpoints of the audit log";
        let sql = "SELECT checkpoint FROM audit_checkpoints ORDER BY sequence DESC LIMIT $1";
        let values = [limit.cast_signed().into()];
        let rows = self.reader.query_all_raw(self.statement(sql, values)).await.map_err(db(doing))?;
        rows.into_iter()
            .map(|row| {
                let text: String = row.try_get("", "checkpoint").map_err(db(doing))?;
                AuditCheckpoint::parse(&text).map_err(|_| corrupt("a checkpoint of the audit log"))
            })
            .collect()
    }

    async fn audit_old_batches(&self, log: AuditLog, after: u64, limit: u64) -> Result<Vec<OldBatch>> {
        let rows: Vec<(Uuid, i64, DateTime<Utc>, bool)> = row::Entity::find()
            .select_only()
            .columns([row::Column::Id, row::Column::Sequence, row::Column::LastAt, row::Column::Expired])
            .filter(row::Column::Log.eq(log.as_str()))
            .filter(row::Column::Sequence.gt(after.cast_signed()))
            .order_by_asc(row::Column::Sequence)
            .limit(limit)
            .into_tuple()
            .all(&self.reader)
            .await
            .map_err(db("looking for old batches of the audit log"))?;
        let batch = |(id, sequence, last_at, expired): (Uuid, i64, DateTime<Utc>, bool)| OldBatch {
            id: AuditBatchId::from_uuid(id),
            sequence: sequence.cast_unsigned(),
            last_at,
            expired,
        };
        Ok(rows.into_iter().map(batch).collect())
    }

    async fn audit_expire(&self, by: &AuditEntry, batches: &[(AuditLog, AuditBatchId)]) -> Result<u64> {
        let doing = "removing old lines of the audit log";
        let write = self.write().await?;
        let mut removed = 0;
        for (log, batch) in batches {
            let id = batch.uuid();
            let sql = "UPDATE audit_batches SET expired = true, list = NULL WHERE id = $1 AND NOT expired";
            let done = write.tx.execute_raw(self.statement(sql, [id.into()])).await.map_err(db(doing))?;
            if done.rows_affected() != 1 {
                return Err(Error::conflict(
                    "a batch of the audit log expired meanwhile: nothing was removed",
                ));
            }
            let sql = format!("DELETE FROM {} WHERE batch_id = $1", table(*log));
            let done = write.tx.execute_raw(self.statement(&sql, [id.into()])).await.map_err(db(doing))?;
            removed += done.rows_affected();
        }
        write.audit(by).await?;
        write.commit().await?;
        Ok(removed)
    }

    async fn audit_forget_unchained(&self, before: DateTime<Utc>) -> Result<u64> {
        let write = self.write().await?;
        let done = cluster_audit::row::Entity::delete_many()
            .filter(cluster_audit::row::Column::BatchId.is_null())
            .filter(cluster_audit::row::Column::Id.lt(first_id_of(before)))
            .exec(&write.tx)
            .await
            .map_err(db("removing old lines of the audit log"))?;
        write.commit().await?;
        Ok(done.rows_affected)
    }

    async fn audit_stream_at(&self, name: &str) -> Result<Option<u64>> {
        let doing = "reading how far the audit log was sent";
        let sql = "SELECT sequence FROM audit_streams WHERE name = $1";
        let row = self.reader.query_one_raw(self.statement(sql, [name.into()])).await.map_err(db(doing))?;
        let at: Option<i64> = row.map(|row| row.try_get("", "sequence")).transpose().map_err(db(doing))?;
        Ok(at.map(i64::cast_unsigned))
    }

    async fn audit_stream_moved(&self, name: &str, sequence: u64) -> Result<()> {
        let write = self.write().await?;
        let sql = "INSERT INTO audit_streams (name, sequence) VALUES ($1, $2) \
                   ON CONFLICT (name) DO UPDATE SET sequence = excluded.sequence";
        let done =
            write.tx.execute_raw(self.statement(sql, [name.into(), sequence.cast_signed().into()])).await;
        done.map_err(db("keeping how far the audit log was sent"))?;
        write.commit().await
    }
}
