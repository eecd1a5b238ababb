//! The lock of a stack's state, where the Job of a run holds it.

use plural_core::Result;
use plural_core::access::RunActor;
use plural_core::ids::StackRunId;
use plural_core::stack_state::StateLock;
use sea_orm::sea_query::{Condition, Expr};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use uuid::Uuid;

use super::row::run;
use crate::error::db;
use crate::{stack, transaction};

/// The lock of the stack's state that the Job of some run holds. While no run is under way, it is of one that was not heard of any more, and
/// may still be at work.
pub(super) fn lock_of_runs(stack: &stack::row::Model) -> Result<Option<StateLock>> {
    Ok(stack::lock_of(stack)?.filter(|lock| RunActor::run_of(&lock.author).is_some()))
}

/// The one that this run holds.
pub(super) fn lock_of_run(stack: &stack::row::Model, run: &run::Model) -> Result<Option<StateLock>> {
    let id = StackRunId::from_uuid(run.id);
    Ok(stack::lock_of(stack)?.filter(|lock| RunActor::run_of(&lock.author) == Some(id)))
}

/// Applies that wait until the Job that holds the state is known to be gone say so. Whether one of them did not before.
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
        "waits until the state is not locked: {author} ({who}) was not heard of any more, and may still be at work. It goes on when the agent \
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
