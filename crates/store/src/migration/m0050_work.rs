//! Events name the kind of the work that they are about, how it changed and its sequence after the change. Adds columns and
//! moves no rows: `feed` keeps its order and its head, which on SQLite is the table's own counter.
//!
//! Rows of before have none of the three: they are read as changes of services, so that an agent whose cursor is behind them is
//! sent these services whole. No release that does not know the columns runs beside this one (`m0041_policies`, `m0043_sync_configs`).

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0050_work"
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
ALTER TABLE feed ADD COLUMN kind text;
ALTER TABLE feed ADD COLUMN change text;
ALTER TABLE feed ADD COLUMN work_sequence @BIG
";
