//! The auth proxy's key, and the clusters' audit log.

use std::sync::Arc;

use async_trait::async_trait;
use plural_app::access::{Admin, Authorized};
use plural_app::audit_chain::UnchainedBatch;
use plural_app::proxy::ProxyStore;
use plural_app::seal::Sealed;
use plural_core::audit_chain::{AuditLog, AuditText as _, LineList};
use plural_core::cluster::Cluster;
use plural_core::cluster_audit::{ClusterAuditEntry, ClusterAuditRow};
use plural_core::ids::{AuditBatchId, ClusterAuditId, ClusterId, RecordingId, RequestId, TokenId, UserId};
use plural_core::{Page, PageRequest, Result};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};

use crate::audit_chain;
use crate::database::{Database, corrupt};
use crate::error::db;
use crate::page::page;
use crate::transaction::{Write, set};

/// Lines in one statement, largest first: each has seventeen values, and SQLite takes 32 766 of them. Few sizes, because
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
        pub batch_id: Option<Uuid>,
        pub address: Option<String>,
        pub token_id: Option<Uuid>,
        pub impersonated: Option<String>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

fn row_of(ClusterAuditRow { id, entry }: &ClusterAuditRow, batch: Option<AuditBatchId>) -> row::ActiveModel {
    let ClusterAuditEntry {
        cluster_id,
        user_id,
        actor,
        impersonated,
        address,
        token_id,
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
        id: set(id.uuid()),
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
        batch_id: set(batch.map(AuditBatchId::uuid)),
        address: set(address.map(|address| address.to_string())),
        token_id: set(token_id.map(TokenId::uuid)),
        // Texts always have a JSON.
        impersonated: set(impersonated.as_ref().and_then(|who| serde_json::to_string(&**who).ok())),
    }
}

async fn insert_in_tx(
    write: &Write<'_>,
    rows: &[ClusterAuditRow],
    batch: Option<AuditBatchId>,
) -> Result<()> {
    let mut left = rows;
    for size in PIECES {
        let (whole, rest) = left.split_at(left.len() - left.len() % size);
        for piece in whole.chunks(size) {
            row::Entity::insert_many(piece.iter().map(|row| row_of(row, batch)))
                .exec_without_returning(&write.tx)
                .await
                .map_err(db("writing the clusters' audit log"))?;
        }
        left = rest;
    }
    Ok(())
}

#[cfg(feature = "seed")]
impl Database {
    /// Stores lines that nothing puts into the chain: what the chain costs is measured beside it.
    ///
    /// # Errors
    /// When the database does not take them.
    pub async fn seed_cluster_audit(&self, entries: &[ClusterAuditEntry]) -> Result<()> {
        let rows: Vec<ClusterAuditRow> = entries
            .iter()
            .map(|entry| ClusterAuditRow { id: ClusterAuditId::new(), entry: entry.clone() })
            .collect();
        let write = self.write().await?;
        insert_in_tx(&write, &rows, None).await?;
        write.commit().await
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
            batch_id: _,
            address,
            token_id,
            impersonated,
        } = row;
        Self {
            id: ClusterAuditId::from_uuid(id),
            entry: ClusterAuditEntry {
                cluster_id: ClusterId::from_uuid(cluster_id),
                user_id: UserId::from_uuid(user_id),
                actor,
                impersonated: impersonated.and_then(|who| serde_json::from_str(&who).ok()).map(Arc::new),
                address: address.and_then(|address| address.parse().ok()),
                token_id: token_id.map(TokenId::from_uuid),
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
        let (Some(first), Some(last)) =
            (entries.iter().map(|entry| entry.at).min(), entries.iter().map(|entry| entry.at).max())
        else {
            return Ok(());
        };
        // The batch is made here, so that nothing is read again and no line is written twice; its place in the chain it gets later.
        let batch = AuditBatchId::new();
        let rows: Vec<ClusterAuditRow> = entries
            .iter()
            .map(|entry| ClusterAuditRow { id: ClusterAuditId::new(), entry: entry.clone() })
            .collect();
        let mut list = LineList::default();
        for row in &rows {
            list.push(row.id.uuid(), row.audit_digest());
        }
        let write = self.write().await?;
        insert_in_tx(&write, &rows, Some(batch)).await?;
        let new = UnchainedBatch { id: batch, log: AuditLog::Clusters, list, first_at: first, last_at: last };
        audit_chain::insert_in_tx(&write, &new, None).await?;
        write.commit().await?;
        self.audit_wrote();
        Ok(())
    }

    async fn cluster_audit_list(
        &self,
        cluster: &Authorized<Cluster, Admin>,
        request: &PageRequest,
    ) -> Result<Page<ClusterAuditRow>> {
        let query = row::Entity::find().filter(row::Column::ClusterId.eq(cluster.id.uuid()));
        page(&self.reader, query, row::Column::Id, request, |row| Ok(row.into())).await
    }
}
