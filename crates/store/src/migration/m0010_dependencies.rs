//! Services that depend on others. A dependency names a service by its cluster and name, because it need not exist yet: nothing
//! refers to it. The new column is false and the new table empty; a release that does not know them leaves them as they are.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0010_dependencies"
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
ALTER TABLE services ADD COLUMN outlives boolean NOT NULL DEFAULT false;

CREATE TABLE service_dependencies (
    id @UUID NOT NULL PRIMARY KEY,
    service_id @UUID NOT NULL REFERENCES services (id) ON DELETE CASCADE,
    cluster_id @UUID NOT NULL,
    cluster text NOT NULL,
    name text NOT NULL,
    CONSTRAINT service_dependencies_service_id_cluster_id_name_key UNIQUE (service_id, cluster_id, name)
);

CREATE INDEX service_dependencies_cluster_id_name_idx ON service_dependencies (cluster_id, name)
";
