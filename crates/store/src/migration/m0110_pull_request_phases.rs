//! How far the console is with opening a pull request. The release before this one sees records that are not open as open ones without
//! a page, and does not go on with them: this one does, once it runs again.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0110_pull_request_phases"
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

// `url` is `pending:ID` while there is none. `work` says what was done so far; `asked` is sealed, and there until it is done.
const SCHEMA: &str = "
ALTER TABLE pull_requests ADD COLUMN phase text NOT NULL DEFAULT 'OPENED';
ALTER TABLE pull_requests ADD COLUMN commit_sha text;
ALTER TABLE pull_requests ADD COLUMN error text;
ALTER TABLE pull_requests ADD COLUMN work @JSON;
ALTER TABLE pull_requests ADD COLUMN asked @BYTES
";
