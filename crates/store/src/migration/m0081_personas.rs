//! Personas: what the web console shows to whom. New tables, which the release before this one leaves alone.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0081_personas"
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
CREATE TABLE personas (
    id @UUID NOT NULL PRIMARY KEY,
    name text NOT NULL,
    description text,
    role text,
    configuration @JSON NOT NULL,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL,
    CONSTRAINT personas_name_key UNIQUE (name)
);

CREATE TABLE persona_subjects (
    id @UUID NOT NULL PRIMARY KEY,
    persona_id @UUID NOT NULL REFERENCES personas (id) ON DELETE CASCADE,
    user_id @UUID REFERENCES users (id) ON DELETE CASCADE,
    group_id @UUID REFERENCES user_groups (id) ON DELETE CASCADE
);

CREATE INDEX persona_subjects_persona_id_idx ON persona_subjects (persona_id);

CREATE INDEX persona_subjects_user_id_idx ON persona_subjects (user_id);

CREATE INDEX persona_subjects_group_id_idx ON persona_subjects (group_id)
";
