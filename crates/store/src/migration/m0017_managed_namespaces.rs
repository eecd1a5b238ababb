//! Managed namespaces. The table is new and the new column empty: no row is moved, and `global_services` is locked for a
//! moment only. A release that does not know them shows what they spread by as global services.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0017_managed_namespaces"
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
CREATE TABLE managed_namespaces (
    id @UUID NOT NULL PRIMARY KEY,
    name text NOT NULL,
    namespace text NOT NULL,
    description text,
    project_id @UUID REFERENCES projects (id),
    spec @JSON NOT NULL,
    deleted_at @TIME,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL,
    CONSTRAINT managed_namespaces_name_key UNIQUE (name)
);

CREATE INDEX managed_namespaces_project_id_idx ON managed_namespaces (project_id);

ALTER TABLE global_services ADD COLUMN managed_namespace_id @UUID REFERENCES managed_namespaces (id);

CREATE INDEX global_services_managed_namespace_id_idx ON global_services (managed_namespace_id)
";
