//! Tokens that end by themselves end with the token that they were made with, too. The new column is empty: no row is moved, and
//! the table is locked for a moment only. A release that does not know it makes tokens that end by their time alone.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0012_short_tokens"
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
ALTER TABLE access_tokens ADD COLUMN made_with @UUID REFERENCES access_tokens (id) ON DELETE CASCADE;

CREATE INDEX access_tokens_made_with_idx ON access_tokens (made_with);
";
