//! What an access token reaches. The new column is empty: a token without scopes reaches everything, as before. No row is
//! moved, and the table is locked for a moment only. A release that does not know the column makes tokens that reach
//! everything, and lets those with scopes reach everything until it is replaced.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0035_token_scopes"
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
ALTER TABLE access_tokens ADD COLUMN scopes TEXT;
";
