//! Pull requests that reach stacks. A new table, empty, that a release which does not know it leaves as it is. The release before this one
//! cannot read runs that a pull request made: a list of a stack's runs that has one is an error there, until it is gone.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0114_stack_pull_requests"
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

// `repository` is in lower case. `run_id` is that of the head: the run may be forgotten before the pull request is.
const SCHEMA: &str = "
CREATE TABLE stack_pull_requests (
    id @UUID NOT NULL PRIMARY KEY,
    stack_id @UUID NOT NULL REFERENCES stacks (id) ON DELETE CASCADE,
    connection_id @UUID NOT NULL REFERENCES scm_connections (id) ON DELETE CASCADE,
    repository text NOT NULL,
    number bigint NOT NULL,
    url text NOT NULL,
    sha text NOT NULL,
    pull @JSON NOT NULL,
    run_id @UUID,
    problem text,
    released @JSON,
    told text,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL,
    CONSTRAINT stack_pull_requests_stack_id_url_key UNIQUE (stack_id, url)
);

CREATE INDEX stack_pull_requests_connection_id_idx ON stack_pull_requests (connection_id, repository, number)
";
