//! Changes of services' statuses: a table, and two columns of `services` that may be null. A release that does not know them goes on
//! beside this one, and what is reported to it is not recorded.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0091_health_changes"
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

// A revision is forgotten before the changes that it was there for, so nothing refers to it. Changes of failures have an index of their
// own: each open home page asks for the newest, and where little fails they are far apart.
const SCHEMA: &str = "
CREATE TABLE health_changes (
    id @UUID NOT NULL PRIMARY KEY,
    service_id @UUID NOT NULL REFERENCES services (id) ON DELETE CASCADE,
    revision_id @UUID NOT NULL,
    sha text,
    status_before text NOT NULL,
    status text NOT NULL,
    reason text,
    failing_since @TIME,
    at @TIME NOT NULL
);

CREATE INDEX health_changes_service_id_idx ON health_changes (service_id, id);

CREATE INDEX health_changes_at_idx ON health_changes (at);

CREATE INDEX health_changes_failing_idx ON health_changes (id) WHERE failing_since IS NOT NULL;

ALTER TABLE services ADD COLUMN failing_since @TIME;

ALTER TABLE services ADD COLUMN recovered_at @TIME
";
