//! Invitations to projects, and which refresh token of a login it is. The previous release keeps working alongside: it lets no one but
//! an administrator of the installation invite, so it accepts no invitation of a project's administrators. It does not look whether the
//! address of an account is proven before it ties that to a provider. It does not count refresh
//! tokens: a login there at the very moment in which a provider is asked about the same person here may have to be repeated.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::sea_orm::DbBackend;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0092_project_invites"
    }
}

#[async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        match manager.get_database_backend() {
            DbBackend::Postgres => run(manager, POSTGRES).await?,
            // It drops no constraint of a table.
            _ => run(manager, SQLITE).await?,
        }
        run(manager, INDEXES).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}

const POSTGRES: &str = "
ALTER TABLE invites DROP CONSTRAINT invites_email_key;

ALTER TABLE invites ADD COLUMN project_id @UUID REFERENCES projects (id) ON DELETE CASCADE;

ALTER TABLE invites ADD COLUMN role text;

ALTER TABLE invites ADD COLUMN role_id @UUID REFERENCES roles (id) ON DELETE CASCADE
";

const SQLITE: &str = "
CREATE TABLE invites_of_projects (
    id @UUID NOT NULL PRIMARY KEY,
    hash @BYTES NOT NULL,
    email text NOT NULL,
    group_ids text NOT NULL,
    user_id @UUID REFERENCES users (id) ON DELETE CASCADE,
    inviter_id @UUID NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at @TIME NOT NULL,
    expires_at @TIME NOT NULL,
    project_id @UUID REFERENCES projects (id) ON DELETE CASCADE,
    role text,
    role_id @UUID REFERENCES roles (id) ON DELETE CASCADE,
    CONSTRAINT invites_hash_key UNIQUE (hash)
);

INSERT INTO invites_of_projects (id, hash, email, group_ids, user_id, inviter_id, created_at, expires_at)
    SELECT id, hash, email, group_ids, user_id, inviter_id, created_at, expires_at FROM invites;

DROP TABLE invites;

ALTER TABLE invites_of_projects RENAME TO invites;

CREATE INDEX invites_user_id_idx ON invites (user_id);

CREATE INDEX invites_inviter_id_idx ON invites (inviter_id)
";

// Projects do not take each other's invitations away, nor those of the installation. Which refresh token a login has is told by a
// number: the sealed one changes with its data key, too.
const INDEXES: &str = "
CREATE UNIQUE INDEX invites_email_key ON invites (email) WHERE project_id IS NULL;

CREATE UNIQUE INDEX invites_email_project_id_key ON invites (email, project_id) WHERE project_id IS NOT NULL;

CREATE INDEX invites_project_id_idx ON invites (project_id);

CREATE INDEX invites_role_id_idx ON invites (role_id);

CREATE TABLE unproven_addresses (
    user_id @UUID NOT NULL PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE
);

ALTER TABLE user_identities ADD COLUMN refresh_version integer NOT NULL DEFAULT 0
";
