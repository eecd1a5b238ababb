//! The audit log proves itself: batches that name their lines and each other, checkpoints, and what lines tell besides. New tables,
//! nullable columns, and an index over each log. The release before this one leaves the columns empty: the lines that it
//! writes are put into the chain by this one. Until it has stopped, it still removes lines of proxied requests that are older
//! than 30 days one by one; lines that old are left to it.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0064_audit_chain"
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

// A line names its batch without a reference: what was done to either is for the chain to find, not for the database to refuse.
const SCHEMA: &str = "
ALTER TABLE audit_rows ADD COLUMN batch_id @UUID;

ALTER TABLE audit_rows ADD COLUMN address text;

ALTER TABLE audit_rows ADD COLUMN token_id @UUID;

ALTER TABLE audit_rows ADD COLUMN state_before @BYTES;

ALTER TABLE audit_rows ADD COLUMN state_after @BYTES;

CREATE INDEX audit_rows_batch_id_idx ON audit_rows (batch_id, id);

ALTER TABLE cluster_audit_rows ADD COLUMN batch_id @UUID;

ALTER TABLE cluster_audit_rows ADD COLUMN address text;

ALTER TABLE cluster_audit_rows ADD COLUMN token_id @UUID;

CREATE INDEX cluster_audit_rows_batch_id_idx ON cluster_audit_rows (batch_id, id);

CREATE TABLE audit_batches (
    id @UUID NOT NULL PRIMARY KEY,
    sequence @BIG,
    log text NOT NULL,
    lines @BIG NOT NULL,
    list @BYTES,
    content @BYTES NOT NULL,
    first_at @TIME NOT NULL,
    last_at @TIME NOT NULL,
    chained_at @TIME,
    previous @BYTES,
    digest @BYTES,
    expired boolean NOT NULL DEFAULT false
);

CREATE UNIQUE INDEX audit_batches_sequence_key ON audit_batches (sequence);

CREATE TABLE audit_checkpoints (
    sequence @BIG NOT NULL PRIMARY KEY,
    checkpoint text NOT NULL
);

CREATE TABLE audit_streams (
    name text NOT NULL PRIMARY KEY,
    sequence @BIG NOT NULL
);

ALTER TABLE installation ADD COLUMN audit_key @BYTES
";
