//! One policy for each project, cluster and service, in place of a column for each noun in everything that belongs to one.
//! Moves every binding and every sync window. Locks everything for about a second per 100 000 services, and the release before
//! this one cannot run on it: stop all consoles first.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0041_policies"
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

// A policy has the id of the thing that it is of. It refers only to the policy above: deleting one deletes policies, bindings and
// windows, never things. Windows get a new table, because SQLite drops no column that a foreign key uses.
const SCHEMA: &str = "
CREATE TABLE policies (
    id @UUID NOT NULL PRIMARY KEY,
    parent_id @UUID REFERENCES policies (id) ON DELETE CASCADE,
    noun text NOT NULL
);

INSERT INTO policies (id, noun) SELECT id, 'project' FROM projects;

INSERT INTO policies (id, parent_id, noun) SELECT id, project_id, 'cluster' FROM clusters;

INSERT INTO policies (id, parent_id, noun) SELECT id, cluster_id, 'service' FROM services;

CREATE INDEX policies_parent_id_idx ON policies (parent_id);

CREATE TABLE policy_bindings (
    id @UUID NOT NULL PRIMARY KEY,
    policy_id @UUID NOT NULL REFERENCES policies (id) ON DELETE CASCADE,
    user_id @UUID REFERENCES users (id) ON DELETE CASCADE,
    group_id @UUID REFERENCES user_groups (id) ON DELETE CASCADE,
    role text NOT NULL,
    CONSTRAINT policy_bindings_subject_check CHECK ((user_id IS NULL) <> (group_id IS NULL))
);

INSERT INTO policy_bindings (id, policy_id, user_id, group_id, role)
    SELECT id, COALESCE(project_id, cluster_id, service_id), user_id, group_id, role FROM bindings;

DROP TABLE bindings;

CREATE INDEX policy_bindings_policy_id_idx ON policy_bindings (policy_id);

CREATE INDEX policy_bindings_user_id_idx ON policy_bindings (user_id);

CREATE INDEX policy_bindings_group_id_idx ON policy_bindings (group_id);

CREATE TABLE policy_windows (
    id @UUID NOT NULL PRIMARY KEY,
    policy_id @UUID NOT NULL REFERENCES policies (id) ON DELETE CASCADE,
    kind text NOT NULL,
    schedule text NOT NULL,
    seconds integer NOT NULL,
    time_zone text NOT NULL,
    description text
);

INSERT INTO policy_windows (id, policy_id, kind, schedule, seconds, time_zone, description)
    SELECT id, COALESCE(project_id, cluster_id, service_id), kind, schedule, seconds, time_zone, description
    FROM sync_windows;

DROP TABLE sync_windows;

ALTER TABLE policy_windows RENAME TO sync_windows;

CREATE INDEX sync_windows_policy_id_idx ON sync_windows (policy_id)
";
