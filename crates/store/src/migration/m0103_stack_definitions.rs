//! Definitions of stacks. A new table, which the release before this one leaves alone: it plans a stack that names one as a
//! stack without commands, and forgets the name when it changes that stack's settings.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0103_stack_definitions"
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
CREATE TABLE stack_definitions (
    id @UUID NOT NULL PRIMARY KEY,
    name text NOT NULL,
    description text,
    configuration @JSON NOT NULL,
    steps @JSON NOT NULL,
    delete_steps @JSON NOT NULL,
    changed_by_id @UUID,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL,
    CONSTRAINT stack_definitions_name_key UNIQUE (name)
)
";
