//! The first schema. Locks nothing (the tables are new), moves no rows.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::sea_orm::{ConnectionTrait, DbBackend};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0001_first"
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

/// Runs the statements of a step, each for the database that this is.
pub(super) async fn run(manager: &SchemaManager<'_>, schema: &str) -> Result<(), DbErr> {
    let connection = manager.get_connection();
    let postgres = manager.get_database_backend() == DbBackend::Postgres;
    for statement in schema.split(";\n").map(str::trim).filter(|statement| !statement.is_empty()) {
        connection.execute_unprepared(&for_backend(statement, postgres)).await?;
    }
    Ok(())
}

/// Both databases get the same tables; only the names of types differ.
fn for_backend(statement: &str, postgres: bool) -> String {
    let types: &[(&str, &str, &str)] = &[
        ("@UUID", "uuid", "BLOB"),
        ("@TIME", "timestamptz", "TEXT"),
        ("@JSON", "jsonb", "TEXT"),
        ("@BYTES", "bytea", "BLOB"),
        ("@BIG", "bigint", "BIGINT"),
        ("@SERIAL", "bigserial PRIMARY KEY", "INTEGER PRIMARY KEY AUTOINCREMENT"),
        ("@XID", "bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint)", "BIGINT NOT NULL DEFAULT 0"),
    ];
    types.iter().fold(statement.to_owned(), |statement, (name, postgres_type, sqlite_type)| {
        statement.replace(name, if postgres { postgres_type } else { sqlite_type })
    })
}

// Unique constraints are named TABLE_COLUMNS_key: that name is how a broken one is recognised.
const SCHEMA: &str = "
CREATE TABLE installation (
    id integer PRIMARY KEY,
    epoch text NOT NULL,
    home text NOT NULL,
    key_check @BYTES,
    feed_floor @BIG NOT NULL
);

CREATE TABLE projects (
    id @UUID NOT NULL PRIMARY KEY,
    name text NOT NULL,
    description text,
    is_default boolean NOT NULL,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL,
    CONSTRAINT projects_name_key UNIQUE (name)
);

CREATE UNIQUE INDEX projects_is_default_key ON projects (is_default) WHERE is_default;

CREATE TABLE users (
    id @UUID NOT NULL PRIMARY KEY,
    email text NOT NULL,
    name text NOT NULL,
    admin boolean NOT NULL,
    password_hash text,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL,
    CONSTRAINT users_email_key UNIQUE (email)
);

CREATE TABLE user_groups (
    id @UUID NOT NULL PRIMARY KEY,
    name text NOT NULL,
    description text,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL,
    CONSTRAINT user_groups_name_key UNIQUE (name)
);

CREATE TABLE group_members (
    id @UUID NOT NULL PRIMARY KEY,
    group_id @UUID NOT NULL REFERENCES user_groups (id) ON DELETE CASCADE,
    user_id @UUID NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    CONSTRAINT group_members_group_id_user_id_key UNIQUE (group_id, user_id)
);

CREATE INDEX group_members_user_id_idx ON group_members (user_id);

CREATE TABLE access_tokens (
    id @UUID NOT NULL PRIMARY KEY,
    user_id @UUID NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    hash @BYTES NOT NULL,
    hint text NOT NULL,
    session boolean NOT NULL,
    expires_at @TIME,
    created_at @TIME NOT NULL,
    CONSTRAINT access_tokens_hash_key UNIQUE (hash)
);

CREATE INDEX access_tokens_user_id_idx ON access_tokens (user_id);

CREATE TABLE clusters (
    id @UUID NOT NULL PRIMARY KEY,
    name text NOT NULL,
    handle text NOT NULL,
    project_id @UUID NOT NULL REFERENCES projects (id),
    tags @JSON NOT NULL,
    metadata @JSON NOT NULL,
    distro text,
    version text,
    current_version text,
    agent_version text,
    node_count integer,
    pod_count integer,
    namespace_count integer,
    protect boolean NOT NULL,
    token_hash @BYTES NOT NULL,
    pinged_at @TIME,
    deleted_at @TIME,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL,
    CONSTRAINT clusters_handle_key UNIQUE (handle),
    CONSTRAINT clusters_token_hash_key UNIQUE (token_hash)
);

CREATE INDEX clusters_project_id_idx ON clusters (project_id);

CREATE TABLE cluster_tags (
    cluster_id @UUID NOT NULL REFERENCES clusters (id) ON DELETE CASCADE,
    name text NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (cluster_id, name)
);

CREATE INDEX cluster_tags_name_value_idx ON cluster_tags (name, value);

CREATE TABLE git_repositories (
    id @UUID NOT NULL PRIMARY KEY,
    url text NOT NULL,
    project_id @UUID NOT NULL REFERENCES projects (id),
    auth_method text,
    credentials @BYTES,
    health text,
    error text,
    pulled_at @TIME,
    lease_holder text,
    lease_until @TIME,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL,
    CONSTRAINT git_repositories_url_key UNIQUE (url)
);

CREATE INDEX git_repositories_project_id_idx ON git_repositories (project_id);

CREATE TABLE services (
    id @UUID NOT NULL PRIMARY KEY,
    cluster_id @UUID NOT NULL REFERENCES clusters (id) ON DELETE CASCADE,
    name text NOT NULL,
    namespace text NOT NULL,
    repository_id @UUID REFERENCES git_repositories (id),
    git @JSON,
    version text NOT NULL,
    docs_path text,
    sync_config @JSON NOT NULL,
    protect boolean NOT NULL,
    dry_run boolean NOT NULL,
    templated boolean NOT NULL,
    interval_seconds integer,
    status text NOT NULL,
    component_status text NOT NULL,
    revision_id @UUID NOT NULL,
    sha text,
    message text,
    closure_digest text,
    artifact_digest @BYTES,
    artifact_folder text NOT NULL,
    sequence @BIG NOT NULL,
    seed @BYTES NOT NULL,
    applied_revision_id @UUID,
    applied_sha text,
    reported_sequence @BIG NOT NULL,
    deleted_at @TIME,
    created_at @TIME NOT NULL,
    updated_at @TIME NOT NULL,
    CONSTRAINT services_cluster_id_name_key UNIQUE (cluster_id, name)
);

CREATE INDEX services_repository_id_idx ON services (repository_id);

CREATE TABLE revisions (
    id @UUID NOT NULL PRIMARY KEY,
    service_id @UUID NOT NULL REFERENCES services (id) ON DELETE CASCADE,
    version text NOT NULL,
    git @JSON,
    sha text,
    message text,
    configuration @BYTES NOT NULL,
    created_at @TIME NOT NULL
);

CREATE INDEX revisions_service_id_idx ON revisions (service_id);

CREATE TABLE service_components (
    id @UUID NOT NULL PRIMARY KEY,
    service_id @UUID NOT NULL REFERENCES services (id) ON DELETE CASCADE,
    api_group text NOT NULL,
    api_version text NOT NULL,
    kind text NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL,
    state text,
    synced boolean NOT NULL,
    uid text,
    message text
);

CREATE INDEX service_components_service_id_idx ON service_components (service_id);

CREATE TABLE service_errors (
    id @UUID NOT NULL PRIMARY KEY,
    service_id @UUID NOT NULL REFERENCES services (id) ON DELETE CASCADE,
    by_console boolean NOT NULL,
    source text NOT NULL,
    message text NOT NULL,
    warning boolean NOT NULL,
    location text
);

CREATE INDEX service_errors_service_id_idx ON service_errors (service_id);

CREATE TABLE bindings (
    id @UUID NOT NULL PRIMARY KEY,
    project_id @UUID REFERENCES projects (id) ON DELETE CASCADE,
    cluster_id @UUID REFERENCES clusters (id) ON DELETE CASCADE,
    service_id @UUID REFERENCES services (id) ON DELETE CASCADE,
    user_id @UUID REFERENCES users (id) ON DELETE CASCADE,
    group_id @UUID REFERENCES user_groups (id) ON DELETE CASCADE,
    role text NOT NULL
);

CREATE INDEX bindings_project_id_idx ON bindings (project_id);

CREATE INDEX bindings_cluster_id_idx ON bindings (cluster_id);

CREATE INDEX bindings_service_id_idx ON bindings (service_id);

CREATE INDEX bindings_user_id_idx ON bindings (user_id);

CREATE INDEX bindings_group_id_idx ON bindings (group_id);

CREATE TABLE audit_rows (
    id @UUID NOT NULL PRIMARY KEY,
    action text NOT NULL,
    user_id @UUID,
    actor text NOT NULL,
    target_noun text NOT NULL,
    target_id @UUID,
    target_name text NOT NULL,
    request_id @UUID NOT NULL,
    at @TIME NOT NULL
);

CREATE TABLE feed (
    sequence @SERIAL,
    xid @XID,
    cluster_id @UUID,
    service_id @UUID,
    repository_id @UUID,
    kick boolean NOT NULL,
    at @TIME NOT NULL
);

CREATE INDEX feed_xid_idx ON feed (xid)
";
