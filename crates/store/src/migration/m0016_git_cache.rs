//! How repositories are reached and whose commits are taken from them; and mirrors that replicas share. The new columns are
//! empty, or false: no row is moved, and the table is locked for a moment only. A release that does not know them fetches as before
//! and verifies no signatures, so start the new one everywhere before asking for signed commits. `git_repositories.lease_holder` and
//! `lease_until` are used by none any more; they stay, since earlier releases write them.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0016_git_cache"
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
ALTER TABLE git_repositories ADD COLUMN reach @BYTES;

ALTER TABLE git_repositories ADD COLUMN signed boolean NOT NULL DEFAULT false;

CREATE TABLE shared_mirrors (
    repository_id @UUID NOT NULL PRIMARY KEY REFERENCES git_repositories (id) ON DELETE CASCADE,
    url text NOT NULL,
    reference_digest text NOT NULL,
    pieces @BYTES NOT NULL,
    size @BIG NOT NULL,
    shared_at @TIME NOT NULL
);
";
