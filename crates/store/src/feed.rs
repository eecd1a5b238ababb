//! Events: written in the transaction that they tell of, read only when nothing can come before them
//! any more.
//!
//! A place in the feed is, on SQLite, a row's sequence (one writer: rows commit in order). On PostgreSQL,
//! sequences commit out of order, so the place is the writing transaction's id, and only rows below the oldest
//! transaction that still runs are read: all of a transaction's rows at once, and none can appear
//! below them later.

use chrono::{DateTime, Utc};
use plural_app::ports::agents::{FeedBatch, FeedEvent, FeedPosition, FeedSubject};
use plural_core::Result;
use plural_core::ids::{ClusterId, RepositoryId};
use plural_core::work::{WorkChange, WorkKind, WorkRef};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, QueryResult};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::database::{Database, corrupt};
use crate::error::db;
use crate::transaction::set;

/// Events read at once. A transaction with more makes readers load everything anew, which is cheaper than as many lookups.
const MOST: usize = 20_000;
/// Events that are read at a start: agents that were told of all that is before them need no snapshot.
const REMEMBERED: i64 = 65_536;

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "feed")]
    pub(crate) struct Model {
        #[sea_orm(primary_key)]
        pub sequence: i64,
        pub xid: i64,
        pub cluster_id: Option<Uuid>,
        /// Of work of any kind: a release that knew no other calls it a service's.
        #[sea_orm(column_name = "service_id")]
        pub work_id: Option<Uuid>,
        pub repository_id: Option<Uuid>,
        pub kick: bool,
        pub at: DateTimeUtc,
        pub kind: Option<String>,
        pub change: Option<String>,
        pub work_sequence: Option<i64>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) fn row_of(subject: FeedSubject, at: DateTime<Utc>) -> row::ActiveModel {
    // Every column is set in every row: rows of one statement have the same ones.
    let row = row::ActiveModel {
        cluster_id: set(None),
        work_id: set(None),
        repository_id: set(None),
        kick: set(false),
        at: set(at),
        kind: set(None),
        change: set(None),
        work_sequence: set(None),
        ..Default::default()
    };
    match subject {
        FeedSubject::Work { cluster_id, work, sequence, change } => row::ActiveModel {
            cluster_id: set(Some(cluster_id.uuid())),
            work_id: set(Some(work.id)),
            // What a release knows that reads nothing of the change.
            kick: set(change == WorkChange::Kicked),
            kind: set(Some(work.kind.as_str().to_owned())),
            change: set(Some(change.as_str().to_owned())),
            work_sequence: set(Some(sequence.cast_signed())),
            ..row
        },
        FeedSubject::Cluster { cluster_id } => {
            row::ActiveModel { cluster_id: set(Some(cluster_id.uuid())), ..row }
        }
        FeedSubject::Repository { repository_id } => {
            row::ActiveModel { repository_id: set(Some(repository_id.uuid())), ..row }
        }
        FeedSubject::RepositoryMoved { repository_id } => {
            row::ActiveModel { repository_id: set(Some(repository_id.uuid())), kick: set(true), ..row }
        }
    }
}

impl Database {
    /// The place up to which everything that commits is already visible to `connection`.
    pub(crate) async fn feed_head(&self, connection: &impl ConnectionTrait) -> Result<FeedPosition> {
        let sql = match self.backend {
            DbBackend::Postgres => "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1 AS head",
            _ => "SELECT COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'feed'), 0) AS head",
        };
        let doing = "reading the feed's head";
        let row = connection.query_one_raw(self.statement(sql, [])).await.map_err(db(doing))?;
        let head: i64 =
            row.ok_or_else(|| corrupt("the feed's head"))?.try_get("", "head").map_err(db(doing))?;
        Ok(head.cast_unsigned())
    }

    pub(crate) async fn feed_read_after(&self, after: FeedPosition) -> Result<FeedBatch> {
        let doing = "reading the feed";
        let sql = match self.backend {
            DbBackend::Postgres => {
                "SELECT s.xmin AS head, i.feed_floor AS floor, f.xid AS place, f.cluster_id, f.service_id, \
                 f.repository_id, f.kick, f.at, f.kind, f.change, f.work_sequence FROM \
                 (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1 AS xmin) s \
                 CROSS JOIN installation i LEFT JOIN feed f ON f.xid > $1 \
                 ORDER BY f.xid, f.sequence LIMIT $2"
            }
            _ => {
                "SELECT COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'feed'), 0) AS head, \
                 i.feed_floor AS floor, f.sequence AS place, f.cluster_id, f.service_id, \
                 f.repository_id, f.kick, f.at, f.kind, f.change, f.work_sequence \
                 FROM installation i LEFT JOIN feed f ON f.sequence > $1 ORDER BY f.sequence LIMIT $2"
            }
        };
        let limit = MOST as i64 + 1;
        let rows = self
            .reader
            .query_all_raw(self.statement(sql, [after.cast_signed().into(), limit.into()]))
            .await
            .map_err(db(doing))?;
        let rows: Vec<ReadRow> =
            rows.iter().map(read_row).collect::<std::result::Result<_, DbErr>>().map_err(db(doing))?;
        let mut batch = FeedBatch { position: after, ..FeedBatch::default() };
        // There is always one row: the head and the floor, without an event if there is none.
        let Some(ReadRow { head, floor, .. }) = rows.first() else { return Err(corrupt("the installation")) };
        let head = (*head).max(after);
        if *floor > after {
            batch.truncated = true;
            return Ok(batch);
        }
        // A page ends where a position begins: what is at one position is read together.
        let end = if rows.len() > MOST { rows.last().and_then(|row| row.place) } else { None };
        for ReadRow { head: _, floor: _, place, subject, mark } in rows {
            let Some(position) = place else { continue };
            if end == Some(position) {
                break;
            }
            if position > head {
                batch.pending = true;
            } else {
                batch.events.push(FeedEvent { position, subject: subject?, mark });
            }
        }
        match (end, batch.events.last()) {
            (None, _) => batch.position = head,
            (Some(end), _) if end > head => (batch.position, batch.pending) = (head, true),
            (Some(_), Some(last)) => batch.position = last.position,
            // One transaction with more than a page.
            (Some(_), None) => batch.truncated = true,
        }
        Ok(batch)
    }

    /// The last events up to a place, in order, and the place that all events before them are at or below.
    pub(crate) async fn feed_last(
        &self,
        connection: &impl ConnectionTrait,
        position: FeedPosition,
    ) -> Result<(Vec<FeedEvent>, FeedPosition)> {
        let doing = "reading the feed's last events";
        let place = if self.is_postgres() { "xid" } else { "sequence" };
        let sql = format!(
            "SELECT i.feed_floor AS head, i.feed_floor AS floor, f.{place} AS place, f.cluster_id, f.service_id, f.repository_id, \
             f.kick, f.at, f.kind, f.change, f.work_sequence \
             FROM installation i LEFT JOIN feed f ON f.{place} <= $1 ORDER BY f.{place} DESC, f.sequence DESC LIMIT $2"
        );
        let values = [position.cast_signed().into(), REMEMBERED.into()];
        let rows = connection.query_all_raw(self.statement(&sql, values)).await.map_err(db(doing))?;
        let is_cut = rows.len() as i64 == REMEMBERED;
        let (mut events, mut floor) = (Vec::with_capacity(rows.len()), 0);
        for row in rows.into_iter().rev() {
            let read = read_row(&row).map_err(db(doing))?;
            floor = read.floor;
            let Some(place) = read.place else { continue };
            events.push(FeedEvent { position: place, subject: read.subject?, mark: read.mark });
        }
        // The first place may have been cut in the middle: who stands there knows it whole.
        if let Some(first) = events.first().filter(|_| is_cut) {
            floor = floor.max(first.position);
        }
        Ok((events, floor))
    }

    pub(crate) async fn feed_prune_before(&self, before: DateTime<Utc>, keep: u64) -> Result<u64> {
        let doing = "pruning the feed";
        let write = self.write().await?;
        // Whole transactions go or stay: a place is either read in full or told to be too old.
        let place = if self.is_postgres() { "xid" } else { "sequence" };
        let sql = format!(
            "SELECT {place} AS place FROM feed WHERE at < $1 AND sequence <= \
             (SELECT COALESCE(MAX(sequence), 0) FROM feed) - $2 ORDER BY {place} DESC LIMIT 1"
        );
        let last = write
            .tx
            .query_one_raw(self.statement(&sql, [before.into(), keep.cast_signed().into()]))
            .await
            .map_err(db(doing))?;
        let Some(last) = last else { return Ok(0) };
        let floor: i64 = last.try_get("", "place").map_err(db(doing))?;
        let sql = format!("DELETE FROM feed WHERE {place} <= $1");
        let removed = write
            .tx
            .execute_raw(self.statement(&sql, [floor.into()]))
            .await
            .map_err(db(doing))?
            .rows_affected();
        let sql = "UPDATE installation SET feed_floor = $1 WHERE id = 1";
        write.tx.execute_raw(self.statement(sql, [floor.into()])).await.map_err(db(doing))?;
        write.commit().await?;
        Ok(removed)
    }
}

struct ReadRow {
    head: u64,
    floor: u64,
    place: Option<u64>,
    subject: Result<Option<FeedSubject>>,
    mark: u64,
}

/// A fingerprint of an event's row: of exactly these columns, which every release that ever wrote the feed has. Agents keep
/// fingerprints of rows of earlier releases, and replicas of two releases answer the same agents during an update; with
/// another formula each would take the other's for those of another history. Two rows that follow each other in different
/// histories differ at least in the microsecond in which they were written.
fn read_mark(row: &QueryResult, place: i64) -> std::result::Result<u64, DbErr> {
    let mut hash = Sha256::new_with_prefix(place.to_be_bytes());
    for column in ["cluster_id", "service_id", "repository_id"] {
        let id: Option<Uuid> = row.try_get("", column)?;
        hash.update(id.unwrap_or_default().as_bytes());
    }
    let kick: Option<bool> = row.try_get("", "kick")?;
    let at: Option<DateTime<Utc>> = row.try_get("", "at")?;
    hash.update([u8::from(kick.unwrap_or_default())]);
    hash.update(at.unwrap_or_default().timestamp_micros().to_be_bytes());
    let digest = hash.finalize();
    let first = digest.first_chunk().copied().unwrap_or_default();
    Ok(u64::from_be_bytes(first).max(1))
}

fn read_row(row: &QueryResult) -> std::result::Result<ReadRow, DbErr> {
    let head: i64 = row.try_get("", "head")?;
    let floor: i64 = row.try_get("", "floor")?;
    let place: Option<i64> = row.try_get("", "place")?;
    let subject = if place.is_some() { read_subject(row)? } else { Ok(None) };
    let mark = place.map(|place| read_mark(row, place)).transpose()?.unwrap_or_default();
    Ok(ReadRow {
        head: head.cast_unsigned(),
        floor: floor.cast_unsigned(),
        place: place.map(i64::cast_unsigned),
        subject,
        mark,
    })
}

/// What a row is about: nothing for work of a kind that this release does not know.
fn read_subject(row: &QueryResult) -> std::result::Result<Result<Option<FeedSubject>>, DbErr> {
    let cluster: Option<Uuid> = row.try_get("", "cluster_id")?;
    let work: Option<Uuid> = row.try_get("", "service_id")?;
    let repository: Option<Uuid> = row.try_get("", "repository_id")?;
    let kick: Option<bool> = row.try_get("", "kick")?;
    let kind: Option<String> = row.try_get("", "kind")?;
    let change: Option<String> = row.try_get("", "change")?;
    let sequence: Option<i64> = row.try_get("", "work_sequence")?;
    let kick = kick.unwrap_or_default();
    let subject = match (cluster.map(ClusterId::from_uuid), work, repository.map(RepositoryId::from_uuid)) {
        (Some(cluster_id), Some(id), None) => {
            // The previous release, which may still run beside this one, names neither kind nor change.
            let kind = kind.map_or(Some(WorkKind::Service), |kind| WorkKind::parse(&kind));
            let change = change.as_deref().and_then(WorkChange::parse);
            let change = change.unwrap_or(if kick { WorkChange::Kicked } else { WorkChange::Changed });
            kind.map(|kind| FeedSubject::Work {
                cluster_id,
                work: WorkRef { kind, id },
                sequence: sequence.unwrap_or_default().cast_unsigned(),
                change,
            })
        }
        (Some(cluster_id), None, None) => Some(FeedSubject::Cluster { cluster_id }),
        (None, None, Some(repository_id)) if kick => Some(FeedSubject::RepositoryMoved { repository_id }),
        (None, None, Some(repository_id)) => Some(FeedSubject::Repository { repository_id }),
        (Some(_), _, Some(_)) | (None, Some(_), _) | (None, None, None) => {
            return Ok(Err(corrupt("an event")));
        }
    };
    Ok(Ok(subject))
}

#[cfg(test)]
#[path = "feed_tests.rs"]
mod tests;
