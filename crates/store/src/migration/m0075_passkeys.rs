//! Passkeys of users, and codes that stand in the place of a password. New tables, which the release before this one leaves alone: it
//! takes neither.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0075_passkeys"
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
CREATE TABLE passkeys (
    id @UUID NOT NULL PRIMARY KEY,
    user_id @UUID NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name text NOT NULL,
    credential_id @BYTES NOT NULL,
    public_key @BYTES NOT NULL,
    state @BYTES NOT NULL,
    created_at @TIME NOT NULL,
    last_used_at @TIME,
    CONSTRAINT passkeys_credential_id_key UNIQUE (credential_id)
);
CREATE INDEX passkeys_user_id_idx ON passkeys (user_id);
CREATE TABLE confirmations (
    hash @BYTES NOT NULL PRIMARY KEY,
    user_id @UUID NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    session_id @UUID NOT NULL REFERENCES access_tokens (id) ON DELETE CASCADE,
    expires_at @TIME NOT NULL
);
CREATE INDEX confirmations_user_id_idx ON confirmations (user_id);
CREATE INDEX confirmations_session_id_idx ON confirmations (session_id)
";
