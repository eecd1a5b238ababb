//! Sealed values by the key that they are sealed with.

use std::collections::HashSet;

use async_trait::async_trait;
use plural_app::kept::{self, ID, KEY};
use plural_app::keyring::{self, PREFIX};
use plural_app::recording::RecordingPiece;
use plural_app::seal::{SealStore, Sealed, SealedColumn, SealedPiece, SealedRow, SealedStep, SealedValue};
use plural_core::Result;
use plural_core::data_key::{DataKey, KeyOwner, KeyPurpose};
use plural_core::ids::{DataKeyId, ProjectId, RecordingId};
use plural_core::secret_backend::SecretBackend;
use sea_orm::{ConnectionTrait, DbErr, QueryResult, Statement, Value};
use uuid::Uuid;

use crate::convert::bytes32;
use crate::database::{Database, corrupt};
use crate::error::db;
use crate::secret_backend;

/// Rows of a step of a walk: so many are looked at by one statement, however few of them are wanted.
const STEP: u64 = 1000;
/// Where the id of its data key begins in a sealed value, behind the version, and in what names one that is kept elsewhere; databases count
/// bytes from one.
const ID_AT: usize = KEY + 1;

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
const OF_STATE: &str = "(SELECT st.project_id FROM stacks st JOIN stack_states sv ON sv.stack_id = st.id WHERE sv.id = t.state_id)";
const OF_STACK: &str = "(SELECT st.project_id FROM stacks st WHERE st.id = t.stack_id)";
const OF_RUN: &str = "(SELECT sr.project_id FROM stack_runs sr WHERE sr.id = t.run_id)";
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
        SealedColumn::StackState => {
            ("stack_state_pieces", "sealed", Some("state_id"), OF_STATE, KeyPurpose::Secrets)
        }
        SealedColumn::StackEnvironment => ("stacks", "environment", Some("id"), OWN, KeyPurpose::Secrets),
        SealedColumn::StackFiles => ("stacks", "files", Some("id"), OWN, KeyPurpose::Secrets),
        SealedColumn::StackRunEnvironment => {
            ("stack_runs", "environment", Some("id"), OWN, KeyPurpose::Secrets)
        }
        SealedColumn::StackRunFiles => ("stack_runs", "files", Some("id"), OWN, KeyPurpose::Secrets),
        SealedColumn::StackRunTaken => ("stack_runs", "taken", Some("id"), OWN, KeyPurpose::Secrets),
        SealedColumn::StackRunFinding => {
            ("stack_run_findings", "content", Some("run_id"), OF_RUN, KeyPurpose::Secrets)
        }
        SealedColumn::StackPlan => {
            ("stack_plan_pieces", "sealed", Some("run_id"), OF_RUN, KeyPurpose::Secrets)
        }
        SealedColumn::StackOutput => {
            ("stack_outputs", "content", Some("stack_id"), OF_STACK, KeyPurpose::Secrets)
        }
        SealedColumn::StackDrift => {
            ("stack_drift", "content", Some("stack_id"), OF_STACK, KeyPurpose::Secrets)
        }
        SealedColumn::ScmSecrets => ("scm_connections", "secrets", Some("id"), OWN, KeyPurpose::Secrets),
        SealedColumn::ScmWebhookHmac => ("scm_webhooks", "hmac", Some("id"), OWN, KeyPurpose::Secrets),
        SealedColumn::PullRequestAsked => ("pull_requests", "asked", Some("id"), OWN, KeyPurpose::Secrets),
        SealedColumn::PrInstanceSeed => ("pr_instances", "seed", Some("id"), OWN, KeyPurpose::Secrets),
        SealedColumn::PrRequestKey => ("pr_request_keys", "asked", Some("id"), OWN, KeyPurpose::Secrets),
        SealedColumn::PrSecret => ("pr_secrets", "content", Some("id"), OWN, KeyPurpose::Secrets),
        SealedColumn::PrGovernanceSecret => {
            ("pr_governances", "secret", Some("id"), OWN, KeyPurpose::Secrets)
        }
        SealedColumn::PullRequestGovernance => {
            ("pull_requests", "governance_state", Some("id"), OWN, KeyPurpose::Secrets)
        }
        SealedColumn::FleetPlanAsked => ("fleet_plans", "asked", Some("id"), OWN, KeyPurpose::Secrets),
    };
    Place { table, column, id, project, purpose }
}

/// The primary key of a table: one column with an id, perhaps one with a number behind it.
struct Key {
    id: &'static str,
    number: Option<&'static str>,
}

const PIECE: Key = Key { id: "recording_id", number: Some("number") };

/// What tells the rows of a column's table apart; none where there is one row.
fn key(column: SealedColumn) -> Option<Key> {
    let (id, number) = match column {
        SealedColumn::KeyCheck | SealedColumn::ProxyKey | SealedColumn::AuditKey => return None,
        SealedColumn::GlobalServiceSecrets => ("global_service_id", Some("generation")),
        SealedColumn::StackState => ("state_id", Some("number")),
        SealedColumn::StackPlan | SealedColumn::StackRunFinding => ("run_id", Some("number")),
        SealedColumn::RepositoryWebhook => ("repository_id", None),
        SealedColumn::SecondFactor => ("user_id", None),
        SealedColumn::RepositoryCredentials
        | SealedColumn::RepositoryReach
        | SealedColumn::HelmRepositoryAccess
        | SealedColumn::ServiceSeed
        | SealedColumn::Configuration
        | SealedColumn::HelmValues
        | SealedColumn::RendererValues
        | SealedColumn::ContextSecrets
        | SealedColumn::RecordingCommand
        | SealedColumn::IdentityProviderSecret
        | SealedColumn::IdentityRefresh
        | SealedColumn::StackEnvironment
        | SealedColumn::StackFiles
        | SealedColumn::StackRunEnvironment
        | SealedColumn::StackRunFiles
        | SealedColumn::StackRunTaken
        | SealedColumn::StackOutput
        | SealedColumn::StackDrift
        | SealedColumn::ScmSecrets
        | SealedColumn::ScmWebhookHmac
        | SealedColumn::PullRequestAsked
        | SealedColumn::PrInstanceSeed
        | SealedColumn::PrRequestKey
        | SealedColumn::PrSecret
        | SealedColumn::PrGovernanceSecret
        | SealedColumn::PullRequestGovernance
        | SealedColumn::FleetPlanAsked => ("id", None),
    };
    Some(Key { id, number })
}

impl Key {
    /// A row of `t`, as columns that [`row_of`] reads.
    fn row(&self) -> String {
        let Self { id, number } = self;
        let number = number.map_or_else(|| "0".to_owned(), |number| format!("t.{number}"));
        format!("t.{id} AS row_id, CAST({number} AS bigint) AS row_number")
    }

    /// The order of the walk.
    fn order(&self) -> String {
        let Self { id, number } = self;
        number.map_or_else(|| format!("t.{id}"), |number| format!("t.{id}, t.{number}"))
    }

    /// Compares a row of `t` with this one, whose values are added.
    fn compared(&self, comparison: &str, row: SealedRow, values: &mut Vec<Value>) -> String {
        let Self { id, number } = self;
        values.push(row.id.into());
        let at = values.len();
        let Some(number) = number else { return format!("t.{id} {comparison} ${at}") };
        values.push(row.number.into());
        format!("(t.{id}, t.{number}) {comparison} (${at}, ${})", at + 1)
    }

    /// The rows of `t` behind one, up to another; all where neither is named.
    fn between(&self, after: Option<SealedRow>, end: Option<SealedRow>, values: &mut Vec<Value>) -> String {
        let after = after.map(|row| self.compared(">", row, values));
        let end = end.map(|row| self.compared("<=", row, values));
        let both: Vec<String> = after.into_iter().chain(end).collect();
        if both.is_empty() { "1 = 1".to_owned() } else { both.join(" AND ") }
    }
}

fn row_of(row: &QueryResult) -> Result<SealedRow, DbErr> {
    Ok(SealedRow { id: row.try_get("", "row_id")?, number: row.try_get("", "row_number")? })
}

/// Columns whose values are copied as they were sealed: from a revision to the next.
const COPIED: [SealedColumn; 3] =
    [SealedColumn::Configuration, SealedColumn::HelmValues, SealedColumn::RendererValues];

/// Those of these keys, each by its id, that sealed a value of these columns. Nobody asks key by key: each column is walked once for all.
async fn used_in(
    database: &Database,
    columns: &[SealedColumn],
    keys: &[DataKey],
) -> Result<HashSet<DataKeyId>> {
    let wanted: HashSet<DataKeyId> = keys.iter().map(|key| key.id).collect();
    let mut used = HashSet::new();
    for column in columns.iter().copied() {
        let mut after = None;
        // One that is used need not be found again; without any left nothing is read.
        while used.len() < wanted.len() {
            let (sealed_with, end) = database.sealing_keys(column, after).await?;
            used.extend(sealed_with.into_iter().filter(|id| wanted.contains(id)));
            let Some(end) = end else { break };
            after = Some(end);
        }
    }
    Ok(used)
}

/// [`used_in`] of what may have been copied a moment ago.
pub(crate) async fn copied_of(database: &Database, keys: &[DataKey]) -> Result<HashSet<DataKeyId>> {
    used_in(database, &COPIED, keys).await
}

/// [`used_in`] of all that there is, recordings too.
pub(crate) async fn used_of(database: &Database, keys: &[DataKey]) -> Result<HashSet<DataKeyId>> {
    let wanted = keys.iter().map(|key| key.id).collect::<HashSet<_>>().len();
    let mut used = used_in(database, &SealedColumn::ALL, keys).await?;
    let mut after = None;
    while used.len() < wanted {
        let end = database.step_end("recording_pieces", &PIECE, after).await?;
        let pieces = database.pieces_sealed_with(after, end).await?;
        used.extend(
            keys.iter().filter(|key| pieces.iter().any(|piece| piece.may_be_of(key))).map(|key| key.id),
        );
        let Some(end) = end else { break };
        after = Some(end);
    }
    Ok(used)
}

/// What is known of the key of pieces.
struct PieceKey {
    /// How everything begins that it seals, if that was noted.
    prefix: Option<Vec<u8>>,
    /// Whose recordings these are.
    project: Uuid,
}

impl PieceKey {
    /// A piece of which it was not noted may be sealed with any key of its project.
    fn may_be_of(&self, key: &DataKey) -> bool {
        match &self.prefix {
            Some(prefix) => *prefix == keyring::prefix(key.id),
            None => self.project == key.owner.parts().0,
        }
    }
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

    /// A step of the walk through a column: the values of a project that are not in a backend.
    pub(crate) async fn sealed_not_in(
        &self,
        column: SealedColumn,
        (project, backend): (ProjectId, SecretBackend),
        (after, limit): (Option<SealedRow>, u64),
    ) -> Result<SealedStep<SealedValue>> {
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
        self.sealed_where(column, &format!("v.project = {project} AND {which}"), (after, limit)).await
    }

    fn walk(&self, sql: String, values: Vec<Value>) -> Statement {
        Statement::from_sql_and_values(self.backend, sql, values)
    }

    /// The last of the rows of a step that begins behind `after`; none when the table ends before. The index alone tells it.
    async fn step_end(&self, table: &str, key: &Key, after: Option<SealedRow>) -> Result<Option<SealedRow>> {
        let doing = "walking through what is sealed";
        let mut values: Vec<Value> = Vec::new();
        let (row, order, behind) = (key.row(), key.order(), key.between(after, None, &mut values));
        let sql = format!(
            "SELECT {row} FROM {table} t WHERE {behind} ORDER BY {order} LIMIT 1 OFFSET {}",
            STEP - 1
        );
        let end = self.reader.query_one_raw(self.walk(sql, values)).await.map_err(db(doing))?;
        end.map(|row| row_of(&row)).transpose().map_err(db(doing))
    }

    /// The ids of the keys that sealed a column's values in the rows of a step, and the end of that.
    async fn sealing_keys(
        &self,
        column: SealedColumn,
        after: Option<SealedRow>,
    ) -> Result<(Vec<DataKeyId>, Option<SealedRow>)> {
        let doing = "looking for what data keys sealed";
        let (Place { table, column, .. }, key) = (place(column), key(column));
        let mut values: Vec<Value> = Vec::new();
        let (rows, end) = match key {
            None => ("1 = 1".to_owned(), None),
            Some(key) => {
                let end = self.step_end(table, &key, after).await?;
                (key.between(after, end, &mut values), end)
            }
        };
        // Of what the installation's key sealed before there were data keys, these bytes are of no key.
        let sql = format!(
            "SELECT DISTINCT substr(t.{column}, {ID_AT}, {ID}) AS sealed_with FROM {table} t \
             WHERE t.{column} IS NOT NULL AND {rows}"
        );
        let found = self.reader.query_all_raw(self.walk(sql, values)).await.map_err(db(doing))?;
        let ids: Vec<Vec<u8>> = found
            .iter()
            .map(|row| row.try_get::<Vec<u8>>("", "sealed_with"))
            .collect::<Result<_, DbErr>>()
            .map_err(db(doing))?;
        let ids = ids.iter().filter_map(|id| Uuid::from_slice(id).ok()).map(DataKeyId::from_uuid).collect();
        Ok((ids, end))
    }

    async fn pieces_sealed_with(
        &self,
        after: Option<SealedRow>,
        end: Option<SealedRow>,
    ) -> Result<Vec<PieceKey>> {
        let doing = "looking for what data keys sealed";
        let mut values: Vec<Value> = Vec::new();
        let rows = PIECE.between(after, end, &mut values);
        let sql = format!(
            "SELECT DISTINCT t.sealed_with, r.project_id \
             FROM recording_pieces t JOIN recordings r ON r.id = t.recording_id WHERE {rows}"
        );
        let found = self.reader.query_all_raw(self.walk(sql, values)).await.map_err(db(doing))?;
        let key = |row: &QueryResult| {
            let prefix = row.try_get("", "sealed_with")?;
            Ok(PieceKey { prefix, project: row.try_get("", "project_id")? })
        };
        found.iter().map(key).collect::<Result<_, DbErr>>().map_err(db(doing))
    }

    /// A step of the walk through a column, along the primary key of its table: the values for which `which` holds, where `k` is the
    /// current key of the owner of `v.sealed`.
    async fn sealed_where(
        &self,
        column: SealedColumn,
        which: &str,
        (after, limit): (Option<SealedRow>, u64),
    ) -> Result<SealedStep<SealedValue>> {
        let doing = "looking for what is sealed";
        let (Place { table, column, id, project, purpose }, key) = (place(column), key(column));
        let mut values: Vec<Value> = vec![Uuid::nil().into(), limit.cast_signed().into()];
        let (row, order, rows, end) = match &key {
            None if after.is_some() => return Ok(SealedStep { found: Vec::new(), next: None }),
            None => (String::new(), String::new(), "1 = 1".to_owned(), None),
            Some(key) => {
                let end = self.step_end(table, key, after).await?;
                let rows = key.between(after, end, &mut values);
                (format!("{}, ", key.row()), "ORDER BY v.row_id, v.row_number".to_owned(), rows, end)
            }
        };
        let wanted = if key.is_some() { "v.row_id, v.row_number, " } else { "" };
        let thing = id.map(|id| format!("t.{id} AS thing, ")).unwrap_or_default();
        let of = if id.is_some() { "v.thing AS thing, " } else { "" };
        let none = if self.is_postgres() { "$1::uuid" } else { "$1" };
        let project = if project == NONE { none.to_owned() } else { format!("COALESCE({project}, {none})") };
        let sql = format!(
            "SELECT {wanted}{of}v.project AS project, v.sealed AS sealed \
             FROM (SELECT {row}{thing}{project} AS project, t.{column} AS sealed FROM {table} t \
                   WHERE t.{column} IS NOT NULL AND {rows}) v \
             LEFT JOIN data_keys k ON k.owner_id = v.project AND k.purpose = '{purpose}' AND k.retired_at IS NULL \
             WHERE {which} {order} LIMIT $2",
            purpose = purpose.as_str(),
        );
        let found = self.reader.query_all_raw(self.walk(sql, values)).await.map_err(db(doing))?;
        let found = found.into_iter().map(|row| {
            let of = match id {
                Some(_) => row.try_get::<Uuid>("", "thing").map_err(db(doing))?,
                None => Uuid::nil(),
            };
            let at = match &key {
                Some(_) => row_of(&row).map_err(db(doing))?,
                None => SealedRow { id: Uuid::nil(), number: 0 },
            };
            let project: Uuid = row.try_get("", "project").map_err(db(doing))?;
            let owner = KeyOwner::from_parts(project, purpose);
            let owner = owner.ok_or_else(|| corrupt("the owner of a sealed value"))?;
            let sealed: Vec<u8> = row.try_get("", "sealed").map_err(db(doing))?;
            Ok(SealedValue { row: at, of, owner, sealed: Sealed::from_bytes(sealed) })
        });
        let found: Vec<SealedValue> = found.collect::<Result<_>>()?;
        let next = goes_on(&found, |value| value.row, limit, end);
        Ok(SealedStep { found, next: next.filter(|_| key.is_some()) })
    }
}

/// Where a walk goes on: behind the last that was found when there may be more in these rows, else behind these rows.
fn goes_on<T>(
    found: &[T],
    row: impl Fn(&T) -> SealedRow,
    limit: u64,
    end: Option<SealedRow>,
) -> Option<SealedRow> {
    found.last().filter(|_| found.len() as u64 >= limit).map(row).or(end)
}

#[async_trait]
impl SealStore for Database {
    async fn sealed_otherwise(
        &self,
        column: SealedColumn,
        after: Option<SealedRow>,
        limit: u64,
    ) -> Result<SealedStep<SealedValue>> {
        // What is kept elsewhere names its key behind another first byte.
        let elsewhere = self.is_elsewhere("v.sealed");
        let which = format!(
            "k.prefix IS NULL OR CASE WHEN {elsewhere} \
             THEN substr(v.sealed, {ID_AT}, {ID}) <> substr(k.prefix, {ID_AT}, {ID}) \
             ELSE substr(v.sealed, 1, {PREFIX}) <> k.prefix END"
        );
        self.sealed_where(column, &which, (after, limit)).await
    }

    async fn sealed_replace(&self, column: SealedColumn, changes: &[(SealedValue, Sealed)]) -> Result<()> {
        let doing = "sealing values anew";
        let (Place { table, column, .. }, key) = (place(column), key(column));
        let write = self.write().await?;
        let objects = secret_backend::objects_of(changes.iter().map(|(_, after)| after.as_bytes()));
        secret_backend::name_on(&write.tx, objects).await?;
        for (SealedValue { row, of: _, owner: _, sealed: before }, after) in changes {
            let mut values: Vec<Value> =
                vec![after.as_bytes().to_vec().into(), before.as_bytes().to_vec().into()];
            // Bytes alone would tell it, but only an index makes many of them quick.
            let row =
                key.as_ref().map_or_else(|| "1 = 1".to_owned(), |key| key.compared("=", *row, &mut values));
            let sql = format!("UPDATE {table} AS t SET {column} = $1 WHERE {row} AND t.{column} = $2");
            let statement = self.walk(sql, values);
            write.tx.execute_raw(statement).await.map_err(db(doing))?;
        }
        write.commit().await
    }

    async fn pieces_otherwise(
        &self,
        after: Option<SealedRow>,
        limit: u64,
    ) -> Result<SealedStep<SealedPiece>> {
        let doing = "looking for pieces of recordings that are sealed with an old key";
        let mut values: Vec<Value> = vec![limit.cast_signed().into()];
        let end = self.step_end("recording_pieces", &PIECE, after).await?;
        let rows = PIECE.between(after, end, &mut values);
        let sql = format!(
            "SELECT t.recording_id, r.project_id, t.number, t.digest, t.bytes, t.sealed_with \
             FROM recording_pieces t JOIN recordings r ON r.id = t.recording_id \
             LEFT JOIN data_keys k ON k.owner_id = r.project_id AND k.purpose = '{}' AND k.retired_at IS NULL \
             WHERE {rows} AND (k.prefix IS NULL OR t.sealed_with IS NULL OR t.sealed_with <> k.prefix) \
             ORDER BY {} LIMIT $1",
            KeyPurpose::Recordings.as_str(),
            PIECE.order(),
        );
        let found = self.reader.query_all_raw(self.walk(sql, values)).await.map_err(db(doing))?;
        let found = found.into_iter().map(|row| {
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
        });
        let found: Vec<SealedPiece> = found.collect::<Result<_>>()?;
        let row = |piece: &SealedPiece| SealedRow { id: piece.of.uuid(), number: piece.piece.number.into() };
        let next = goes_on(&found, row, limit, end);
        Ok(SealedStep { found, next })
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
        ("stack_plan_parts", "digest"),
        ("stack_run_logs", "content"),
        ("stack_runs", "actor_hash"),
        ("stack_runs", "artifact_digest"),
        ("stack_runs", "credential_hash"),
        ("stack_states", "digest"),
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
