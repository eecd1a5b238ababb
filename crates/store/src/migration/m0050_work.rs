//! Events name the kind of the work that they are about, how it changed and its sequence after the change. Adds columns and
//! moves no rows: `feed` keeps its order and its head, which on SQLite is the table's own counter.
//!
//! A release that does not know the columns goes on beside this one: it reads work of any kind as that of a service, and what
//! it writes without them is read as a change of a service.

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
