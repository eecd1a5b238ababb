//! Who last changed a stack or a definition, as the audit log names them. The release before this one does not write it: what somebody
//! changes there under the name of a service account, they can approve under their own, as they could.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0111_changed_as"
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
ALTER TABLE stacks ADD COLUMN changed_as text;
ALTER TABLE stack_definitions ADD COLUMN changed_as text
";
