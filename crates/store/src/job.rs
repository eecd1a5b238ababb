//! Jobs. All times that decide are the database's.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Audited, Write};
use plural_app::job::{ClaimedJob, JobClaimer, JobCount, JobEnd, JobFilter, JobStore, NewJob};
use plural_app::lease::JobClaim;
use plural_core::access::Scope;
use plural_core::ids::JobId;
use plural_core::job::{BackgroundJob, JobState};
use plural_core::{Error, Result};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QueryResult, QuerySelect, Select,
    Statement, Value,
};
use tokio::sync::watch;
use uuid::Uuid;

use crate::convert::word;
use crate::database::{Database, corrupt};
use crate::error::db;
use crate::records::{Guard, Table};
use crate::transaction;

/// Dead jobs that one pass removes at most.
const PRUNED: u64 = 10_000;

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "jobs")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub kind: String,
        pub dedup_key: String,
        pub payload: Json,
        pub state: String,
        pub again: bool,
        pub attempts: i32,
        pub run_after: i64,
        pub holder: Option<Uuid>,
        pub epoch: i64,
        pub error: Option<String>,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

impl TryFrom<row::Model> for BackgroundJob {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            kind,
            dedup_key,
            payload: _,
            state,
            again: _,
            attempts,
            run_after,
            holder: _,
            epoch: _,
            error,
            created_at,
            updated_at,
        } = row;
        Ok(Self {
            id: JobId::from_uuid(id),
            kind,
            key: dedup_key,
            state: word(JobState::parse(&state), "a job's state")?,
            attempts: attempts_of(attempts)?,
            error,
            run_after: DateTime::from_timestamp_millis(run_after).ok_or_else(|| corrupt("a job's time"))?,
            created_at,
            updated_at,
        })
    }
}

fn attempts_of(stored: i32) -> Result<u32> {
    u32::try_from(stored).map_err(|_| corrupt("the attempts of a job"))
}

/// When a job is left as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unless {
    /// Never: it is asked for anew.
    Never,
    /// When there is one with the same payload, in whatever state, that did not die before this.
    Present { died_before: DateTime<Utc> },
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// The values of a statement, numbered as they are added.
#[derive(Default)]
struct Values(Vec<Value>);

impl Values {
    /// The name under which a statement has this value.
    fn add(&mut self, value: impl Into<Value>) -> String {
        self.0.push(value.into());
        format!("${}", self.0.len())
    }

    /// The names of several, as a list.
    fn add_all<T: Into<Value>>(&mut self, values: impl IntoIterator<Item = T>) -> String {
        let names: Vec<String> = values.into_iter().map(|value| self.add(value)).collect();
        names.join(", ")
    }
}

impl Database {
    fn with(&self, sql: &str, values: Values) -> Statement {
        Statement::from_sql_and_values(self.backend, sql, values.0)
    }

    /// Makes sure that the job stays claimed as it is until this transaction has ended.
    pub(crate) async fn check_claim_in_tx(&self, tx: &impl ConnectionTrait, claim: JobClaim) -> Result<()> {
        let JobClaim { id, holder, epoch } = claim;
        // Keeps others from claiming it, which locks the whole row, and not from enqueuing it anew, which changes no key: that is
        // the last step of a write that may hold what this one is going to wait for.
        let lock = if self.is_postgres() { " FOR KEY SHARE" } else { "" };
        let sql = format!(
            "SELECT epoch FROM jobs WHERE id = $1 AND holder = $2 AND epoch = $3 AND state = 'running'{lock}"
        );
        let values = [id.uuid().into(), holder.uuid().into(), epoch.cast_signed().into()];
        let row =
            tx.query_one_raw(self.statement(&sql, values)).await.map_err(db("checking a job's claim"))?;
        if row.is_some() {
            return Ok(());
        }
        metrics::counter!("plural_fenced_writes_total").increment(1);
        Err(Error::conflict("another replica claimed the job meanwhile: nothing was written"))
    }

    /// How many were enqueued: all, or those that `unless` leaves.
    pub(crate) async fn jobs_enqueue_in_tx(
        &self,
        tx: &impl ConnectionTrait,
        jobs: &[NewJob],
        unless: Unless,
        at: DateTime<Utc>,
    ) -> Result<u64> {
        // In one order: no two writes wait for each other crosswise.
        let mut jobs: Vec<&NewJob> = jobs.iter().collect();
        jobs.sort_by(|a, b| (a.kind, &a.key).cmp(&(b.kind, &b.key)));
        let is_other = match unless {
            Unless::Never => "",
            Unless::Present { .. } => {
                " WHERE CAST(j.payload AS text) <> CAST(excluded.payload AS text) \
                 OR (j.state = 'dead' AND j.updated_at < $7)"
            }
        };
        let mut enqueued = 0;
        for NewJob { kind, key, payload, after } in jobs {
            // The earlier time counts of two for which it was not run yet.
            let sql = format!(
                "INSERT INTO jobs AS j (id, kind, dedup_key, payload, state, again, attempts, run_after, holder, epoch, error, \
                 created_at, updated_at) \
                 VALUES ($1, $2, $3, $4, 'waiting', false, 0, {} + $5, NULL, 0, NULL, $6, $6) \
                 ON CONFLICT (kind, dedup_key) DO UPDATE SET payload = excluded.payload, updated_at = excluded.updated_at, \
                 run_after = CASE WHEN (j.state = 'waiting' OR j.again) AND j.run_after < excluded.run_after \
                   THEN j.run_after ELSE excluded.run_after END, \
                 attempts = CASE WHEN j.state = 'running' THEN j.attempts ELSE 0 END, \
                 again = (j.state = 'running'), \
                 state = CASE WHEN j.state = 'running' THEN 'running' ELSE 'waiting' END{is_other}",
                self.clock()
            );
            let mut values: Vec<Value> = vec![
                JobId::new().uuid().into(),
                (*kind).into(),
                key.as_str().into(),
                payload.clone().into(),
                milliseconds(*after).into(),
                at.into(),
            ];
            if let Unless::Present { died_before } = unless {
                values.push(died_before.into());
            }
            let done =
                tx.execute_raw(self.with(&sql, Values(values))).await.map_err(db("enqueuing a job"))?;
            enqueued += done.rows_affected();
        }
        Ok(enqueued)
    }

    /// Of a job that runs: whether its replica is gone, or is the one that asks, and does not know that it should run it.
    fn orphaned(&self, by: &JobClaimer<'_>, values: &mut Values) -> String {
        let JobClaimer { replica, kinds: _, running } = by;
        let own = values.add(replica.uuid());
        let known = if running.is_empty() {
            String::new()
        } else {
            format!(" AND jobs.id NOT IN ({})", values.add_all(running.iter().map(|id| id.uuid())))
        };
        // One console has a SQLite file open at a time ([`crate::SoleUse`]): any other is gone, wherever it was, and whatever it said.
        let gone = if self.is_postgres() {
            format!(
                " AND NOT EXISTS (SELECT 1 FROM replicas r WHERE r.id = jobs.holder AND r.alive_until > {})",
                self.clock()
            )
        } else {
            String::new()
        };
        format!("((jobs.holder = {own}{known}) OR (jobs.holder <> {own}{gone}))")
    }
}

fn claimed(row: &QueryResult, by: &JobClaimer<'_>) -> Result<ClaimedJob> {
    let doing = "reading a claimed job";
    let epoch: i64 = row.try_get("", "epoch").map_err(db(doing))?;
    Ok(ClaimedJob {
        claim: JobClaim {
            id: JobId::from_uuid(row.try_get::<Uuid>("", "id").map_err(db(doing))?),
            holder: by.replica,
            epoch: epoch.cast_unsigned(),
        },
        kind: row.try_get("", "kind").map_err(db(doing))?,
        key: row.try_get("", "dedup_key").map_err(db(doing))?,
        payload: row.try_get("", "payload").map_err(db(doing))?,
        attempts: attempts_of(row.try_get("", "attempts").map_err(db(doing))?)?,
    })
}

/// The row, locked until the transaction ends.
async fn locked_in_tx(write: &transaction::Write<'_>, id: JobId) -> Result<BackgroundJob> {
    let row = row::Entity::find_by_id(id.uuid()).lock_exclusive().one(&write.tx).await;
    row.map_err(db("reading a job"))?.ok_or(Error::not_found("background job"))?.try_into()
}

impl Table for BackgroundJob {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = "reading a job";

    fn find(rows: Select<row::Entity>, by: &JobId) -> Select<row::Entity> {
        rows.filter(row::Column::Id.eq(by.uuid()))
    }

    fn filter(rows: Select<row::Entity>, filter: &JobFilter) -> Select<row::Entity> {
        let JobFilter { state, kind } = filter;
        let mut rows = rows;
        if let Some(state) = state {
            rows = rows.filter(row::Column::State.eq(state.as_str()));
        }
        if let Some(kind) = kind {
            rows = rows.filter(row::Column::Kind.eq(kind.as_str()));
        }
        rows
    }

    fn guard(&self) -> Guard {
        Guard::Scope(Scope::AdminOnly)
    }
}

#[async_trait]
impl JobStore for Database {
    async fn jobs_enqueue(&self, jobs: &[NewJob], at: DateTime<Utc>) -> Result<()> {
        if jobs.is_empty() {
            return Ok(());
        }
        let mut write = self.write().await?;
        write.enqueue(jobs, at).await?;
        write.commit().await
    }

    async fn jobs_enqueue_absent(
        &self,
        jobs: &[NewJob],
        died_before: DateTime<Utc>,
        at: DateTime<Utc>,
    ) -> Result<u64> {
        let mut write = self.write().await?;
        let unless = Unless::Present { died_before };
        let enqueued = self.jobs_enqueue_in_tx(&write.tx, jobs, unless, at).await?;
        if enqueued > 0 {
            write.wake_workers();
        }
        write.commit().await?;
        Ok(enqueued)
    }

    async fn jobs_due(&self, by: &JobClaimer<'_>) -> Result<Option<Duration>> {
        let doing = "looking for jobs";
        if by.kinds.is_empty() {
            return Ok(None);
        }
        let mut values = Values::default();
        let kinds = values.add_all(by.kinds.iter().copied());
        let orphaned = self.orphaned(by, &mut values);
        let sql = format!(
            "SELECT (SELECT MIN(run_after) FROM jobs WHERE state = 'waiting' AND kind IN ({kinds})) - {} AS due, \
             (SELECT COUNT(*) FROM jobs WHERE state = 'running' AND kind IN ({kinds}) AND {orphaned}) AS orphans",
            self.clock()
        );
        let row = self.reader.query_one_raw(self.with(&sql, values)).await.map_err(db(doing))?;
        let row = row.ok_or_else(|| corrupt("the jobs"))?;
        if row.try_get::<i64>("", "orphans").map_err(db(doing))? > 0 {
            return Ok(Some(Duration::ZERO));
        }
        let due: Option<i64> = row.try_get("", "due").map_err(db(doing))?;
        Ok(due.map(|due| Duration::from_millis(u64::try_from(due).unwrap_or(0))))
    }

    async fn jobs_claim(&self, by: &JobClaimer<'_>, most: u32) -> Result<Vec<ClaimedJob>> {
        let doing = "claiming jobs";
        if by.kinds.is_empty() {
            return Ok(Vec::new());
        }
        let mut values = Values::default();
        let holder = values.add(by.replica.uuid());
        let kinds = values.add_all(by.kinds.iter().copied());
        let orphaned = self.orphaned(by, &mut values);
        let most = values.add(i64::from(most));
        // Locked as a whole: a write under an earlier claim keeps the job until it ends.
        let locked = if self.is_postgres() { " FOR UPDATE SKIP LOCKED" } else { "" };
        let sql = format!(
            "WITH due AS MATERIALIZED (SELECT id FROM jobs WHERE kind IN ({kinds}) AND \
             ((state = 'waiting' AND run_after <= {}) OR (state = 'running' AND {orphaned})) \
             ORDER BY run_after, id LIMIT {most}{locked}) \
             UPDATE jobs SET state = 'running', again = false, holder = {holder}, epoch = epoch + 1, attempts = attempts + 1 \
             WHERE id IN (SELECT id FROM due) RETURNING id, kind, dedup_key, payload, attempts, epoch",
            self.clock()
        );
        let write = self.write().await?;
        let rows = write.tx.query_all_raw(self.with(&sql, values)).await.map_err(db(doing))?;
        write.commit().await?;
        rows.iter().map(|row| claimed(row, by)).collect()
    }

    async fn job_end(&self, claim: &JobClaim, end: &JobEnd, at: DateTime<Utc>) -> Result<bool> {
        let doing = "recording the end of a job";
        let mut values = Values::default();
        let (id, holder) = (values.add(claim.id.uuid()), values.add(claim.holder.uuid()));
        let epoch = values.add(claim.epoch.cast_signed());
        let mine = format!("id = {id} AND holder = {holder} AND epoch = {epoch} AND state = 'running'");
        let mut write = self.write().await?;
        if *end == JobEnd::Done {
            let sql = format!("DELETE FROM jobs WHERE {mine} AND NOT again");
            let removed = write.tx.execute_raw(self.with(&sql, Values(values.0.clone()))).await;
            if removed.map_err(db(doing))?.rows_affected() > 0 {
                write.commit().await?;
                return Ok(true);
            }
        }
        // Enqueued while it ran: it begins anew, when the one who enqueued it said.
        let begins = |otherwise: &str, of: &str| format!("CASE WHEN again THEN {of} ELSE {otherwise} END");
        let change = match end {
            JobEnd::Done => "state = 'waiting', attempts = 0, error = NULL".to_owned(),
            JobEnd::Returned => {
                write.wake_workers();
                format!("state = 'waiting', attempts = {}", begins("attempts - 1", "0"))
            }
            JobEnd::Retry { after, error } => {
                let (after, error) = (values.add(milliseconds(*after)), values.add(error.as_str()));
                let run_after = begins(&format!("{} + {after}", self.clock()), "run_after");
                let attempts = begins("attempts", "0");
                format!("state = 'waiting', attempts = {attempts}, run_after = {run_after}, error = {error}")
            }
            JobEnd::Dead { error } => {
                let error = values.add(error.as_str());
                let (state, attempts) = (begins("'dead'", "'waiting'"), begins("attempts", "0"));
                format!("state = {state}, attempts = {attempts}, error = {error}")
            }
        };
        let at = values.add(at);
        let sql =
            format!("UPDATE jobs SET {change}, again = false, holder = NULL, updated_at = {at} WHERE {mine}");
        let changed = write.tx.execute_raw(self.with(&sql, values)).await.map_err(db(doing))?;
        write.commit().await?;
        Ok(changed.rows_affected() > 0)
    }

    fn jobs_wake(&self) -> watch::Receiver<u64> {
        self.jobs_wake.subscribe()
    }

    async fn jobs_count(&self) -> Result<Vec<JobCount>> {
        let doing = "counting jobs";
        let sql = format!(
            "SELECT kind, state, COUNT(*) AS many, {} - MIN(run_after) AS overdue FROM jobs GROUP BY kind, state",
            self.clock()
        );
        let rows = self.reader.query_all_raw(self.statement(&sql, [])).await.map_err(db(doing))?;
        rows.into_iter()
            .map(|row| {
                let state: String = row.try_get("", "state").map_err(db(doing))?;
                let state = word(JobState::parse(&state), "a job's state")?;
                let count: i64 = row.try_get("", "many").map_err(db(doing))?;
                let overdue: i64 = row.try_get("", "overdue").map_err(db(doing))?;
                let overdue =
                    if state == JobState::Waiting { u64::try_from(overdue).unwrap_or(0) } else { 0 };
                Ok(JobCount {
                    kind: row.try_get("", "kind").map_err(db(doing))?,
                    state,
                    count: count.cast_unsigned(),
                    overdue: Duration::from_millis(overdue),
                })
            })
            .collect()
    }

    async fn jobs_prune(&self, before: DateTime<Utc>, keep: u64) -> Result<u64> {
        use row::Column;
        let doing = "removing dead jobs";
        let dead = || row::Entity::find().select_only().column(Column::Id).filter(Column::State.eq("dead"));
        let old = dead().filter(Column::UpdatedAt.lt(before)).limit(PRUNED);
        let over =
            dead().order_by_desc(Column::UpdatedAt).order_by_desc(Column::Id).limit(PRUNED).offset(keep);
        let mut ids: Vec<Uuid> = old.into_tuple().all(&self.reader).await.map_err(db(doing))?;
        ids.extend(over.into_tuple::<Uuid>().all(&self.reader).await.map_err(db(doing))?);
        if ids.is_empty() {
            // An idle console writes nothing.
            return Ok(0);
        }
        let mut write = self.write().await?;
        let mut removed = 0;
        for chunk in ids.chunks(500) {
            let gone = row::Entity::delete_many()
                .filter(Column::Id.is_in(chunk.iter().copied()))
                // Not one that was asked for anew meanwhile.
                .filter(Column::State.eq("dead"))
                .exec(&write.tx)
                .await
                .map_err(db(doing))?;
            removed += gone.rows_affected;
        }
        write.wake_workers();
        write.commit().await?;
        Ok(removed)
    }

    async fn job_retry(&self, by: Audited<'_, BackgroundJob, Write>) -> Result<BackgroundJob> {
        let id = by.target().id;
        let mut write = self.write().await?;
        if locked_in_tx(&write, id).await?.state != JobState::Dead {
            return Err(Error::conflict("the job is not dead: it runs when it is due"));
        }
        let sql = format!(
            "UPDATE jobs SET state = 'waiting', attempts = 0, run_after = {}, updated_at = $2 WHERE id = $1",
            self.clock()
        );
        let values = [id.uuid().into(), by.entry().at.into()];
        write.tx.execute_raw(self.statement(&sql, values)).await.map_err(db("retrying a job"))?;
        let job = locked_in_tx(&write, id).await?;
        write.audit(by.entry()).await?;
        write.wake_workers();
        write.commit().await?;
        Ok(job)
    }

    async fn job_delete(&self, by: Audited<'_, BackgroundJob, Write>) -> Result<()> {
        let id = by.target().id;
        let mut write = self.write().await?;
        if locked_in_tx(&write, id).await?.state == JobState::Running {
            return Err(Error::conflict("a replica runs the job: wait until it has ended"));
        }
        let removed = row::Entity::delete_by_id(id.uuid()).exec(&write.tx).await;
        removed.map_err(db("deleting a job"))?;
        write.audit(by.entry()).await?;
        write.wake_workers();
        write.commit().await
    }
}

#[cfg(test)]
mod tests {
    use plural_core::ids::ReplicaId;
    use plural_testkit::{TestDatabase, each_database, one_database};

    use super::*;
    use crate::DatabaseOptions;

    each_database!(a_job_is_committed_with_its_write_or_not_at_all);
    one_database!(
        postgres, "SQLite has one writer at a time";
        a_write_under_a_claim_keeps_others_from_claiming_and_not_from_enqueuing,
    );

    fn job() -> NewJob {
        NewJob { kind: "probe", key: "one".into(), payload: serde_json::Value::Null, after: Duration::ZERO }
    }

    fn claimer<'a>() -> JobClaimer<'a> {
        JobClaimer { replica: ReplicaId::new(), kinds: &["probe"], running: &[] }
    }

    async fn open(source: &TestDatabase) -> Database {
        Database::open(&DatabaseOptions::new(source.url())).await.unwrap()
    }

    async fn a_job_is_committed_with_its_write_or_not_at_all(source: TestDatabase) {
        let database = open(&source).await;
        let mut wake = database.jobs_wake();
        let mut write = database.write().await.unwrap();
        write.enqueue(&[job()], Utc::now()).await.unwrap();
        drop(write);
        let mut write = database.write().await.unwrap();
        assert_eq!(row::Entity::find().all(&write.tx).await.unwrap(), []);
        // On PostgreSQL workers are woken once more when the database begins to listen.
        assert!(database.is_postgres() || !wake.has_changed().unwrap());
        wake.mark_unchanged();
        write.enqueue(&[job()], Utc::now()).await.unwrap();
        write.commit().await.unwrap();
        assert!(wake.has_changed().unwrap());
        assert_eq!(database.jobs_claim(&claimer(), 10).await.unwrap().len(), 1);
        // Another one that has the database open hears of it, too.
        if database.is_postgres() {
            let other = open(&source).await;
            let mut wake = other.jobs_wake();
            for _ in 0..2 {
                database.jobs_enqueue(&[job()], Utc::now()).await.unwrap();
                tokio::time::timeout(Duration::from_secs(30), wake.changed()).await.unwrap().unwrap();
            }
        }
    }

    /// A request that enqueues a job holds rows for which the job's own write may wait: it must never wait for that write.
    async fn a_write_under_a_claim_keeps_others_from_claiming_and_not_from_enqueuing(source: TestDatabase) {
        let database = open(&source).await;
        database.jobs_enqueue(&[job()], Utc::now()).await.unwrap();
        let claimed = database.jobs_claim(&claimer(), 1).await.unwrap();
        let write = claimed[0].claim.guard(database.write()).await.unwrap();
        let again = [job()];
        let enqueued = database.jobs_enqueue(&again, Utc::now());
        tokio::time::timeout(Duration::from_secs(30), enqueued).await.unwrap().unwrap();
        // No replica with this id is alive, so that any other may have the job; but not before the write has ended.
        assert_eq!(database.jobs_claim(&claimer(), 1).await.unwrap(), []);
        write.commit().await.unwrap();
        assert_eq!(database.jobs_claim(&claimer(), 1).await.unwrap().len(), 1);
        assert!(claimed[0].claim.guard(database.write()).await.is_err());
    }
}
