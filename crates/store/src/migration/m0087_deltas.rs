//! Which services and clusters changed, for open pages. A new table: the release before this one does not write it, so pages
//! do not hear of what is reported to it while both run.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0087_deltas"
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
CREATE TABLE deltas (
    sequence @SERIAL,
    xid @XID,
    cluster_id @UUID NOT NULL,
    service_id @UUID,
    at @TIME NOT NULL
);
CREATE INDEX deltas_xid_idx ON deltas (xid);
CREATE INDEX deltas_at_idx ON deltas (at)
";
