//! Revisions remember when they were healthy first. Adds a column that may be null, and fills it for the revisions that healthy
//! services stand at now, one row for each service. A release that does not know it goes on beside this one.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0059_healthy_revisions"
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
ALTER TABLE revisions ADD COLUMN healthy_at @TIME;
UPDATE revisions SET healthy_at = created_at
    WHERE id IN (SELECT revision_id FROM services WHERE status = 'HEALTHY')
";
