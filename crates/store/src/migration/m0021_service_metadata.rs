//! What services' objects say of themselves. The table is new: no row is moved. A release that does not know it leaves it as it
//! is.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0021_service_metadata"
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
CREATE TABLE service_metadata (
    service_id @UUID NOT NULL PRIMARY KEY REFERENCES services (id) ON DELETE CASCADE,
    images @JSON NOT NULL,
    fqdns @JSON NOT NULL
)
";
