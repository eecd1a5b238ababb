//! Logins of programs that wait until somebody allows them. A new table, which the release before this one does not see.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0072_program_logins"
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
CREATE TABLE program_logins (
    id @UUID NOT NULL PRIMARY KEY,
    device_hash @BYTES NOT NULL,
    code_hash @BYTES NOT NULL,
    label text NOT NULL,
    address text,
    created_at @TIME NOT NULL,
    expires_at @TIME NOT NULL,
    allowed_by_id @UUID REFERENCES users (id) ON DELETE CASCADE,
    allowed_with_id @UUID REFERENCES access_tokens (id) ON DELETE CASCADE,
    token_ends_at @TIME,
    is_bound boolean NOT NULL,
    CONSTRAINT program_logins_device_hash_key UNIQUE (device_hash),
    CONSTRAINT program_logins_code_hash_key UNIQUE (code_hash)
);
CREATE INDEX program_logins_address_idx ON program_logins (address)
";
