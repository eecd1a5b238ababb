//! Long lists of services in other orders: by name, by status and by when they were changed, each with what decides who may see a row.
//! The indexes are built while the table may be read; a hundred thousand services take some seconds.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::sea_orm::DbBackend;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0090_service_orders"
    }
}

#[async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // In the order of bytes, as SQLite has it: a list is the same on both.
        let name = match manager.get_database_backend() {
            DbBackend::Postgres => "name COLLATE \"C\"",
            _ => "name",
        };
        run(manager, &SCHEMA.replace("@NAME", name)).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}

const SCHEMA: &str = "
CREATE INDEX services_name_idx ON services (@NAME, id, cluster_id);

CREATE INDEX services_status_idx ON services (status, id, cluster_id);

CREATE INDEX services_updated_at_idx ON services (updated_at, id, cluster_id)
";
