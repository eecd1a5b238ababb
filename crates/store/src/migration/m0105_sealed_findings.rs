//! What was found of plans, and what runs take from other stacks, sealed. A new column, and another table of findings: what stood there in
//! clear goes, so plans that wait for approval and were checked against a policy are made anew. No release had that table.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0105_sealed_findings"
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
ALTER TABLE stack_runs ADD COLUMN taken @BYTES;

DROP TABLE stack_run_findings;

CREATE TABLE stack_run_findings (
    run_id @UUID NOT NULL REFERENCES stack_runs (id) ON DELETE CASCADE,
    number @BIG NOT NULL,
    content @BYTES NOT NULL,
    PRIMARY KEY (run_id, number)
)
";
