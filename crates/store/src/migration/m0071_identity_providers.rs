//! Identity providers, the accounts that are tied to them, and suspended accounts. New tables and new columns that are empty, each
//! table locked for a moment. The release before this one sees none of it: it lets a suspended account sign in with its password,
//! and a token that it makes with a session of a provider does not end with that.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0071_identity_providers"
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

// A membership that a provider gave has the provider's id; one that an administrator gave has none, and stays.
// `login_spent` holds what may be used once: the states of logins that ended.
const SCHEMA: &str = "
CREATE TABLE identity_providers (
    id @UUID NOT NULL PRIMARY KEY,
    name text NOT NULL,
    issuer text NOT NULL,
    client_id text NOT NULL,
    secret @BYTES,
    scopes text NOT NULL,
    groups_claim text,
    mapped_groups text NOT NULL,
    domains text NOT NULL,
    creates_users boolean NOT NULL,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL,
    CONSTRAINT identity_providers_name_key UNIQUE (name)
);
CREATE TABLE user_identities (
    id @UUID NOT NULL PRIMARY KEY,
    provider_id @UUID NOT NULL REFERENCES identity_providers (id) ON DELETE CASCADE,
    subject text NOT NULL,
    user_id @UUID NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    refresh @BYTES,
    checked_at @TIME NOT NULL,
    tried_at @TIME NOT NULL,
    created_at @TIME NOT NULL,
    CONSTRAINT user_identities_provider_id_subject_key UNIQUE (provider_id, subject)
);
CREATE INDEX user_identities_user_id_idx ON user_identities (user_id);
CREATE INDEX user_identities_tried_at_idx ON user_identities (tried_at);
ALTER TABLE group_members ADD COLUMN provider_id @UUID REFERENCES identity_providers (id) ON DELETE CASCADE;
ALTER TABLE users ADD COLUMN suspended_at @TIME;
ALTER TABLE access_tokens ADD COLUMN identity_id @UUID REFERENCES user_identities (id) ON DELETE CASCADE;
CREATE INDEX access_tokens_identity_id_idx ON access_tokens (identity_id);
CREATE TABLE login_spent (
    what @BYTES NOT NULL PRIMARY KEY,
    until_at @BIG NOT NULL
)
";
