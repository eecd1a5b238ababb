//! Policy of stacks: what was found of the plans of runs, and rules of projects. New tables, both empty. The previous release goes on
//! beside this one, and checks no plan: until its replicas are gone, plans that it takes in are not checked when they are made, and are
//! refused when one of this release is to apply them. A stack that it changes loses its policy engine.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0098_stack_policy"
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
CREATE TABLE stack_run_findings (
    run_id @UUID NOT NULL REFERENCES stack_runs (id) ON DELETE CASCADE,
    kind text NOT NULL,
    found @JSON NOT NULL,
    PRIMARY KEY (run_id, kind)
);

CREATE TABLE project_stack_rules (
    project_id @UUID NOT NULL PRIMARY KEY REFERENCES projects (id) ON DELETE CASCADE,
    rules @JSON NOT NULL,
    updated_at @TIME NOT NULL
)
";
