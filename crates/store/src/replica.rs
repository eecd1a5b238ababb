//! Replicas, leases, and which replica holds which agent's stream. All times are the database's.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plural_app::lease::Fence;
use plural_app::replica::{Replica, ReplicaAddress, ReplicaBeat, ReplicaStore, ReplicaUpdate};
use plural_core::ids::{ClusterId, ReplicaId};
use plural_core::{Error, Result};
use sea_orm::sea_query::OnConflict;
use sea_orm::{ColumnTrait, ConnectionTrait, DbBackend, EntityTrait, QueryFilter, QueryResult, Statement};
use uuid::Uuid;

use crate::convert::bytes32;
use crate::database::Database;
use crate::error::db;
use crate::transaction::{Write, set};

/// Clusters of one statement.
const CHUNK: usize = 1000;
/// How long a replica that is gone is remembered.
const REMEMBERED: Duration = Duration::from_hours(24);

pub(crate) mod stream {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "agent_streams")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub cluster_id: Uuid,
        pub replica_id: Uuid,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod lease {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "leases")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub name: String,
        pub holder: Option<Uuid>,
        pub epoch: i64,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

/// There is nothing more to do under this name; a fence of it stops nobody who has one, and lets nobody write.
pub(crate) async fn forget_lease_on(connection: &impl ConnectionTrait, name: &str) -> Result<()> {
    let doing = "forgetting a lease";
    lease::Entity::delete_by_id(name).exec(connection).await.map(drop).map_err(db(doing))
}

impl Database {
    /// Milliseconds by the database's clock, as an expression.
    pub(crate) fn clock(&self) -> &'static str {
        match self.backend {
            DbBackend::Postgres => "(EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint",
            _ => "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
        }
    }

    /// Makes sure that the lease stays whose it is until this transaction has ended.
    pub(crate) async fn check_fence_in_tx(&self, tx: &impl ConnectionTrait, fence: &Fence) -> Result<()> {
        let Fence { name, holder, epoch } = fence;
        let lock = if self.is_postgres() { " FOR SHARE" } else { "" };
        let sql = format!("SELECT epoch FROM leases WHERE name = $1 AND holder = $2 AND epoch = $3{lock}");
        let values = [(**name).into(), holder.uuid().into(), epoch.cast_signed().into()];
        let row = tx.query_one_raw(self.statement(&sql, values)).await.map_err(db("checking a lease"))?;
        if row.is_some() {
            return Ok(());
        }
        metrics::counter!("plural_fenced_writes_total").increment(1);
        Err(Error::conflict(format!("another replica holds the lease {name:?} by now: nothing was written")))
    }

    /// Makes sure that every replica knows of stacks and their runs: one that does not would destroy the data keys that their states,
    /// inputs and plans are sealed with.
    ///
    /// # Errors
    /// [`Error::Conflict`] while one of the release before is alive.
    pub(crate) async fn check_stacks_are_known_in_tx(&self, write: &Write<'_>) -> Result<()> {
        // On SQLite there is no other replica.
        if !self.is_postgres() {
            return Ok(());
        }
        let sql = format!(
            "SELECT 1 AS one FROM replicas WHERE alive_until > {} AND (stacks IS NOT TRUE OR stack_runs IS NOT TRUE) LIMIT 1",
            self.clock()
        );
        let old = write.tx.query_one_raw(self.statement(&sql, [])).await;
        if old.map_err(db("looking for replicas of the release before"))?.is_none() {
            return Ok(());
        }
        Err(Error::conflict(
            "replicas of a release before runs of stacks are running: replace them first, and try again",
        ))
    }

    async fn beat_in_tx(&self, write: &Write<'_>, beat: &ReplicaBeat) -> Result<ReplicaUpdate> {
        let doing = "giving a sign of life";
        let ReplicaBeat { id, place, address, holds } = beat;
        let clock = self.clock();
        let sql = format!(
            "INSERT INTO replicas (id, place, authority, certificate, alive_until, data_keys, secret_backends, stacks, stack_runs) \
             VALUES ($1, $2, $3, $4, {clock} + $5, TRUE, TRUE, TRUE, TRUE) ON CONFLICT (id) DO UPDATE SET \
             authority = excluded.authority, certificate = excluded.certificate, alive_until = excluded.alive_until"
        );
        let values = [
            id.uuid().into(),
            place.as_str().into(),
            address.as_ref().map(|address| address.authority.clone()).into(),
            address.as_ref().map(|address| address.certificate.to_vec()).into(),
            milliseconds(*holds).into(),
        ];
        write.tx.execute_raw(self.statement(&sql, values)).await.map_err(db(doing))?;
        let sql = format!(
            "SELECT id, place, authority, certificate FROM replicas WHERE alive_until > {clock} ORDER BY id"
        );
        let rows = write.tx.query_all_raw(self.statement(&sql, [])).await.map_err(db(doing))?;
        let alive = rows.iter().map(replica).collect::<Result<Vec<_>>>()?;
        let rows = lease::Entity::find()
            .filter(lease::Column::Holder.eq(id.uuid()))
            .all(&write.tx)
            .await
            .map_err(db(doing))?;
        let held = rows
            .into_iter()
            .map(|row| Fence { name: row.name.into(), holder: *id, epoch: row.epoch.cast_unsigned() })
            .collect();
        Ok(ReplicaUpdate { alive, held })
    }
}

#[async_trait]
impl ReplicaStore for Database {
    fn is_shared(&self) -> bool {
        self.is_postgres()
    }

    async fn replica_join(&self, beat: &ReplicaBeat) -> Result<ReplicaUpdate> {
        let doing = "joining the replicas";
        let write = self.write().await?;
        let sql = "UPDATE replicas SET alive_until = 0 WHERE place = $1 AND id <> $2";
        let values = [beat.place.as_str().into(), beat.id.uuid().into()];
        write.tx.execute_raw(self.statement(sql, values)).await.map_err(db(doing))?;
        let sql =
            format!("DELETE FROM replicas WHERE alive_until > 0 AND alive_until < {} - $1", self.clock());
        let values = [milliseconds(REMEMBERED).into()];
        write.tx.execute_raw(self.statement(&sql, values)).await.map_err(db(doing))?;
        let sql = "DELETE FROM agent_streams WHERE replica_id NOT IN (SELECT id FROM replicas WHERE alive_until > 0)";
        write.tx.execute_raw(self.statement(sql, [])).await.map_err(db(doing))?;
        let news = self.beat_in_tx(&write, beat).await?;
        write.commit().await?;
        Ok(news)
    }

    async fn replica_beat(&self, beat: &ReplicaBeat) -> Result<ReplicaUpdate> {
        let write = self.write().await?;
        let news = self.beat_in_tx(&write, beat).await?;
        write.commit().await?;
        Ok(news)
    }

    async fn replica_leave(&self, id: ReplicaId) -> Result<()> {
        let doing = "leaving the replicas";
        let write = self.write().await?;
        for sql in [
            "UPDATE leases SET holder = NULL WHERE holder = $1",
            "DELETE FROM agent_streams WHERE replica_id = $1",
            "DELETE FROM replicas WHERE id = $1",
        ] {
            write.tx.execute_raw(self.statement(sql, [id.uuid().into()])).await.map_err(db(doing))?;
        }
        write.commit().await
    }

    async fn lease_acquire(&self, name: &Arc<str>, holder: ReplicaId) -> Result<Option<Fence>> {
        let doing = "asking for a lease";
        let free = format!(
            "(l.holder IS NULL OR l.holder = $2 OR NOT EXISTS \
             (SELECT 1 FROM replicas r WHERE r.id = l.holder AND r.alive_until > {}))",
            self.clock()
        );
        // Somebody else's: known without a write.
        let sql = format!("SELECT 1 AS one FROM leases l WHERE l.name = $1 AND NOT {free}");
        let values = || [(**name).into(), holder.uuid().into()];
        let taken = self.reader.query_one_raw(self.statement(&sql, values())).await.map_err(db(doing))?;
        if taken.is_some() {
            return Ok(None);
        }
        let write = self.write().await?;
        let sql = format!(
            "INSERT INTO leases AS l (name, holder, epoch) VALUES ($1, $2, 1) \
             ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, epoch = l.epoch + 1 \
             WHERE {free} RETURNING epoch"
        );
        let given = write.tx.query_one_raw(self.statement(&sql, values())).await.map_err(db(doing))?;
        let Some(given) = given else { return Ok(None) };
        let epoch: i64 = given.try_get("", "epoch").map_err(db(doing))?;
        write.commit().await?;
        Ok(Some(Fence { name: Arc::clone(name), holder, epoch: epoch.cast_unsigned() }))
    }

    async fn lease_release(&self, fence: &Fence) -> Result<()> {
        let Fence { name, holder, epoch } = fence;
        let write = self.write().await?;
        let sql = "UPDATE leases SET holder = NULL WHERE name = $1 AND holder = $2 AND epoch = $3";
        let values = [(**name).into(), holder.uuid().into(), epoch.cast_signed().into()];
        write.tx.execute_raw(self.statement(sql, values)).await.map_err(db("giving a lease back"))?;
        write.commit().await
    }

    async fn agent_streams_put(
        &self,
        replica: ReplicaId,
        here: &[ClusterId],
        gone: &[ClusterId],
    ) -> Result<()> {
        let doing = "recording agents' streams";
        let write = self.write().await?;
        for chunk in gone.chunks(CHUNK) {
            // Only its own: the agent may be at another replica by now.
            stream::Entity::delete_many()
                .filter(stream::Column::ReplicaId.eq(replica.uuid()))
                .filter(stream::Column::ClusterId.is_in(chunk.iter().map(|id| id.uuid())))
                .exec(&write.tx)
                .await
                .map_err(db(doing))?;
        }
        for chunk in here.chunks(CHUNK) {
            let rows = chunk.iter().map(|id| stream::ActiveModel {
                cluster_id: set(id.uuid()),
                replica_id: set(replica.uuid()),
            });
            let latest = OnConflict::column(stream::Column::ClusterId)
                .update_column(stream::Column::ReplicaId)
                .to_owned();
            stream::Entity::insert_many(rows)
                .on_conflict(latest)
                .exec_without_returning(&write.tx)
                .await
                .map_err(db(doing))?;
        }
        write.commit().await
    }

    async fn agent_streams(&self, clusters: &[ClusterId]) -> Result<HashSet<ClusterId>> {
        let doing = "looking for agents' streams";
        let mut found = HashSet::new();
        for chunk in clusters.chunks(CHUNK) {
            let places: Vec<String> = (1..=chunk.len()).map(|place| format!("${place}")).collect();
            let sql = format!(
                "SELECT s.cluster_id FROM agent_streams s JOIN replicas r ON r.id = s.replica_id \
                 WHERE r.alive_until > {} AND s.cluster_id IN ({})",
                self.clock(),
                places.join(", ")
            );
            let values: Vec<sea_orm::Value> = chunk.iter().map(|id| id.uuid().into()).collect();
            let statement = Statement::from_sql_and_values(self.backend, sql, values);
            let rows = self.reader.query_all_raw(statement).await.map_err(db(doing))?;
            for row in rows {
                let id: Uuid = row.try_get("", "cluster_id").map_err(db(doing))?;
                found.insert(ClusterId::from_uuid(id));
            }
        }
        Ok(found)
    }

    async fn agent_stream(&self, cluster: ClusterId) -> Result<Option<Replica>> {
        let sql = format!(
            "SELECT r.id, r.place, r.authority, r.certificate FROM agent_streams s JOIN replicas r ON r.id = s.replica_id \
             WHERE s.cluster_id = $1 AND r.alive_until > {}",
            self.clock()
        );
        let row = self.reader.query_one_raw(self.statement(&sql, [cluster.uuid().into()])).await;
        row.map_err(db("looking for an agent's stream"))?.as_ref().map(replica).transpose()
    }
}

fn replica(row: &QueryResult) -> Result<Replica> {
    let doing = "reading a replica";
    let id: Uuid = row.try_get("", "id").map_err(db(doing))?;
    let place: String = row.try_get("", "place").map_err(db(doing))?;
    let authority: Option<String> = row.try_get("", "authority").map_err(db(doing))?;
    let certificate: Option<Vec<u8>> = row.try_get("", "certificate").map_err(db(doing))?;
    let address = match (authority, certificate) {
        (Some(authority), Some(certificate)) => {
            let certificate = bytes32(&certificate, "a replica's certificate")?;
            Some(ReplicaAddress { authority, certificate })
        }
        _ => None,
    };
    Ok(Replica { id: ReplicaId::from_uuid(id), place, address })
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
