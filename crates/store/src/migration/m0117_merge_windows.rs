//! When pull requests may be merged, and merges that wait for that. New columns, which the release before this one does not see: it merges
//! pull requests at any time, and none by itself.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0117_merge_windows"
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

// `merge_due_at` is when a merge that waits is taken up, null without one; `merge_begun_at` when a console began with it.
const SCHEMA: &str = "
ALTER TABLE pr_automations ADD COLUMN merge_windows @JSON;
ALTER TABLE pull_requests ADD COLUMN merge_windows @JSON;
ALTER TABLE pull_requests ADD COLUMN merge_wish @JSON;
ALTER TABLE pull_requests ADD COLUMN merge_due_at @TIME;
ALTER TABLE pull_requests ADD COLUMN merge_begun_at @TIME;
CREATE INDEX pull_requests_merge_due_at_idx ON pull_requests (merge_due_at) WHERE merge_due_at IS NOT NULL
";
