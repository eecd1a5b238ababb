//! Registration tokens, and which clusters were made with them. New tables, which the release before this one leaves alone: what they
//! hold goes with their project, user, token and cluster by itself.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0079_registration_tokens"
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
CREATE TABLE registration_tokens (
    id @UUID NOT NULL PRIMARY KEY,
    project_id @UUID NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    user_id @UUID NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name text,
    hash @BYTES NOT NULL,
    hint text NOT NULL,
    terms @JSON NOT NULL,
    uses integer NOT NULL,
    last_used_at @TIME,
    expires_at @TIME NOT NULL,
    made_with @UUID REFERENCES access_tokens (id) ON DELETE CASCADE,
    identity_id @UUID REFERENCES user_identities (id) ON DELETE CASCADE,
    created_at @TIME NOT NULL,
    CONSTRAINT registration_tokens_hash_key UNIQUE (hash)
);

CREATE INDEX registration_tokens_project_id_idx ON registration_tokens (project_id);

CREATE INDEX registration_tokens_user_id_idx ON registration_tokens (user_id);

CREATE INDEX registration_tokens_made_with_idx ON registration_tokens (made_with);

CREATE INDEX registration_tokens_identity_id_idx ON registration_tokens (identity_id);

CREATE TABLE registered_clusters (
    cluster_id @UUID NOT NULL PRIMARY KEY REFERENCES clusters (id) ON DELETE CASCADE,
    registration_token_id @UUID NOT NULL REFERENCES registration_tokens (id) ON DELETE CASCADE
);

CREATE INDEX registered_clusters_registration_token_id_idx ON registered_clusters (registration_token_id)
";
