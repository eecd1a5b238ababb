//! Second factors of users with a password. New tables: the release before this one leaves them alone, and asks for no code.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0074_second_factors"
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
CREATE TABLE second_factors (
    user_id @UUID NOT NULL PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    secret @BYTES NOT NULL,
    confirmed boolean NOT NULL,
    last_step @BIG NOT NULL,
    created_at @TIME NOT NULL
);

CREATE TABLE recovery_codes (
    hash @BYTES NOT NULL PRIMARY KEY,
    user_id @UUID NOT NULL REFERENCES users (id) ON DELETE CASCADE
);

CREATE INDEX recovery_codes_user_id_idx ON recovery_codes (user_id)
";
