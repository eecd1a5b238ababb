//! Instances of a managed namespace are read in pages, by their clusters. Writes to `services` wait while the index is built; it
//! holds only services that are instances.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0056_instances_by_cluster"
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
CREATE INDEX services_owner_id_cluster_id_idx ON services (owner_id, cluster_id) WHERE owner_id IS NOT NULL
";
