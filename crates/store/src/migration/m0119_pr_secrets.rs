//! Keys of requests for pull requests, and Secrets that automations ask for. The release before this one does not see the new tables: it opens
//! a second pull request for a request that it is sent once more, opens none with an automation that needs a Secret, and seals nothing of
//! them anew. What it records of an instance reaches the Secret within an hour, by a console of this release.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0119_pr_secrets"
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

// Both have the id of their pull request. `asked` is a digest, sealed; `content` the values of a Secret, sealed, until its cluster has them.
const SCHEMA: &str = "
CREATE TABLE pr_request_keys (
    id @UUID NOT NULL PRIMARY KEY REFERENCES pull_requests (id) ON DELETE CASCADE,
    project_id @UUID NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    user_id @UUID NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    key text NOT NULL,
    asked @BYTES NOT NULL,
    created_at @TIME NOT NULL
);
CREATE UNIQUE INDEX pr_request_keys_user_id_key_key ON pr_request_keys (user_id, key);
CREATE INDEX pr_request_keys_project_id_idx ON pr_request_keys (project_id);
CREATE INDEX pr_request_keys_created_at_idx ON pr_request_keys (created_at);
CREATE TABLE pr_secrets (
    id @UUID NOT NULL PRIMARY KEY REFERENCES pull_requests (id) ON DELETE CASCADE,
    project_id @UUID NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    instance_id @UUID NOT NULL REFERENCES pr_instances (id) ON DELETE CASCADE,
    cluster_id @UUID NOT NULL REFERENCES clusters (id) ON DELETE CASCADE,
    namespace text NOT NULL,
    name text NOT NULL,
    entries @JSON NOT NULL,
    state text NOT NULL,
    message text,
    content @BYTES,
    due_at @TIME,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL
);
CREATE INDEX pr_secrets_project_id_idx ON pr_secrets (project_id);
CREATE INDEX pr_secrets_instance_id_idx ON pr_secrets (instance_id);
CREATE INDEX pr_secrets_cluster_id_state_idx ON pr_secrets (cluster_id, state);
CREATE INDEX pr_secrets_state_updated_at_idx ON pr_secrets (state, updated_at)
";
