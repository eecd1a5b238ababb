//! Commands of stacks under a name. A new table, empty; a release that does not know it leaves it as it is, and removes what is of a stack
//! or a project with that.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0104_custom_stack_runs"
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
CREATE TABLE custom_stack_runs (
    id @UUID NOT NULL PRIMARY KEY,
    project_id @UUID NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    stack_id @UUID REFERENCES stacks (id) ON DELETE CASCADE,
    name text NOT NULL,
    documentation text NOT NULL,
    commands @JSON NOT NULL,
    questions @JSON NOT NULL,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL,
    CONSTRAINT custom_stack_runs_project_id_name_key UNIQUE (project_id, name)
);

CREATE INDEX custom_stack_runs_stack_id_idx ON custom_stack_runs (stack_id)
";
