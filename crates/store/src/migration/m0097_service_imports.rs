//! Stacks whose outputs services import: a new table, empty. On PostgreSQL its foreign keys lock `services` and `stacks` against writes
//! while the catalogue is changed. The previous release goes on beside this one: it renders services without `imports`, which fails where
//! templates read them and leaves what runs, and it cannot delete a stack that a service imports.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0097_service_imports"
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

// A stack stays while a service imports it.
const SCHEMA: &str = "
CREATE TABLE service_stack_imports (
    id @UUID NOT NULL PRIMARY KEY,
    service_id @UUID NOT NULL REFERENCES services (id) ON DELETE CASCADE,
    stack_id @UUID NOT NULL REFERENCES stacks (id),
    secrets boolean NOT NULL,
    CONSTRAINT service_stack_imports_service_id_stack_id_key UNIQUE (service_id, stack_id)
);

CREATE INDEX service_stack_imports_stack_id_idx ON service_stack_imports (stack_id)
";
