//! Sealed values by the key that they are sealed with.

use async_trait::async_trait;
use plural_app::recording::RecordingPiece;
use plural_app::seal::{SealStore, Sealed, SealedColumn, SealedValue};
use plural_core::Result;
use plural_core::ids::RecordingId;
use sea_orm::ConnectionTrait;
use uuid::Uuid;

use crate::convert::bytes32;
use crate::database::{Database, corrupt};
use crate::error::db;

/// Where the id of a key lies in a sealed value: `Sealed`'s layout, counted from 1.
const KEY_ID: &str = "2, 8";

/// Table, column, and the column with the id of the thing: none where the table has one row.
fn place(column: SealedColumn) -> (&'static str, &'static str, Option<&'static str>) {
    match column {
        SealedColumn::KeyCheck => ("installation", "key_check", None),
        SealedColumn::ProxyKey => ("installation", "proxy_key", None),
        SealedColumn::AuditKey => ("installation", "audit_key", None),
        SealedColumn::RepositoryCredentials => ("git_repositories", "credentials", Some("id")),
        SealedColumn::RepositoryReach => ("git_repositories", "reach", Some("id")),
        SealedColumn::RepositoryWebhook => ("repository_webhooks", "secret", Some("repository_id")),
        SealedColumn::HelmRepositoryAccess => ("helm_repositories", "access", Some("id")),
        SealedColumn::ServiceSeed => ("services", "seed", Some("id")),
        SealedColumn::Configuration => ("revisions", "configuration", Some("service_id")),
        SealedColumn::HelmValues => ("revisions", "helm_values", Some("service_id")),
        SealedColumn::RendererValues => ("revisions", "renderer_values", Some("service_id")),
        SealedColumn::GlobalServiceSecrets => {
            ("global_service_generations", "secrets", Some("global_service_id"))
        }
        SealedColumn::ContextSecrets => ("service_contexts", "secrets", Some("id")),
        SealedColumn::RecordingCommand => ("recordings", "command", Some("id")),
        SealedColumn::IdentityProviderSecret => ("identity_providers", "secret", Some("id")),
        SealedColumn::IdentityRefresh => ("user_identities", "refresh", Some("id")),
        SealedColumn::SecondFactor => ("second_factors", "secret", Some("user_id")),
    }
}

#[async_trait]
impl SealStore for Database {
    async fn sealed_otherwise(
        &self,
        column: SealedColumn,
        key: [u8; 8],
        skip: u64,
        limit: u64,
    ) -> Result<Vec<SealedValue>> {
        let doing = "looking for what is sealed with an old key";
        let (table, column, id) = place(column);
        let order = id.unwrap_or(column);
        let of = id.map(|id| format!("{id} AS owner, ")).unwrap_or_default();
        let sql = format!(
            "SELECT {of}{column} AS sealed FROM {table} \
             WHERE {column} IS NOT NULL AND substr({column}, {KEY_ID}) <> $1 ORDER BY {order} LIMIT $2 OFFSET $3"
        );
        let values = [key.to_vec().into(), limit.cast_signed().into(), skip.cast_signed().into()];
        let rows = self.reader.query_all_raw(self.statement(&sql, values)).await.map_err(db(doing))?;
        rows.into_iter()
            .map(|row| {
                let of = match id {
                    Some(_) => row.try_get::<Uuid>("", "owner").map_err(db(doing))?,
                    None => Uuid::nil(),
                };
                let sealed: Vec<u8> = row.try_get("", "sealed").map_err(db(doing))?;
                Ok(SealedValue { of, sealed: Sealed::from_bytes(sealed) })
            })
            .collect()
    }

    async fn sealed_replace(&self, column: SealedColumn, changes: &[(SealedValue, Sealed)]) -> Result<()> {
        let doing = "sealing values anew";
        let (table, column, id) = place(column);
        let write = self.write().await?;
        for (SealedValue { of, sealed: before }, after) in changes {
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

    async fn pieces_otherwise(
        &self,
        key: [u8; 8],
        skip: u64,
        limit: u64,
    ) -> Result<Vec<(RecordingId, RecordingPiece)>> {
        let doing = "looking for pieces of recordings that are sealed with an old key";
        let sql = "SELECT recording_id, number, digest, bytes FROM recording_pieces \
                   WHERE sealed_with IS NULL OR sealed_with <> $1 \
                   ORDER BY recording_id, number LIMIT $2 OFFSET $3";
        let values = [key.to_vec().into(), limit.cast_signed().into(), skip.cast_signed().into()];
        let rows = self.reader.query_all_raw(self.statement(sql, values)).await.map_err(db(doing))?;
        rows.into_iter()
            .map(|row| {
                let id: Uuid = row.try_get("", "recording_id").map_err(db(doing))?;
                let number: i32 = row.try_get("", "number").map_err(db(doing))?;
                let digest: Vec<u8> = row.try_get("", "digest").map_err(db(doing))?;
                let bytes: i64 = row.try_get("", "bytes").map_err(db(doing))?;
                let piece = RecordingPiece {
                    number: u32::try_from(number).map_err(|_| corrupt("the number of a piece"))?,
                    digest: bytes32(&digest, "a piece of a recording")?,
                    bytes: bytes.cast_unsigned(),
                };
                Ok((RecordingId::from_uuid(id), piece))
            })
            .collect()
    }

    async fn piece_resealed(
        &self,
        id: RecordingId,
        piece: &RecordingPiece,
        digest: [u8; 32],
        key: [u8; 8],
    ) -> Result<()> {
        let number = i32::try_from(piece.number).map_err(|_| corrupt("the number of a piece"))?;
        let write = self.write().await?;
        let sql = "UPDATE recording_pieces SET digest = $1, sealed_with = $2 \
                   WHERE recording_id = $3 AND number = $4 AND digest = $5";
        let values = [
            digest.to_vec().into(),
            key.to_vec().into(),
            id.uuid().into(),
            number.into(),
            piece.digest.to_vec().into(),
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
        ("deploy_tokens", "join_hash"),
        ("deploy_tokens", "joined_hash"),
        ("deploy_tokens", "next_hash"),
        ("global_service_generations", "artifact_digest"),
        ("jobs", "holder"),
        ("leases", "holder"),
        ("login_spent", "what"),
        ("login_tries", "subject"),
        ("program_logins", "challenge"),
        ("program_logins", "code_hash"),
        ("program_logins", "device_hash"),
        ("program_logins", "grant_hash"),
        ("recovery_codes", "hash"),
        ("recording_pieces", "digest"),
        ("recording_pieces", "sealed_with"),
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
                        let (table, column, _) = place(*column);
                        (table, column) == (of, name)
                    })
            })
            .collect();
        unknown.sort();
        assert!(rows.len() > SealedColumn::ALL.len(), "{}", rows.len());
        assert_eq!(unknown, []);
    }
}
