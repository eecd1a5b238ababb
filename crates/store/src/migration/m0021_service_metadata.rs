//! What services' objects say of themselves. The table is new: no row is moved. A release that does not know it leaves it as it
//! is.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::sea_orm::{ConnectionTrait, DbBackend};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::for_backend;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0021_service_metadata"
    }
}

#[async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let connection = manager.get_connection();
        let postgres = manager.get_database_backend() == DbBackend::Postgres;
        connection.execute_unprepared(&for_backend(SCHEMA, postgres)).await.map(drop)
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}

const SCHEMA: &str = "
CREATE TABLE service_metadata (
    service_id @UUID NOT NULL PRIMARY KEY REFERENCES services (id) ON DELETE CASCADE,
    images @JSON NOT NULL,
    fqdns @JSON NOT NULL
)
";
