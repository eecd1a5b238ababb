//! Deltas: rows that name what changed, read as the feed is (see [`crate::feed`]) and kept for less than an hour.

use std::collections::HashSet;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::delta::{Delta, DeltaBatch, DeltaPosition, DeltaStore};
use plural_core::Result;
use plural_core::ids::{ClusterId, ServiceId, StackId};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbBackend, DbErr, EntityTrait, QueryFilter, QueryResult, QuerySelect,
};
use tokio::sync::watch;
use uuid::Uuid;

use crate::database::{Database, corrupt};
use crate::error::db;
use crate::records::AT_ONCE;
use crate::transaction::set;
use crate::{cluster, service, stack};

/// In the place of a cluster, without a service: who may see what has changed. An earlier release takes it for a cluster that is gone.
pub(crate) const RIGHTS: Uuid = Uuid::nil();
/// Deltas read at once. Who is behind by more is told to read everything again.
const MOST: usize = 5_000;

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "deltas")]
    pub(crate) struct Model {
        #[sea_orm(primary_key)]
        pub sequence: i64,
        pub xid: i64,
        pub cluster_id: Uuid,
        pub service_id: Option<Uuid>,
        pub stack_id: Option<Uuid>,
        pub at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) fn row_of((cluster, service): (Uuid, Option<Uuid>), at: DateTime<Utc>) -> row::ActiveModel {
    row::ActiveModel {
        cluster_id: set(cluster),
        service_id: set(service),
        // Rows of one statement name the same columns.
        stack_id: set(None),
        at: set(at),
        ..Default::default()
    }
}

/// A row of a stack. An earlier release takes it for a cluster that is gone.
pub(crate) fn row_of_stack(stack: Uuid, at: DateTime<Utc>) -> row::ActiveModel {
    row::ActiveModel { stack_id: set(Some(stack)), ..row_of((stack, None), at) }
}

#[async_trait]
impl DeltaStore for Database {
    async fn deltas_head(&self) -> Result<DeltaPosition> {
        let sql = match self.backend {
            DbBackend::Postgres => "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1 AS head",
            _ => "SELECT COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'deltas'), 0) AS head",
        };
        let doing = "reading how far changes go";
        let row = self.reader.query_one_raw(self.statement(sql, [])).await.map_err(db(doing))?;
        let head: i64 =
            row.ok_or_else(|| corrupt("how far changes go"))?.try_get("", "head").map_err(db(doing))?;
        Ok(head.cast_unsigned())
    }

    async fn deltas_read(&self, after: DeltaPosition) -> Result<DeltaBatch> {
        let doing = "reading which things changed";
        let sql = match self.backend {
            DbBackend::Postgres => {
                "SELECT s.xmin AS head, d.xid AS place, d.cluster_id, d.service_id, d.stack_id, d.at FROM \
                 (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1 AS xmin) s \
                 LEFT JOIN deltas d ON d.xid > $1 ORDER BY d.xid, d.sequence LIMIT $2"
            }
            _ => {
                "SELECT s.head AS head, d.sequence AS place, d.cluster_id, d.service_id, d.stack_id, d.at FROM \
                 (SELECT COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'deltas'), 0) AS head) s \
                 LEFT JOIN deltas d ON d.sequence > $1 ORDER BY d.sequence LIMIT $2"
            }
        };
        let values = [after.cast_signed().into(), (MOST as i64 + 1).into()];
        let rows = self.reader.query_all_raw(self.statement(sql, values)).await.map_err(db(doing))?;
        let rows: Vec<ReadRow> =
            rows.iter().map(read_row).collect::<std::result::Result<_, DbErr>>().map_err(db(doing))?;
        // There is always one row, without a delta if there is none.
        let Some((head, _)) = rows.first() else { return Err(corrupt("how far changes go")) };
        let head = (*head).max(after);
        let mut batch = DeltaBatch { position: head, ..DeltaBatch::default() };
        let mut read = 0;
        for (place, told) in rows.into_iter().filter_map(|(_, read)| read) {
            if place > head {
                batch.pending = true;
                continue;
            }
            read += 1;
            match told {
                Told::Change(delta) => batch.deltas.push(delta),
                Told::Rights(at) => batch.rights_at = batch.rights_at.max(Some(at)),
            }
        }
        // What waits behind a transaction that takes long is not skipped: it is read when that has ended.
        if read > MOST {
            batch.skipped = true;
            batch.deltas.clear();
        }
        Ok(batch)
    }

    async fn deltas_gone(&self, of: &[Delta]) -> Result<HashSet<Uuid>> {
        let doing = "looking which things are gone";
        let (mut services, mut clusters, mut stacks) = (HashSet::new(), HashSet::new(), HashSet::new());
        for delta in of {
            match delta {
                Delta::Cluster(id) => clusters.insert(id.uuid()),
                Delta::Service { cluster_id: _, service_id } => services.insert(service_id.uuid()),
                Delta::Stack(id) => stacks.insert(id.uuid()),
            };
        }
        let mut gone: HashSet<Uuid> = services.iter().chain(&clusters).chain(&stacks).copied().collect();
        let [services, clusters, stacks] =
            [services, clusters, stacks].map(|ids| ids.into_iter().collect::<Vec<Uuid>>());
        for chunk in services.chunks(AT_ONCE) {
            let there: Vec<Uuid> = service::row::Entity::find()
                .select_only()
                .column(service::row::Column::Id)
                .filter(service::row::Column::Id.is_in(chunk.iter().copied()))
                .into_tuple()
                .all(&self.reader)
                .await
                .map_err(db(doing))?;
            for id in &there {
                gone.remove(id);
            }
        }
        for chunk in clusters.chunks(AT_ONCE) {
            let there: Vec<Uuid> = cluster::row::Entity::find()
                .select_only()
                .column(cluster::row::Column::Id)
                .filter(cluster::row::Column::Id.is_in(chunk.iter().copied()))
                .into_tuple()
                .all(&self.reader)
                .await
                .map_err(db(doing))?;
            for id in &there {
                gone.remove(id);
            }
        }
        for chunk in stacks.chunks(AT_ONCE) {
            let there: Vec<Uuid> = stack::row::Entity::find()
                .select_only()
                .column(stack::row::Column::Id)
                .filter(stack::row::Column::Id.is_in(chunk.iter().copied()))
                .into_tuple()
                .all(&self.reader)
                .await
                .map_err(db(doing))?;
            for id in &there {
                gone.remove(id);
            }
        }
        Ok(gone)
    }

    fn deltas_wake(&self) -> watch::Receiver<u64> {
        self.deltas_wake.subscribe()
    }

    async fn deltas_prune(&self, before: DateTime<Utc>) -> Result<u64> {
        let write = self.write().await?;
        let removed = row::Entity::delete_many()
            .filter(row::Column::At.lt(before))
            .exec(&write.tx)
            .await
            .map_err(db("removing old changes"))?;
        write.commit().await?;
        Ok(removed.rows_affected)
    }
}

/// What a row tells.
enum Told {
    /// What changed.
    Change(Delta),
    /// When rights changed.
    Rights(DateTime<Utc>),
}

/// The head, and what a row tells, with its place.
type ReadRow = (u64, Option<(u64, Told)>);

fn read_row(row: &QueryResult) -> std::result::Result<ReadRow, DbErr> {
    let head: i64 = row.try_get("", "head")?;
    let place: Option<i64> = row.try_get("", "place")?;
    let cluster: Option<Uuid> = row.try_get("", "cluster_id")?;
    let service: Option<Uuid> = row.try_get("", "service_id")?;
    let stack: Option<Uuid> = row.try_get("", "stack_id")?;
    let at: Option<DateTime<Utc>> = row.try_get("", "at")?;
    let read = place.zip(cluster).zip(at).map(|((place, cluster), at)| {
        let cluster_id = ClusterId::from_uuid(cluster);
        let told = match (stack, service) {
            (Some(stack), _) => Told::Change(Delta::Stack(StackId::from_uuid(stack))),
            (None, Some(service)) => {
                let service_id = ServiceId::from_uuid(service);
                Told::Change(Delta::Service { cluster_id, service_id })
            }
            (None, None) if cluster == RIGHTS => Told::Rights(at),
            (None, None) => Told::Change(Delta::Cluster(cluster_id)),
        };
        (place.cast_unsigned(), told)
    });
    Ok((head.cast_unsigned(), read))
}
