//! Sync configs are stored as they are served: names in camel case, times as text. The column gets another name, so that a
//! release that reads the form before fails instead of taking all settings for absent: stop all consoles of such a
//! release first. Rewrites every service once (about a second per 100 000) and holds the tables for as long.

use std::fmt::Write as _;

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::sea_orm::{ConnectionTrait, DbBackend, Statement, Value};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};
use serde_json::Value as Json;

use super::m0001_first::run;

pub(crate) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0043_sync_configs"
    }
}

#[async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        run(manager, "CREATE TABLE new_documents (stored @JSON NOT NULL, rewritten @JSON NOT NULL)").await?;
        rewrite(manager, "services", "sync_config", renamed).await?;
        rewrite(manager, "global_services", "template", renamed_in_template).await?;
        rewrite(manager, "global_service_generations", "template", renamed_in_template).await?;
        run(manager, SCHEMA).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}

const SCHEMA: &str = "
DROP TABLE new_documents;

ALTER TABLE services RENAME COLUMN sync_config TO sync_settings
";

/// Rows of one statement.
const AT_ONCE: usize = 100;

/// Rewrites a column of documents. Most rows hold one of a few documents, so each of those is rewritten once, and the rows
/// follow in one statement.
async fn rewrite(
    manager: &SchemaManager<'_>,
    table: &str,
    column: &str,
    change: fn(Json) -> Json,
) -> Result<(), DbErr> {
    let connection = manager.get_connection();
    let backend = manager.get_database_backend();
    // As text: SQLite compares the text that is stored, byte by byte.
    let cast = if backend == DbBackend::Postgres { ("::text", "::jsonb") } else { ("", "") };
    let sql = format!("SELECT DISTINCT {column}{} AS stored FROM {table}", cast.0);
    let found = connection.query_all_raw(Statement::from_string(backend, sql)).await?;
    for chunk in found.chunks(AT_ONCE) {
        let mut sql = "INSERT INTO new_documents (stored, rewritten) VALUES ".to_owned();
        let mut values: Vec<Value> = Vec::with_capacity(2 * chunk.len());
        for (number, row) in chunk.iter().enumerate() {
            let old: String = row.try_get("", "stored")?;
            let read = serde_json::from_str(&old).map_err(|cause| DbErr::Json(cause.to_string()))?;
            let comma = if number == 0 { "" } else { ", " };
            let (at_old, at_new) = (2 * number + 1, 2 * number + 2);
            let _ = write!(sql, "{comma}(${at_old}{cast}, ${at_new}{cast})", cast = cast.1);
            values.push(old.into());
            values.push(change(read).to_string().into());
        }
        connection.execute_raw(Statement::from_sql_and_values(backend, sql, values)).await?;
    }
    let update = format!(
        "UPDATE {table} SET {column} = new_documents.rewritten FROM new_documents \
         WHERE new_documents.stored = {table}.{column};\nDELETE FROM new_documents"
    );
    run(manager, &update).await
}

/// Names that change, of each kind of document. Nothing else is entered: labels are named as people like.
const CONFIG: [(&str, &str); 7] = [
    ("create_namespace", "createNamespace"),
    ("enforce_namespace", "enforceNamespace"),
    ("delete_namespace", "deleteNamespace"),
    ("require_ownership", "requireOwnership"),
    ("namespace_metadata", "namespaceMetadata"),
    ("diff_normalizers", "diffNormalizers"),
    ("service_account", "serviceAccount"),
];
const NORMALIZER: [(&str, &str); 1] = [("json_pointers", "jsonPointers")];
const POLICY: [(&str, &str); 8] = [
    ("self_heal", "selfHeal"),
    ("wave_wait", "waveWait"),
    ("wave_timeout_seconds", "waveTimeout"),
    ("retry_limit", "retryLimit"),
    ("retry_seconds", "retryWait"),
    ("retry_max_seconds", "retryMaxWait"),
    ("prune_percent", "prunePercent"),
    ("prune_objects", "pruneObjects"),
];
/// Of those, numbers of seconds until now.
const TIMES: [&str; 3] = ["waveTimeout", "retryWait", "retryMaxWait"];

fn renamed(mut config: Json) -> Json {
    rename(&mut config, &CONFIG);
    if let Some(policy) = config.get_mut("policy") {
        rename(policy, &POLICY);
        for time in TIMES {
            if let Some(seconds) = policy.get_mut(time) {
                let text = seconds.as_u64().filter(|seconds| *seconds > 0);
                *seconds = text.map_or(Json::Null, |seconds| format!("{seconds}s").into());
            }
        }
    }
    for normalizer in config.get_mut("diffNormalizers").and_then(Json::as_array_mut).into_iter().flatten() {
        rename(normalizer, &NORMALIZER);
    }
    config
}

/// The template of a service holds one under the name that it has in Rust.
fn renamed_in_template(mut template: Json) -> Json {
    if let Some(config) = template.get_mut("sync_config") {
        *config = renamed(config.take());
    }
    template
}

fn rename(document: &mut Json, names: &[(&str, &str)]) {
    let Some(fields) = document.as_object_mut() else { return };
    for (old, new) in names {
        if let Some(value) = fields.remove(*old) {
            fields.insert((*new).to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Utc};
    use plural_core::global_service::{GlobalService, ServiceTemplate};
    use plural_core::service::Service;
    use plural_core::specs::{DiffNormalizer, NamespaceMetadata, Seconds, SyncConfig, SyncPolicy};
    use plural_testkit::{TestDatabase, each_database};
    use sea_orm_migration::MigratorTrait as _;
    use sea_orm_migration::sea_orm::{Database, DatabaseConnection, EntityTrait as _, QueryOrder as _};
    use serde_json::json;
    use uuid::Uuid;

    use super::super::Migrator;
    use super::*;
    use crate::{global_service, service};

    each_database!(a_sync_config_of_every_age_reads_the_same);

    /// Sync configs as releases stored them, and what they mean.
    fn ages() -> [(Json, SyncConfig); 4] {
        let named_alike = |key: &str| [(key.to_owned(), "x".to_owned())].into();
        let first = json!({
            "create_namespace": false, "enforce_namespace": true, "delete_namespace": true, "require_ownership": false,
            "namespace_metadata": {"labels": {"create_namespace": "x"}, "annotations": {"policy": "x"}},
        });
        let read_first = SyncConfig {
            create_namespace: false,
            enforce_namespace: true,
            delete_namespace: true,
            require_ownership: false,
            namespace_metadata: NamespaceMetadata {
                labels: named_alike("create_namespace"),
                annotations: named_alike("policy"),
            },
            ..SyncConfig::default()
        };
        let all = json!({
            "create_namespace": true, "enforce_namespace": false, "delete_namespace": false, "require_ownership": true,
            "namespace_metadata": {"labels": {}, "annotations": {}},
            "diff_normalizers": [
                {"name": "web", "kind": null, "namespace": "apps", "json_pointers": ["/spec/replicas"], "backfill": true, "managers": []},
                {"name": null, "kind": null, "namespace": null, "json_pointers": [], "backfill": false, "managers": ["istiod"]},
            ],
            "policy": {
                "manual": true, "prune": false, "self_heal": false, "wave_wait": false, "wave_timeout_seconds": 600,
                "retry_limit": 3, "retry_seconds": 5, "retry_max_seconds": 300, "prune_percent": 30, "prune_objects": 7,
            },
            "service_account": "ci/deployer",
        });
        let read_all = SyncConfig {
            diff_normalizers: vec![
                DiffNormalizer {
                    name: Some("web".to_owned()),
                    namespace: Some("apps".to_owned()),
                    json_pointers: vec!["/spec/replicas".to_owned()],
                    backfill: true,
                    ..DiffNormalizer::default()
                },
                DiffNormalizer { managers: vec!["istiod".to_owned()], ..DiffNormalizer::default() },
            ],
            policy: SyncPolicy {
                manual: true,
                prune: false,
                self_heal: false,
                wave_wait: false,
                wave_timeout: Some(Seconds(600)),
                retry_limit: Some(3),
                retry_wait: Some(Seconds(5)),
                retry_max_wait: Some(Seconds(300)),
                prune_percent: Some(30),
                prune_objects: Some(7),
            },
            service_account: Some("ci/deployer".to_owned()),
            ..SyncConfig::default()
        };
        let few = json!({"policy": {"prune": false, "wave_timeout_seconds": null}, "service_account": null});
        let policy = SyncPolicy { prune: false, ..SyncPolicy::default() };
        let read_few = SyncConfig { policy, ..SyncConfig::default() };
        [(first, read_first), (all.clone(), read_all.clone()), (few, read_few), (all, read_all)]
    }

    async fn insert(connection: &DatabaseConnection, table: &str, row: Vec<(&str, Value)>) {
        let (columns, values): (Vec<&str>, Vec<Value>) = row.into_iter().unzip();
        let places: Vec<String> = (1..=values.len()).map(|number| format!("${number}")).collect();
        let sql = format!("INSERT INTO {table} ({}) VALUES ({})", columns.join(", "), places.join(", "));
        let statement = Statement::from_sql_and_values(connection.get_database_backend(), sql, values);
        connection.execute_raw(statement).await.unwrap();
    }

    async fn a_sync_config_of_every_age_reads_the_same(database: TestDatabase) {
        let connection = Database::connect(database.url()).await.unwrap();
        let before = Migrator::migrations().iter().position(|step| step.name() == Migration.name()).unwrap();
        Migrator::up(&connection, Some(u32::try_from(before).unwrap())).await.unwrap();
        let at: DateTime<Utc> = DateTime::UNIX_EPOCH;
        let times = || [("created_at", Value::from(at)), ("updated_at", at.into())];
        let (project, cluster) = (Uuid::now_v7(), Uuid::now_v7());
        let mut row: Vec<(&str, Value)> =
            vec![("id", project.into()), ("name", "shop".into()), ("is_default", false.into())];
        row.extend(times());
        insert(&connection, "projects", row).await;
        let mut row: Vec<(&str, Value)> = vec![
            ("id", cluster.into()),
            ("project_id", project.into()),
            ("handle", "blue".into()),
            ("name", "blue".into()),
            ("distro", "GENERIC".into()),
            ("tags", json!({}).into()),
            ("metadata", json!({}).into()),
            ("protect", false.into()),
            ("token_hash", vec![1_u8].into()),
        ];
        row.extend(times());
        insert(&connection, "clusters", row).await;
        for (number, (stored, _)) in ages().into_iter().enumerate() {
            let template = json!({"name": "web", "sync_config": stored, "templated": true});
            let mut row: Vec<(&str, Value)> = vec![
                ("id", Uuid::now_v7().into()),
                ("cluster_id", cluster.into()),
                ("name", format!("service-{number}").into()),
                ("namespace", "apps".into()),
                ("version", "0.0.1".into()),
                ("sync_config", stored.into()),
                ("protect", false.into()),
                ("dry_run", false.into()),
                ("templated", true.into()),
                ("status", "STALE".into()),
                ("component_status", "0 / 0".into()),
                ("revision_id", Uuid::now_v7().into()),
                ("artifact_folder", "".into()),
                ("sequence", 1_i64.into()),
                ("seed", vec![1_u8].into()),
                ("reported_sequence", 0_i64.into()),
            ];
            row.extend(times());
            insert(&connection, "services", row).await;
            let global = Uuid::now_v7();
            let mut row: Vec<(&str, Value)> = vec![
                ("id", global.into()),
                ("name", format!("global-{number}").into()),
                ("spec", json!({}).into()),
                ("template", template.clone().into()),
                ("generation", 1_i64.into()),
            ];
            row.extend(times());
            insert(&connection, "global_services", row).await;
            let row: Vec<(&str, Value)> = vec![
                ("global_service_id", global.into()),
                ("generation", 1_i64.into()),
                ("template", template.into()),
                ("secrets", vec![1_u8].into()),
                ("created_at", at.into()),
            ];
            insert(&connection, "global_service_generations", row).await;
        }

        Migrator::up(&connection, None).await.unwrap();
        let expected: Vec<SyncConfig> = ages().into_iter().map(|(_, read)| read).collect();
        let services = service::row::Entity::find().order_by_asc(service::row::Column::Name);
        let services = services.all(&connection).await.unwrap().into_iter();
        let read: Vec<SyncConfig> = services.map(|row| Service::try_from(row).unwrap().sync_config).collect();
        assert_eq!(read, expected);
        let globals = global_service::row::Entity::find().order_by_asc(global_service::row::Column::Name);
        let globals = globals.all(&connection).await.unwrap().into_iter();
        let read: Vec<SyncConfig> =
            globals.map(|row| GlobalService::try_from(row).unwrap().template.sync_config).collect();
        assert_eq!(read, expected);
        let sql = "SELECT g.template AS template FROM global_service_generations g \
                   JOIN global_services s ON s.id = g.global_service_id ORDER BY s.name";
        let statement = Statement::from_string(connection.get_database_backend(), sql);
        let found = connection.query_all_raw(statement).await.unwrap();
        let template = |row: &sea_orm_migration::sea_orm::QueryResult| -> ServiceTemplate {
            serde_json::from_value(row.try_get("", "template").unwrap()).unwrap()
        };
        let read: Vec<SyncConfig> = found.iter().map(|row| template(row).sync_config).collect();
        assert_eq!(read, expected);
        connection.close().await.unwrap();
    }
}
