//! Service accounts: users that a project owns, and tokens that say who assumed them. Nullable columns: for the release before
//! this one, a service account is a user without a password, and goes with its project as here.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0068_service_accounts"
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
ALTER TABLE users ADD COLUMN project_id @UUID REFERENCES projects (id) ON DELETE CASCADE;

CREATE INDEX users_project_id_idx ON users (project_id);

ALTER TABLE access_tokens ADD COLUMN assumed_by text
";
