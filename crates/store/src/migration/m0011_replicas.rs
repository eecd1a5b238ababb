//! Several consoles on one database: who is alive, who does what, who holds which agent's stream, and how often somebody
//! tried to sign in. New tables; touches no other.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::sea_orm::{ConnectionTrait, DbBackend};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0011_replicas"
    }
}

#[async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let (uuid, bytes) = match manager.get_database_backend() {
            DbBackend::Postgres => ("uuid", "bytea"),
            _ => ("BLOB", "BLOB"),
        };
        let connection = manager.get_connection();
        // Times are milliseconds of the database's own clock: replicas need not agree on the time.
        let tables = [
            format!(
                "CREATE TABLE replicas (
                    id {uuid} NOT NULL PRIMARY KEY,
                    place text NOT NULL,
                    authority text,
                    certificate {bytes},
                    alive_until bigint NOT NULL
                )"
            ),
            format!(
                "CREATE TABLE leases (
                    name text NOT NULL PRIMARY KEY,
                    holder {uuid},
                    epoch bigint NOT NULL
                )"
            ),
            "CREATE INDEX leases_holder_idx ON leases (holder)".to_owned(),
            format!(
                "CREATE TABLE agent_streams (
                    cluster_id {uuid} NOT NULL PRIMARY KEY,
                    replica_id {uuid} NOT NULL
                )"
            ),
            "CREATE INDEX agent_streams_replica_id_idx ON agent_streams (replica_id)".to_owned(),
            format!(
                "CREATE TABLE login_tries (
                    subject {bytes} NOT NULL PRIMARY KEY,
                    tries integer NOT NULL,
                    last_at bigint NOT NULL,
                    until_at bigint NOT NULL
                )"
            ),
            "CREATE INDEX login_tries_last_at_idx ON login_tries (last_at)".to_owned(),
        ];
        for table in tables {
            connection.execute_unprepared(&table).await?;
        }
        Ok(())
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
