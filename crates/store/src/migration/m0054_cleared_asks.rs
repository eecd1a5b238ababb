//! Syncs know whether an ask was cleared since the agent was last sent the service whole. Adds a column with a constant
//! default: true, because what agents hold of the services that are there is not known: each is sent whole once, though it may
//! only have moved. A release that does not know the column would clear asks without saying so here, and an agent would hold
//! them on after a move; none runs beside this one (`m0041_policies`, `m0043_sync_configs`).

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0054_cleared_asks"
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
ALTER TABLE service_syncs ADD COLUMN cleared boolean NOT NULL DEFAULT true
";
