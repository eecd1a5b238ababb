//! Services that are pinned or paused, and revisions that one can go back to. The new columns are empty, or false: no row is
//! moved, and each table is locked for a moment only. A release that does not know them leaves them as they are.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0007_service_life"
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

const SCHEMA: &str = "
ALTER TABLE services ADD COLUMN pin @JSON;

ALTER TABLE services ADD COLUMN paused boolean NOT NULL DEFAULT false;

ALTER TABLE revisions ADD COLUMN artifact_digest @BYTES;

ALTER TABLE revisions ADD COLUMN artifact_folder text;

ALTER TABLE revisions ADD COLUMN made_by text;

CREATE TABLE sync_windows (
    id @UUID NOT NULL PRIMARY KEY,
    project_id @UUID REFERENCES projects (id) ON DELETE CASCADE,
    cluster_id @UUID REFERENCES clusters (id) ON DELETE CASCADE,
    service_id @UUID REFERENCES services (id) ON DELETE CASCADE,
    kind text NOT NULL,
    schedule text NOT NULL,
    seconds integer NOT NULL,
    time_zone text NOT NULL,
    description text
);

CREATE INDEX sync_windows_project_id_idx ON sync_windows (project_id);

CREATE INDEX sync_windows_cluster_id_idx ON sync_windows (cluster_id);

CREATE INDEX sync_windows_service_id_idx ON sync_windows (service_id);

CREATE INDEX audit_rows_target_id_idx ON audit_rows (target_id)
";
