//! The auth proxy's key, and the clusters' audit log.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Admin, Authorized};
use plural_app::proxy::ProxyStore;
use plural_app::seal::Sealed;
use plural_core::cluster::Cluster;
use plural_core::cluster_audit::{ClusterAuditEntry, ClusterAuditRow};
use plural_core::ids::{ClusterAuditId, ClusterId, RecordingId, RequestId, UserId};
use plural_core::{Page, PageRequest, Result};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use uuid::Uuid;

use crate::database::{Database, corrupt};
use crate::error::db;
use crate::page::page;
use crate::transaction::set;

/// Lines in one statement, largest first: each has thirteen values, and SQLite takes 32 766 of them. Few sizes, because
/// a connection keeps a prepared statement for each.
const PIECES: [usize; 5] = [500, 100, 20, 4, 1];

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "cluster_audit_rows")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub cluster_id: Uuid,
        pub user_id: Uuid,
        pub actor: String,
        pub method: String,
        pub path: String,
        pub response_code: i32,
        pub duration_ms: Option<i64>,
        pub received_bytes: i64,
        pub sent_bytes: i64,
        pub request_id: Uuid,
        pub at: DateTimeUtc,
        pub recording_id: Option<Uuid>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

fn row_of(entry: &ClusterAuditEntry) -> row::ActiveModel {
    let ClusterAuditEntry {
        cluster_id,
        user_id,
        actor,
        method,
        path,
        response_code,
        duration_ms,
        received_bytes,
        sent_bytes,
        request_id,
        recording_id,
        at,
    } = entry;
    row::ActiveModel {
        id: set(ClusterAuditId::new().uuid()),
        cluster_id: set(cluster_id.uuid()),
        user_id: set(user_id.uuid()),
        actor: set(actor.clone()),
        method: set(method.clone()),
        path: set(path.clone()),
        response_code: set(i32::from(*response_code)),
        duration_ms: set(duration_ms.map(u64::cast_signed)),
        received_bytes: set(received_bytes.cast_signed()),
        sent_bytes: set(sent_bytes.cast_signed()),
        request_id: set(request_id.uuid()),
        at: set(*at),
        recording_id: set(recording_id.map(RecordingId::uuid)),
    }
}

impl From<row::Model> for ClusterAuditRow {
    fn from(row: row::Model) -> Self {
        let row::Model {
            id,
            cluster_id,
            user_id,
            actor,
            method,
            path,
            response_code,
            duration_ms,
            received_bytes,
            sent_bytes,
            request_id,
            at,
            recording_id,
        } = row;
        Self {
            id: ClusterAuditId::from_uuid(id),
            entry: ClusterAuditEntry {
                cluster_id: ClusterId::from_uuid(cluster_id),
                user_id: UserId::from_uuid(user_id),
                actor,
                method,
                path,
                response_code: u16::try_from(response_code).unwrap_or_default(),
                duration_ms: duration_ms.map(i64::cast_unsigned),
                received_bytes: received_bytes.cast_unsigned(),
                sent_bytes: sent_bytes.cast_unsigned(),
                request_id: RequestId::from_uuid(request_id),
                recording_id: recording_id.map(RecordingId::from_uuid),
                at,
            },
        }
    }
}

#[async_trait]
impl ProxyStore for Database {
    async fn proxy_key(&self, fresh: &Sealed) -> Result<Sealed> {
        let doing = "reading the key of the proxy";
        let write = self.write().await?;
        let sql = "UPDATE installation SET proxy_key = $1 WHERE id = 1 AND proxy_key IS NULL";
        let fresh = fresh.as_bytes().to_vec();
        write.tx.execute_raw(self.statement(sql, [fresh.into()])).await.map_err(db(doing))?;
        let sql = "SELECT proxy_key FROM installation WHERE id = 1";
        let row = write.tx.query_one_raw(self.statement(sql, [])).await.map_err(db(doing))?;
        let kept: Vec<u8> =
            row.ok_or_else(|| corrupt("the installation"))?.try_get("", "proxy_key").map_err(db(doing))?;
        write.commit().await?;
        Ok(Sealed::from_bytes(kept))
    }

    async fn cluster_audit_write(&self, entries: &[ClusterAuditEntry]) -> Result<()> {
        let write = self.write().await?;
        let mut left = entries;
        for size in PIECES {
            let (whole, rest) = left.split_at(left.len() - left.len() % size);
            for piece in whole.chunks(size) {
                row::Entity::insert_many(piece.iter().map(row_of))
                    .exec_without_returning(&write.tx)
                    .await
                    .map_err(db("writing the clusters' audit log"))?;
            }
            left = rest;
        }
        write.commit().await
    }

    async fn cluster_audit_list(
        &self,
        cluster: &Authorized<Cluster, Admin>,
        request: &PageRequest,
    ) -> Result<Page<ClusterAuditRow>> {
        let query = row::Entity::find().filter(row::Column::ClusterId.eq(cluster.id.uuid()));
        page(&self.reader, query, row::Column::Id, request, |row| Ok(row.into())).await
    }

    async fn cluster_audit_prune(&self, before: DateTime<Utc>) -> Result<u64> {
        // Ids of version 7 begin with the milliseconds of their making.
        let milliseconds = u64::try_from(before.timestamp_millis()).unwrap_or_default();
        let mut first = [0; 16];
        first[..6].copy_from_slice(&milliseconds.to_be_bytes()[2..]);
        let write = self.write().await?;
        let removed = row::Entity::delete_many()
            .filter(row::Column::Id.lt(Uuid::from_bytes(first)))
            .exec(&write.tx)
            .await
            .map_err(db("pruning the clusters' audit log"))?
            .rows_affected;
        write.commit().await?;
        Ok(removed)
    }
}
