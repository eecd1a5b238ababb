//! Indexes for lists of the audit log that are filtered by who did something, and by what was done. Lines wait while they are made.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0088_audit_filters"
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
CREATE INDEX audit_rows_actor_idx ON audit_rows (actor, id);

CREATE INDEX audit_rows_user_id_idx ON audit_rows (user_id, id);

CREATE INDEX audit_rows_action_idx ON audit_rows (action, id)
";
