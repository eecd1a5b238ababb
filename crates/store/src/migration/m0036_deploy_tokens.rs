//! What is known of a cluster's deploy token besides the token itself, which stays in `clusters`: the next one, until it was
//! used, and the join token. A new table: nothing is locked or moved. A cluster without a row has a token as old as
//! itself. A release that does not know the table accepts the token in `clusters` alone: an agent that is between two
//! tokens then is refused until that release is gone, and goes on with the token that it kept.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0036_deploy_tokens"
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
CREATE TABLE deploy_tokens (
    cluster_id @UUID NOT NULL PRIMARY KEY REFERENCES clusters (id) ON DELETE CASCADE,
    next_hash @BYTES,
    rotated_at @TIME,
    asked boolean NOT NULL,
    join_hash @BYTES,
    join_expires_at @TIME,
    joined_hash @BYTES,
    CONSTRAINT deploy_tokens_next_hash_key UNIQUE (next_hash),
    CONSTRAINT deploy_tokens_join_hash_key UNIQUE (join_hash)
);
";
