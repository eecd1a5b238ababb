//! What is read of the instances of a global service.

use chrono::{DateTime, Utc};
use plural_app::Instance;
use plural_core::{ClusterId, Error, Result, ServiceId, ServiceStatus};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, FromQueryResult, JsonValue, QueryFilter, QueryOrder,
    QuerySelect,
};
use uuid::Uuid;

use crate::convert::word;
use crate::error::db;
use crate::service;

#[derive(FromQueryResult)]
struct InstanceRow {
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

/// The instances of a global service, in the order of their clusters.
pub(crate) async fn list_on(connection: &impl ConnectionTrait, global: Uuid) -> Result<Vec<Instance>> {
    use service::row::Column;
    let rows: Vec<InstanceRow> = service::row::Entity::find()
        .select_only()
        .columns([
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
        ])
        .filter(Column::OwnerId.eq(global))
        .order_by_asc(Column::ClusterId)
        .into_model()
        .all(connection)
        .await
        .map_err(db("reading instances"))?;
    rows.into_iter().map(Instance::try_from).collect()
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
