//! Logins of programs that listen on loopback, the networks that logins were asked from, and which providers give somebody a group: several
//! may. New columns that are empty, in a table that holds what is open for ten minutes, and a new table, filled from the memberships that
//! name their provider; `group_members` is read only.
//!
//! The release before this one, on whose page a login of a program that listens is allowed, sends the browser nowhere: the program waits in
//! vain, and asks again. Logins that it kept count for no network. It names one provider in a membership, which counts for this release, too,
//! and ends one that another provider gives as well, until that one is asked again.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0077_sign_ins"
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
ALTER TABLE program_logins ADD COLUMN network text;
ALTER TABLE program_logins ADD COLUMN redirect text;
ALTER TABLE program_logins ADD COLUMN challenge @BYTES;
ALTER TABLE program_logins ADD COLUMN state text;
ALTER TABLE program_logins ADD COLUMN grant_hash @BYTES;
CREATE UNIQUE INDEX program_logins_grant_hash_key ON program_logins (grant_hash);
CREATE INDEX program_logins_network_idx ON program_logins (network);
CREATE TABLE given_memberships (
    user_id @UUID NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    group_id @UUID NOT NULL REFERENCES user_groups (id) ON DELETE CASCADE,
    provider_id @UUID NOT NULL REFERENCES identity_providers (id) ON DELETE CASCADE,
    PRIMARY KEY (user_id, group_id, provider_id)
);
CREATE INDEX given_memberships_group_id_idx ON given_memberships (group_id);
CREATE INDEX given_memberships_provider_id_idx ON given_memberships (provider_id);
INSERT INTO given_memberships (user_id, group_id, provider_id)
    SELECT user_id, group_id, provider_id FROM group_members WHERE provider_id IS NOT NULL
";
