//! Chart repositories with credentials, and what charts were resolved to. New tables: nothing is locked, no row moves.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::sea_orm::{ConnectionTrait, DbBackend};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::for_backend;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0006_charts"
    }
}

#[async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let connection = manager.get_connection();
        let postgres = manager.get_database_backend() == DbBackend::Postgres;
        for statement in SCHEMA.split(";\n").map(str::trim).filter(|statement| !statement.is_empty()) {
            connection.execute_unprepared(&for_backend(statement, postgres)).await?;
        }
        Ok(())
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
