//! Where projects keep their secret values, and which objects of backends rows name.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Admin, Audited};
use plural_app::job::NewJob;
use plural_app::kept::{ID, OBJECT, VERSION};
use plural_app::ports::secret_backend::ObjectName;
use plural_app::seal::{SealedColumn, SealedRow, SealedStep, SealedValue};
use plural_app::secret_backend::{SecretBackendStore, SecretObject};
use plural_core::ids::ProjectId;
use plural_core::project::Project;
use plural_core::secret_backend::{KeptSecrets, SecretBackend};
use plural_core::{Error, Result};
use sea_orm::{ConnectionTrait, QueryResult, Statement, Value};
use uuid::Uuid;

use crate::database::{Database, corrupt};
use crate::error::db;
use crate::seal::{BACKEND_AT, KeptPlace, OBJECT_AT, kept_places};
use crate::transaction::Write;

/// Since when an object is unnamed that is being deleted.
const CLAIMED: DateTime<Utc> = DateTime::UNIX_EPOCH;

fn backend(word: &str) -> Result<SecretBackend> {
    SecretBackend::parse(word).ok_or_else(|| corrupt("a secret backend"))
}

fn object(row: &QueryResult) -> Result<SecretObject> {
    let doing = db("reading objects of secret backends");
    let read = || -> Result<(Uuid, Uuid, String), sea_orm::DbErr> {
        Ok((row.try_get("", "id")?, row.try_get("", "project_id")?, row.try_get("", "backend")?))
    };
    let (id, project, word) = read().map_err(doing)?;
    let name = ObjectName { project: ProjectId::from_uuid(project), id };
    Ok(SecretObject { name, backend: backend(&word)? })
}

impl Database {
    /// The ids of all objects that rows name, as a query.
    fn named_objects(&self) -> String {
        let of_place = |KeptPlace { table, column, project: _ }| {
            let elsewhere = self.is_elsewhere(&format!("t.{column}"));
            format!("SELECT substr(t.{column}, {OBJECT_AT}, {ID}) FROM {table} t WHERE {elsewhere}")
        };
        kept_places().map(of_place).collect::<Vec<_>>().join(" UNION ALL ")
    }
}

/// The objects that these values name.
pub(crate) fn objects_of<'s>(sealed: impl IntoIterator<Item = &'s [u8]>) -> BTreeSet<Uuid> {
    let object_of = |bytes: &[u8]| {
        let is_kept = bytes.first() == Some(&VERSION);
        Uuid::from_slice(bytes.get(OBJECT..OBJECT + ID).filter(|_| is_kept)?).ok()
    };
    sealed.into_iter().filter_map(object_of).collect()
}

/// Rows name these objects from now on: whoever deletes what nothing names leaves them alone.
///
/// # Errors
/// [`Error::Conflict`] for one that is deleted or is being deleted: whoever put it came too late with its row.
pub(crate) async fn name_on(connection: &impl ConnectionTrait, objects: BTreeSet<Uuid>) -> Result<()> {
    for id in objects {
        let sql = "UPDATE secret_objects SET unnamed_since = NULL \
                   WHERE id = $1 AND (unnamed_since IS NULL OR unnamed_since > $2)";
        let values: [Value; 2] = [id.into(), CLAIMED.into()];
        let statement = Statement::from_sql_and_values(connection.get_database_backend(), sql, values);
        let done = connection.execute_raw(statement).await;
        if done.map_err(db("naming an object of a secret backend"))?.rows_affected() == 0 {
            return Err(Error::conflict(
                "a value was put into the secret backend so long ago that it is deleted there: try again",
            ));
        }
    }
    Ok(())
}

/// A project left objects in backends.
pub(crate) async fn has_objects_in_tx(
    database: &Database,
    write: &Write<'_>,
    project: ProjectId,
) -> Result<bool> {
    let sql = "SELECT 1 AS one FROM secret_objects WHERE project_id = $1 LIMIT 1";
    let found = write.tx.query_one_raw(database.statement(sql, [project.uuid().into()])).await;
    Ok(found.map_err(db("looking for objects of secret backends"))?.is_some())
}

#[async_trait]
impl SecretBackendStore for Database {
    async fn secret_backend(&self, project: ProjectId) -> Result<SecretBackend> {
        let doing = "reading where a project keeps its secrets";
        let sql = "SELECT backend FROM project_secret_backends WHERE project_id = $1";
        let row = self.reader.query_one_raw(self.statement(sql, [project.uuid().into()])).await;
        match row.map_err(db(doing))? {
            None => Ok(SecretBackend::Database),
            Some(row) => backend(&row.try_get::<String>("", "backend").map_err(db(doing))?),
        }
    }

    async fn secret_backend_set(
        &self,
        by: Audited<'_, Project, Admin>,
        backend: SecretBackend,
        job: &NewJob,
    ) -> Result<()> {
        let doing = "changing where a project keeps its secrets";
        let mut write = self.write().await?;
        // On SQLite there is no other replica.
        if self.is_postgres() && backend != SecretBackend::Database {
            let sql = format!(
                "SELECT 1 AS one FROM replicas WHERE alive_until > {} AND secret_backends IS NOT TRUE LIMIT 1",
                self.clock()
            );
            let old = write.tx.query_one_raw(self.statement(&sql, [])).await.map_err(db(doing))?;
            if old.is_some() {
                return Err(Error::conflict(
                    "replicas of the release before secret backends are running: replace them first, and try again",
                ));
            }
        }
        let at = by.entry().at;
        // Nothing, when the project is gone by now.
        let sql = "INSERT INTO project_secret_backends (project_id, backend, updated_at) \
                   SELECT id, $2, $3 FROM projects WHERE id = $1 \
                   ON CONFLICT (project_id) DO UPDATE SET backend = excluded.backend, updated_at = excluded.updated_at";
        let values = [by.target().id.uuid().into(), backend.as_str().into(), at.into()];
        let done = write.tx.execute_raw(self.statement(sql, values)).await.map_err(db(doing))?;
        if done.rows_affected() == 0 {
            return Err(Error::not_found("project"));
        }
        write.enqueue(std::slice::from_ref(job), at).await?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn secrets_kept(&self, project: ProjectId) -> Result<Vec<KeptSecrets>> {
        let doing = "counting the secrets of a project";
        let mut kept: BTreeMap<SecretBackend, u64> = BTreeMap::new();
        for KeptPlace { table, column, project: of } in kept_places() {
            let elsewhere = self.is_elsewhere(&format!("t.{column}"));
            let here = self.byte(SecretBackend::Database.code());
            let sql = format!(
                "SELECT v.place AS place, COUNT(*) AS count FROM \
                 (SELECT CASE WHEN {elsewhere} THEN substr(t.{column}, {BACKEND_AT}, 1) ELSE {here} END AS place \
                  FROM {table} t WHERE t.{column} IS NOT NULL AND {of} = $1) v GROUP BY v.place"
            );
            let rows = self.reader.query_all_raw(self.statement(&sql, [project.uuid().into()])).await;
            for row in rows.map_err(db(doing))? {
                let place: Vec<u8> = row.try_get("", "place").map_err(db(doing))?;
                let count: i64 = row.try_get("", "count").map_err(db(doing))?;
                let backend = place.first().copied().and_then(SecretBackend::from_code);
                let backend = backend.ok_or_else(|| corrupt("the backend of a value"))?;
                *kept.entry(backend).or_default() += count.cast_unsigned();
            }
        }
        Ok(kept.into_iter().map(|(backend, values)| KeptSecrets { backend, values }).collect())
    }

    async fn sealed_elsewhere(
        &self,
        column: SealedColumn,
        project: ProjectId,
        backend: SecretBackend,
        after: Option<SealedRow>,
        limit: u64,
    ) -> Result<SealedStep<SealedValue>> {
        self.sealed_not_in(column, (project, backend), (after, limit)).await
    }

    async fn projects_with_backend(&self) -> Result<Vec<ProjectId>> {
        let doing = "reading which projects keep their secrets elsewhere";
        let sql = "SELECT project_id FROM project_secret_backends ORDER BY project_id";
        let rows = self.reader.query_all_raw(self.statement(sql, [])).await.map_err(db(doing))?;
        let id = |row: QueryResult| row.try_get::<Uuid>("", "project_id").map_err(db(doing));
        rows.into_iter().map(|row| id(row).map(ProjectId::from_uuid)).collect()
    }

    async fn secret_object_note(&self, object: &SecretObject) -> Result<()> {
        let SecretObject { name: ObjectName { project, id }, backend } = object;
        let write = self.write().await?;
        let sql =
            "INSERT INTO secret_objects (id, project_id, backend, unnamed_since) VALUES ($1, $2, $3, NULL)";
        let values = [(*id).into(), project.uuid().into(), backend.as_str().into()];
        let done = write.tx.execute_raw(self.statement(sql, values)).await;
        done.map_err(db("noting an object of a secret backend"))?;
        write.commit().await
    }

    async fn secret_objects_unnamed(
        &self,
        before: DateTime<Utc>,
        at: DateTime<Utc>,
        backend: SecretBackend,
        limit: u64,
    ) -> Result<Vec<SecretObject>> {
        let doing = "looking for objects of secret backends that nothing names";
        let any = "SELECT 1 AS one FROM secret_objects LIMIT 1";
        let any = self.reader.query_one_raw(self.statement(any, [])).await.map_err(db(doing))?;
        if any.is_none() {
            return Ok(Vec::new());
        }
        let named = self.named_objects();
        // A list of so many would not be hashed by PostgreSQL.
        let is_named = if self.is_postgres() {
            format!("EXISTS (SELECT 1 FROM ({named}) n(id) WHERE n.id = uuid_send(secret_objects.id))")
        } else {
            format!("id IN ({named})")
        };
        let write = self.write().await?;
        let sql = format!(
            "UPDATE secret_objects SET unnamed_since = NULL WHERE unnamed_since IS NOT NULL AND {is_named}"
        );
        write.tx.execute_raw(self.statement(&sql, [])).await.map_err(db(doing))?;
        let sql = format!(
            "UPDATE secret_objects SET unnamed_since = $1 WHERE unnamed_since IS NULL AND NOT {is_named}"
        );
        write.tx.execute_raw(self.statement(&sql, [at.into()])).await.map_err(db(doing))?;
        // Whoever names one of them at this moment was first, and it stays; or finds that it is gone.
        let over = |row: &str| {
            format!(
                "{row}.backend = $1 AND {row}.unnamed_since IS NOT NULL AND ({row}.unnamed_since < $2 \
                 OR NOT EXISTS (SELECT 1 FROM projects p WHERE p.id = {row}.project_id))"
            )
        };
        let sql = format!(
            "UPDATE secret_objects SET unnamed_since = $4 WHERE {} AND id IN \
             (SELECT o.id FROM secret_objects o WHERE {} ORDER BY o.id LIMIT $3)",
            over("secret_objects"),
            over("o")
        );
        let limit: i64 = limit.cast_signed();
        let values = [backend.as_str().into(), before.into(), limit.into(), CLAIMED.into()];
        write.tx.execute_raw(self.statement(&sql, values)).await.map_err(db(doing))?;
        let sql = "SELECT id, project_id, backend FROM secret_objects \
                   WHERE backend = $1 AND unnamed_since = $2 ORDER BY id LIMIT $3";
        let values = [backend.as_str().into(), CLAIMED.into(), limit.into()];
        let rows = write.tx.query_all_raw(self.statement(sql, values)).await.map_err(db(doing))?;
        let found = rows.iter().map(object).collect();
        write.commit().await?;
        found
    }

    async fn secret_objects_forget(&self, ids: &[Uuid]) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let write = self.write().await?;
        for id in ids {
            let sql = "DELETE FROM secret_objects WHERE id = $1";
            let done = write.tx.execute_raw(self.statement(sql, [(*id).into()])).await;
            done.map_err(db("forgetting objects of secret backends"))?;
        }
        write.commit().await
    }
}
