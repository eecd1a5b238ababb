//! Indexes that find federated credentials by the subject of a token: what stands in the claims that are kept, so that what the release
//! before this one writes is found, too. Locks the table while they are made, which has few rows.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::sea_orm::{ConnectionTrait, DbBackend};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0086_federated_subjects"
    }
}

#[async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let connection = manager.get_connection();
        let postgres = manager.get_database_backend() == DbBackend::Postgres;
        let subject = if postgres { "(claims::jsonb ->> 'sub')" } else { "json_extract(claims, '$.sub')" };
        let prefix = if postgres {
            "split_part(claims::jsonb ->> 'sub', '*', 1)"
        } else {
            "substr(json_extract(claims, '$.sub'), 1, instr(json_extract(claims, '$.sub'), '*') - 1)"
        };
        let patterns = if postgres {
            "position('*' in claims::jsonb ->> 'sub') > 0"
        } else {
            "instr(json_extract(claims, '$.sub'), '*') > 0"
        };
        let exact = format!(
            "CREATE INDEX federated_credentials_subject_idx ON federated_credentials (issuer, audience, {subject})"
        );
        connection.execute_unprepared(&exact).await?;
        let by_prefix = format!(
            "CREATE INDEX federated_credentials_prefix_idx ON federated_credentials (issuer, audience, ({prefix})) \
             WHERE {patterns}"
        );
        connection.execute_unprepared(&by_prefix).await.map(drop)
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
