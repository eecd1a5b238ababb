//! Which stacks depend on which. A new table, empty; a release that does not know it leaves it as it is. While one runs, it makes runs
//! without what a stack takes from others, and takes the dependencies away from a stack that it changes.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0100_stack_dependencies"
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

// What is depended on does not go before what depends on it.
const SCHEMA: &str = "
CREATE TABLE stack_dependencies (
    stack_id @UUID NOT NULL REFERENCES stacks (id) ON DELETE CASCADE,
    upstream_id @UUID NOT NULL REFERENCES stacks (id),
    PRIMARY KEY (stack_id, upstream_id)
);

CREATE INDEX stack_dependencies_upstream_id_idx ON stack_dependencies (upstream_id)
";
