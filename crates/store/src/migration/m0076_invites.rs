//! Invitations, and links for who has forgotten their password. A new table, which the release before this one does not see.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0076_invites"
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
CREATE TABLE invites (
    id @UUID NOT NULL PRIMARY KEY,
    hash @BYTES NOT NULL,
    email text NOT NULL,
    group_ids text NOT NULL,
    user_id @UUID REFERENCES users (id) ON DELETE CASCADE,
    inviter_id @UUID NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at @TIME NOT NULL,
    expires_at @TIME NOT NULL,
    CONSTRAINT invites_hash_key UNIQUE (hash),
    CONSTRAINT invites_email_key UNIQUE (email)
);
CREATE INDEX invites_user_id_idx ON invites (user_id);
CREATE INDEX invites_inviter_id_idx ON invites (inviter_id)
";
