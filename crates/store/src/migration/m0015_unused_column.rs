//! Whether a deletion waits for approval is said by `services.cascaded`; the column that said it before was never anything but
//! false. It gets a default, so that this release need not name it, and goes when no release writes it any more.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0015_unused_column"
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
ALTER TABLE service_syncs DROP COLUMN destroy_needs_approval;

ALTER TABLE service_syncs ADD COLUMN destroy_needs_approval boolean NOT NULL DEFAULT false;
";
