//! A word to a service's canaries has a place of its own, beside the sync that waits: neither replaces the other. The columns are
//! empty: no row is rewritten, and the table is locked for a moment only. A word that an earlier release kept as a sync is
//! dropped, since it would be done as one; who said it says it again.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0023_promotions"
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
ALTER TABLE service_syncs ADD COLUMN promotion @JSON;

ALTER TABLE service_syncs ADD COLUMN promoted @JSON;

UPDATE service_syncs SET request = NULL WHERE CAST(request AS text) LIKE '%\"promotion\"%';
";
