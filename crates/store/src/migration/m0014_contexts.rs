//! Contexts, and the services that use them. Two new tables, both empty; a release that does not know them leaves them as they are.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0014_contexts"
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
CREATE TABLE service_contexts (
    id @UUID NOT NULL PRIMARY KEY,
    name text NOT NULL,
    project_id @UUID NOT NULL REFERENCES projects (id),
    configuration @JSON NOT NULL,
    secret_names @JSON NOT NULL,
    secrets @BYTES,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL,
    CONSTRAINT service_contexts_name_key UNIQUE (name)
);

CREATE INDEX service_contexts_project_id_idx ON service_contexts (project_id);

CREATE TABLE service_context_uses (
    service_id @UUID NOT NULL REFERENCES services (id) ON DELETE CASCADE,
    context_id @UUID NOT NULL REFERENCES service_contexts (id),
    PRIMARY KEY (service_id, context_id)
);

CREATE INDEX service_context_uses_context_id_idx ON service_context_uses (context_id)
";
