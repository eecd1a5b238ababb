//! The token of a run's actor: a column of `stack_runs` that may be null, and an index of what is not. On PostgreSQL the column locks `stack_runs` while
//! the catalogue is changed; no row is rewritten, and the index is built over none. The previous release goes on beside this one: a run whose Job it hears first asks
//! in nobody's name, and a token that it does not know of ends with the run all the same.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0101_run_actors"
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
ALTER TABLE stack_runs ADD COLUMN actor_hash @BYTES;

CREATE UNIQUE INDEX stack_runs_actor_hash_key ON stack_runs (actor_hash) WHERE actor_hash IS NOT NULL
";
