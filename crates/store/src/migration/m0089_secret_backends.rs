//! Where projects keep their secret values, and the objects that were put there. New tables, and a column that may be null: a release
//! that does not know them goes on beside this one. What is kept elsewhere it could not open, so nothing is moved while such a replica is
//! alive: its row has no `secret_backends`.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0089_secret_backends"
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

// The project of an object is no foreign key: what it left in a backend is deleted after it.
const SCHEMA: &str = "
CREATE TABLE project_secret_backends (
    project_id @UUID NOT NULL PRIMARY KEY REFERENCES projects (id) ON DELETE CASCADE,
    backend text NOT NULL,
    updated_at @TIME NOT NULL
);

CREATE TABLE secret_objects (
    id @UUID NOT NULL PRIMARY KEY,
    project_id @UUID NOT NULL,
    backend text NOT NULL,
    unnamed_since @TIME
);

ALTER TABLE replicas ADD COLUMN secret_backends boolean
";
