//! Credentials of a chart repository can be of one project. A release that does not know it uses them for all, as before.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0040_chart_projects"
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

// Credentials of a project that is gone are nobody's: they go with it.
const SCHEMA: &str = "
ALTER TABLE helm_repositories ADD COLUMN project_id @UUID REFERENCES projects (id) ON DELETE CASCADE
";
