//! Recordings of shells: three new tables and a column without values; moves no rows. A release that does not know them
//! records nothing, so start the new one everywhere before asking for recordings.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0019_recordings"
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

// A recording names its cluster and project without a reference: it is kept when they are gone.
const SCHEMA: &str = "
CREATE TABLE recording_policies (
    project_id @UUID NOT NULL PRIMARY KEY REFERENCES projects (id) ON DELETE CASCADE,
    policy @JSON NOT NULL,
    updated_at @TIME NOT NULL
);

CREATE TABLE recordings (
    id @UUID NOT NULL PRIMARY KEY,
    cluster_id @UUID NOT NULL,
    project_id @UUID NOT NULL,
    user_id @UUID NOT NULL,
    actor text NOT NULL,
    kind text NOT NULL,
    namespace text NOT NULL,
    pod text NOT NULL,
    container text,
    command @BYTES NOT NULL,
    tty boolean NOT NULL,
    request_id @UUID NOT NULL,
    bytes @BIG NOT NULL,
    width integer,
    height integer,
    started_at @TIME NOT NULL,
    written_at @TIME NOT NULL,
    ended text,
    expires_at @TIME NOT NULL
);

CREATE INDEX recordings_cluster_id_idx ON recordings (cluster_id, id);

CREATE INDEX recordings_expires_at_idx ON recordings (expires_at);

CREATE TABLE recording_pieces (
    recording_id @UUID NOT NULL REFERENCES recordings (id) ON DELETE CASCADE,
    number integer NOT NULL,
    digest @BYTES NOT NULL,
    bytes @BIG NOT NULL,
    PRIMARY KEY (recording_id, number)
);

ALTER TABLE cluster_audit_rows ADD COLUMN recording_id @UUID;
";
