//! Schedules and drift of stacks: columns of `stacks` that may be null, their indexes, and a table, empty. On PostgreSQL they lock `stacks`
//! against writes while the catalogue is changed; no row is rewritten. They come with the release that has `m0095_stack_runs`: its replicas
//! know what is sealed here. The release before that goes on beside this one, and makes nothing by the clock.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0096_stack_clock"
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

// What drifted names the run that found it last without holding it: old runs go. The indexes hold only stacks that have a schedule, and
// those that drifted.
const SCHEMA: &str = "
ALTER TABLE stacks ADD COLUMN next_cron_at @TIME;

ALTER TABLE stacks ADD COLUMN next_drift_at @TIME;

ALTER TABLE stacks ADD COLUMN clock_error text;

ALTER TABLE stacks ADD COLUMN drifted_at @TIME;

ALTER TABLE stacks ADD COLUMN drift @JSON;

CREATE INDEX stacks_next_cron_at_idx ON stacks (next_cron_at) WHERE next_cron_at IS NOT NULL;

CREATE INDEX stacks_next_drift_at_idx ON stacks (next_drift_at) WHERE next_drift_at IS NOT NULL;

CREATE INDEX stacks_drifted_at_idx ON stacks (id) WHERE drifted_at IS NOT NULL;

CREATE TABLE stack_drift (
    id @UUID NOT NULL PRIMARY KEY,
    stack_id @UUID NOT NULL REFERENCES stacks (id) ON DELETE CASCADE,
    address text NOT NULL,
    kind text NOT NULL,
    provider text NOT NULL,
    action text NOT NULL,
    left_out @BIG NOT NULL,
    content @BYTES NOT NULL,
    run_id @UUID NOT NULL,
    run_number @BIG NOT NULL,
    first_seen_at @TIME NOT NULL,
    last_seen_at @TIME NOT NULL,
    CONSTRAINT stack_drift_stack_id_address_key UNIQUE (stack_id, address)
);

CREATE INDEX stack_drift_stack_id_idx ON stack_drift (stack_id, id)
";
