//! Pull requests. A new table, which the release before this one does not see; records go with
//! what it deletes.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0109_pull_requests"
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

// Records go with their project, and with their connection: nothing else tells how they stand.
const SCHEMA: &str = "
CREATE TABLE pull_requests (
    id @UUID NOT NULL PRIMARY KEY,
    project_id @UUID NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    connection_id @UUID NOT NULL REFERENCES scm_connections (id) ON DELETE CASCADE,
    automation_id @UUID REFERENCES pr_automations (id) ON DELETE SET NULL,
    creator text NOT NULL,
    url text NOT NULL,
    repository text NOT NULL,
    branch text NOT NULL,
    title text NOT NULL,
    status text NOT NULL,
    labels @JSON NOT NULL,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL,
    CONSTRAINT pull_requests_connection_id_url_key UNIQUE (connection_id, url)
);
CREATE INDEX pull_requests_project_id_idx ON pull_requests (project_id);
CREATE INDEX pull_requests_automation_id_idx ON pull_requests (automation_id)
";
