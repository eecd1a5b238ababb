//! Plans of services say what they are about, and where their branch went since. New columns with defaults: the release before this one
//! writes rows without them, and follows no branch.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0126_fleet_plan_bases"
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
ALTER TABLE fleet_plans ADD COLUMN about text;
ALTER TABLE fleet_plans ADD COLUMN since_sha text;
ALTER TABLE fleet_plans ADD COLUMN since_other boolean NOT NULL DEFAULT false
";
