//! Data keys, as key-encryption keys wrapped them.

use std::collections::{BTreeSet, HashSet};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Admin, Audited, Authorized, Installation};
use plural_app::data_key::{DataKeyRow, DataKeyStore, HeldService, HeldValue};
use plural_app::job::NewJob;
use plural_app::kept;
use plural_app::keyring::{self, PREFIX, prefix};
use plural_app::rendering::ServiceSecrets;
use plural_app::seal::Sealed;
use plural_core::data_key::{DataKey, KeyOwner, KeyPurpose};
use plural_core::ids::{ClusterId, DataKeyId, ProjectId, ServiceId};
use plural_core::project::Project;
use plural_core::secret_backend::SecretBackend;
use plural_core::secret_holding::{SecretHolding, SecretKind};
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, Expr, ExprTrait as _, LockType, OnConflict};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QueryResult, QuerySelect, Value,
};
use uuid::Uuid;

use crate::convert::word;
use crate::database::{Database, corrupt};
use crate::error::{db, unique};
use crate::seal;
use crate::transaction::{Write, set};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "data_keys")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub owner_id: Uuid,
        pub purpose: String,
        pub prefix: Vec<u8>,
        pub encrypted_by: String,
        pub version: Option<String>,
        pub wrapped: Option<Vec<u8>>,
        pub created_at: DateTimeUtc,
        pub retired_at: Option<DateTimeUtc>,
        pub destroyed_at: Option<DateTimeUtc>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

impl TryFrom<row::Model> for DataKeyRow {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            owner_id,
            purpose,
            prefix: _,
            encrypted_by,
            version,
            wrapped,
            created_at,
            retired_at,
            destroyed_at,
        } = row;
        let purpose = KeyPurpose::ALL.into_iter().find(|known| known.as_str() == purpose);
        let owner = KeyOwner::from_parts(owner_id, word(purpose, "the purpose of a data key")?);
        let key = DataKey {
            id: DataKeyId::from_uuid(id),
            owner: owner.ok_or_else(|| corrupt("the owner of a data key"))?,
            encrypted_by,
            version,
            created_at,
            retired_at,
            destroyed_at,
        };
        Ok(Self { key, wrapped })
    }
}

fn row_of(row: &DataKeyRow) -> row::ActiveModel {
    let DataKeyRow { key, wrapped } = row;
    let DataKey { id, owner, encrypted_by, version, created_at, retired_at, destroyed_at } = key;
    let (owner_id, purpose) = owner.parts();
    row::ActiveModel {
        id: set(id.uuid()),
        owner_id: set(owner_id),
        purpose: set(purpose.as_str().to_owned()),
        prefix: set(prefix(*id).to_vec()),
        encrypted_by: set(encrypted_by.clone()),
        version: set(version.clone()),
        wrapped: set(wrapped.clone()),
        created_at: set(*created_at),
        retired_at: set(*retired_at),
        destroyed_at: set(*destroyed_at),
    }
}

fn of(owner: KeyOwner) -> Condition {
    let (id, purpose) = owner.parts();
    Condition::all().add(row::Column::OwnerId.eq(id)).add(row::Column::Purpose.eq(purpose.as_str()))
}

async fn current_on(connection: &impl ConnectionTrait, owner: KeyOwner) -> Result<Option<DataKeyRow>> {
    let found = row::Entity::find().filter(of(owner)).filter(row::Column::RetiredAt.is_null());
    let found = found.one(connection).await.map_err(db("reading a data key"))?;
    found.map(DataKeyRow::try_from).transpose()
}

/// Bytes of a sealed list, or map, that is empty.
const EMPTY: usize = keyring::OVERHEAD + 2;

const REPLACED: &[(&str, &str)] = &[(
    "data_keys_owner_id_purpose_key",
    "somebody else replaced the data keys at the same time: look at them before you try again",
)];

/// These keys seal for their owners from now on.
async fn replace_in_tx(write: &mut Write<'_>, rows: &[DataKeyRow], at: DateTime<Utc>) -> Result<()> {
    let doing = "replacing data keys";
    for new in rows {
        row::Entity::update_many()
            .col_expr(row::Column::RetiredAt, Expr::value(at))
            .filter(of(new.key.owner))
            .filter(row::Column::RetiredAt.is_null())
            .exec(&write.tx)
            .await
            .map_err(db(doing))?;
        // Who replaces it at the same time retires the former key first: there is none left to retire, and one that seals already.
        row::Entity::insert(row_of(new))
            .exec_without_returning(&write.tx)
            .await
            .map_err(unique(doing, REPLACED))?;
    }
    Ok(())
}

/// All values of a revision.
pub(crate) fn sealed_of(secrets: &ServiceSecrets) -> impl Iterator<Item = &Sealed> {
    let ServiceSecrets { configuration, helm_values, renderer_values } = secrets;
    [Some(configuration), helm_values.as_ref(), renderer_values.as_ref()].into_iter().flatten()
}

/// The data keys that sealed these values.
pub(crate) fn keys_of<'s>(secrets: impl IntoIterator<Item = &'s ServiceSecrets>) -> BTreeSet<Uuid> {
    let key_of = |sealed: &Sealed| {
        let bytes = sealed.as_bytes();
        let first = bytes.first()?;
        let is_of_key = [keyring::VERSION, kept::VERSION].contains(first);
        Uuid::from_slice(bytes.get(kept::KEY..PREFIX).filter(|_| is_of_key)?).ok()
    };
    secrets.into_iter().flat_map(sealed_of).filter_map(key_of).collect()
}

/// Data keys with which somebody writes what they read are not destroyed before this write is done; those that are destroyed
/// already. Their rotation goes on meanwhile.
pub(crate) async fn held_in_tx(write: &Write<'_>, keys: BTreeSet<Uuid>) -> Result<BTreeSet<Uuid>> {
    if keys.is_empty() {
        return Ok(keys);
    }
    let rows = row::Entity::find()
        .filter(row::Column::Id.is_in(keys))
        .order_by_asc(row::Column::Id)
        .lock(LockType::KeyShare)
        .all(&write.tx)
        .await
        .map_err(db("reading data keys"))?;
    Ok(rows.into_iter().filter(|row| row.destroyed_at.is_some()).map(|row| row.id).collect())
}

/// [`held_in_tx`] for values that are to be kept.
///
/// # Errors
/// [`Error::Conflict`] for those whose key is destroyed.
pub(crate) async fn hold_in_tx(write: &Write<'_>, keys: BTreeSet<Uuid>) -> Result<()> {
    if held_in_tx(write, keys).await?.is_empty() {
        return Ok(());
    }
    Err(Error::conflict(
        "the data key of these values was destroyed at the same time: try again; if that does not help, set the values anew",
    ))
}

/// Nothing opens what the keys of these owners sealed once this is committed.
async fn destroy_in_tx(write: &Write<'_>, which: Condition, at: DateTime<Utc>) -> Result<u64> {
    let destroyed = row::Entity::update_many()
        .col_expr(row::Column::Wrapped, Expr::value(None::<Vec<u8>>))
        .col_expr(row::Column::DestroyedAt, Expr::value(at))
        .col_expr(row::Column::RetiredAt, Expr::col(row::Column::RetiredAt).if_null(at))
        .filter(row::Column::DestroyedAt.is_null())
        .filter(which)
        .exec(&write.tx)
        .await
        .map_err(db("destroying data keys"))?;
    Ok(destroyed.rows_affected)
}

/// Destroys the keys of a project that is being deleted; that of its recordings stays while some are kept.
pub(crate) async fn shred_in_tx(
    write: &Write<'_>,
    project: ProjectId,
    keeps_recordings: bool,
    at: DateTime<Utc>,
) -> Result<()> {
    let mut which = Condition::any().add(of(KeyOwner::Project(project)));
    if !keeps_recordings {
        which = which.add(of(KeyOwner::Recordings(project)));
    }
    destroy_in_tx(write, which, at).await.map(drop)
}

#[async_trait]
impl DataKeyStore for Database {
    async fn data_key(&self, id: DataKeyId) -> Result<Option<DataKeyRow>> {
        let found = row::Entity::find_by_id(id.uuid()).one(&self.reader).await;
        found.map_err(db("reading a data key"))?.map(DataKeyRow::try_from).transpose()
    }

    async fn data_key_current(&self, owner: KeyOwner) -> Result<Option<DataKeyRow>> {
        current_on(&self.reader, owner).await
    }

    async fn data_key_make(&self, new: &DataKeyRow) -> Result<DataKeyRow> {
        let doing = "making a data key";
        let write = self.write().await?;
        let or_leave = OnConflict::new().do_nothing().to_owned();
        row::Entity::insert(row_of(new))
            .on_conflict(or_leave)
            .exec_without_returning(&write.tx)
            .await
            .map_err(db(doing))?;
        let current = current_on(&write.tx, new.key.owner).await?;
        write.commit().await?;
        current.ok_or_else(|| Error::internal(doing, "it was retired at once"))
    }

    async fn data_keys_of(&self, owners: &[KeyOwner]) -> Result<Vec<DataKey>> {
        let which = owners.iter().fold(Condition::any(), |any, owner| any.add(of(*owner)));
        let found = row::Entity::find().filter(which).order_by_desc(row::Column::Id).all(&self.reader).await;
        let found = found.map_err(db("reading data keys"))?;
        found.into_iter().map(|row| Ok(DataKeyRow::try_from(row)?.key)).collect()
    }

    async fn project_keys_replace(
        &self,
        by: Audited<'_, Project, Admin>,
        rows: &[DataKeyRow],
        job: &NewJob,
    ) -> Result<()> {
        let at = by.entry().at;
        let mut write = self.write().await?;
        self.check_stacks_are_known_in_tx(&write).await?;
        replace_in_tx(&mut write, rows, at).await?;
        write.audit(by.entry()).await?;
        write.enqueue(std::slice::from_ref(job), at).await?;
        write.commit().await
    }

    async fn installation_key_replace(
        &self,
        by: Audited<'_, Installation, Admin>,
        row: &DataKeyRow,
        job: &NewJob,
    ) -> Result<()> {
        let at = by.entry().at;
        let mut write = self.write().await?;
        self.check_stacks_are_known_in_tx(&write).await?;
        replace_in_tx(&mut write, std::slice::from_ref(row), at).await?;
        write.audit(by.entry()).await?;
        write.enqueue(std::slice::from_ref(job), at).await?;
        write.commit().await
    }

    async fn data_keys_otherwise(
        &self,
        name: &str,
        version: Option<&str>,
        after: Option<DataKeyId>,
        limit: u64,
    ) -> Result<Vec<DataKeyRow>> {
        let mut otherwise = Condition::any().add(row::Column::EncryptedBy.ne(name));
        if let Some(version) = version {
            otherwise = otherwise.add(row::Column::Version.ne(version)).add(row::Column::Version.is_null());
        }
        let mut found = row::Entity::find().filter(row::Column::Wrapped.is_not_null()).filter(otherwise);
        if let Some(after) = after {
            found = found.filter(row::Column::Id.gt(after.uuid()));
        }
        let found = found.order_by_asc(row::Column::Id).limit(limit).all(&self.reader).await;
        let found = found.map_err(db("looking for data keys that another key wrapped"))?;
        found.into_iter().map(DataKeyRow::try_from).collect()
    }

    async fn data_key_rewrap(&self, before: &DataKeyRow, after: &DataKeyRow) -> Result<()> {
        let write = self.write().await?;
        row::Entity::update_many()
            .col_expr(row::Column::Wrapped, Expr::value(after.wrapped.clone()))
            .col_expr(row::Column::EncryptedBy, Expr::value(after.key.encrypted_by.clone()))
            .col_expr(row::Column::Version, Expr::value(after.key.version.clone()))
            .filter(row::Column::Id.eq(before.key.id.uuid()))
            .filter(row::Column::Wrapped.eq(before.wrapped.clone()))
            .exec(&write.tx)
            .await
            .map_err(db("wrapping a data key anew"))?;
        write.commit().await
    }

    async fn data_keys_retired(&self, before: DateTime<Utc>) -> Result<Vec<DataKey>> {
        let found = row::Entity::find()
            .filter(row::Column::RetiredAt.lt(before))
            .filter(row::Column::DestroyedAt.is_null())
            .order_by_asc(row::Column::Id)
            .all(&self.reader)
            .await
            .map_err(db("reading retired data keys"))?;
        found.into_iter().map(|row| Ok(DataKeyRow::try_from(row)?.key)).collect()
    }

    async fn data_keys_used(&self, keys: &[DataKey]) -> Result<HashSet<DataKeyId>> {
        seal::used_of(self, keys).await
    }

    async fn data_keys_destroy(&self, ids: &[DataKeyId], at: DateTime<Utc>) -> Result<u64> {
        if ids.is_empty() {
            return Ok(0);
        }
        let write = self.write().await?;
        let which = Condition::all()
            .add(row::Column::Id.is_in(ids.iter().map(|id| id.uuid())))
            .add(row::Column::RetiredAt.is_not_null());
        // Whoever copies values that one of them sealed comes first, and is looked for once more: only there, as long transactions hold up
        // the events of all.
        let locked = row::Entity::find()
            .filter(which)
            .order_by_asc(row::Column::Id)
            .lock_exclusive()
            .all(&write.tx)
            .await
            .map_err(db("destroying data keys"))?;
        let locked: Vec<DataKey> = locked
            .into_iter()
            .map(|row| DataKeyRow::try_from(row).map(|row| row.key))
            .collect::<Result<_>>()?;
        let used = seal::copied_of(self, &locked).await?;
        let unused = locked.iter().filter(|key| !used.contains(&key.id)).map(|key| key.id.uuid());
        let which = Condition::all().add(row::Column::Id.is_in(unused));
        let destroyed = destroy_in_tx(&write, which, at).await?;
        write.commit().await?;
        Ok(destroyed)
    }

    async fn data_keys_of_gone_destroy(&self, at: DateTime<Utc>) -> Result<u64> {
        let write = self.write().await?;
        let which = Condition::all()
            .add(row::Column::OwnerId.ne(Uuid::nil()))
            .add(Expr::cust("NOT EXISTS (SELECT 1 FROM projects p WHERE p.id = data_keys.owner_id)"))
            .add(Condition::any().add(row::Column::Purpose.eq(KeyPurpose::Secrets.as_str())).add(
                Expr::cust("NOT EXISTS (SELECT 1 FROM recordings r WHERE r.project_id = data_keys.owner_id)"),
            ));
        let destroyed = destroy_in_tx(&write, which, at).await?;
        write.commit().await?;
        Ok(destroyed)
    }

    async fn data_keys_begin(&self, at: DateTime<Utc>) -> Result<Option<DateTime<Utc>>> {
        let doing = "looking whether data keys are used";
        if let Some(since) = since_on(self, &self.reader).await? {
            return Ok(Some(since));
        }
        let write = self.write().await?;
        // On SQLite there is no other replica.
        if self.is_postgres() {
            let sql = format!(
                "SELECT 1 AS one FROM replicas WHERE alive_until > {} AND data_keys IS NOT TRUE LIMIT 1",
                self.clock()
            );
            let old = write.tx.query_one_raw(self.statement(&sql, [])).await.map_err(db(doing))?;
            if old.is_some() {
                return Ok(None);
            }
        }
        let sql = "UPDATE installation SET data_keys_at = $1 WHERE id = 1 AND data_keys_at IS NULL";
        write.tx.execute_raw(self.statement(sql, [at.into()])).await.map_err(db(doing))?;
        let since = since_on(self, &write.tx).await?;
        write.commit().await?;
        Ok(since)
    }

    async fn data_keys_everywhere(&self) -> Result<bool> {
        let sql = "SELECT 1 AS one FROM installation WHERE id = 1 AND data_keys_everywhere_at IS NOT NULL";
        let found = self.reader.query_one_raw(self.statement(sql, [])).await;
        Ok(found.map_err(db("looking whether data keys are used everywhere"))?.is_some())
    }

    async fn data_keys_are_everywhere(&self, at: DateTime<Utc>) -> Result<()> {
        let write = self.write().await?;
        let sql = "UPDATE installation SET data_keys_everywhere_at = $1 \
                   WHERE id = 1 AND data_keys_everywhere_at IS NULL";
        let done = write.tx.execute_raw(self.statement(sql, [at.into()])).await;
        done.map_err(db("recording that data keys are used everywhere"))?;
        write.commit().await
    }

    async fn key_check_kept(&self) -> Result<Option<Sealed>> {
        let doing = "reading the key check";
        let sql = "SELECT key_check FROM installation WHERE id = 1";
        let row = self.reader.query_one_raw(self.statement(sql, [])).await.map_err(db(doing))?;
        let row = row.ok_or_else(|| corrupt("the installation"))?;
        let kept: Option<Vec<u8>> = row.try_get("", "key_check").map_err(db(doing))?;
        Ok(kept.map(Sealed::from_bytes))
    }

    async fn cluster_project(&self, id: ClusterId) -> Result<Option<ProjectId>> {
        let doing = "reading a cluster's project";
        let sql = "SELECT project_id FROM clusters WHERE id = $1";
        let row = self.reader.query_one_raw(self.statement(sql, [id.uuid().into()])).await;
        let project = row.map_err(db(doing))?.map(|row| row.try_get::<Uuid>("", "project_id")).transpose();
        Ok(project.map_err(db(doing))?.map(ProjectId::from_uuid))
    }

    async fn services_held(
        &self,
        project: &Authorized<Project, Admin>,
        after: Option<ServiceId>,
        limit: u64,
    ) -> Result<Vec<HeldService>> {
        let doing = "reading what secrets a project has";
        let sql = "SELECT s.id, s.handle, s.name, s.seed, r.configuration, r.helm_values, r.renderer_values \
                   FROM (SELECT s.id, c.handle, s.name, s.seed FROM services s JOIN clusters c ON c.id = s.cluster_id \
                         WHERE c.project_id = $1 AND s.id > $2 ORDER BY s.id LIMIT $3) s \
                   LEFT JOIN revisions r ON r.service_id = s.id ORDER BY s.id";
        let after = after.map_or_else(Uuid::nil, ServiceId::uuid);
        let values = [project.id.uuid().into(), after.into(), limit.cast_signed().into()];
        let rows = self.reader.query_all_raw(self.statement(sql, values)).await.map_err(db(doing))?;
        let mut services: Vec<HeldService> = Vec::new();
        for row in rows {
            let HeldService { id, name, seed, revisions } = held_service(&row).map_err(db(doing))?;
            match services.last_mut().filter(|last| last.id == id) {
                Some(last) => last.revisions.extend(revisions),
                None => services.push(HeldService { id, name, seed, revisions }),
            }
        }
        Ok(services)
    }

    async fn values_held(
        &self,
        project: &Authorized<Project, Admin>,
        kind: SecretKind,
        after: Option<Uuid>,
        limit: u64,
    ) -> Result<Vec<HeldValue>> {
        let doing = "reading what secrets a project has";
        // Each: the thing, its name, how many values it may have, and the value.
        let sql = match kind {
            SecretKind::TemplateSecrets => {
                "SELECT g.id, g.name, CAST(CASE WHEN n.secrets IS NULL THEN 0 ELSE 1 END AS bigint) AS held, \
                 n.secrets AS sealed \
                 FROM (SELECT id, name FROM global_services WHERE project_id = $1 AND id > $2 ORDER BY id LIMIT $3) g \
                 LEFT JOIN global_service_generations n ON n.global_service_id = g.id ORDER BY g.id, n.generation"
            }
            SecretKind::ContextSecrets => {
                "SELECT id, name, CAST(1 AS bigint) AS held, secrets AS sealed FROM service_contexts \
                 WHERE project_id = $1 AND secrets IS NOT NULL AND id > $2 ORDER BY id LIMIT $3"
            }
            SecretKind::ChartCredentials => {
                "SELECT id, url AS name, CAST(1 AS bigint) AS held, access AS sealed FROM helm_repositories \
                 WHERE project_id = $1 AND id > $2 ORDER BY id LIMIT $3"
            }
            // They are of services, or only counted.
            SecretKind::Configuration
            | SecretKind::HelmValues
            | SecretKind::RendererValues
            | SecretKind::RepositoryCredentials
            | SecretKind::RepositoryReach
            | SecretKind::RepositoryWebhook
            | SecretKind::ScmCredentials
            | SecretKind::Recordings
            | SecretKind::StackStates
            | SecretKind::StackInputs
            | SecretKind::StackPlans
            | SecretKind::StackOutputs
            | SecretKind::Seeds => return Ok(Vec::new()),
        };
        let after = after.unwrap_or_else(Uuid::nil);
        let values = [project.id.uuid().into(), after.into(), limit.cast_signed().into()];
        let rows = self.reader.query_all_raw(self.statement(sql, values)).await.map_err(db(doing))?;
        rows.into_iter().map(|row| held_value(&row).map_err(db(doing))).collect()
    }

    async fn values_counted(
        &self,
        project: &Authorized<Project, Admin>,
        kind: SecretKind,
        names: u64,
    ) -> Result<SecretHolding> {
        let doing = "counting what secrets a project has";
        // Such values are kept nowhere else.
        let backend = SecretBackend::Database;
        // Each thing: its name, and how many values it has.
        let things = match kind {
            SecretKind::RepositoryCredentials => {
                "SELECT url AS name, 1 AS held FROM git_repositories \
                 WHERE project_id = $1 AND credentials IS NOT NULL"
            }
            SecretKind::RepositoryReach => {
                "SELECT url AS name, 1 AS held FROM git_repositories WHERE project_id = $1 AND reach IS NOT NULL"
            }
            SecretKind::RepositoryWebhook => {
                "SELECT r.url AS name, 1 AS held FROM git_repositories r \
                 JOIN repository_webhooks w ON w.repository_id = r.id WHERE r.project_id = $1"
            }
            SecretKind::ScmCredentials => {
                "SELECT c.name AS name, SUM(h.held) AS held FROM scm_connections c JOIN (\
                 SELECT id AS connection_id, 1 AS held FROM scm_connections \
                 WHERE project_id = $1 AND secrets IS NOT NULL UNION ALL \
                 SELECT connection_id, 1 AS held FROM scm_webhooks WHERE project_id = $1 UNION ALL \
                 SELECT connection_id, 1 AS held FROM pr_governances WHERE project_id = $1 AND secret IS NOT NULL UNION ALL \
                 SELECT connection_id, 1 AS held FROM pull_requests WHERE project_id = $1 AND asked IS NOT NULL UNION ALL \
                 SELECT connection_id, 1 AS held FROM pull_requests WHERE project_id = $1 AND governance_state IS NOT NULL UNION ALL \
                 SELECT connection_id, 1 AS held FROM pr_instances WHERE project_id = $1 UNION ALL \
                 SELECT p.connection_id, 1 AS held FROM pr_secrets s JOIN pull_requests p ON p.id = s.id \
                 WHERE s.project_id = $1 AND s.content IS NOT NULL UNION ALL \
                 SELECT p.connection_id, 1 AS held FROM pr_request_keys k JOIN pull_requests p ON p.id = k.id WHERE k.project_id = $1 UNION ALL \
                 SELECT a.connection_id, 1 AS held FROM fleet_plans p JOIN pr_automations a ON a.id = p.automation_id \
                 WHERE p.project_id = $1 AND p.asked IS NOT NULL\
                 ) h ON h.connection_id = c.id GROUP BY c.id, c.name"
            }
            SecretKind::Recordings => {
                // A cluster that is gone has an id only.
                "SELECT COALESCE(MIN(c.handle), @id) AS name, COUNT(*) AS held FROM recordings r \
                 LEFT JOIN clusters c ON c.id = r.cluster_id WHERE r.project_id = $1 GROUP BY r.cluster_id"
            }
            SecretKind::StackStates => {
                "SELECT s.name AS name, COUNT(*) AS held FROM stacks s JOIN stack_states v ON v.stack_id = s.id \
                 WHERE s.project_id = $1 GROUP BY s.id, s.name"
            }
            SecretKind::StackInputs => {
                "SELECT s.name AS name, SUM(h.held) AS held FROM stacks s JOIN (\
                 SELECT id AS stack_id, CASE WHEN length(environment) > @empty THEN 1 ELSE 0 END + \
                 CASE WHEN length(files) > @empty THEN 1 ELSE 0 END AS held FROM stacks WHERE project_id = $1 UNION ALL \
                 SELECT stack_id, CASE WHEN length(environment) > @empty THEN 1 ELSE 0 END + \
                 CASE WHEN length(files) > @empty THEN 1 ELSE 0 END AS held FROM stack_runs WHERE project_id = $1\
                 ) h ON h.stack_id = s.id WHERE h.held > 0 GROUP BY s.id, s.name"
            }
            SecretKind::StackPlans => {
                "SELECT s.name AS name, COUNT(*) AS held FROM stacks s JOIN (\
                 SELECT r.stack_id AS stack_id FROM stack_runs r JOIN stack_plan_parts p ON p.run_id = r.id \
                 WHERE r.project_id = $1 UNION ALL SELECT d.stack_id AS stack_id FROM stack_drift d\
                 ) h ON h.stack_id = s.id WHERE s.project_id = $1 GROUP BY s.id, s.name"
            }
            SecretKind::StackOutputs => {
                "SELECT s.name AS name, COUNT(*) AS held FROM stacks s JOIN stack_outputs o ON o.stack_id = s.id \
                 WHERE s.project_id = $1 GROUP BY s.id, s.name"
            }
            // They are of services, or told by their values.
            SecretKind::Configuration
            | SecretKind::HelmValues
            | SecretKind::RendererValues
            | SecretKind::Seeds
            | SecretKind::TemplateSecrets
            | SecretKind::ContextSecrets
            | SecretKind::ChartCredentials => {
                return Ok(SecretHolding { kind, backend, values: 0, things: 0, names: Vec::new() });
            }
        };
        let id = if self.is_postgres() { "CAST(r.cluster_id AS text)" } else { "lower(hex(r.cluster_id))" };
        let things = things.replace("@id", id).replace("@empty", &EMPTY.to_string());
        let project: Value = project.id.uuid().into();
        let sql = format!(
            "SELECT CAST(COALESCE(SUM(t.held), 0) AS bigint) AS held, COUNT(*) AS things FROM ({things}) t"
        );
        let found = self.reader.query_one_raw(self.statement(&sql, [project.clone()])).await;
        let row = found.map_err(db(doing))?.ok_or_else(|| corrupt("a count"))?;
        let number = |column: &str| row.try_get::<i64>("", column).map(i64::cast_unsigned).map_err(db(doing));
        let (held, count) = (number("held")?, number("things")?);
        let sql = format!("SELECT t.name FROM ({things}) t ORDER BY t.name LIMIT $2");
        let values = [project, names.cast_signed().into()];
        let rows = self.reader.query_all_raw(self.statement(&sql, values)).await.map_err(db(doing))?;
        let names = rows.iter().map(|row| row.try_get::<String>("", "name").map_err(db(doing)));
        Ok(SecretHolding { kind, backend, values: held, things: count, names: names.collect::<Result<_>>()? })
    }
}

async fn since_on(database: &Database, connection: &impl ConnectionTrait) -> Result<Option<DateTime<Utc>>> {
    let doing = "looking whether data keys are used";
    let sql = "SELECT data_keys_at FROM installation WHERE id = 1";
    let row = connection.query_one_raw(database.statement(sql, [])).await.map_err(db(doing))?;
    row.ok_or_else(|| corrupt("the installation"))?.try_get("", "data_keys_at").map_err(db(doing))
}

/// A service, with one of its revisions.
fn held_service(row: &QueryResult) -> Result<HeldService, sea_orm::DbErr> {
    let id: Uuid = row.try_get("", "id")?;
    let (handle, name): (String, String) = (row.try_get("", "handle")?, row.try_get("", "name")?);
    let seed: Option<Vec<u8>> = row.try_get("", "seed")?;
    let configuration: Option<Vec<u8>> = row.try_get("", "configuration")?;
    let helm_values: Option<Vec<u8>> = row.try_get("", "helm_values")?;
    let renderer_values: Option<Vec<u8>> = row.try_get("", "renderer_values")?;
    let revision = configuration.map(|configuration| ServiceSecrets {
        configuration: Sealed::from_bytes(configuration),
        helm_values: helm_values.map(Sealed::from_bytes),
        renderer_values: renderer_values.map(Sealed::from_bytes),
    });
    Ok(HeldService {
        id: ServiceId::from_uuid(id),
        name: format!("{handle}/{name}"),
        seed: seed.map(Sealed::from_bytes),
        revisions: revision.into_iter().collect(),
    })
}

fn held_value(row: &QueryResult) -> Result<HeldValue, sea_orm::DbErr> {
    let values: i64 = row.try_get("", "held")?;
    let sealed: Option<Vec<u8>> = row.try_get("", "sealed")?;
    Ok(HeldValue {
        of: row.try_get("", "id")?,
        name: row.try_get("", "name")?,
        values: values.cast_unsigned(),
        sealed: sealed.map(Sealed::from_bytes),
    })
}
