//! Policies of one noun below another policy: which clusters of a project somebody may read, without a look at the policies of all
//! services. The index is built while the table may be read; a hundred thousand policies take about a second. SQLite finds them by the
//! policy above: without statistics it would take a noun for rare, and read all policies of services by this index.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::sea_orm::DbBackend;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0102_policies_by_noun"
    }
}

#[async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        match manager.get_database_backend() {
            DbBackend::Postgres => run(manager, SCHEMA).await,
            _ => Ok(()),
        }
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}

const SCHEMA: &str = "
CREATE INDEX policies_noun_parent_id_idx ON policies (noun, parent_id, id)
";
