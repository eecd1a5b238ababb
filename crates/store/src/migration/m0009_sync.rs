//! What is asked of syncs and told of them, and the limits of projects. The tables are new and the new column is empty: no row
//! is moved, and `projects` is locked for a moment only. A release that does not know them leaves them as they are.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0009_sync"
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
CREATE TABLE service_syncs (
    service_id @UUID NOT NULL PRIMARY KEY REFERENCES services (id) ON DELETE CASCADE,
    request @JSON,
    plan_request @UUID,
    approved @JSON,
    destroy_needs_approval boolean NOT NULL,
    progress @JSON,
    pending @JSON,
    request_done text,
    plan_key text
);

CREATE TABLE service_plans (
    id @UUID NOT NULL PRIMARY KEY,
    service_id @UUID NOT NULL REFERENCES services (id) ON DELETE CASCADE,
    request_id @UUID,
    revision_id @UUID NOT NULL,
    digest text NOT NULL,
    objects @JSON NOT NULL,
    unchanged integer NOT NULL,
    omitted integer NOT NULL,
    created_at @TIME NOT NULL
);

CREATE INDEX service_plans_service_id_idx ON service_plans (service_id, id);

CREATE TABLE drift_events (
    id @UUID NOT NULL PRIMARY KEY,
    service_id @UUID NOT NULL REFERENCES services (id) ON DELETE CASCADE,
    event text NOT NULL,
    object @JSON NOT NULL,
    kind text NOT NULL,
    fields @JSON NOT NULL,
    what text,
    count integer NOT NULL,
    at @TIME NOT NULL,
    updated_at @TIME NOT NULL,
    CONSTRAINT drift_events_service_id_event_key UNIQUE (service_id, event)
);

CREATE INDEX drift_events_service_id_idx ON drift_events (service_id, id);

ALTER TABLE projects ADD COLUMN limits @JSON
";
