//! Runs of stacks: columns of `stacks` that may be null or have a default, and new tables, all empty. On PostgreSQL the columns and
//! their foreign keys lock `stacks`, `clusters` and `git_repositories` against writes while the catalogue is changed; no row is
//! rewritten. The previous release goes on beside this one: it shows and changes stacks without what it does not know of, and reads no
//! work of kind `stack_run`. It does not see what is sealed here, and would destroy the data keys of that. So each replica tells that it
//! knows of runs, and while one is alive that does not, no stack is made or given inputs, no run is made, and no data key is replaced.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0095_stack_runs"
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

// A stack holds its repository and its cluster: neither is deleted under it. A run names its cluster without holding it, as its stack may
// have moved to another one since. A run is over when `finished_at` says when: the index of those that are not is small.
const SCHEMA: &str = "
ALTER TABLE stacks ADD COLUMN repository_id @UUID REFERENCES git_repositories (id);

ALTER TABLE stacks ADD COLUMN cluster_id @UUID REFERENCES clusters (id);

ALTER TABLE stacks ADD COLUMN git @JSON;

ALTER TABLE stacks ADD COLUMN spec @JSON;

ALTER TABLE stacks ADD COLUMN environment @BYTES;

ALTER TABLE stacks ADD COLUMN files @BYTES;

ALTER TABLE stacks ADD COLUMN paused boolean NOT NULL DEFAULT FALSE;

ALTER TABLE stacks ADD COLUMN status text;

ALTER TABLE stacks ADD COLUMN sha text;

ALTER TABLE stacks ADD COLUMN last_successful_at @TIME;

ALTER TABLE stacks ADD COLUMN source_error text;

ALTER TABLE stacks ADD COLUMN seen_closure text;

ALTER TABLE stacks ADD COLUMN seen_sha text;

ALTER TABLE stacks ADD COLUMN seen_at @TIME;

ALTER TABLE stacks ADD COLUMN deleted_at @TIME;

ALTER TABLE stacks ADD COLUMN changed_by_id @UUID;

ALTER TABLE stacks ADD COLUMN runs @BIG NOT NULL DEFAULT 0;

CREATE INDEX stacks_repository_id_idx ON stacks (repository_id);

CREATE INDEX stacks_cluster_id_idx ON stacks (cluster_id);

CREATE INDEX stacks_deleted_at_idx ON stacks (deleted_at, id) WHERE deleted_at IS NOT NULL;

CREATE TABLE stack_runs (
    id @UUID NOT NULL PRIMARY KEY,
    stack_id @UUID NOT NULL REFERENCES stacks (id) ON DELETE CASCADE,
    project_id @UUID NOT NULL,
    cluster_id @UUID NOT NULL,
    number @BIG NOT NULL,
    kind text NOT NULL,
    cause text NOT NULL,
    status text NOT NULL,
    phase text NOT NULL,
    attempt @BIG NOT NULL,
    snapshot @JSON NOT NULL,
    environment @BYTES,
    files @BYTES,
    source @JSON,
    artifact_digest @BYTES,
    planned @JSON,
    approvals @JSON NOT NULL,
    cancel_asked boolean NOT NULL,
    error text,
    job @JSON,
    heartbeat_at @TIME,
    credential_hash @BYTES,
    created_by_id @UUID,
    author text NOT NULL,
    created_at @TIME NOT NULL,
    started_at @TIME,
    finished_at @TIME,
    sequence @BIG NOT NULL,
    CONSTRAINT stack_runs_stack_id_number_key UNIQUE (stack_id, number)
);

CREATE INDEX stack_runs_stack_id_idx ON stack_runs (stack_id, id);

CREATE INDEX stack_runs_open_idx ON stack_runs (id) WHERE finished_at IS NULL;

CREATE INDEX stack_runs_cluster_id_idx ON stack_runs (cluster_id) WHERE finished_at IS NULL;

CREATE INDEX stack_runs_waiting_idx ON stack_runs (id) WHERE status = 'pending_approval';

CREATE UNIQUE INDEX stack_runs_credential_hash_key ON stack_runs (credential_hash) WHERE credential_hash IS NOT NULL;

CREATE TABLE stack_run_steps (
    id @UUID NOT NULL PRIMARY KEY,
    run_id @UUID NOT NULL REFERENCES stack_runs (id) ON DELETE CASCADE,
    number @BIG NOT NULL,
    phase text NOT NULL,
    stage text NOT NULL,
    name text NOT NULL,
    cmd text NOT NULL,
    args @JSON NOT NULL,
    status text NOT NULL,
    exit_code integer,
    started_at @TIME,
    finished_at @TIME,
    logged @BIG NOT NULL,
    CONSTRAINT stack_run_steps_run_id_number_key UNIQUE (run_id, number)
);

CREATE TABLE stack_run_logs (
    step_id @UUID NOT NULL REFERENCES stack_run_steps (id) ON DELETE CASCADE,
    place @BIG NOT NULL,
    at @TIME NOT NULL,
    content @BYTES NOT NULL,
    PRIMARY KEY (step_id, place)
);

CREATE TABLE stack_plan_parts (
    run_id @UUID NOT NULL REFERENCES stack_runs (id) ON DELETE CASCADE,
    part text NOT NULL,
    digest @BYTES NOT NULL,
    size @BIG NOT NULL,
    PRIMARY KEY (run_id, part)
);

CREATE TABLE stack_plan_pieces (
    run_id @UUID NOT NULL,
    number @BIG NOT NULL,
    part text NOT NULL,
    sealed @BYTES NOT NULL,
    PRIMARY KEY (run_id, number),
    FOREIGN KEY (run_id, part) REFERENCES stack_plan_parts (run_id, part) ON DELETE CASCADE
);

CREATE TABLE stack_outputs (
    id @UUID NOT NULL PRIMARY KEY,
    stack_id @UUID NOT NULL REFERENCES stacks (id) ON DELETE CASCADE,
    name text NOT NULL,
    secret boolean NOT NULL,
    content @BYTES NOT NULL,
    CONSTRAINT stack_outputs_stack_id_name_key UNIQUE (stack_id, name)
);

ALTER TABLE replicas ADD COLUMN stack_runs boolean
";
