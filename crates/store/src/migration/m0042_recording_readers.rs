//! Who may read recordings is said by bindings, as all rights are; and a policy outlives its project for as long as recordings of
//! it are kept. Moves the readers that there still are, which are few. Comes with `m0041_policies`, beside which no console of the
//! release before runs.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::sea_orm::DbBackend;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0042_recording_readers"
    }
}

#[async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let schema = match manager.get_database_backend() {
            DbBackend::Postgres => POSTGRES,
            _ => SQLITE,
        };
        run(manager, schema).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}

// The name is that of a project that is gone. A reader that was named twice is bound once.
const POSTGRES: &str = "
ALTER TABLE policies ADD COLUMN name text;
CREATE INDEX policies_name_idx ON policies (name) WHERE name IS NOT NULL;

INSERT INTO policy_bindings (id, policy_id, user_id, role)
    SELECT gen_random_uuid(), r.project_id, r.id, 'recordings'
    FROM (SELECT DISTINCT p.project_id, u.id FROM recording_policies p
        CROSS JOIN LATERAL jsonb_array_elements_text(p.policy->'users') AS named(id)
        JOIN users u ON u.id::text = named.id) r;

INSERT INTO policy_bindings (id, policy_id, group_id, role)
    SELECT gen_random_uuid(), r.project_id, r.id, 'recordings'
    FROM (SELECT DISTINCT p.project_id, g.id FROM recording_policies p
        CROSS JOIN LATERAL jsonb_array_elements_text(p.policy->'groups') AS named(id)
        JOIN user_groups g ON g.id::text = named.id) r;

UPDATE recording_policies SET policy = policy - 'users' - 'groups'
";

const SQLITE: &str = "
ALTER TABLE policies ADD COLUMN name text;
CREATE INDEX policies_name_idx ON policies (name) WHERE name IS NOT NULL;

INSERT INTO policy_bindings (id, policy_id, user_id, role)
    SELECT randomblob(16), r.project_id, r.id, 'recordings'
    FROM (SELECT DISTINCT p.project_id, u.id FROM recording_policies p
        CROSS JOIN json_each(p.policy, '$.users') named
        JOIN users u ON lower(hex(u.id)) = replace(named.value, '-', '')) r;

INSERT INTO policy_bindings (id, policy_id, group_id, role)
    SELECT randomblob(16), r.project_id, r.id, 'recordings'
    FROM (SELECT DISTINCT p.project_id, g.id FROM recording_policies p
        CROSS JOIN json_each(p.policy, '$.groups') named
        JOIN user_groups g ON lower(hex(g.id)) = replace(named.value, '-', '')) r;

UPDATE recording_policies SET policy = json_remove(policy, '$.users', '$.groups')
";
