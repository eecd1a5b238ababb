//! Plans of syncs: what was done, and what was asked for.

use plural_core::Result;
use plural_core::ids::{PlanId, RevisionId, ServiceId};
use plural_core::specs::without_nul;
use plural_core::sync::{ReportedPlan, SyncPlan};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, JsonValue, QueryFilter, QueryOrder, QuerySelect,
    sea_query::ExprTrait,
};
use uuid::Uuid;

use chrono::{DateTime, Utc};

use crate::convert::{json, to_json};
use crate::error::db;
use crate::transaction::set;

/// Plans kept of one service.
const KEPT: u64 = 30;
/// Plans of one statement.
const AT_ONCE: usize = 200;

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "service_plans")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub service_id: Uuid,
        pub request_id: Option<Uuid>,
        pub revision_id: Uuid,
        pub digest: String,
        pub objects: Json,
        pub unchanged: i32,
        pub omitted: i32,
        pub error: Option<String>,
        pub created_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

impl TryFrom<row::Model> for SyncPlan {
    type Error = plural_core::Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            service_id,
            request_id,
            revision_id,
            digest,
            objects,
            unchanged,
            omitted,
            error,
            created_at,
        } = row;
        Ok(Self {
            id: PlanId::from_uuid(id),
            service_id: ServiceId::from_uuid(service_id),
            request_id,
            revision_id: RevisionId::from_uuid(revision_id),
            digest,
            objects: json(objects, "a plan")?,
            unchanged: unchanged.cast_unsigned(),
            omitted: omitted.cast_unsigned(),
            error,
            created_at,
        })
    }
}

/// Bytes of a value, about.
pub(crate) fn weight(value: &JsonValue) -> usize {
    match value {
        JsonValue::Null | JsonValue::Bool(_) | JsonValue::Number(_) => 8,
        JsonValue::String(text) => text.len(),
        JsonValue::Array(items) => items.iter().map(weight).sum(),
        JsonValue::Object(fields) => fields.iter().map(|(name, value)| name.len() + weight(value)).sum(),
    }
}

/// Plans without what they say of objects, which may be much.
pub(crate) async fn without_objects_on(
    connection: &impl ConnectionTrait,
    ids: &[Uuid],
) -> Result<Vec<SyncPlan>> {
    type Row = (Uuid, Uuid, Uuid, String, i32, DateTime<Utc>);
    use row::Column;
    let rows: Vec<Row> = row::Entity::find()
        .select_only()
        .columns([
            Column::Id,
            Column::ServiceId,
            Column::RevisionId,
            Column::Digest,
            Column::Unchanged,
            Column::CreatedAt,
        ])
        .filter(Column::Id.is_in(ids.iter().copied()))
        .into_tuple()
        .all(connection)
        .await
        .map_err(db("reading plans"))?;
    let plan = |(id, service, revision, digest, unchanged, created_at): Row| SyncPlan {
        id: PlanId::from_uuid(id),
        service_id: ServiceId::from_uuid(service),
        request_id: None,
        revision_id: RevisionId::from_uuid(revision),
        digest,
        objects: Vec::new(),
        unchanged: unchanged.cast_unsigned(),
        omitted: 0,
        error: None,
        created_at,
    };
    Ok(rows.into_iter().map(plan).collect())
}

/// What tells one plan from another.
pub(crate) fn key(plan: &ReportedPlan) -> String {
    let ReportedPlan { request_id, revision_id, digest, .. } = plan;
    let asked = request_id.map(|id| id.to_string()).unwrap_or_default();
    format!("{asked}/{revision_id}/{digest}")
}

/// Keeps plans of services, in a statement for all of them; the oldest of a service go.
pub(crate) async fn keep_on(
    connection: &impl ConnectionTrait,
    plans: &[(Uuid, &ReportedPlan, DateTime<Utc>)],
) -> Result<()> {
    let number = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
    for chunk in plans.chunks(AT_ONCE) {
        let mut rows = Vec::with_capacity(chunk.len());
        for (service, plan, at) in chunk {
            let ReportedPlan { request_id, revision_id, digest, objects, unchanged, omitted, error } = plan;
            rows.push(row::ActiveModel {
                id: set(PlanId::new().uuid()),
                service_id: set(*service),
                request_id: set(*request_id),
                revision_id: set(revision_id.uuid()),
                digest: set(digest.clone()),
                objects: set(to_json(objects, "a plan")?),
                unchanged: set(number(*unchanged)),
                omitted: set(number(*omitted)),
                error: set(error.as_deref().map(without_nul)),
                created_at: set(*at),
            });
        }
        row::Entity::insert_many(rows)
            .exec_without_returning(connection)
            .await
            .map_err(db("keeping plans"))?;
        let full: Vec<Uuid> = row::Entity::find()
            .select_only()
            .column(row::Column::ServiceId)
            .filter(row::Column::ServiceId.is_in(chunk.iter().map(|(service, ..)| *service)))
            .group_by(row::Column::ServiceId)
            .having(row::Column::Id.count().gt(KEPT.cast_signed()))
            .into_tuple()
            .all(connection)
            .await
            .map_err(db("counting plans"))?;
        for service in full {
            prune_on(connection, service).await?;
        }
    }
    Ok(())
}

async fn prune_on(connection: &impl ConnectionTrait, service: Uuid) -> Result<()> {
    let oldest: Option<Uuid> = row::Entity::find()
        .select_only()
        .column(row::Column::Id)
        .filter(row::Column::ServiceId.eq(service))
        .order_by_desc(row::Column::Id)
        .offset(KEPT)
        .limit(1)
        .into_tuple()
        .one(connection)
        .await
        .map_err(db("reading old plans"))?;
    let Some(oldest) = oldest else { return Ok(()) };
    row::Entity::delete_many()
        .filter(row::Column::ServiceId.eq(service))
        .filter(row::Column::Id.lte(oldest))
        .exec(connection)
        .await
        .map(drop)
        .map_err(db("removing old plans"))
}
