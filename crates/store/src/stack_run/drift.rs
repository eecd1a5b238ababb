//! Drift of stacks: what the last good look found takes the place of what there was, with the end of its run.

use std::collections::HashMap;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Authorized, Read};
use plural_app::seal::Sealed;
use plural_app::stack_drift::{DriftWrite, SealedResource, StackDriftStore, StoredDrift};
use plural_app::stack_run::RunMove;
use plural_core::audit::{AuditEntry, AuditTarget};
use plural_core::ids::{RequestId, StackDriftId, StackId, StackRunId};
use plural_core::stack::Stack;
use plural_core::stack_drift::{DriftAction, DriftCheck};
use plural_core::stack_run::{RunKind, RunStatus};
use plural_core::{Error, Page, PageRequest, Result};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QuerySelect};
use uuid::Uuid;

use super::row::{run, status_of};
use crate::convert::{json, to_json, word};
use crate::database::Database;
use crate::error::db;
use crate::page::page;
use crate::stack;
use crate::transaction::{self, set};

/// Resources of one statement.
const ROWS: usize = 200;

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "stack_drift")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub stack_id: Uuid,
        pub address: String,
        pub kind: String,
        pub provider: String,
        pub action: String,
        pub left_out: i64,
        pub content: Vec<u8>,
        pub run_id: Uuid,
        pub run_number: i64,
        pub first_seen_at: DateTimeUtc,
        pub last_seen_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

impl TryFrom<row::Model> for StoredDrift {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            stack_id,
            address,
            kind,
            provider,
            action,
            left_out,
            content,
            run_id,
            run_number,
            first_seen_at,
            last_seen_at,
        } = row;
        let action = word(DriftAction::parse(&action), "what happened to a resource that drifted")?;
        let (left_out, content) = (left_out.cast_unsigned(), Sealed::from_bytes(content));
        Ok(Self {
            id: StackDriftId::from_uuid(id),
            stack_id: StackId::from_uuid(stack_id),
            resource: SealedResource { address, kind, provider, action, left_out, content },
            run_id: StackRunId::from_uuid(run_id),
            run: run_number.cast_unsigned(),
            first_seen_at,
            last_seen_at,
        })
    }
}

#[async_trait]
impl StackDriftStore for Database {
    async fn stack_drift(
        &self,
        stack: &Authorized<Stack, Read>,
        request: &PageRequest,
    ) -> Result<Page<StoredDrift>> {
        let rows = row::Entity::find().filter(row::Column::StackId.eq(stack.id.uuid()));
        page(&self.reader, rows, row::Column::Id, request, StoredDrift::try_from).await
    }
}

/// What a stack is told of its drift when a run of it moves, and what of that is to be said in the audit log.
pub(super) async fn follow_in_tx(
    write: &transaction::Write<'_>,
    (stack, old, new): (&stack::row::Model, &run::Model, &run::Model),
    change: &RunMove,
    told: &mut stack::row::ActiveModel,
) -> Result<Vec<&'static str>> {
    if new.kind != RunKind::Drift.as_str() || new.finished_at.is_none() || old.finished_at.is_some() {
        return Ok(Vec::new());
    }
    let was: DriftCheck = check_of(stack)?;
    let (check, lines) = match (&change.drift, status_of(new)?) {
        (Some(found), RunStatus::Successful) => {
            let lines = replace_in_tx(write, new, found, change.at).await?;
            let (count, left_out) = (found.resources.len() as u64, found.left_out);
            let is_drifted = count > 0 || left_out > 0;
            told.drifted_at = set(is_drifted.then(|| stack.drifted_at.unwrap_or(change.at)));
            let number = Some(new.number.cast_unsigned());
            let check = DriftCheck {
                checked_at: Some(change.at),
                run: number,
                count,
                left_out,
                error: None,
                failed_at: None,
            };
            (check, lines)
        }
        // What is known stays as it is.
        (_, RunStatus::Failed) => {
            let error = Some(new.error.clone().unwrap_or_default());
            (DriftCheck { error, failed_at: Some(change.at), ..was }, Vec::new())
        }
        (None, RunStatus::Successful)
        | (
            _,
            RunStatus::Queued
            | RunStatus::Pending
            | RunStatus::Running
            | RunStatus::PendingApproval
            | RunStatus::Cancelled,
        ) => return Ok(Vec::new()),
    };
    told.drift = set(Some(to_json(&check, "what is told of a stack's drift")?));
    Ok(lines)
}

fn check_of(stack: &stack::row::Model) -> Result<DriftCheck> {
    let check = stack.drift.clone().map(|drift| json(drift, "what is told of a stack's drift"));
    Ok(check.transpose()?.unwrap_or_default())
}

/// All that there is of drift from now on. An address that was known keeps its id, and since when it is known.
async fn replace_in_tx(
    write: &transaction::Write<'_>,
    by: &run::Model,
    found: &DriftWrite,
    at: DateTime<Utc>,
) -> Result<Vec<&'static str>> {
    let doing = "writing what drifted of a stack";
    let known: Vec<(Uuid, String, DateTime<Utc>)> = row::Entity::find()
        .select_only()
        .columns([row::Column::Id, row::Column::Address, row::Column::FirstSeenAt])
        .filter(row::Column::StackId.eq(by.stack_id))
        .into_tuple()
        .all(&write.tx)
        .await
        .map_err(db(doing))?;
    let mut known: HashMap<String, (Uuid, DateTime<Utc>)> =
        known.into_iter().map(|(id, address, since)| (address, (id, since))).collect();
    if !known.is_empty() {
        row::Entity::delete_many()
            .filter(row::Column::StackId.eq(by.stack_id))
            .exec(&write.tx)
            .await
            .map_err(db(doing))?;
    }
    let mut is_news = false;
    for chunk in found.resources.chunks(ROWS) {
        let mut rows = Vec::with_capacity(chunk.len());
        for SealedResource { address, kind, provider, action, left_out, content } in chunk {
            let (id, first_seen_at) = known.remove(address).unwrap_or_else(|| {
                is_news = true;
                (StackDriftId::new().uuid(), at)
            });
            rows.push(row::ActiveModel {
                id: set(id),
                stack_id: set(by.stack_id),
                address: set(address.clone()),
                kind: set(kind.clone()),
                provider: set(provider.clone()),
                action: set(action.as_str().to_owned()),
                left_out: set(left_out.cast_signed()),
                content: set(content.as_bytes().to_vec()),
                run_id: set(by.id),
                run_number: set(by.number),
                first_seen_at: set(first_seen_at),
                last_seen_at: set(at),
            });
        }
        row::Entity::insert_many(rows).exec_without_returning(&write.tx).await.map_err(db(doing))?;
    }
    let news = is_news.then_some("stack.drift.found");
    Ok(news.into_iter().chain((!known.is_empty()).then_some("stack.drift.resolved")).collect())
}

/// A line of the audit log about a stack.
pub(super) fn line(
    action: &'static str,
    actor: &str,
    stack: &stack::row::Model,
    (request_id, at): (RequestId, DateTime<Utc>),
) -> AuditEntry {
    AuditEntry {
        action: action.into(),
        user_id: None,
        actor: actor.to_owned(),
        token_id: None,
        address: None,
        target: AuditTarget { noun: "stack".into(), id: Some(stack.id), name: stack.name.clone() },
        request_id,
        at,
        times: 1,
        before: None,
        after: None,
    }
}
