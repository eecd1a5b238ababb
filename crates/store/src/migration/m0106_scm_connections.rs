//! Connections to git hosts. A new table, which the release before this one does not see: it fails to delete a project that has some
//! (an internal error, and nothing is deleted), and does not seal their secrets anew.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0106_scm_connections"
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

// At most one of a project, and one of those without a project, is the default. SQLite tells the columns of an index that a write broke:
// the names follow from them.
const SCHEMA: &str = "
CREATE TABLE scm_connections (
    id @UUID NOT NULL PRIMARY KEY,
    project_id @UUID REFERENCES projects (id),
    name text NOT NULL,
    kind text NOT NULL,
    is_default boolean NOT NULL,
    spec @JSON NOT NULL,
    held @JSON NOT NULL,
    secrets @BYTES,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL,
    CONSTRAINT scm_connections_name_key UNIQUE (name)
);
CREATE INDEX scm_connections_project_id_idx ON scm_connections (project_id);
CREATE UNIQUE INDEX scm_connections_project_id_key ON scm_connections (project_id) WHERE is_default;
CREATE UNIQUE INDEX scm_connections_is_default_key ON scm_connections (is_default) WHERE is_default AND project_id IS NULL
";
