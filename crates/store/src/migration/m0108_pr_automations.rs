//! PR automations. A new table, which the release before this one does not see: it fails to delete a project, a repository or a connection
//! that one uses (an internal error, or a conflict that does not name the automation, and nothing is deleted), and cannot read policies
//! and bindings of this noun.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0108_pr_automations"
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

// An automation goes with its policy. The cluster and the service are what it is about: it goes on without them. What it uses stays as long as it does.
const SCHEMA: &str = "
CREATE TABLE pr_automations (
    id @UUID NOT NULL PRIMARY KEY REFERENCES policies (id) ON DELETE CASCADE,
    project_id @UUID NOT NULL REFERENCES projects (id),
    connection_id @UUID NOT NULL REFERENCES scm_connections (id),
    repository_id @UUID REFERENCES git_repositories (id),
    cluster_id @UUID REFERENCES clusters (id) ON DELETE SET NULL,
    service_id @UUID REFERENCES services (id) ON DELETE SET NULL,
    name text NOT NULL,
    role text,
    spec @JSON NOT NULL,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL,
    CONSTRAINT pr_automations_name_key UNIQUE (name)
);
CREATE INDEX pr_automations_project_id_idx ON pr_automations (project_id);
CREATE INDEX pr_automations_connection_id_idx ON pr_automations (connection_id);
CREATE INDEX pr_automations_repository_id_idx ON pr_automations (repository_id);
CREATE INDEX pr_automations_cluster_id_idx ON pr_automations (cluster_id);
CREATE INDEX pr_automations_service_id_idx ON pr_automations (service_id)
";
