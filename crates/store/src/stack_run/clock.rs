//! Stacks by their schedules. The row of a stack is locked before its tick is taken: of two who come for it, one makes its run.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Audited, Write};
use plural_app::stack_clock::{ClockTick, DueStack, StackClockStore};
use plural_app::stack_run::MadeRun;
use plural_core::Result;
use plural_core::ids::StackId;
use plural_core::stack::Stack;
use plural_core::stack_cron::Clockwork;
use plural_core::stack_run::StackRun;
use sea_orm::sea_query::Condition;
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
};
use uuid::Uuid;

use super::made::make_in_tx;
use crate::database::Database;
use crate::error::{db, gone_or};
use crate::stack::row;
use crate::transaction::{self, set};

/// Where the next time is.
const fn column(what: Clockwork) -> row::Column {
    match what {
        Clockwork::Run => row::Column::NextCronAt,
        Clockwork::Drift => row::Column::NextDriftAt,
    }
}

/// A row that says when it is due next, and why nothing was made now.
fn ticked(tick: &ClockTick, why: Option<&str>) -> row::ActiveModel {
    let mut row = row::ActiveModel { clock_error: set(why.map(str::to_owned)), ..Default::default() };
    match tick.due.what {
        Clockwork::Run => row.next_cron_at = set(tick.next),
        Clockwork::Drift => row.next_drift_at = set(tick.next),
    }
    row
}

/// The row of a stack, locked, as long as the tick is due.
async fn due_in_tx(write: &transaction::Write<'_>, tick: &ClockTick) -> Result<Option<row::Model>> {
    let DueStack { stack, what, at } = tick.due;
    let row = row::Entity::find_by_id(stack.uuid()).lock_exclusive().one(&write.tx).await;
    let row = row.map_err(db("reading a stack"))?;
    Ok(row.filter(|row| {
        let next = match what {
            Clockwork::Run => row.next_cron_at,
            Clockwork::Drift => row.next_drift_at,
        };
        next == Some(at)
    }))
}

#[async_trait]
impl StackClockStore for Database {
    async fn stacks_due(&self, now: DateTime<Utc>, most: u64) -> Result<Vec<DueStack>> {
        let mut all = Vec::new();
        for what in Clockwork::ALL {
            let column = column(what);
            let due: Vec<(Uuid, DateTime<Utc>)> = row::Entity::find()
                .select_only()
                .columns([row::Column::Id, column])
                .filter(column.lte(now))
                .order_by_asc(column)
                .limit(most)
                .into_tuple()
                .all(&self.reader)
                .await
                .map_err(db("looking for stacks that are due"))?;
            all.extend(due.into_iter().map(|(id, at)| DueStack { stack: StackId::from_uuid(id), what, at }));
        }
        all.sort_unstable_by_key(|due| (due.at, due.stack, due.what));
        Ok(all)
    }

    async fn stacks_due_later(
        &self,
        now: DateTime<Utc>,
        after: Option<StackId>,
        most: u64,
    ) -> Result<Vec<DueStack>> {
        type Row = (Uuid, Option<DateTime<Utc>>, Option<DateTime<Utc>>);
        let later =
            Condition::any().add(row::Column::NextCronAt.gt(now)).add(row::Column::NextDriftAt.gt(now));
        let mut rows = row::Entity::find()
            .select_only()
            .columns([row::Column::Id, row::Column::NextCronAt, row::Column::NextDriftAt])
            .filter(later);
        if let Some(after) = after {
            rows = rows.filter(row::Column::Id.gt(after.uuid()));
        }
        let rows: Vec<Row> = rows
            .order_by_asc(row::Column::Id)
            .limit(most)
            .into_tuple()
            .all(&self.reader)
            .await
            .map_err(db("looking for stacks that are due later"))?;
        let of = |(id, run, drift): Row| {
            let stack = StackId::from_uuid(id);
            let due = move |(what, at): (Clockwork, Option<DateTime<Utc>>)| {
                at.filter(|at| *at > now).map(|at| DueStack { stack, what, at })
            };
            [(Clockwork::Run, run), (Clockwork::Drift, drift)].into_iter().filter_map(due)
        };
        Ok(rows.into_iter().flat_map(of).collect())
    }

    async fn stack_clock_run(
        &self,
        by: Audited<'_, Stack, Write>,
        tick: &ClockTick,
        made: &MadeRun,
    ) -> Result<Option<StackRun>> {
        let MadeRun { run, inputs, prepare } = made;
        let mut write = self.write().await?;
        self.check_stacks_are_known_in_tx(&write).await?;
        let Some(stack) = due_in_tx(&write, tick).await? else { return Ok(None) };
        if stack.id != by.target().id.uuid() || stack.deleted_at.is_some() || stack.paused {
            return Ok(None);
        }
        let made = make_in_tx(&write, &stack, run, inputs, ticked(tick, None)).await?;
        write.audit(by.entry()).await?;
        write.enqueue(std::slice::from_ref(prepare), by.entry().at).await?;
        write.commit().await?;
        Ok(Some(made))
    }

    async fn stack_clock_passed(&self, tick: &ClockTick, why: Option<&str>) -> Result<()> {
        let write = self.write().await?;
        let Some(stack) = due_in_tx(&write, tick).await? else { return Ok(()) };
        let row = row::ActiveModel { id: ActiveValue::Unchanged(stack.id), ..ticked(tick, why) };
        row.update(&write.tx).await.map_err(gone_or("stack", db("letting a time of a stack go by")))?;
        write.commit().await
    }
}
