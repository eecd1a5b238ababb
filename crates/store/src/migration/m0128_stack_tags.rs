//! Tags of stacks, and how their code is followed: columns of `stacks` that may be null, their index, and a table, empty. On PostgreSQL it locks
//! `stacks` against writes while the catalogue is changed; no row is rewritten. The release before this one goes on beside it: it knows nothing
//! of these and leaves them as they are, looks at code as often as it fetches, and plans pull requests through any connection.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0128_stack_tags"
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

// Tags go with their stack. A stack tells of its own from its row, and is found by the rows of the table.
const SCHEMA: &str = "
ALTER TABLE stacks ADD COLUMN tags @JSON;

ALTER TABLE stacks ADD COLUMN interval_seconds integer;

ALTER TABLE stacks ADD COLUMN connection_id @UUID REFERENCES scm_connections (id);

CREATE INDEX stacks_connection_id_idx ON stacks (connection_id) WHERE connection_id IS NOT NULL;

CREATE TABLE stack_tags (
    stack_id @UUID NOT NULL REFERENCES stacks (id) ON DELETE CASCADE,
    name text NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (stack_id, name)
);

CREATE INDEX stack_tags_name_value_idx ON stack_tags (name, value)
";
