//! Webhooks of git hosts. A new table, which the release before this one does not see: it answers what hosts send to their addresses
//! with 401, and hosts send it again; and does not seal their secrets anew.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0107_scm_webhooks"
    }
}

#[async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        run(manager, SCHEMA).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}

// `project_id` is that of the connection, which stays where it is.
const SCHEMA: &str = "
CREATE TABLE scm_webhooks (
    id @UUID NOT NULL PRIMARY KEY,
    connection_id @UUID NOT NULL REFERENCES scm_connections (id) ON DELETE CASCADE,
    project_id @UUID,
    external text NOT NULL,
    kind text NOT NULL,
    owner text NOT NULL,
    hmac @BYTES NOT NULL,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL,
    CONSTRAINT scm_webhooks_external_key UNIQUE (external),
    CONSTRAINT scm_webhooks_connection_id_owner_key UNIQUE (connection_id, owner)
);
CREATE INDEX scm_webhooks_project_id_idx ON scm_webhooks (project_id)
";
