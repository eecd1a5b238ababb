//! Which providers give somebody a group: several may. A new table, filled from the memberships that name their provider; `group_members`
//! is read, not locked for longer. The release before this one names one provider in the membership alone, which counts for this one, too;
//! it ends a membership that another provider gives as well, until that one is asked again.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0078_given_memberships"
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
CREATE TABLE given_memberships (
    user_id @UUID NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    group_id @UUID NOT NULL REFERENCES user_groups (id) ON DELETE CASCADE,
    provider_id @UUID NOT NULL REFERENCES identity_providers (id) ON DELETE CASCADE,
    PRIMARY KEY (user_id, group_id, provider_id)
);
CREATE INDEX given_memberships_group_id_idx ON given_memberships (group_id);
CREATE INDEX given_memberships_provider_id_idx ON given_memberships (provider_id);
INSERT INTO given_memberships (user_id, group_id, provider_id)
    SELECT user_id, group_id, provider_id FROM group_members WHERE provider_id IS NOT NULL
";
