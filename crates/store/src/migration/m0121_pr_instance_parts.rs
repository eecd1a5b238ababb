//! What was generated keeps what its version took from elsewhere. The release before this one does not see the column: what it records has
//! none, and what it upgrades is told from the digest of the version that is kept with it.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0121_pr_instance_parts"
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

const SCHEMA: &str = "ALTER TABLE pr_instances ADD COLUMN parts @JSON";
