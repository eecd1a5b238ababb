//! Data keys of projects. A new table, and columns that may be null: a release that does not know them goes on beside this one, and
//! what it seals is opened by both. What data keys seal it could not open, so nothing is sealed with them while such a replica is
//! alive: its row has no `data_keys`.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0082_data_keys"
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

// The owner is no foreign key: a key that was destroyed outlives its project, and so does that of its recordings. `prefix` is how
// everything begins that the key sealed.
const SCHEMA: &str = "
CREATE TABLE data_keys (
    id @UUID NOT NULL PRIMARY KEY,
    owner_id @UUID NOT NULL,
    purpose text NOT NULL,
    prefix @BYTES NOT NULL,
    encrypted_by text NOT NULL,
    version text,
    wrapped @BYTES,
    created_at @TIME NOT NULL,
    retired_at @TIME,
    destroyed_at @TIME
);

CREATE UNIQUE INDEX data_keys_owner_id_purpose_key ON data_keys (owner_id, purpose) WHERE retired_at IS NULL;

CREATE INDEX data_keys_owner_id_idx ON data_keys (owner_id);

ALTER TABLE installation ADD COLUMN data_keys_at @TIME;

ALTER TABLE installation ADD COLUMN data_keys_everywhere_at @TIME;

ALTER TABLE replicas ADD COLUMN data_keys boolean
";
