//! Federated credentials of service accounts. A new table and a nullable column, which the release before this one leaves alone.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0073_federated_credentials"
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
CREATE TABLE federated_credentials (
    id @UUID NOT NULL PRIMARY KEY,
    user_id @UUID NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    issuer text NOT NULL,
    audience text NOT NULL,
    claims text NOT NULL,
    scopes text NOT NULL,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL
);

CREATE INDEX federated_credentials_user_id_idx ON federated_credentials (user_id);

CREATE INDEX federated_credentials_issuer_idx ON federated_credentials (issuer, audience);

ALTER TABLE access_tokens ADD COLUMN federated_credential_id @UUID;

CREATE INDEX access_tokens_federated_credential_id_idx ON access_tokens (federated_credential_id)
";
