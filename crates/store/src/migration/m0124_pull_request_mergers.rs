//! Who asked the console to merge a pull request. A new table, which the release before this one does not see: whoever merges by it may approve the
//! run of what they merged. Pull requests are found by the commits that they may have brought.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::sea_orm::{ConnectionTrait as _, DbBackend};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0124_pull_request_mergers"
    }
}

#[async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        run(manager, SCHEMA).await?;
        let postgres = manager.get_database_backend() == DbBackend::Postgres;
        let commit =
            if postgres { "(facts ->> 'mergeCommit')" } else { "json_extract(facts, '$.mergeCommit')" };
        let index = format!("CREATE INDEX pull_requests_merge_commit_idx ON pull_requests ({commit})");
        manager.get_connection().execute_unprepared(&index).await.map(drop)
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}

// `author` is what the audit log calls them.
const SCHEMA: &str = "
CREATE TABLE pull_request_mergers (
    pull_request_id @UUID NOT NULL REFERENCES pull_requests (id) ON DELETE CASCADE,
    author text NOT NULL,
    at @TIME NOT NULL,
    PRIMARY KEY (pull_request_id, author)
);
CREATE INDEX pull_requests_head_sha_idx ON pull_requests (head_sha);
CREATE INDEX pull_requests_commit_sha_idx ON pull_requests (commit_sha)
";
