//! Upgrades bring Secrets of their own. New columns with defaults: the release before this one writes rows without them, and leaves a Secret
//! of an upgrade alone until this one goes on with it, as its state says that there is nothing to do. It upgrades to no other Secret.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0129_pr_secret_upgrades"
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

// `previous_id` is the pull request whose Secret is at the same place; that may be forgotten. `parked` is true until its upgrade is over.
const SCHEMA: &str = "
ALTER TABLE pr_secrets ADD COLUMN previous_id @UUID;
ALTER TABLE pr_secrets ADD COLUMN parked boolean NOT NULL DEFAULT false
";
