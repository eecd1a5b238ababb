//! One write: its rows, its audit line and its events, or nothing.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use plural_app::job::NewJob;
use plural_app::lease::{Fence, JobClaim};
use plural_app::ports::agents::FeedSubject;
use plural_core::Result;
use plural_core::audit::AuditEntry;
use plural_core::ids::AuditId;
use plural_core::work::WorkKind;
use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend, EntityTrait, IsolationLevel, Set, SqliteTransactionMode,
    TransactionOptions,
};
use uuid::Uuid;

use crate::bounded::Bounded;
use crate::database::{CHANNEL, DELTAS_CHANNEL, Database, JOBS_CHANNEL};
use crate::error::db;
use crate::job::Unless;
use crate::quota::Quotas;
use crate::{audit, audit_state, delta, feed, health_change};

/// An open write transaction; dropped without [`Write::commit`] it never was.
pub(crate) struct Write<'a> {
    database: &'a Database,
    pub(crate) tx: Bounded<DatabaseTransaction>,
    told: bool,
    /// Workers are woken with the commit.
    queued: bool,
    /// Clusters, and services of clusters, of which open pages are told.
    changed: BTreeSet<(Uuid, Option<Uuid>)>,
    changed_at: Option<DateTime<Utc>>,
    /// Stacks of which open pages are told, with when they changed last.
    stacks: Mutex<BTreeMap<Uuid, DateTime<Utc>>>,
    /// Services whose status became another.
    pub(crate) turned: Vec<health_change::row::ActiveModel>,
    /// When it changed who may see what.
    rights_at: Mutex<Option<DateTime<Utc>>>,
}

impl Write<'_> {
    pub(crate) fn quotas(&self) -> Quotas {
        self.database.quotas
    }
}

impl Database {
    /// # Errors
    /// [`plural_core::Error::Conflict`] when it is behind a [`Fence`] whose lease another replica holds by now, or under a
    /// [`JobClaim`] of a job that was claimed again.
    pub(crate) async fn write(&self) -> Result<Write<'_>> {
        let options = TransactionOptions {
            // Immediate: a writer that first reads must not find out at its first write that it is late.
            sqlite_transaction_mode: (self.backend == DbBackend::Sqlite)
                .then_some(SqliteTransactionMode::Immediate),
            ..TransactionOptions::default()
        };
        let tx = self.writer.begin_with_options(options).await.map_err(self.failed("beginning a write"))?;
        if let Some(fence) = Fence::current() {
            self.check_fence_in_tx(&tx, &fence).await?;
        }
        if let Some(claim) = JobClaim::current() {
            self.check_claim_in_tx(&tx, claim).await?;
        }
        Ok(Write {
            database: self,
            tx,
            told: false,
            queued: false,
            changed: BTreeSet::new(),
            changed_at: None,
            stacks: Mutex::new(BTreeMap::new()),
            turned: Vec::new(),
            rights_at: Mutex::new(None),
        })
    }

    /// A transaction that sees one state of everything.
    pub(crate) async fn snapshot(&self) -> Result<Bounded<DatabaseTransaction>> {
        let options = TransactionOptions {
            isolation_level: (self.backend == DbBackend::Postgres).then_some(IsolationLevel::RepeatableRead),
            ..TransactionOptions::default()
        };
        self.reader.begin_with_options(options).await.map_err(self.failed("beginning a read"))
    }
}

impl Write<'_> {
    pub(crate) fn is_postgres(&self) -> bool {
        self.database.backend == DbBackend::Postgres
    }

    pub(crate) async fn audit(&self, entry: &AuditEntry) -> Result<()> {
        self.audit_many(std::slice::from_ref(entry)).await
    }

    pub(crate) async fn audit_many(&self, entries: &[AuditEntry]) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let entries = audit_state::completed_on(&self.tx, entries).await?;
        let rows = entries.iter().map(|entry| audit::row_of(AuditId::new(), entry));
        audit::row::Entity::insert_many(rows)
            .exec_without_returning(&self.tx)
            .await
            .map(drop)
            .map_err(db("writing the audit log"))?;
        // Before the commit: a look that comes too early finds nothing, and another one follows.
        self.database.audit_wrote();
        Ok(())
    }

    pub(crate) async fn publish(&mut self, subject: FeedSubject, at: DateTime<Utc>) -> Result<()> {
        self.publish_many(&[subject], at).await
    }

    pub(crate) async fn publish_many(&mut self, subjects: &[FeedSubject], at: DateTime<Utc>) -> Result<()> {
        if subjects.is_empty() {
            return Ok(());
        }
        for chunk in subjects.chunks(500) {
            feed::row::Entity::insert_many(chunk.iter().map(|subject| feed::row_of(*subject, at)))
                .exec_without_returning(&self.tx)
                .await
                .map_err(db("writing the feed"))?;
        }
        self.told = true;
        for subject in subjects {
            match subject {
                FeedSubject::Work { cluster_id, work, sequence: _, change: _ } => match work.kind {
                    WorkKind::Service => self.changed((cluster_id.uuid(), Some(work.id)), at),
                    WorkKind::Cluster => self.changed((cluster_id.uuid(), None), at),
                    // Pages of stacks are told of each change of a run, pages of clusters show none.
                    WorkKind::StackRun => {}
                },
                FeedSubject::Cluster { cluster_id } => self.changed((cluster_id.uuid(), None), at),
                FeedSubject::Repository { .. } | FeedSubject::RepositoryMoved { .. } => {}
            }
        }
        Ok(())
    }

    /// Tells open pages of a cluster, or of a service of one. What is published is told anyway.
    pub(crate) fn changed(&mut self, what: (Uuid, Option<Uuid>), at: DateTime<Utc>) {
        self.changed.insert(what);
        self.changed_at = self.changed_at.max(Some(at));
    }

    /// Tells open pages of a stack, and of its runs.
    pub(crate) fn stack_changed(&self, stack: Uuid, at: DateTime<Utc>) {
        self.stacks.lock().insert(stack, at);
    }

    /// Tells open pages of whoever does not see everything that they may see other things than before.
    pub(crate) fn rights_changed(&self, at: DateTime<Utc>) {
        let mut rights_at = self.rights_at.lock();
        *rights_at = (*rights_at).max(Some(at));
    }

    /// Enqueues jobs: they run once this write is committed, and never if it is not.
    ///
    /// # Assumptions
    /// It is the last step before the commit: who waits for the rows of these jobs waits for nothing else.
    pub(crate) async fn enqueue(&mut self, jobs: &[NewJob], at: DateTime<Utc>) -> Result<()> {
        self.database.jobs_enqueue_in_tx(&self.tx, jobs, Unless::Never, at).await?;
        self.queued |= !jobs.is_empty();
        Ok(())
    }

    /// Has workers look for jobs once this is committed.
    pub(crate) fn wake_workers(&mut self) {
        self.queued = true;
    }

    pub(crate) async fn commit(mut self) -> Result<()> {
        let rights_at = *self.rights_at.get_mut();
        if let Some(at) = rights_at {
            self.changed((delta::RIGHTS, None), at);
        }
        let Self { database, tx, told, queued, changed, changed_at, stacks, rights_at: _, turned } = self;
        health_change::write_on(&tx, turned).await?;
        let at = changed_at.unwrap_or_default();
        let mut changed: Vec<delta::row::ActiveModel> =
            changed.into_iter().map(|what| delta::row_of(what, at)).collect();
        changed.extend(stacks.into_inner().into_iter().map(|(stack, at)| delta::row_of_stack(stack, at)));
        for chunk in changed.chunks(500) {
            delta::row::Entity::insert_many(chunk.to_vec())
                .exec_without_returning(&tx)
                .await
                .map_err(db("writing what changed"))?;
        }
        let changed = !changed.is_empty();
        if told && database.backend == DbBackend::Postgres {
            tx.execute_unprepared(&format!("NOTIFY {CHANNEL}")).await.map_err(db("announcing events"))?;
        }
        if queued && database.backend == DbBackend::Postgres {
            tx.execute_unprepared(&format!("NOTIFY {JOBS_CHANNEL}")).await.map_err(db("announcing jobs"))?;
        }
        if changed && database.backend == DbBackend::Postgres {
            tx.execute_unprepared(&format!("NOTIFY {DELTAS_CHANNEL}"))
                .await
                .map_err(db("announcing changes"))?;
        }
        tx.commit().await.map_err(database.failed("committing a write"))?;
        if changed {
            database.deltas_wake.send_modify(|wakes| *wakes += 1);
        }
        if told {
            database.wake.send_modify(|wakes| *wakes += 1);
        }
        if queued {
            database.jobs_wake.send_modify(|wakes| *wakes += 1);
        }
        Ok(())
    }
}

/// `Set` for every field of a row that is inserted.
pub(crate) fn set<T: Into<sea_orm::Value>>(value: T) -> sea_orm::ActiveValue<T> {
    Set(value)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plural_app::ports::agents::AgentStore as _;
    use plural_core::ids::ClusterId;
    use plural_testkit::{TestDatabase, eventually};

    use super::*;
    use crate::DatabaseOptions;

    /// A replica whose machine sleeps in the middle of a write holds up neither the writes nor the events of others.
    #[tokio::test]
    async fn a_sleepers_transaction_is_ended() {
        let Some(source) = TestDatabase::postgres_or_report() else { return };
        let options =
            DatabaseOptions { sleeper: Duration::from_millis(300), ..DatabaseOptions::new(source.url()) };
        let (sleeper, other) =
            (Database::open(&options).await.unwrap(), Database::open(&options).await.unwrap());
        let before = other.fleet_load().await.unwrap().position;
        let subject = FeedSubject::Cluster { cluster_id: ClusterId::new() };
        let mut asleep = sleeper.write().await.unwrap();
        asleep.publish(subject, Utc::now()).await.unwrap();

        let mut write = other.write().await.unwrap();
        write.publish(subject, Utc::now()).await.unwrap();
        write.commit().await.unwrap();
        let read = eventually(Duration::from_secs(30), async || {
            let read = other.feed_read(before).await.map_err(|error| error.log_text())?;
            if read.events.is_empty() { Err(format!("{read:?}")) } else { Ok(read) }
        })
        .await;
        assert_eq!(read.events.len(), 1);
        // It wakes up, and what it began never was.
        assert!(asleep.commit().await.is_err());
        assert_eq!(other.feed_read(before).await.unwrap().events.len(), 1);
        drop((sleeper, other, source));
    }

    /// Transactions of all databases of a server count their ids together: one that is open elsewhere holds events back, and
    /// the reader is told to ask again until it ends.
    #[tokio::test]
    async fn a_transaction_of_another_database_delays_events_only_while_it_is_open() {
        let (Some(here), Some(elsewhere)) =
            (TestDatabase::postgres_or_report(), TestDatabase::postgres_or_report())
        else {
            return;
        };
        let ours = Database::open(&DatabaseOptions::new(here.url())).await.unwrap();
        let theirs = Database::open(&DatabaseOptions::new(elsewhere.url())).await.unwrap();
        let subject = FeedSubject::Cluster { cluster_id: ClusterId::new() };
        let before = ours.fleet_load().await.unwrap().position;
        let mut open = theirs.write().await.unwrap();
        open.publish(subject, Utc::now()).await.unwrap();

        let mut write = ours.write().await.unwrap();
        write.publish(subject, Utc::now()).await.unwrap();
        write.commit().await.unwrap();
        let read = ours.feed_read(before).await.unwrap();
        assert!(read.events.is_empty() && read.pending, "{read:?}");

        open.commit().await.unwrap();
        // Other tests use the same server.
        let read = eventually(Duration::from_secs(30), async || {
            let read = ours.feed_read(before).await.map_err(|error| error.log_text())?;
            if read.events.is_empty() { Err(format!("{read:?}")) } else { Ok(read) }
        })
        .await;
        assert_eq!(read.events.len(), 1);
        // What others on the server commit moves the head, though nothing is written here.
        assert!(read.position >= read.events[0].position);
        drop((ours, theirs, here, elsewhere));
    }
}
