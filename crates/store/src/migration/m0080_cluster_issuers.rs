//! What agents report of their clusters as issuers of tokens, and federated credentials that name a cluster. New tables, and a nullable
//! column: the release before this one reads an issuer at an address that nobody can have, and takes no token by it.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0080_cluster_issuers"
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
CREATE TABLE cluster_issuers (
    cluster_id @UUID NOT NULL PRIMARY KEY REFERENCES clusters (id) ON DELETE CASCADE,
    issuer text NOT NULL,
    reported_at @TIME NOT NULL
);

CREATE INDEX cluster_issuers_issuer_idx ON cluster_issuers (issuer);

CREATE TABLE cluster_issuer_keys (
    cluster_id @UUID NOT NULL REFERENCES cluster_issuers (cluster_id) ON DELETE CASCADE,
    key_id text NOT NULL,
    content text NOT NULL,
    PRIMARY KEY (cluster_id, key_id)
);

ALTER TABLE federated_credentials ADD COLUMN cluster_id @UUID REFERENCES clusters (id) ON DELETE CASCADE;

CREATE INDEX federated_credentials_cluster_id_idx ON federated_credentials (cluster_id, audience)
";
