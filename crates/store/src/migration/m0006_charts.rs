//! Chart repositories with credentials, and what charts were resolved to. New tables: nothing is locked, no row moves.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0006_charts"
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
CREATE TABLE helm_repositories (
    id @UUID NOT NULL PRIMARY KEY,
    url text NOT NULL,
    provider text,
    access @BYTES NOT NULL,
    health text,
    error text,
    pulled_at @TIME,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL,
    CONSTRAINT helm_repositories_url_key UNIQUE (url)
);

CREATE TABLE chart_pins (
    key text NOT NULL PRIMARY KEY,
    version text NOT NULL,
    digest text NOT NULL,
    at @TIME NOT NULL
)
";
