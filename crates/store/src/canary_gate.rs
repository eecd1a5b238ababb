//! Gates that canaries stand before: one row of a canary and a hook once it asked.

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use plural_app::canary_gate::{CanaryGateStore, GateAnswer};
use plural_core::Result;
use plural_core::canary_gate::{CanaryGate, GateHook, GateQuestion};
use plural_core::ids::ServiceId;
use plural_core::promotion::Promotion;
use plural_core::sync::ObjectRef;
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter,
};
use uuid::Uuid;

use crate::component;
use crate::convert::word;
use crate::database::Database;
use crate::error::db;
use crate::service::lock_in_tx;
use crate::transaction::set;

/// Where Flagger's kind is.
const GROUP: &str = "flagger.app";
/// Flagger's kind.
const KIND: &str = "Canary";
/// That somebody still waits is written so often.
const REPEAT: TimeDelta = TimeDelta::seconds(60);

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "canary_gates")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub service_id: Uuid,
        pub namespace: String,
        pub name: String,
        pub hook: String,
        pub checksum: String,
        pub asked_at: ChronoDateTimeUtc,
        pub opened_at: Option<ChronoDateTimeUtc>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

fn gate_of(row: &row::Model) -> CanaryGate {
    CanaryGate { checksum: row.checksum.clone(), asked_at: row.asked_at, opened_at: row.opened_at }
}

#[async_trait]
impl CanaryGateStore for Database {
    async fn gate_ask(
        &self,
        service: ServiceId,
        question: &GateQuestion,
        now: DateTime<Utc>,
    ) -> Result<GateAnswer> {
        // Who waits asks again and again: most of it is answered without a write.
        if let Some(known) = find_on(&self.reader, service, question).await? {
            let gate = gate_of(&known);
            let waits = gate.checksum == question.checksum && gate.opened_at.is_none();
            if waits && now - gate.asked_at < REPEAT {
                return Ok(GateAnswer::Shut);
            }
        } else if !is_canary_on(&self.reader, service, question).await? {
            return Ok(GateAnswer::Unknown);
        }
        let doing = "asking at a canary's gate";
        let write = self.write().await?;
        lock_in_tx(&write, service).await?;
        // Another release of the same canary: whatever was said of the one before is said no more.
        row::Entity::delete_many()
            .filter(row::Column::ServiceId.eq(service.uuid()))
            .filter(row::Column::Namespace.eq(&question.namespace))
            .filter(row::Column::Name.eq(&question.name))
            .filter(row::Column::Checksum.ne(&question.checksum))
            .exec(&write.tx)
            .await
            .map_err(db(doing))?;
        let known = find_on(&write.tx, service, question).await?;
        let answer = match known {
            None => {
                let new = row::ActiveModel {
                    id: set(Uuid::now_v7()),
                    service_id: set(service.uuid()),
                    namespace: set(question.namespace.clone()),
                    name: set(question.name.clone()),
                    hook: set(question.hook.as_str().to_owned()),
                    checksum: set(question.checksum.clone()),
                    asked_at: set(now),
                    opened_at: set(None),
                };
                row::Entity::insert(new).exec_without_returning(&write.tx).await.map_err(db(doing))?;
                GateAnswer::Shut
            }
            Some(known) => {
                let open = gate_of(&known).lets_through(&question.checksum, now);
                let stays = open && !question.hook.is_for_once();
                let change = row::ActiveModel {
                    id: ActiveValue::Unchanged(known.id),
                    asked_at: set(now),
                    opened_at: set(known.opened_at.filter(|_| stays)),
                    ..Default::default()
                };
                change.update(&write.tx).await.map_err(db(doing))?;
                if open { GateAnswer::Open } else { GateAnswer::Shut }
            }
        };
        write.commit().await?;
        Ok(answer)
    }
}

async fn find_on(
    connection: &impl ConnectionTrait,
    service: ServiceId,
    question: &GateQuestion,
) -> Result<Option<row::Model>> {
    row::Entity::find()
        .filter(row::Column::ServiceId.eq(service.uuid()))
        .filter(row::Column::Namespace.eq(&question.namespace))
        .filter(row::Column::Name.eq(&question.name))
        .filter(row::Column::Hook.eq(question.hook.as_str()))
        .one(connection)
        .await
        .map_err(db("reading a canary's gate"))
}

/// The service owns such a canary: nobody makes gates of canaries that there are not.
async fn is_canary_on(
    connection: &impl ConnectionTrait,
    service: ServiceId,
    question: &GateQuestion,
) -> Result<bool> {
    use component::row::Column;
    let found = component::row::Entity::find()
        .filter(Column::ServiceId.eq(service.uuid()))
        .filter(Column::ApiGroup.eq(GROUP))
        .filter(Column::Kind.eq(KIND))
        .filter(Column::Namespace.eq(&question.namespace))
        .filter(Column::Name.eq(&question.name))
        .count(connection)
        .await
        .map_err(db("looking for a canary"))?;
    Ok(found > 0)
}

/// Opens the gates of a service at which somebody waits for this word, all or those of the chosen canaries; how many those are.
pub(crate) async fn open_on(
    connection: &impl ConnectionTrait,
    service: Uuid,
    promotion: Promotion,
    chosen: &[ObjectRef],
    now: DateTime<Utc>,
) -> Result<u32> {
    let doing = "opening a canary's gate";
    let rows = row::Entity::find()
        .filter(row::Column::ServiceId.eq(service))
        .all(connection)
        .await
        .map_err(db(doing))?;
    let mut opened = 0;
    for row in rows {
        let hook = word(GateHook::parse(&row.hook), "a gate's hook")?;
        let is_chosen = chosen.is_empty()
            || chosen.iter().any(|object| {
                object.group == GROUP
                    && object.kind == KIND
                    && object.namespace == row.namespace
                    && object.name == row.name
            });
        if hook.opened_by() != promotion || !is_chosen || !gate_of(&row).is_waited_at(now) {
            continue;
        }
        let change = row::ActiveModel {
            id: ActiveValue::Unchanged(row.id),
            opened_at: set(Some(now)),
            ..Default::default()
        };
        change.update(connection).await.map_err(db(doing))?;
        opened += 1;
    }
    Ok(opened)
}
