//! Logins of programs that listen on loopback, and the networks that logins were asked from. New columns that are empty, in a table that
//! holds what is open for ten minutes. The release before this one, on whose page such a login is allowed, sends the browser nowhere: the
//! program waits in vain, and asks again. Logins that it kept count for no network.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0077_loopback_logins"
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
ALTER TABLE program_logins ADD COLUMN network text;
ALTER TABLE program_logins ADD COLUMN redirect text;
ALTER TABLE program_logins ADD COLUMN challenge @BYTES;
ALTER TABLE program_logins ADD COLUMN state text;
ALTER TABLE program_logins ADD COLUMN grant_hash @BYTES;
CREATE UNIQUE INDEX program_logins_grant_hash_key ON program_logins (grant_hash);
CREATE INDEX program_logins_network_idx ON program_logins (network)
";
