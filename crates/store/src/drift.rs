//! Foreign changes of services' objects.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use plural_core::Result;
use plural_core::ids::{DriftId, ServiceId};
use plural_core::sync::{DriftEvent, DriftKind, FieldChange, ReportedDrift};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder,
    QuerySelect,
};
use uuid::Uuid;

use crate::convert::{json, to_json, word};
use crate::error::db;
use crate::transaction::set;

/// Events kept of one service.
const KEPT: u64 = 200;

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "drift_events")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub service_id: Uuid,
        pub event: String,
        pub object: Json,
        pub kind: String,
        pub fields: Json,
        pub what: Option<String>,
        pub count: i32,
        pub at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

impl TryFrom<row::Model> for DriftEvent {
    type Error = plural_core::Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model { id, service_id, event, object, kind, fields, what, count, at, updated_at } = row;
        Ok(Self {
            id: DriftId::from_uuid(id),
            service_id: ServiceId::from_uuid(service_id),
            told: ReportedDrift {
                event,
                object: json(object, "the object of a drift event")?,
                at,
                kind: word(DriftKind::parse(&kind), "the kind of a drift event")?,
                fields: json(fields, "the fields of a drift event")?,
                what,
                count: count.cast_unsigned(),
            },
            updated_at,
        })
    }
}

/// Fields without their values: those are sealed, each time otherwise.
fn outline_of(fields: &[FieldChange]) -> Vec<FieldChange> {
    let without = |field: &FieldChange| FieldChange { before: None, after: None, ..field.clone() };
    fields.iter().map(without).collect()
}

/// Keeps what was told of one service: known events are brought up to date, the oldest go.
pub(crate) async fn keep_on(
    connection: &impl ConnectionTrait,
    service: Uuid,
    told: &[ReportedDrift],
    now: DateTime<Utc>,
) -> Result<()> {
    if told.is_empty() {
        return Ok(());
    }
    let doing = "keeping drift events";
    let names: HashSet<&str> = told.iter().map(|event| event.event.as_str()).collect();
    let known: Vec<row::Model> = row::Entity::find()
        .filter(row::Column::ServiceId.eq(service))
        .filter(row::Column::Event.is_in(names))
        .all(connection)
        .await
        .map_err(db(doing))?;
    let mut known: HashMap<String, row::Model> =
        known.into_iter().map(|row| (row.event.clone(), row)).collect();
    let mut new = Vec::new();
    let mut seen = HashSet::with_capacity(told.len());
    for event in told {
        let ReportedDrift { event: name, object, at, kind, fields, what, count } = event;
        // One event is one row, however often a report names it.
        if !seen.insert(name.as_str()) {
            continue;
        }
        let count = i32::try_from(*count).unwrap_or(i32::MAX);
        let outline = outline_of(fields);
        let fields = to_json(fields, "the fields of a drift event")?;
        let kind = kind.as_str().to_owned();
        match known.remove(name) {
            Some(row)
                if row.count == count
                    && row.kind == kind
                    && json::<Vec<FieldChange>>(row.fields.clone(), "the fields of a drift event")
                        .is_ok_and(|known| outline_of(&known) == outline) => {}
            Some(row) => {
                let change = row::ActiveModel {
                    id: ActiveValue::Unchanged(row.id),
                    kind: set(kind),
                    fields: set(fields),
                    what: set(what.clone()),
                    count: set(count),
                    updated_at: set(now),
                    ..Default::default()
                };
                change.update(connection).await.map_err(db(doing))?;
            }
            None => new.push(row::ActiveModel {
                id: set(DriftId::new().uuid()),
                service_id: set(service),
                event: set(name.clone()),
                object: set(to_json(object, "the object of a drift event")?),
                kind: set(kind),
                fields: set(fields),
                what: set(what.clone()),
                count: set(count),
                at: set(*at),
                updated_at: set(now),
            }),
        }
    }
    if new.is_empty() {
        return Ok(());
    }
    row::Entity::insert_many(new).exec_without_returning(connection).await.map_err(db(doing))?;
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
        .map_err(db(doing))?;
    let Some(oldest) = oldest else { return Ok(()) };
    row::Entity::delete_many()
        .filter(row::Column::ServiceId.eq(service))
        .filter(row::Column::Id.lte(oldest))
        .exec(connection)
        .await
        .map(drop)
        .map_err(db(doing))
}
