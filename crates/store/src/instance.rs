//! Instances of global services.

use std::fmt::Write as _;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Audited, Authorized, Read, Write};
use plural_app::global_service::{Instance, InstanceStore, Ownership};
use plural_core::global_service::GlobalService;
use plural_core::ids::{ClusterId, ServiceId};
use plural_core::page::Direction;
use plural_core::service::{SecretsHome, Service};
use plural_core::status::ServiceStatus;
use plural_core::work::WorkChange;
use plural_core::{Error, PageRequest, Result};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, DbBackend, DbErr, EntityTrait,
    FromQueryResult, IdenStatic, JsonValue, QueryFilter, QueryOrder, QueryResult, QuerySelect, Statement,
    Value,
};
use uuid::Uuid;

use crate::convert::word;
use crate::database::Database;
use crate::error::db;
use crate::transaction::set;
use crate::{dependency, service};

#[derive(FromQueryResult)]
pub(crate) struct InstanceRow {
    id: Uuid,
    cluster_id: Uuid,
    owner_generation: Option<i64>,
    owner_given_at: Option<DateTime<Utc>>,
    status: String,
    sequence: i64,
    reported_sequence: i64,
    closure_digest: Option<String>,
    pin: Option<JsonValue>,
    cascaded: bool,
    deleted_at: Option<DateTime<Utc>>,
}

const COLUMNS: [service::row::Column; 11] = {
    use service::row::Column;
    [
        Column::Id,
        Column::ClusterId,
        Column::OwnerGeneration,
        Column::OwnerGivenAt,
        Column::Status,
        Column::Sequence,
        Column::ReportedSequence,
        Column::ClosureDigest,
        Column::Pin,
        Column::Cascaded,
        Column::DeletedAt,
    ]
};

/// The instances of a global service, in the order of their clusters.
pub(crate) async fn list_on(connection: &impl ConnectionTrait, global: Uuid) -> Result<Vec<Instance>> {
    use service::row::Column;
    let rows: Vec<InstanceRow> = service::row::Entity::find()
        .select_only()
        .columns(COLUMNS)
        .filter(Column::OwnerId.eq(global))
        .order_by_asc(Column::ClusterId)
        .into_model()
        .all(connection)
        .await
        .map_err(db("reading instances"))?;
    rows.into_iter().map(Instance::try_from).collect()
}

/// What the pages of instances are of, and their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PagesBy {
    /// Of a global service, by the id of the instance.
    Owner,
    /// Of a managed namespace, by the id of the cluster. Both of its parts on a cluster count as one row.
    ManagedNamespace,
}

/// An instance on a page.
pub(crate) struct PagedInstance {
    /// Id of the global service or managed namespace.
    pub(crate) page: Uuid,
    /// Id of the global service.
    pub(crate) owner: Uuid,
    pub(crate) instance: Instance,
}

/// The same page of the instances of many global services, in one statement: `limit + 1` rows of each, in the direction of
/// the request. It reads no more instances than these, however many there are.
pub(crate) async fn pages_on(
    connection: &impl ConnectionTrait,
    by: PagesBy,
    owners: &[Uuid],
    request: &PageRequest,
) -> Result<Vec<PagedInstance>> {
    let doing = "reading pages of instances";
    if owners.is_empty() {
        return Ok(Vec::new());
    }
    let (page, key) = match by {
        PagesBy::Owner => ("g.id", "id"),
        PagesBy::ManagedNamespace => ("g.managed_namespace_id", "cluster_id"),
    };
    let direction = match request.direction {
        Direction::Forward => "ASC",
        Direction::Backward => "DESC",
    };
    let mut values: Vec<Value> = owners.iter().map(|id| Value::from(*id)).collect();
    let places: Vec<String> = (1..=values.len()).map(|place| format!("${place}")).collect();
    let mut bounds = String::new();
    for (bound, operator) in [(request.after, ">"), (request.before, "<")] {
        if let Some(bound) = bound {
            values.push(bound.into());
            let _ = write!(bounds, " AND k.{key} {operator} ${}", values.len());
        }
    }
    values.push(i64::from(request.limit + 1).into());
    let columns = COLUMNS.map(|column| format!("s.{}", column.as_str())).join(", ");
    let (owners, limit) = (places.join(", "), values.len());
    // The first of each global service, by an index alone.
    let keys = format!(
        "SELECT DISTINCT k.{key} FROM services k WHERE k.owner_id = g.id{bounds} ORDER BY k.{key} {direction} LIMIT ${limit}"
    );
    let backend = connection.get_database_backend();
    let first = match backend {
        DbBackend::Postgres => format!(
            "CROSS JOIN LATERAL ({keys}) l JOIN services i ON i.owner_id = g.id AND i.{key} = l.{key}"
        ),
        _ => format!("JOIN services i ON i.owner_id = g.id AND i.{key} IN ({keys})"),
    };
    // A managed namespace has several: the first of all of them are among the first of each.
    let sql = format!(
        "SELECT one.page, s.owner_id, {columns} FROM (\
         SELECT {page} AS page, i.id, DENSE_RANK() OVER (PARTITION BY {page} ORDER BY i.{key} {direction}) AS place \
         FROM global_services g {first} WHERE g.id IN ({owners}) AND {page} IS NOT NULL) one \
         JOIN services s ON s.id = one.id WHERE one.place <= ${limit} ORDER BY one.page, one.place"
    );
    let statement = Statement::from_sql_and_values(backend, sql, values);
    let rows = connection.query_all_raw(statement).await.map_err(db(doing))?;
    let read = |row: &QueryResult| -> std::result::Result<(Uuid, Uuid, InstanceRow), DbErr> {
        Ok((row.try_get("", "page")?, row.try_get("", "owner_id")?, InstanceRow::from_query_result(row, "")?))
    };
    rows.iter()
        .map(|row| {
            let (page, owner, row) = read(row).map_err(db(doing))?;
            Ok(PagedInstance { page, owner, instance: row.try_into()? })
        })
        .collect()
}

impl TryFrom<InstanceRow> for Instance {
    type Error = Error;

    fn try_from(row: InstanceRow) -> Result<Self> {
        let InstanceRow {
            id,
            cluster_id,
            owner_generation,
            owner_given_at,
            status,
            sequence,
            reported_sequence,
            closure_digest,
            pin,
            cascaded,
            deleted_at,
        } = row;
        Ok(Self {
            service_id: ServiceId::from_uuid(id),
            cluster_id: ClusterId::from_uuid(cluster_id),
            generation: owner_generation.unwrap_or(0).cast_unsigned(),
            given_at: owner_given_at.unwrap_or(DateTime::UNIX_EPOCH),
            status: word(ServiceStatus::parse(&status), "a service's status")?,
            reported: reported_sequence >= sequence,
            pinned: pin.is_some(),
            placed: closure_digest.is_some(),
            deleted: deleted_at.is_some(),
            cascaded,
        })
    }
}

#[async_trait]
impl InstanceStore for Database {
    async fn global_service_instances(
        &self,
        global: &Authorized<GlobalService, Read>,
    ) -> Result<Vec<Instance>> {
        list_on(&self.reader, global.id.uuid()).await
    }

    async fn services_named(&self, names: &[(ClusterId, String)]) -> Result<Vec<Service>> {
        let keys: Vec<dependency::Key> =
            names.iter().map(|(cluster, name)| (cluster.uuid(), name.clone())).collect();
        let found = dependency::services_on(&self.reader, &keys, false).await?;
        found.into_values().map(Service::try_from).collect()
    }

    async fn instance_delete(&self, by: Audited<'_, Service, Write>) -> Result<()> {
        let at = by.entry().at;
        let mut write = self.write().await?;
        dependency::lock_in_tx(&write).await?;
        let old = service::lock_in_tx(&write, by.target().id).await?;
        if old.protect {
            return Err(Error::conflict("the service is protected: set protect to false first"));
        }
        if old.deleted_at.is_some() {
            return Ok(());
        }
        let key = [dependency::key_of(&old)];
        if let Some(other) = dependency::dependents_all_on(&write.tx, &key).await?.first() {
            // Whoever sees the global service sees its clusters, but not all others.
            let who = if other.cluster_id == old.cluster_id {
                format!("the service {} depends on it", other.name)
            } else {
                "a service of another cluster depends on it".to_owned()
            };
            return Err(Error::conflict(format!(
                "{} stays on a cluster that is no longer meant: {who}",
                old.name
            )));
        }
        // Those that depend on it go as well, and before it.
        let outlives = !dependency::depended_on(&write.tx, &key).await?.is_empty();
        let row = service::row::ActiveModel {
            id: ActiveValue::Unchanged(old.id),
            deleted_at: set(Some(at)),
            cascaded: set(true),
            outlives: set(outlives),
            sequence: set(old.sequence + 1),
            updated_at: set(at),
            ..Default::default()
        };
        let row = row.update(&write.tx).await.map_err(db("deleting an instance"))?;
        write.audit(by.entry()).await?;
        write.publish(service::event(&row, WorkChange::Changed), at).await?;
        write.commit().await
    }

    async fn instance_restore(&self, by: Audited<'_, Service, Write>) -> Result<()> {
        let at = by.entry().at;
        let mut write = self.write().await?;
        let old = service::lock_in_tx(&write, by.target().id).await?;
        if !old.cascaded {
            return Ok(());
        }
        let row = service::row::ActiveModel {
            id: ActiveValue::Unchanged(old.id),
            deleted_at: set(None),
            cascaded: set(false),
            outlives: set(false),
            sequence: set(old.sequence + 1),
            updated_at: set(at),
            ..Default::default()
        };
        let row = row.update(&write.tx).await.map_err(db("keeping an instance"))?;
        write.audit(by.entry()).await?;
        write.publish(service::event(&row, WorkChange::Changed), at).await?;
        write.commit().await
    }

    async fn service_disown(&self, by: Audited<'_, Service, Write>, home: SecretsHome) -> Result<()> {
        let write = self.write().await?;
        let row = service::row::ActiveModel {
            id: ActiveValue::Unchanged(by.target().id.uuid()),
            owner_id: set(None),
            owner_generation: set(None),
            owner_given_at: set(None),
            secrets_home: set(Some(service::home_text(home))),
            updated_at: set(by.entry().at),
            ..Default::default()
        };
        row.update(&write.tx).await.map_err(db("letting an instance go"))?;
        write.audit(by.entry()).await?;
        write.commit().await
    }
}

/// What a service's row says of its owner.
pub(crate) fn own(row: &mut service::row::Model, ownership: Ownership, at: DateTime<Utc>) {
    row.owner_id = Some(ownership.owner.uuid());
    row.owner_generation = Some(ownership.generation.cast_signed());
    row.owner_given_at = Some(at);
}
