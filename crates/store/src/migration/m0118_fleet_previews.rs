//! Plans of previews: of changes that no commit holds. The release before this one sees such a plan as one of a branch, in its lists too: it
//! tells whoever reads the project that there is one, who asked, and of each service what its readers may know. It makes none, ends none
//! wrongly, and leaves those that are not looked at yet to a console of this release.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0118_fleet_previews"
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

// A plan has an owner where it is of a preview. `asked` is sealed, and there until the console has looked. A plan goes with its owner and
// with its automation.
const SCHEMA: &str = "
ALTER TABLE fleet_plans ADD COLUMN owner_id @UUID REFERENCES users (id) ON DELETE CASCADE;
ALTER TABLE fleet_plans ADD COLUMN automation_id @UUID REFERENCES pr_automations (id) ON DELETE CASCADE;
ALTER TABLE fleet_plans ADD COLUMN asked @BYTES;
ALTER TABLE fleet_plans ADD COLUMN stacks @JSON;
ALTER TABLE fleet_plans ADD COLUMN expires_at @TIME;
CREATE INDEX fleet_plans_owner_id_idx ON fleet_plans (owner_id);
CREATE INDEX fleet_plans_automation_id_idx ON fleet_plans (automation_id);
CREATE INDEX fleet_plans_expires_at_idx ON fleet_plans (expires_at)
";
