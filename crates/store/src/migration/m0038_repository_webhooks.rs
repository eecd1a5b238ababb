//! Webhooks of single repositories: a new table; moves no rows. A release that does not know it takes webhooks that are
//! signed with the installation's secret only.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0038_repository_webhooks"
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
CREATE TABLE repository_webhooks (
    repository_id @UUID NOT NULL PRIMARY KEY REFERENCES git_repositories (id) ON DELETE CASCADE,
    secret @BYTES NOT NULL,
    created_at @TIME NOT NULL
);
";
