//! What pull requests of automations generated, and the versions of automations. The release before this one does not see the new table:
//! what it opens meanwhile is in no ledger, and what it changes of an automation counts as a version with the next change.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0115_pr_instances"
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

// `digest` of an automation is of its present version; null until it changes. `change_id` is the pull request that changes an instance, and
// `change` what the instance is then. `seed` is sealed.
const SCHEMA: &str = "
ALTER TABLE pr_automations ADD COLUMN revision @BIG NOT NULL DEFAULT 1;
ALTER TABLE pr_automations ADD COLUMN digest text;
CREATE TABLE pr_instances (
    id @UUID NOT NULL PRIMARY KEY,
    project_id @UUID NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    connection_id @UUID NOT NULL REFERENCES scm_connections (id) ON DELETE CASCADE,
    automation_id @UUID REFERENCES pr_automations (id) ON DELETE SET NULL,
    repository text NOT NULL,
    base text NOT NULL,
    revision @BIG NOT NULL,
    digest text NOT NULL,
    spec @JSON NOT NULL,
    answers @JSON NOT NULL,
    files @JSON NOT NULL,
    state text NOT NULL,
    pull_request_id @UUID REFERENCES pull_requests (id) ON DELETE SET NULL,
    commit_sha text,
    base_commit text,
    templates_commit text,
    clock_ms @BIG NOT NULL,
    seed @BYTES NOT NULL,
    change_id @UUID REFERENCES pull_requests (id) ON DELETE SET NULL,
    change @JSON,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL
);
CREATE INDEX pr_instances_project_id_idx ON pr_instances (project_id);
CREATE INDEX pr_instances_automation_id_idx ON pr_instances (automation_id);
CREATE INDEX pr_instances_connection_id_idx ON pr_instances (connection_id, repository);
CREATE INDEX pr_instances_pull_request_id_idx ON pr_instances (pull_request_id);
CREATE INDEX pr_instances_change_id_idx ON pr_instances (change_id)
";
