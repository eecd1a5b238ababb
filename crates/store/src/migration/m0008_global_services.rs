//! Global services. The tables are new and the new columns empty: no row is moved, and `services` is locked for a moment
//! only. A release that does not know them leaves them empty.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0008_global_services"
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
CREATE TABLE global_services (
    id @UUID NOT NULL PRIMARY KEY,
    name text NOT NULL,
    project_id @UUID REFERENCES projects (id),
    service_id @UUID,
    spec @JSON NOT NULL,
    template @JSON NOT NULL,
    generation @BIG NOT NULL,
    rollout @JSON,
    error text,
    looked_at @TIME,
    deleted_at @TIME,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL,
    CONSTRAINT global_services_name_key UNIQUE (name)
);

CREATE INDEX global_services_project_id_idx ON global_services (project_id);

CREATE TABLE global_service_generations (
    global_service_id @UUID NOT NULL REFERENCES global_services (id) ON DELETE CASCADE,
    generation @BIG NOT NULL,
    template @JSON NOT NULL,
    secrets @BYTES NOT NULL,
    sha text,
    closure_digest text,
    created_at @TIME NOT NULL,
    PRIMARY KEY (global_service_id, generation)
);

ALTER TABLE services ADD COLUMN owner_id @UUID REFERENCES global_services (id);

ALTER TABLE services ADD COLUMN owner_generation @BIG;

ALTER TABLE services ADD COLUMN owner_given_at @TIME;

ALTER TABLE services ADD COLUMN cascaded boolean NOT NULL DEFAULT false;

CREATE INDEX services_owner_id_idx ON services (owner_id)
";
