//! The auth proxy: its key, and the clusters' audit log. Adds a column without a value and a new table; moves no rows.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::sea_orm::{ConnectionTrait, DbBackend};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0005_cluster_audit"
    }
}

#[async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let (uuid, bytes, time) = match manager.get_database_backend() {
            DbBackend::Postgres => ("uuid", "bytea", "timestamptz"),
            _ => ("BLOB", "BLOB", "TEXT"),
        };
        let connection = manager.get_connection();
        connection
            .execute_unprepared(&format!("ALTER TABLE installation ADD COLUMN proxy_key {bytes}"))
            .await?;
        // No reference to the cluster: what was done to it is still told when it is gone.
        let table = format!(
            "CREATE TABLE cluster_audit_rows (
                id {uuid} NOT NULL PRIMARY KEY,
                cluster_id {uuid} NOT NULL,
                user_id {uuid} NOT NULL,
                actor text NOT NULL,
                method text NOT NULL,
                path text NOT NULL,
                response_code integer NOT NULL,
                duration_ms bigint,
                received_bytes bigint NOT NULL,
                sent_bytes bigint NOT NULL,
                request_id {uuid} NOT NULL,
                at {time} NOT NULL
            )"
        );
        connection.execute_unprepared(&table).await?;
        connection
            .execute_unprepared(
                "CREATE INDEX cluster_audit_rows_cluster_id_idx ON cluster_audit_rows (cluster_id, id)",
            )
            .await?;
        Ok(())
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
