//! How services become objects. The new columns are empty and the table is new: no row is moved, and each table is
//! locked for a moment only. A release that does not know them leaves them empty.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0002_rendering"
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
ALTER TABLE services ADD COLUMN rendering @JSON;

ALTER TABLE revisions ADD COLUMN rendering @JSON;

ALTER TABLE revisions ADD COLUMN helm_values @BYTES;

ALTER TABLE revisions ADD COLUMN renderer_values @BYTES;

CREATE TABLE service_repositories (
    service_id @UUID NOT NULL REFERENCES services (id) ON DELETE CASCADE,
    repository_id @UUID NOT NULL REFERENCES git_repositories (id),
    PRIMARY KEY (service_id, repository_id)
);

CREATE INDEX service_repositories_repository_id_idx ON service_repositories (repository_id)
";
