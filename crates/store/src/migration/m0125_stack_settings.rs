//! What stacks have where they say nothing themselves, for a project and for the installation. New tables, both empty. The release before
//! this one goes on beside it and does not read them: a run that it makes has no defaults, and a plan that was made with some is refused
//! by it. Set none before all consoles are of this release.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0125_stack_settings"
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

// `part` says what of the installation's settings a row has: `stacks`.
const SCHEMA: &str = "
CREATE TABLE project_stack_settings (
    project_id @UUID NOT NULL PRIMARY KEY REFERENCES projects (id) ON DELETE CASCADE,
    settings @JSON NOT NULL,
    updated_at @TIME NOT NULL
);

CREATE TABLE deployment_settings (
    part text NOT NULL PRIMARY KEY,
    settings @JSON NOT NULL,
    updated_at @TIME NOT NULL
)
";
