//! Plans of commits for all clusters. New tables, which the release before this one does not see: its agents answer nothing, and it
//! goes on without them.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0113_fleet_plans"
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

// A plan goes with its repository, and what it says of a service goes with the service.
const SCHEMA: &str = "
CREATE TABLE fleet_plans (
    id @UUID NOT NULL PRIMARY KEY,
    project_id @UUID NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    repository_id @UUID NOT NULL REFERENCES git_repositories (id) ON DELETE CASCADE,
    pull_request_id @UUID REFERENCES pull_requests (id) ON DELETE CASCADE,
    creator text NOT NULL,
    reference text NOT NULL,
    head_reference text,
    base text,
    phase text NOT NULL,
    sha text,
    message text,
    untouched integer NOT NULL DEFAULT 0,
    composed integer NOT NULL DEFAULT 0,
    omitted integer NOT NULL DEFAULT 0,
    deadline_at @TIME,
    error text,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL
);
CREATE INDEX fleet_plans_project_id_idx ON fleet_plans (project_id);
CREATE INDEX fleet_plans_repository_id_idx ON fleet_plans (repository_id);
CREATE INDEX fleet_plans_pull_request_id_idx ON fleet_plans (pull_request_id);
CREATE TABLE fleet_plan_parts (
    id @UUID NOT NULL PRIMARY KEY,
    plan_id @UUID NOT NULL REFERENCES fleet_plans (id) ON DELETE CASCADE,
    service_id @UUID NOT NULL REFERENCES services (id) ON DELETE CASCADE,
    cluster_id @UUID NOT NULL,
    project_id @UUID NOT NULL,
    service text NOT NULL,
    cluster text NOT NULL,
    state text NOT NULL,
    artifact_digest text,
    folder text NOT NULL,
    source_root text NOT NULL,
    created integer NOT NULL DEFAULT 0,
    changed integer NOT NULL DEFAULT 0,
    deleted integer NOT NULL DEFAULT 0,
    hooks integer NOT NULL DEFAULT 0,
    unchanged integer NOT NULL DEFAULT 0,
    blocked integer NOT NULL DEFAULT 0,
    omitted integer NOT NULL DEFAULT 0,
    kinds @JSON,
    error text,
    revision_id @UUID,
    objects @JSON,
    problems @JSON,
    answered_at @TIME
);
CREATE INDEX fleet_plan_parts_plan_id_idx ON fleet_plan_parts (plan_id);
CREATE INDEX fleet_plan_parts_service_id_idx ON fleet_plan_parts (service_id)
";
