//! Logs of steps. A step's row knows how much of its log is known, and is locked by whoever appends: of two writers one comes second.

use chrono::{DateTime, Utc};
use plural_app::stack_run::LogPiece;
use plural_core::ids::StackRunId;
use plural_core::stack_run::{RunPhase, RunStatus, StepStatus};
use plural_core::{Error, Result};
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Select,
};
use uuid::Uuid;

use super::row::{log, run, runs, step};
use crate::database::Database;
use crate::error::{db, gone_or};
use crate::transaction::{self, set};

/// Bytes of one row.
const ROW: usize = 64 << 10;

/// A place in a log as it is stored. No log is as long as what has none.
fn place(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// A step of a run, by its place.
pub(super) fn step_at(id: StackRunId, index: u32) -> Select<step::Entity> {
    step::Entity::find()
        .filter(step::Column::RunId.eq(id.uuid()))
        .filter(step::Column::Number.eq(i64::from(index)))
}

/// Takes the sign of life of a run that is running, in this phase and attempt where they are given; whether it is.
pub(super) async fn beat_in_tx(
    write: &transaction::Write<'_>,
    id: StackRunId,
    of: Option<(RunPhase, u32)>,
    at: DateTime<Utc>,
) -> Result<bool> {
    let mut beat = run::Entity::update_many()
        .col_expr(run::Column::HeartbeatAt, Expr::value(at))
        .filter(run::Column::Id.eq(id.uuid()))
        .filter(run::Column::Status.eq(RunStatus::Running.as_str()));
    if let Some((phase, attempt)) = of {
        beat = beat
            .filter(run::Column::Phase.eq(phase.as_str()))
            .filter(run::Column::Attempt.eq(i64::from(attempt)));
    }
    let beat = beat.exec(&write.tx).await.map_err(db("taking a run's sign of life"))?;
    Ok(beat.rows_affected > 0)
}

/// A step that says something has begun, whether its runner said so or not.
async fn begin_in_tx(
    write: &transaction::Write<'_>,
    id: StackRunId,
    step: Uuid,
    at: DateTime<Utc>,
) -> Result<()> {
    let doing = "beginning a step of a run";
    let change = step::ActiveModel {
        id: ActiveValue::Unchanged(step),
        status: set(StepStatus::Running.as_str().to_owned()),
        started_at: set(Some(at)),
        ..Default::default()
    };
    change.update(&write.tx).await.map_err(gone_or("run step", db(doing)))?;
    pages_follow_in_tx(write, id, at).await
}

/// Tells open pages that something of a run of its stack changed.
pub(super) async fn pages_follow_in_tx(
    write: &transaction::Write<'_>,
    id: StackRunId,
    at: DateTime<Utc>,
) -> Result<()> {
    let stack: Option<Uuid> = runs()
        .select_only()
        .column(run::Column::StackId)
        .filter(run::Column::Id.eq(id.uuid()))
        .into_tuple()
        .one(&write.tx)
        .await
        .map_err(db("reading the stack of a run"))?;
    if let Some(stack) = stack {
        write.stack_changed(stack, at);
    }
    Ok(())
}

/// Puts bytes behind all that is known of the log of a step that is locked.
async fn append_in_tx(
    write: &transaction::Write<'_>,
    step: &step::Model,
    bytes: &[u8],
    at: DateTime<Utc>,
) -> Result<()> {
    let doing = "keeping a piece of a log";
    let last: Option<(i64, Vec<u8>)> = log::Entity::find()
        .select_only()
        .columns([log::Column::Place, log::Column::Content])
        .filter(log::Column::StepId.eq(step.id))
        .order_by_desc(log::Column::Place)
        .limit(1)
        .into_tuple()
        .one(&write.tx)
        .await
        .map_err(db(doing))?;
    let (mut rest, mut end) = (bytes, step.logged);
    // However small the pieces are that a harness sends, rows are few.
    if let Some((begins, mut content)) = last
        && let Some(room) = ROW.checked_sub(content.len()).filter(|room| *room > 0)
    {
        let (head, tail) = rest.split_at(rest.len().min(room));
        content.extend_from_slice(head);
        let change = log::ActiveModel { at: set(at), content: set(content), ..Default::default() };
        log::Entity::update_many()
            .set(change)
            .filter(log::Column::StepId.eq(step.id))
            .filter(log::Column::Place.eq(begins))
            .exec(&write.tx)
            .await
            .map_err(db(doing))?;
        end += place(head.len() as u64);
        rest = tail;
    }
    for chunk in rest.chunks(ROW) {
        let row = log::ActiveModel {
            step_id: set(step.id),
            place: set(end),
            at: set(at),
            content: set(chunk.to_vec()),
        };
        log::Entity::insert(row).exec_without_returning(&write.tx).await.map_err(db(doing))?;
        end += place(chunk.len() as u64);
    }
    let change =
        step::ActiveModel { id: ActiveValue::Unchanged(step.id), logged: set(end), ..Default::default() };
    change.update(&write.tx).await.map(drop).map_err(gone_or("run step", db(doing)))
}

impl Database {
    /// Keeps what of a piece is not known yet; how many bytes are known then.
    pub(super) async fn log_append(
        &self,
        id: StackRunId,
        of: (RunPhase, u32),
        index: u32,
        piece: &LogPiece,
    ) -> Result<Option<u64>> {
        let LogPiece { offset, at, bytes } = piece;
        let write = self.write().await?;
        if !beat_in_tx(&write, id, Some(of), *at).await? {
            return Ok(None);
        }
        let step = step_at(id, index).lock_exclusive().one(&write.tx).await;
        let step = step.map_err(db("reading a step"))?.ok_or(Error::not_found("run step"))?;
        if step.status == StepStatus::Pending.as_str() && !bytes.is_empty() {
            begin_in_tx(&write, id, step.id, *at).await?;
        }
        let known = step.logged.cast_unsigned();
        let Some(skipped) = known.checked_sub(*offset) else {
            // It lives, whatever it says.
            write.commit().await?;
            return Err(Error::conflict(format!(
                "the log is known up to byte {known}, and the piece begins at {offset}: send what is between them first"
            )));
        };
        let new = bytes.get(length(skipped)..).unwrap_or_default();
        if !new.is_empty() {
            append_in_tx(&write, &step, new, *at).await?;
        }
        write.commit().await?;
        Ok(Some(known + new.len() as u64))
    }

    /// At most so many bytes of a log, from a place on.
    pub(super) async fn log_read(
        &self,
        id: StackRunId,
        index: u32,
        from: u64,
        bytes: u64,
    ) -> Result<Vec<LogPiece>> {
        let doing = "reading a log";
        let step = step_at(id, index).one(&self.reader).await.map_err(db(doing))?;
        let step = step.ok_or(Error::not_found("run step"))?;
        // The piece that holds the place begins before it.
        let first: Option<i64> = log::Entity::find()
            .select_only()
            .column(log::Column::Place)
            .filter(log::Column::StepId.eq(step.id))
            .filter(log::Column::Place.lte(place(from)))
            .order_by_desc(log::Column::Place)
            .limit(1)
            .into_tuple()
            .one(&self.reader)
            .await
            .map_err(db(doing))?;
        let rows = log::Entity::find()
            .filter(log::Column::StepId.eq(step.id))
            .filter(log::Column::Place.gte(first.unwrap_or_default()))
            .filter(log::Column::Place.lt(place(from.saturating_add(bytes))))
            .order_by_asc(log::Column::Place)
            .all(&self.reader)
            .await
            .map_err(db(doing))?;
        let mut left = length(bytes);
        let mut pieces = Vec::with_capacity(rows.len());
        for log::Model { step_id: _, place, at, mut content } in rows {
            let begins = place.cast_unsigned();
            let skipped = from.saturating_sub(begins);
            if length(skipped) >= content.len() {
                continue;
            }
            content.drain(..length(skipped));
            content.truncate(left);
            left -= content.len();
            if !content.is_empty() {
                pieces.push(LogPiece { offset: begins + skipped, at, bytes: content });
            }
        }
        Ok(pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_beyond_every_log_is_the_last_one() {
        assert_eq!((place(7), place(u64::MAX)), (7, i64::MAX));
    }
}
