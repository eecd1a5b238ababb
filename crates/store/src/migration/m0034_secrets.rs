//! Who set a cluster's tags, whose the secrets of a service are that a global service let go, and how often a line of the audit log
//! happened. Columns with defaults: no row is rewritten, and a release that does not know them leaves them as they are.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0034_secrets"
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
ALTER TABLE clusters ADD COLUMN tag_levels @JSON;

ALTER TABLE services ADD COLUMN secrets_home text;

ALTER TABLE audit_rows ADD COLUMN times @BIG NOT NULL DEFAULT 1
";
