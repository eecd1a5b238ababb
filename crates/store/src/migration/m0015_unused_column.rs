//! Whether a deletion waits for approval is said by `services.cascaded`; the column that said it before was never anything but
//! false. It gets a default, so that this release need not name it, and goes when no release writes it any more.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::sea_orm::{ConnectionTrait, DbBackend};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::for_backend;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0015_unused_column"
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
ALTER TABLE service_syncs DROP COLUMN destroy_needs_approval;

ALTER TABLE service_syncs ADD COLUMN destroy_needs_approval boolean NOT NULL DEFAULT false;
";
