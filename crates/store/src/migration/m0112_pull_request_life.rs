//! What is read back of pull requests. New columns, which the release before this one does not see: it records pull requests as before, and
//! this one reads them back.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0112_pull_request_life"
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

// `read_at` is when that was asked for which the row holds; `polled_at` when the repository's open ones were last listed.
const SCHEMA: &str = "
ALTER TABLE pull_requests ADD COLUMN head_sha text;
ALTER TABLE pull_requests ADD COLUMN facts @JSON;
ALTER TABLE pull_requests ADD COLUMN service_id @UUID REFERENCES services (id) ON DELETE SET NULL;
ALTER TABLE pull_requests ADD COLUMN stack_id @UUID REFERENCES stacks (id) ON DELETE SET NULL;
ALTER TABLE pull_requests ADD COLUMN cluster_id @UUID REFERENCES clusters (id) ON DELETE SET NULL;
ALTER TABLE pull_requests ADD COLUMN read_at @TIME;
ALTER TABLE pull_requests ADD COLUMN polled_at @TIME;
CREATE INDEX pull_requests_service_id_idx ON pull_requests (service_id);
CREATE INDEX pull_requests_stack_id_idx ON pull_requests (stack_id);
CREATE INDEX pull_requests_cluster_id_idx ON pull_requests (cluster_id);
CREATE INDEX pull_requests_status_polled_at_idx ON pull_requests (status, polled_at)
";
