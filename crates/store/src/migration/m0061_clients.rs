//! Groups that every user is a member of, and where people read a repository. The new columns are false and empty; the release
//! before this one leaves them as they are. While that runs, it does not count a global group's members.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0061_clients"
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
ALTER TABLE user_groups ADD COLUMN global boolean NOT NULL DEFAULT false;

ALTER TABLE git_repositories ADD COLUMN https_path text;

ALTER TABLE git_repositories ADD COLUMN url_format text;
";
