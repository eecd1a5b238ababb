//! Roles that administrators make, and their bindings. New tables, which the release before this one does not see: while that
//! runs, it decides without them, and so allows less.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0067_roles"
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

// Beside `policy_bindings` and not in it: the release before this one reads no row of that whose role it does not know. A role
// that is bound cannot go.
const SCHEMA: &str = "
CREATE TABLE roles (
    id @UUID NOT NULL PRIMARY KEY,
    name text NOT NULL,
    description text,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL,
    CONSTRAINT roles_name_key UNIQUE (name)
);

CREATE TABLE role_actions (
    role_id @UUID NOT NULL REFERENCES roles (id) ON DELETE CASCADE,
    action text NOT NULL,
    PRIMARY KEY (role_id, action)
);

CREATE TABLE role_bindings (
    id @UUID NOT NULL PRIMARY KEY,
    policy_id @UUID NOT NULL REFERENCES policies (id) ON DELETE CASCADE,
    user_id @UUID REFERENCES users (id) ON DELETE CASCADE,
    group_id @UUID REFERENCES user_groups (id) ON DELETE CASCADE,
    role_id @UUID NOT NULL REFERENCES roles (id),
    CONSTRAINT role_bindings_subject_check CHECK ((user_id IS NULL) <> (group_id IS NULL))
);

CREATE INDEX role_bindings_policy_id_idx ON role_bindings (policy_id);

CREATE INDEX role_bindings_user_id_idx ON role_bindings (user_id);

CREATE INDEX role_bindings_group_id_idx ON role_bindings (group_id);

CREATE INDEX role_bindings_role_id_idx ON role_bindings (role_id)
";
