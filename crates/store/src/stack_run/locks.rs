//! The lock of a stack's state, while the Job of a run holds it.

use chrono::{DateTime, Utc};
use plural_app::stack_run::RunMove;
use plural_core::Result;
use plural_core::access::RunActor;
use plural_core::ids::{RequestId, StackRunId};
use plural_core::stack_run::{RunPhase, RunStatus};
use plural_core::stack_spec::Stage;
use plural_core::stack_state::StateLock;
use sea_orm::sea_query::{Condition, Expr};
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect};
use uuid::Uuid;

use super::moves::{OF_STACK, end_of, end_steps_in_tx, event, moved, stack_follows_in_tx, write_in_tx};
use super::row::{phase_of, run, runs, status_of, step};
use crate::error::db;
use crate::{stack, transaction};

/// Prefix of the note of an apply that waits for the lock of a lost run.
const WAITS: &str = "waits until the state is not locked: ";

/// The lock of the stack's state, if the Job of a run holds it. While no run is active, it belongs to a lost run, whose Job may
/// still be at work.
pub(super) fn lock_of_runs(stack: &stack::row::Model) -> Result<Option<StateLock>> {
    Ok(stack::lock_of(stack)?.filter(|lock| RunActor::run_of(&lock.author).is_some()))
}

/// The lock that this run holds.
pub(super) fn lock_of_run(stack: &stack::row::Model, run: &run::Model) -> Result<Option<StateLock>> {
    let id = StackRunId::from_uuid(run.id);
    Ok(stack::lock_of(stack)?.filter(|lock| RunActor::run_of(&lock.author) == Some(id)))
}

/// Sets the note of applies that wait until the Job that holds the state is known to have stopped. Returns whether any note is new.
pub(super) async fn wait_in_tx(
    write: &transaction::Write<'_>,
    runs: &[Uuid],
    lock: &StateLock,
) -> Result<bool> {
    if runs.is_empty() {
        return Ok(false);
    }
    let StateLock { id, who, author, .. } = lock;
    let why = format!(
        "{WAITS}{author} ({who}) was not heard of any more, and may still be at work. It goes on when the agent \
         says that this Job is gone, or when somebody who knows it ends the lock {id} with plural cd stacks state unlock"
    );
    let tells_other = run::Column::Error.ne(why.clone());
    let written = run::Entity::update_many()
        .col_expr(run::Column::Error, Expr::value(why))
        .filter(run::Column::Id.is_in(runs.iter().copied()))
        .filter(Condition::any().add(run::Column::Error.is_null()).add(tells_other))
        .exec(&write.tx)
        .await
        .map_err(db("noting what applies wait for"))?;
    Ok(written.rows_affected > 0)
}

/// No run is lost any more: clears the notes of these, which no longer wait for a lock.
pub(super) async fn wait_no_more_in_tx(write: &transaction::Write<'_>, stack: Uuid) -> Result<bool> {
    let written = run::Entity::update_many()
        .col_expr(run::Column::Error, Expr::value(None::<String>))
        .filter(run::Column::StackId.eq(stack))
        .filter(run::Column::FinishedAt.is_null())
        .filter(run::Column::Status.eq(RunStatus::Queued.as_str()))
        .filter(run::Column::Error.starts_with(WAITS))
        .exec(&write.tx)
        .await
        .map_err(db("clearing what applies waited for"))?;
    Ok(written.rows_affected > 0)
}

/// Releases the lock that this run held. If it failed and may have changed something, plans made meanwhile could repeat that change,
/// although nobody wrote the state: cancels everything that waits to be applied, and that is being planned. The row of the stack is
/// locked.
pub(super) async fn end_waiting_in_tx(
    write: &mut transaction::Write<'_>,
    holder: &run::Model,
    at: DateTime<Utc>,
) -> Result<Vec<run::Model>> {
    if phase_of(holder)? != RunPhase::Apply
        || matches!(status_of(holder)?, RunStatus::Queued | RunStatus::Successful)
        || !has_changed_in_tx(write, holder).await?
    {
        return Ok(Vec::new());
    }
    let queued = Condition::all()
        .add(run::Column::Status.eq(RunStatus::Queued.as_str()))
        .add(run::Column::Phase.eq(RunPhase::Apply.as_str()));
    // A run that has not begun to plan will see the changes of the lost run.
    let plans = Condition::all()
        .add(run::Column::Status.eq(RunStatus::Running.as_str()))
        .add(run::Column::Phase.eq(RunPhase::Plan.as_str()))
        .add(run::Column::Kind.is_in(OF_STACK));
    let waits = Condition::any()
        .add(run::Column::Status.eq(RunStatus::PendingApproval.as_str()))
        .add(queued)
        .add(plans);
    let waiting = run::Entity::find()
        .filter(run::Column::StackId.eq(holder.stack_id))
        .filter(run::Column::FinishedAt.is_null())
        .filter(run::Column::Id.ne(holder.id))
        .filter(waits)
        .order_by_asc(run::Column::Id)
        .lock_exclusive()
        .all(&write.tx)
        .await
        .map_err(db("reading applies that wait"))?;
    let change = RunMove {
        to: Some(RunStatus::Failed),
        error: Some(format!(
            "run {}, which was lost, may have changed something while this was planned: plan again",
            holder.number
        )),
        at,
        ..RunMove::default()
    };
    let mut ended = Vec::with_capacity(waiting.len());
    for old in waiting {
        let mut run = moved(&old, &change)?;
        let was_active = status_of(&old)?.is_active();
        run.sequence += i64::from(was_active);
        write_in_tx(write, &run).await?;
        end_steps_in_tx(write, &run, at).await?;
        if was_active {
            // Its agent ends its Job.
            write.publish(event(&run, false), at).await?;
        }
        ended.push(run);
    }
    Ok(ended)
}

/// Whether a step of its second Job that changes something began. The end of a run also fails steps that never began: the start time tells.
async fn has_changed_in_tx(write: &transaction::Write<'_>, run: &run::Model) -> Result<bool> {
    let begun = step::Entity::find()
        .filter(step::Column::RunId.eq(run.id))
        .filter(step::Column::Phase.eq(RunPhase::Apply.as_str()))
        .filter(step::Column::Stage.is_in([Stage::Apply.as_str(), Stage::Destroy.as_str()]))
        .filter(step::Column::StartedAt.is_not_null())
        .count(&write.tx)
        .await;
    Ok(begun.map_err(db("looking for what a run has begun"))? > 0)
}

/// Records that a user released the lock of a stack whose row is locked. If a run held it, the effects are those of a release by the
/// console.
pub(crate) async fn unlocked_in_tx(
    write: &mut transaction::Write<'_>,
    stack: &stack::row::Model,
    lock: &StateLock,
    (actor, at): (&str, DateTime<Utc>),
) -> Result<()> {
    let Some(id) = RunActor::run_of(&lock.author).filter(|_| lock.author != actor) else { return Ok(()) };
    let found = runs().filter(run::Column::Id.eq(id.uuid())).one(&write.tx).await;
    let Some(holder) = found.map_err(db("reading a run"))? else { return Ok(()) };
    let ended = end_waiting_in_tx(write, &holder, at).await?;
    if ended.is_empty() {
        return Ok(());
    }
    stack_follows_in_tx(write, stack.id, <stack::row::ActiveModel as sea_orm::ActiveModelTrait>::default())
        .await?;
    let request_id = RequestId::new();
    for run in &ended {
        write.audit(&end_of(actor, stack, run, request_id, at)).await?;
    }
    Ok(())
}
