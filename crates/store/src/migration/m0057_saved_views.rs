//! Saved views. A new table, which the release before this one does not see. While that runs, it fails to delete a user who owns
//! views (an internal error, and nothing is deleted): it does not remove them first. A console of this release deletes the user.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0057_saved_views"
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

// A view goes with its policy. Its owner is a user, who cannot go before it: `user_delete` removes the policies of their views first.
const SCHEMA: &str = "
CREATE TABLE saved_views (
    id @UUID NOT NULL PRIMARY KEY REFERENCES policies (id) ON DELETE CASCADE,
    owner_id @UUID NOT NULL REFERENCES users (id),
    name text NOT NULL,
    page text NOT NULL,
    query text NOT NULL,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL,
    CONSTRAINT saved_views_owner_id_page_name_key UNIQUE (owner_id, page, name)
)
";
