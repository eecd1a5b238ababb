//! Sealed values by the key that they are sealed with.

use async_trait::async_trait;
use plural_app::kept::{self, ID, KEY};
use plural_app::keyring::PREFIX;
use plural_app::recording::RecordingPiece;
use plural_app::seal::{SealStore, Sealed, SealedColumn, SealedPiece, SealedValue};
use plural_core::Result;
use plural_core::data_key::{KeyOwner, KeyPurpose};
use plural_core::ids::{ProjectId, RecordingId};
use plural_core::secret_backend::SecretBackend;
use sea_orm::ConnectionTrait;
use uuid::Uuid;

use crate::convert::bytes32;
use crate::database::{Database, corrupt};
use crate::error::db;

/// Where sealed values are.
struct Place {
    table: &'static str,
    column: &'static str,
    /// The column with the id of the thing: none where the table has one row.
    id: Option<&'static str>,
    /// The project of a row, as an expression of `t`; of those that belong to none, null.
    project: &'static str,
    purpose: KeyPurpose,
}

/// Databases count bytes from one.
const KEY_AT: usize = KEY + 1;
/// Where the byte of the backend is, counted so.
pub(crate) const BACKEND_AT: usize = kept::BACKEND + 1;
/// Where the id of the object begins, counted so.
pub(crate) const OBJECT_AT: usize = kept::OBJECT + 1;

/// What belongs to no project.
const NONE: &str = "NULL";
const OWN: &str = "t.project_id";
const OF_CLUSTER: &str = "(SELECT c.project_id FROM clusters c WHERE c.id = t.cluster_id)";
const OF_SERVICE: &str =
    "(SELECT c.project_id FROM services s JOIN clusters c ON c.id = s.cluster_id WHERE s.id = t.service_id)";
const OF_REPOSITORY: &str = "(SELECT r.project_id FROM git_repositories r WHERE r.id = t.repository_id)";
const OF_GLOBAL: &str = "(SELECT g.project_id FROM global_services g WHERE g.id = t.global_service_id)";

fn place(column: SealedColumn) -> Place {
    let (table, column, id, project, purpose) = match column {
        SealedColumn::KeyCheck => ("installation", "key_check", None, NONE, KeyPurpose::Secrets),
        SealedColumn::ProxyKey => ("installation", "proxy_key", None, NONE, KeyPurpose::Secrets),
        SealedColumn::AuditKey => ("installation", "audit_key", None, NONE, KeyPurpose::Secrets),
        SealedColumn::RepositoryCredentials => {
            ("git_repositories", "credentials", Some("id"), OWN, KeyPurpose::Secrets)
        }
        SealedColumn::RepositoryReach => ("git_repositories", "reach", Some("id"), OWN, KeyPurpose::Secrets),
        SealedColumn::RepositoryWebhook => {
            ("repository_webhooks", "secret", Some("repository_id"), OF_REPOSITORY, KeyPurpose::Secrets)
        }
        SealedColumn::HelmRepositoryAccess => {
            ("helm_repositories", "access", Some("id"), OWN, KeyPurpose::Secrets)
        }
        SealedColumn::ServiceSeed => ("services", "seed", Some("id"), OF_CLUSTER, KeyPurpose::Secrets),
        SealedColumn::Configuration => {
            ("revisions", "configuration", Some("service_id"), OF_SERVICE, KeyPurpose::Secrets)
        }
        SealedColumn::HelmValues => {
            ("revisions", "helm_values", Some("service_id"), OF_SERVICE, KeyPurpose::Secrets)
        }
        SealedColumn::RendererValues => {
            ("revisions", "renderer_values", Some("service_id"), OF_SERVICE, KeyPurpose::Secrets)
        }
        SealedColumn::GlobalServiceSecrets => (
            "global_service_generations",
            "secrets",
            Some("global_service_id"),
            OF_GLOBAL,
            KeyPurpose::Secrets,
        ),
        SealedColumn::ContextSecrets => ("service_contexts", "secrets", Some("id"), OWN, KeyPurpose::Secrets),
        SealedColumn::RecordingCommand => ("recordings", "command", Some("id"), OWN, KeyPurpose::Recordings),
        SealedColumn::IdentityProviderSecret => {
            ("identity_providers", "secret", Some("id"), NONE, KeyPurpose::Secrets)
        }
        SealedColumn::IdentityRefresh => {
            ("user_identities", "refresh", Some("id"), NONE, KeyPurpose::Secrets)
        }
        SealedColumn::SecondFactor => {
            ("second_factors", "secret", Some("user_id"), NONE, KeyPurpose::Secrets)
        }
    };
    Place { table, column, id, project, purpose }
}

/// Whether a value of this column is sealed with a key that begins what it seals like this.
pub(crate) async fn is_used_on(
    database: &Database,
    connection: &impl ConnectionTrait,
    prefix: &[u8],
) -> Result<bool> {
    let doing = "looking for what a data key sealed";
    for column in SealedColumn::ALL {
        let Place { table, column, .. } = place(column);
        let elsewhere = database.is_elsewhere(column);
        let sql = format!(
            "SELECT 1 AS one FROM {table} WHERE substr({column}, 1, $1) = $2 \
             OR ({elsewhere} AND substr({column}, {KEY_AT}, {ID}) = $3) LIMIT 1"
        );
        let id = prefix.get(KEY..).unwrap_or_default().to_vec();
        let values = [length(prefix).into(), prefix.to_vec().into(), id.into()];
        let found = connection.query_one_raw(database.statement(&sql, values)).await.map_err(db(doing))?;
        if found.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn length(prefix: &[u8]) -> i32 {
    i32::try_from(prefix.len()).unwrap_or(i32::MAX)
}

/// A column of values that a project may keep elsewhere.
pub(crate) struct KeptPlace {
    /// The table, as `t`.
    pub(crate) table: &'static str,
    /// The column.
    pub(crate) column: &'static str,
    /// The project of a row, as an expression of `t`.
    pub(crate) project: &'static str,
}

/// All columns of values that a project may keep elsewhere.
pub(crate) fn kept_places() -> impl Iterator<Item = KeptPlace> {
    SealedColumn::ALL.into_iter().filter(|column| column.is_movable()).map(|column| {
        let Place { table, column, project, .. } = place(column);
        KeptPlace { table, column, project }
    })
}

impl Database {
    /// Whether a sealed value is kept elsewhere, as an expression.
    pub(crate) fn is_elsewhere(&self, sealed: &str) -> String {
        format!("substr({sealed}, 1, 1) = {}", self.byte(kept::VERSION))
    }

    /// A byte, as an expression.
    pub(crate) fn byte(&self, byte: u8) -> String {
        if self.is_postgres() { format!("'\\x{byte:02x}'::bytea") } else { format!("x'{byte:02x}'") }
    }

    /// Values of a project's column that are not in a backend, in the order of their things.
    pub(crate) async fn sealed_not_in(
        &self,
        column: SealedColumn,
        (project, backend): (ProjectId, SecretBackend),
        skip_limit: (u64, u64),
    ) -> Result<Vec<SealedValue>> {
        let elsewhere = self.is_elsewhere("v.sealed");
        let which = if backend == SecretBackend::Database {
            elsewhere
        } else {
            let byte = self.byte(backend.code());
            format!("NOT ({elsewhere} AND substr(v.sealed, {BACKEND_AT}, 1) = {byte})")
        };
        // An id has no characters that mean anything in SQL.
        let project = if self.is_postgres() {
            format!("'{}'::uuid", project.uuid())
        } else {
            format!("x'{}'", project.uuid().simple())
        };
        self.sealed_where(column, &format!("v.project = {project} AND {which}"), skip_limit).await
    }

    /// Values of a column for which `which` holds, in the order of their things; `k` is the current key of the owner of `v.sealed`.
    async fn sealed_where(
        &self,
        column: SealedColumn,
        which: &str,
        (skip, limit): (u64, u64),
    ) -> Result<Vec<SealedValue>> {
        let doing = "looking for what is sealed";
        let Place { table, column, id, project, purpose } = place(column);
        let order = if id.is_some() { "v.thing" } else { "v.sealed" };
        let thing = id.map(|id| format!("t.{id} AS thing, ")).unwrap_or_default();
        let wanted = if id.is_some() { "v.thing AS thing, " } else { "" };
        let none = if self.is_postgres() { "$1::uuid" } else { "$1" };
        let project = if project == NONE { none.to_owned() } else { format!("COALESCE({project}, {none})") };
        let sql = format!(
            "SELECT {wanted}v.project AS project, v.sealed AS sealed \
             FROM (SELECT {thing}{project} AS project, t.{column} AS sealed FROM {table} t \
                   WHERE t.{column} IS NOT NULL) v \
             LEFT JOIN data_keys k ON k.owner_id = v.project AND k.purpose = '{purpose}' AND k.retired_at IS NULL \
             WHERE {which} ORDER BY {order} LIMIT $2 OFFSET $3",
            purpose = purpose.as_str(),
        );
        let values = [Uuid::nil().into(), limit.cast_signed().into(), skip.cast_signed().into()];
        let rows = self.reader.query_all_raw(self.statement(&sql, values)).await.map_err(db(doing))?;
        rows.into_iter()
            .map(|row| {
                let of = match id {
                    Some(_) => row.try_get::<Uuid>("", "thing").map_err(db(doing))?,
                    None => Uuid::nil(),
                };
                let project: Uuid = row.try_get("", "project").map_err(db(doing))?;
                let owner = KeyOwner::from_parts(project, purpose);
                let owner = owner.ok_or_else(|| corrupt("the owner of a sealed value"))?;
                let sealed: Vec<u8> = row.try_get("", "sealed").map_err(db(doing))?;
                Ok(SealedValue { of, owner, sealed: Sealed::from_bytes(sealed) })
            })
            .collect()
    }
}

#[async_trait]
impl SealStore for Database {
    async fn sealed_otherwise(
        &self,
        column: SealedColumn,
        skip: u64,
        limit: u64,
    ) -> Result<Vec<SealedValue>> {
        // What is kept elsewhere names its key behind another first byte.
        let elsewhere = self.is_elsewhere("v.sealed");
        let which = format!(
            "k.prefix IS NULL OR CASE WHEN {elsewhere} \
             THEN substr(v.sealed, {KEY_AT}, {ID}) <> substr(k.prefix, {KEY_AT}, {ID}) \
             ELSE substr(v.sealed, 1, {PREFIX}) <> k.prefix END"
        );
        self.sealed_where(column, &which, (skip, limit)).await
    }

    async fn sealed_all(&self, column: SealedColumn, limit: u64) -> Result<Vec<SealedValue>> {
        self.sealed_where(column, "1 = 1", (0, limit)).await
    }

    async fn sealed_replace(&self, column: SealedColumn, changes: &[(SealedValue, Sealed)]) -> Result<()> {
        let doing = "sealing values anew";
        let Place { table, column, id, .. } = place(column);
        let write = self.write().await?;
        for (SealedValue { of, owner: _, sealed: before }, after) in changes {
            let (before, after) = (before.as_bytes().to_vec(), after.as_bytes().to_vec());
            // Bytes alone would tell it, but only an index makes many of them quick.
            let statement = if let Some(id) = id {
                let sql = format!("UPDATE {table} SET {column} = $1 WHERE {id} = $2 AND {column} = $3");
                self.statement(&sql, [after.into(), (*of).into(), before.into()])
            } else {
                let sql = format!("UPDATE {table} SET {column} = $1 WHERE {column} = $2");
                self.statement(&sql, [after.into(), before.into()])
            };
            write.tx.execute_raw(statement).await.map_err(db(doing))?;
        }
        write.commit().await
    }

    async fn pieces_otherwise(&self, skip: u64, limit: u64) -> Result<Vec<SealedPiece>> {
        let doing = "looking for pieces of recordings that are sealed with an old key";
        let sql = format!(
            "SELECT p.recording_id, r.project_id, p.number, p.digest, p.bytes, p.sealed_with \
             FROM recording_pieces p JOIN recordings r ON r.id = p.recording_id \
             LEFT JOIN data_keys k ON k.owner_id = r.project_id AND k.purpose = '{}' AND k.retired_at IS NULL \
             WHERE k.prefix IS NULL OR p.sealed_with IS NULL OR p.sealed_with <> k.prefix \
             ORDER BY p.recording_id, p.number LIMIT $1 OFFSET $2",
            KeyPurpose::Recordings.as_str(),
        );
        let values = [limit.cast_signed().into(), skip.cast_signed().into()];
        let rows = self.reader.query_all_raw(self.statement(&sql, values)).await.map_err(db(doing))?;
        rows.into_iter()
            .map(|row| {
                let id: Uuid = row.try_get("", "recording_id").map_err(db(doing))?;
                let project: Uuid = row.try_get("", "project_id").map_err(db(doing))?;
                let number: i32 = row.try_get("", "number").map_err(db(doing))?;
                let digest: Vec<u8> = row.try_get("", "digest").map_err(db(doing))?;
                let bytes: i64 = row.try_get("", "bytes").map_err(db(doing))?;
                let piece = RecordingPiece {
                    number: u32::try_from(number).map_err(|_| corrupt("the number of a piece"))?,
                    digest: bytes32(&digest, "a piece of a recording")?,
                    bytes: bytes.cast_unsigned(),
                    sealed_with: row.try_get("", "sealed_with").map_err(db(doing))?,
                };
                let owner = KeyOwner::Recordings(ProjectId::from_uuid(project));
                Ok(SealedPiece { of: RecordingId::from_uuid(id), owner, piece })
            })
            .collect()
    }

    async fn piece_resealed(&self, before: &SealedPiece, after: &RecordingPiece) -> Result<()> {
        let number = i32::try_from(before.piece.number).map_err(|_| corrupt("the number of a piece"))?;
        let write = self.write().await?;
        let sql = "UPDATE recording_pieces SET digest = $1, sealed_with = $2 \
                   WHERE recording_id = $3 AND number = $4 AND digest = $5";
        let values = [
            after.digest.to_vec().into(),
            after.sealed_with.clone().into(),
            before.of.uuid().into(),
            number.into(),
            before.piece.digest.to_vec().into(),
        ];
        let done = write.tx.execute_raw(self.statement(sql, values)).await;
        done.map_err(db("sealing a piece of a recording anew"))?;
        write.commit().await
    }
}

#[cfg(test)]
mod tests {
    use plural_testkit::{TestDatabase, each_database};

    use super::*;
    use crate::DatabaseOptions;

    each_database!(every_column_of_bytes_is_known);

    /// Columns of bytes that are not sealed: digests, and what is public.
    const PLAIN: &[(&str, &str)] = &[
        ("access_tokens", "hash"),
        ("access_tokens", "made_with"),
        ("audit_batches", "content"),
        ("audit_batches", "digest"),
        ("audit_batches", "list"),
        ("audit_batches", "previous"),
        ("audit_rows", "state_after"),
        ("audit_rows", "state_before"),
        ("clusters", "token_hash"),
        ("confirmations", "hash"),
        ("data_keys", "prefix"),
        ("data_keys", "wrapped"),
        ("deploy_tokens", "join_hash"),
        ("deploy_tokens", "joined_hash"),
        ("deploy_tokens", "next_hash"),
        ("global_service_generations", "artifact_digest"),
        ("invites", "hash"),
        ("jobs", "holder"),
        ("leases", "holder"),
        ("login_spent", "what"),
        ("login_tries", "subject"),
        ("passkeys", "credential_id"),
        ("passkeys", "public_key"),
        ("passkeys", "state"),
        ("program_logins", "challenge"),
        ("program_logins", "code_hash"),
        ("program_logins", "device_hash"),
        ("program_logins", "grant_hash"),
        ("recording_pieces", "digest"),
        ("recording_pieces", "sealed_with"),
        ("recovery_codes", "hash"),
        ("registration_tokens", "hash"),
        ("registration_tokens", "made_with"),
        ("replicas", "certificate"),
        ("revisions", "artifact_digest"),
        ("service_syncs", "plan_request"),
        ("services", "artifact_digest"),
        ("shared_mirrors", "pieces"),
    ];

    /// A new column of sealed values has to be among [`SealedColumn`]: else an old key could never go.
    async fn every_column_of_bytes_is_known(source: TestDatabase) {
        let database = Database::open(&DatabaseOptions::new(source.url())).await.unwrap();
        let sql = if database.is_postgres() {
            "SELECT table_name::text AS tab, column_name::text AS name FROM information_schema.columns \
             WHERE table_schema = current_schema() AND data_type = 'bytea'"
        } else {
            // Ids are bytes here, too.
            "SELECT m.name AS tab, c.name AS name FROM sqlite_master m JOIN pragma_table_info(m.name) c \
             WHERE m.type = 'table' AND c.type = 'BLOB' AND c.name <> 'id' AND c.name NOT LIKE '%\\_id' ESCAPE '\\'"
        };
        let rows = database.reader.query_all_raw(database.statement(sql, [])).await.unwrap();
        let mut unknown: Vec<(String, String)> = rows
            .iter()
            .map(|row| (row.try_get("", "tab").unwrap(), row.try_get("", "name").unwrap()))
            .filter(|(of, name): &(String, String)| {
                !PLAIN.contains(&(of, name))
                    && !SealedColumn::ALL.iter().any(|column| {
                        let Place { table, column, .. } = place(*column);
                        (table, column) == (of, name)
                    })
            })
            .collect();
        unknown.sort();
        assert!(rows.len() > SealedColumn::ALL.len(), "{}", rows.len());
        assert_eq!(unknown, []);
    }
}
