//! The audit log.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Authorized, Installation, Read};
use plural_app::audit::AuditStore;
use plural_core::audit::{AuditEntry, AuditFilter, AuditRow, AuditTarget};
use plural_core::ids::{AuditId, RequestId, TokenId, UserId};
use plural_core::{Page, PageRequest, Result};
use sea_orm::sea_query::LikeExpr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, Select};
use uuid::Uuid;

use crate::database::Database;
use crate::page::page;
use crate::transaction::set;

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "audit_rows")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub action: String,
        pub user_id: Option<Uuid>,
        pub actor: String,
        pub target_noun: String,
        pub target_id: Option<Uuid>,
        pub target_name: String,
        pub request_id: Uuid,
        pub at: DateTimeUtc,
        pub times: i64,
        pub batch_id: Option<Uuid>,
        pub address: Option<String>,
        pub token_id: Option<Uuid>,
        pub state_before: Option<Vec<u8>>,
        pub state_after: Option<Vec<u8>>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) fn row_of(id: AuditId, entry: &AuditEntry) -> row::ActiveModel {
    let AuditEntry {
        action,
        user_id,
        actor,
        token_id,
        address,
        target,
        request_id,
        at,
        times,
        before,
        after,
    } = entry;
    row::ActiveModel {
        id: set(id.uuid()),
        action: set(action.to_string()),
        user_id: set(user_id.map(UserId::uuid)),
        actor: set(actor.clone()),
        target_noun: set(target.noun.to_string()),
        target_id: set(target.id),
        target_name: set(target.name.clone()),
        request_id: set(request_id.uuid()),
        at: set(*at),
        times: set(i64::from(*times)),
        batch_id: set(None),
        address: set(address.map(|address| address.to_string())),
        token_id: set(token_id.map(TokenId::uuid)),
        state_before: set(before.map(|digest| digest.to_vec())),
        state_after: set(after.map(|digest| digest.to_vec())),
    }
}

impl From<row::Model> for AuditRow {
    fn from(row: row::Model) -> Self {
        let row::Model {
            id,
            action,
            user_id,
            actor,
            target_noun,
            target_id,
            target_name,
            request_id,
            at,
            times,
            batch_id: _,
            address,
            token_id,
            state_before,
            state_after,
        } = row;
        Self {
            id: AuditId::from_uuid(id),
            entry: AuditEntry {
                action: action.into(),
                user_id: user_id.map(UserId::from_uuid),
                actor,
                token_id: token_id.map(TokenId::from_uuid),
                address: address.and_then(|address| address.parse().ok()),
                target: AuditTarget { noun: target_noun.into(), id: target_id, name: target_name },
                request_id: RequestId::from_uuid(request_id),
                at,
                times: u32::try_from(times).unwrap_or(u32::MAX),
                before: state_before.and_then(|digest| digest.try_into().ok()),
                after: state_after.and_then(|digest| digest.try_into().ok()),
            },
        }
    }
}

fn matching(filter: &AuditFilter) -> Select<row::Entity> {
    let AuditFilter { actor, action, noun, target, request_id, since, until } = filter;
    let mut rows = row::Entity::find();
    if let Some(actor) = actor {
        rows = match actor.parse::<Uuid>() {
            Ok(id) => rows.filter(row::Column::UserId.eq(id)),
            Err(_) => rows.filter(row::Column::Actor.eq(actor.as_str())),
        };
    }
    if let Some(action) = action {
        rows = match action.strip_suffix('*') {
            // Nothing that an action is made of means something to LIKE but the underscore, which is escaped.
            Some(begin) => rows.filter(
                row::Column::Action.like(
                    LikeExpr::new(format!("{}%", begin.replace(['\\', '%'], "").replace('_', "\\_")))
                        .escape('\\'),
                ),
            ),
            None => rows.filter(row::Column::Action.eq(action.as_str())),
        };
    }
    if let Some(noun) = noun {
        rows = rows.filter(row::Column::TargetNoun.eq(noun.as_str()));
    }
    if let Some(target) = target {
        rows = match target.parse::<Uuid>() {
            Ok(id) => rows.filter(row::Column::TargetId.eq(id)),
            Err(_) => rows.filter(row::Column::TargetName.eq(target.as_str())),
        };
    }
    if let Some(request) = request_id {
        rows = rows.filter(row::Column::RequestId.eq(request.uuid()));
    }
    if let Some(since) = since {
        // A line's id is made with it or after it, so that its key finds the beginning without a look at what is older.
        rows = rows.filter(row::Column::Id.gte(first_id_of(*since))).filter(row::Column::At.gte(*since));
    }
    if let Some(until) = until {
        rows = rows.filter(row::Column::At.lt(*until));
    }
    rows
}

/// What ids of version 7 that were made from then on are not less than.
pub(crate) fn first_id_of(at: DateTime<Utc>) -> Uuid {
    let milliseconds = u64::try_from(at.timestamp_millis()).unwrap_or_default();
    let mut first = [0; 16];
    first[..6].copy_from_slice(&milliseconds.to_be_bytes()[2..]);
    Uuid::from_bytes(first)
}

/// Lines of one statement.
const AT_ONCE: usize = 500;

#[async_trait]
impl AuditStore for Database {
    async fn audit_note(&self, entries: &[AuditEntry]) -> Result<()> {
        let write = self.write().await?;
        for chunk in entries.chunks(AT_ONCE) {
            write.audit_many(chunk).await?;
        }
        write.commit().await
    }

    async fn audit_list(
        &self,
        _by: &Authorized<Installation, Read>,
        filter: &AuditFilter,
        request: &PageRequest,
    ) -> Result<Page<AuditRow>> {
        page(&self.reader, matching(filter), row::Column::Id, request, |row| Ok(row.into())).await
    }
}
