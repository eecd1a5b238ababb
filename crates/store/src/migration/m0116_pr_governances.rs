//! Governances of pull requests, and how pull requests stand with theirs. A new table and new columns, which the release before this one
//! does not see: what it opens meanwhile has no governance, and it merges what this one would refuse. It fails to delete a connection or a
//! project that has some (an internal error, and nothing is deleted), and does not seal their secrets anew.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0116_pr_governances"
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

// A governance stays as long as an automation names it. `governance` is how a pull request stands with it; `governance_state` is sealed.
const SCHEMA: &str = "
CREATE TABLE pr_governances (
    id @UUID NOT NULL PRIMARY KEY,
    project_id @UUID REFERENCES projects (id),
    connection_id @UUID NOT NULL REFERENCES scm_connections (id),
    name text NOT NULL,
    url text NOT NULL,
    secret @BYTES,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL,
    CONSTRAINT pr_governances_name_key UNIQUE (name)
);
CREATE INDEX pr_governances_project_id_idx ON pr_governances (project_id);
CREATE INDEX pr_governances_connection_id_idx ON pr_governances (connection_id);
ALTER TABLE pr_automations ADD COLUMN governance_id @UUID REFERENCES pr_governances (id);
CREATE INDEX pr_automations_governance_id_idx ON pr_automations (governance_id);
ALTER TABLE pull_requests ADD COLUMN governance_id @UUID REFERENCES pr_governances (id) ON DELETE SET NULL;
ALTER TABLE pull_requests ADD COLUMN governance @JSON;
ALTER TABLE pull_requests ADD COLUMN governance_state @BYTES;
CREATE INDEX pull_requests_governance_id_idx ON pull_requests (governance_id)
";
