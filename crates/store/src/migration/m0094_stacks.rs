//! Stacks, the versions of their state and their locks. New tables, all empty; a release that does not know them leaves them as they
//! are. While one runs, it takes `state-read` and `state-write` of custom roles for nothing. And it does not see what is sealed here: a
//! data key that was replaced is destroyed by it an hour later, and with it the states that were not sealed anew. So each replica
//! tells that it knows of stacks, and while one is alive that does not, no stack is made and no data key is replaced.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0094_stacks"
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

// A stack goes with its policy, and its state with it. What counts its locks and writes only grows.
const SCHEMA: &str = "
CREATE TABLE stacks (
    id @UUID NOT NULL PRIMARY KEY REFERENCES policies (id) ON DELETE CASCADE,
    project_id @UUID NOT NULL REFERENCES projects (id),
    name text NOT NULL,
    tool text NOT NULL,
    protect boolean NOT NULL,
    state_lock @JSON,
    fence @BIG NOT NULL,
    writes @BIG NOT NULL,
    current_id @UUID,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL,
    CONSTRAINT stacks_name_key UNIQUE (name)
);

CREATE INDEX stacks_project_id_idx ON stacks (project_id);

CREATE TABLE stack_states (
    id @UUID NOT NULL PRIMARY KEY,
    stack_id @UUID NOT NULL REFERENCES stacks (id) ON DELETE CASCADE,
    number @BIG NOT NULL,
    serial @BIG NOT NULL,
    lineage text NOT NULL,
    digest @BYTES NOT NULL,
    size @BIG NOT NULL,
    resources @BIG,
    rejected text,
    accepted_at @TIME,
    author text NOT NULL,
    request_id text NOT NULL,
    fence @BIG,
    created_at @TIME NOT NULL,
    CONSTRAINT stack_states_stack_id_number_key UNIQUE (stack_id, number)
);

CREATE TABLE stack_state_pieces (
    state_id @UUID NOT NULL REFERENCES stack_states (id) ON DELETE CASCADE,
    number integer NOT NULL,
    sealed @BYTES NOT NULL,
    PRIMARY KEY (state_id, number)
);

ALTER TABLE replicas ADD COLUMN stacks boolean
";
