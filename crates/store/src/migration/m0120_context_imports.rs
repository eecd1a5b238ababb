//! Two things.
//!
//! Outputs of stacks that contexts take: a new column, empty, and a new table, empty, that says which contexts take any of a stack. On
//! PostgreSQL its foreign keys lock `service_contexts` and `stacks` against writes while the catalogue is changed. The previous release
//! goes on beside this one: it renders services without these outputs, which fails where templates read them and leaves what runs; it
//! renders none anew when they change, lets whoever may read a context that takes sensitive outputs use it, and cannot delete a stack
//! whose outputs a context takes.
//!
//! Stacks among what open pages are told of: a column of `deltas`. The previous release tells of no stacks, and takes a row of one for that
//! of a cluster that is gone.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0120_context_imports"
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

// `imports` says what a context takes. The table follows it, with a row for each of its stacks: `secrets` where sensitive outputs are among
// what it takes. A stack stays while a context takes an output of it.
const SCHEMA: &str = "
ALTER TABLE service_contexts ADD COLUMN imports @JSON;
CREATE TABLE context_stack_imports (
    context_id @UUID NOT NULL REFERENCES service_contexts (id) ON DELETE CASCADE,
    stack_id @UUID NOT NULL REFERENCES stacks (id),
    secrets boolean NOT NULL,
    PRIMARY KEY (context_id, stack_id)
);
CREATE INDEX context_stack_imports_stack_id_idx ON context_stack_imports (stack_id);
ALTER TABLE deltas ADD COLUMN stack_id @UUID
";
