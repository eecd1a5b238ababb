//! NUL characters in what people wrote become U+FFFD. SQLite took them until statements with one were refused, and rows that
//! hold one could not be written again. Looks at the few tables that hold such texts, and changes no other row. Of
//! revisions only the commit's message, which others copy, changes. PostgreSQL has none.

use sea_orm_migration::async_trait::async_trait;
use sea_orm_migration::sea_orm::{ConnectionTrait, DbBackend, JsonValue, Statement};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager};

pub(crate) struct Migration;

/// Texts of people, by table.
const TEXTS: [(&str, &str); 10] = [
    ("projects", "description"),
    ("user_groups", "description"),
    ("managed_namespaces", "description"),
    ("clusters", "version"),
    ("cluster_tags", "name"),
    ("cluster_tags", "value"),
    ("services", "version"),
    ("services", "docs_path"),
    ("services", "message"),
    ("revisions", "message"),
];

/// The same in JSON, where the character is an escape.
const JSON: [(&str, &str); 10] = [
    ("clusters", "metadata"),
    ("clusters", "tags"),
    ("services", "git"),
    ("services", "rendering"),
    ("services", "sync_settings"),
    ("service_contexts", "configuration"),
    ("global_services", "spec"),
    ("global_services", "template"),
    ("global_service_generations", "template"),
    ("managed_namespaces", "spec"),
];

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0053_no_nul"
    }
}

#[async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        if manager.get_database_backend() == DbBackend::Postgres {
            return Ok(());
        }
        let connection = manager.get_connection();
        // A column may be gone by the time that this step runs.
        for (table, column) in TEXTS {
            if !manager.has_column(table, column).await? {
                continue;
            }
            clean(connection, (table, column), "x'00'", |text| Some(text.replace('\0', REPLACED))).await?;
        }
        for (table, column) in JSON {
            if !manager.has_column(table, column).await? {
                continue;
            }
            clean(connection, (table, column), "CAST('\\u0000' AS BLOB)", |text| {
                let mut json = serde_json::from_str(text).ok()?;
                clean_json(&mut json);
                Some(json.to_string())
            })
            .await?;
        }
        Ok(())
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}

const REPLACED: &str = "\u{fffd}";

/// Changes the values of a column that hold some bytes.
async fn clean(
    connection: &impl ConnectionTrait,
    (table, column): (&str, &str),
    bytes: &str,
    cleaned: impl Fn(&str) -> Option<String> + Send,
) -> Result<(), DbErr> {
    // As bytes, because SQLite's functions of texts read them up to the first NUL.
    let find = format!(
        "SELECT rowid AS place, CAST({column} AS BLOB) AS bytes FROM {table} WHERE instr(CAST({column} AS BLOB), {bytes}) > 0"
    );
    let found = connection.query_all_raw(Statement::from_string(DbBackend::Sqlite, find)).await?;
    for row in found {
        let (place, bytes): (i64, Vec<u8>) = (row.try_get("", "place")?, row.try_get("", "bytes")?);
        let Some(text) = cleaned(&String::from_utf8_lossy(&bytes)) else { continue };
        let change = format!("UPDATE OR REPLACE {table} SET {column} = $1 WHERE rowid = $2");
        let values = [text.into(), place.into()];
        let change = Statement::from_sql_and_values(DbBackend::Sqlite, change, values);
        connection.execute_raw(change).await?;
    }
    Ok(())
}

fn clean_json(json: &mut JsonValue) {
    match json {
        JsonValue::Null | JsonValue::Bool(_) | JsonValue::Number(_) => {}
        JsonValue::String(text) => *text = text.replace('\0', REPLACED),
        JsonValue::Array(items) => items.iter_mut().for_each(clean_json),
        JsonValue::Object(fields) => {
            let old = std::mem::take(fields);
            for (name, mut value) in old {
                clean_json(&mut value);
                fields.insert(name.replace('\0', REPLACED), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use plural_testkit::TestDatabase;
    use sea_orm_migration::MigratorTrait as _;
    use sea_orm_migration::sea_orm::Database;
    use serde_json::json;

    use super::*;
    use crate::migration::Migrator;

    #[test]
    fn names_and_values_are_cleaned() {
        let mut json = json!({"a\0": ["\0", 1, {"b": "c\0d"}], "e": "\\u0000"});
        clean_json(&mut json);
        assert_eq!(json, json!({"a\u{fffd}": ["\u{fffd}", 1, {"b": "c\u{fffd}d"}], "e": "\\u0000"}));
    }

    #[tokio::test]
    async fn texts_with_nul_are_cleaned_and_others_stay() {
        let database = TestDatabase::sqlite().unwrap();
        let connection = Database::connect(database.url()).await.unwrap();
        let before = Migrator::migrations().iter().position(|step| step.name() == Migration.name()).unwrap();
        Migrator::up(&connection, Some(u32::try_from(before).unwrap())).await.unwrap();
        let run = async |sql: &str, values: Vec<sea_orm_migration::sea_orm::Value>| {
            let statement = Statement::from_sql_and_values(DbBackend::Sqlite, sql, values);
            connection.query_all_raw(statement).await.unwrap()
        };
        let project = uuid::Uuid::now_v7();
        for (id, name, description) in [
            (project, "a", Some("one\0two\0")),
            (uuid::Uuid::now_v7(), "b", Some("plain")),
            (uuid::Uuid::now_v7(), "c", None),
        ] {
            run(
                "INSERT INTO projects (id, name, description, is_default, created_at, updated_at) \
                 VALUES ($1, $2, $3, false, '2026-01-01', '2026-01-01')",
                vec![id.into(), name.into(), description.into()],
            )
            .await;
        }
        for (name, metadata) in [("blue", json!({"a": "x\0"})), ("red", json!({"b": "\\u0000"}))] {
            run(
                "INSERT INTO clusters (id, name, handle, project_id, tags, metadata, protect, token_hash, created_at, \
                 updated_at) VALUES ($1, $2, $2, $3, '{}', $4, false, $1, '2026-01-01', '2026-01-01')",
                vec![uuid::Uuid::now_v7().into(), name.into(), project.into(), metadata.into()],
            )
            .await;
        }
        Migrator::up(&connection, None).await.unwrap();
        let texts: Vec<Option<String>> = run("SELECT description FROM projects ORDER BY name", vec![])
            .await
            .iter()
            .map(|row| row.try_get("", "description").unwrap())
            .collect();
        assert_eq!(texts, [Some("one\u{fffd}two\u{fffd}".to_owned()), Some("plain".to_owned()), None]);
        let kept: Vec<JsonValue> = run("SELECT metadata FROM clusters ORDER BY name", vec![])
            .await
            .iter()
            .map(|row| row.try_get("", "metadata").unwrap())
            .collect();
        assert_eq!(kept, [json!({"a": "x\u{fffd}"}), json!({"b": "\\u0000"})]);
    }
}
