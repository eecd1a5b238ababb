//! Gates that canaries stand before. The table is new: no row is moved. A release that does not know it has no gates.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0022_canary_gates"
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
CREATE TABLE canary_gates (
    id @UUID NOT NULL PRIMARY KEY,
    service_id @UUID NOT NULL REFERENCES services (id) ON DELETE CASCADE,
    namespace text NOT NULL,
    name text NOT NULL,
    hook text NOT NULL,
    checksum text NOT NULL,
    asked_at @TIME NOT NULL,
    opened_at @TIME,
    CONSTRAINT canary_gates_service_id_key UNIQUE (service_id, namespace, name, hook)
)
";
