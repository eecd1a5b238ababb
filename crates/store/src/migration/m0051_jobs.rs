//! Jobs. A new table; touches no other. A release that does not know it enqueues nothing.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0051_jobs"
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

// One row of a kind and a key, in whatever state: it is waiting, running or dead. One that is done has none. `run_after` is
// milliseconds of the database's own clock, as in leases; `again` says that it was enqueued while it was running; `epoch`
// grows with each claim.
const SCHEMA: &str = "
CREATE TABLE jobs (
    id @UUID NOT NULL PRIMARY KEY,
    kind text NOT NULL,
    dedup_key text NOT NULL,
    payload @JSON NOT NULL,
    state text NOT NULL,
    again boolean NOT NULL,
    attempts integer NOT NULL,
    run_after @BIG NOT NULL,
    holder @UUID,
    epoch @BIG NOT NULL,
    error text,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL,
    CONSTRAINT jobs_kind_dedup_key_key UNIQUE (kind, dedup_key)
);

CREATE INDEX jobs_state_run_after_idx ON jobs (state, run_after)
";
