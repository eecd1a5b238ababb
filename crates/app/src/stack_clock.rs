//! What the clock makes of stacks: runs of their schedules, and looks for drift.

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::Mutex;
use plural_core::ids::{ProjectId, StackId};
use plural_core::project::Project;
use plural_core::stack::Stack;
use plural_core::stack_cron::Clockwork;
use plural_core::stack_run::{RunStatus, RunTrigger, StackRun};
use plural_core::stack_spec::StackSpec;
use plural_core::{Error, Result};

use crate::access::{Approve, Audited, Write};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::harness::cut;
use crate::project::ProjectSelector;
use crate::stack::StackSelector;
use crate::stack_run::{MadeRun, NewRun};

/// Stacks that one pass looks at; the next one takes those that are left.
const AT_ONCE: u64 = 200;
/// So often all times to come are compared with the schedules. A clock that was ahead and is right again leaves times that are too far
/// away; where it is set back while the console runs, the next pass sees it.
const COMPARED: TimeDelta = TimeDelta::hours(1);

/// It is time for something of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueStack {
    /// Which stack.
    pub stack: StackId,
    /// For what.
    pub what: Clockwork,
    /// Since when. Of the times that were missed, this is the first, and the only one that is made up for.
    pub at: DateTime<Utc>,
}

/// A time has come, and the next one is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockTick {
    /// What was due. Only as long as it is, something is written.
    pub due: DueStack,
    /// When it is due next.
    pub next: Option<DateTime<Utc>>,
}

/// When the passes of this console were.
#[derive(Default)]
pub(crate) struct ClockPasses(Mutex<Option<ClockPass>>);

/// The last pass, and the last one that compared all times.
#[derive(Clone, Copy)]
struct ClockPass {
    at: DateTime<Utc>,
    compared_at: DateTime<Utc>,
}

impl ClockPasses {
    /// There is a pass now: whether it compares all times.
    fn compares(&self, now: DateTime<Utc>) -> bool {
        let mut last = self.0.lock();
        let compares = last.is_none_or(|pass| now < pass.at || (now - pass.compared_at).abs() >= COMPARED);
        let compared_at = last.filter(|_| !compares).map_or(now, |pass| pass.compared_at);
        *last = Some(ClockPass { at: now, compared_at });
        compares
    }

    /// That pass could not.
    fn failed(&self) {
        *self.0.lock() = None;
    }
}

/// Stacks by their schedules.
#[async_trait]
pub trait StackClockStore: Send + Sync + 'static {
    /// What is due, the longest first, at most so many. An index has it: without anything due, nothing is read.
    async fn stacks_due(&self, now: DateTime<Utc>, most: u64) -> Result<Vec<DueStack>>;
    /// Makes the run of a tick together with the next time, as [`crate::stack_run::StackRunStore::stack_run_create`] does. None where the
    /// tick is not due any more: somebody else made its run, or the schedule is another one.
    async fn stack_clock_run(
        &self,
        by: Audited<'_, Stack, Write>,
        tick: &ClockTick,
        run: &MadeRun,
    ) -> Result<Option<StackRun>>;
    /// What is due later than `now`, at most so many, in the order of the stacks, and behind one of these.
    async fn stacks_due_later(
        &self,
        now: DateTime<Utc>,
        after: Option<StackId>,
        most: u64,
    ) -> Result<Vec<DueStack>>;
    /// A tick goes by without a run, for this reason if there is one.
    async fn stack_clock_passed(&self, tick: &ClockTick, why: Option<&str>) -> Result<()>;
}

impl App {
    /// One pass over what is due: how many runs it made. A loop does this by itself.
    ///
    /// # Errors
    /// When it cannot be read. What one of them fails with is logged, and does not hold up the others.
    pub async fn stacks_clock(&self) -> Result<u64> {
        let now = self.now();
        if self.clock_passes.compares(now)
            && let Err(error) = self.stacks_clock_compare(now).await
        {
            self.clock_passes.failed();
            return Err(error);
        }
        let mut made = 0;
        for due in self.store.stacks_due(now, AT_ONCE).await? {
            match self.stack_due(due, now).await {
                Ok(true) => made += 1,
                Ok(false) => {}
                Err(error) => {
                    let error = error.log_text();
                    tracing::warn!(stack.id = %due.stack, error, "cannot make what is due of a stack; trying again");
                }
            }
        }
        Ok(made)
    }

    /// Brings times nearer that are later than the schedule says: a clock that was ahead named them.
    async fn stacks_clock_compare(&self, now: DateTime<Utc>) -> Result<()> {
        let (system, mut after) = (self.system_ctx(), None);
        loop {
            let page = self.store.stacks_due_later(now, after, AT_ONCE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.stack);
            let ids: Vec<StackId> = page.iter().map(|due| due.stack).collect();
            let stacks = self.get_many::<Stack>(&system, &ids).await?;
            for due in page {
                let Some(stack) = stacks.get(&due.stack) else { continue };
                let next = match (stack.spec.next(due.what, now), due.what) {
                    (Some(next), _) => next,
                    // Somebody wants to know how it stands, without a schedule.
                    (None, Clockwork::Drift) => now,
                    (None, Clockwork::Run) => continue,
                };
                if next < due.at {
                    tracing::warn!(
                        stack.id = %stack.id, due = %due.at, next = %next,
                        "a stack was due later than its schedule says: the clock was ahead"
                    );
                    let why = "the console's clock was ahead, and is right again";
                    let tick = ClockTick { due, next: Some(next) };
                    self.store.stack_clock_passed(&tick, Some(why)).await?;
                }
            }
        }
    }

    async fn stack_due(&self, due: DueStack, now: DateTime<Utc>) -> Result<bool> {
        let system = self.system_ctx();
        let stack = match self.authorized::<Stack, Write>(&system, &StackSelector::Id(due.stack)).await {
            Ok(stack) => stack,
            // Gone a moment ago.
            Err(Error::NotFound { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        let tick = ClockTick { due, next: stack.spec.next(due.what, now) };
        if stack.paused || stack.deleted_at.is_some() {
            self.store.stack_clock_passed(&tick, None).await?;
            return Ok(false);
        }
        let kind = due.what.kind();
        let open = self.store.stack_runs_open_of(stack.id).await?;
        // Another one would find the same; where no agent takes them, they would be ever more. One that waits for people is superseded.
        let under_way = open.iter().find(|run| {
            let is_same = match due.what {
                Clockwork::Run => run.trigger == RunTrigger::Cron,
                Clockwork::Drift => true,
            };
            run.kind == kind && is_same && run.status != RunStatus::PendingApproval
        });
        if let Some(run) = under_way {
            let why = format!("run {} of the schedule was not over when the next one was due", run.number);
            self.store.stack_clock_passed(&tick, Some(&why)).await?;
            return Ok(false);
        }
        match self.stack_run_made(&system, &stack, NewRun { kind, trigger: RunTrigger::Cron }).await {
            Ok(made) => {
                let by = stack.audited(&system, "stack.run.create");
                let Some(run) = self.store.stack_clock_run(by, &tick, &made).await? else { return Ok(false) };
                tracing::info!(
                    stack.id = %run.stack_id, stack_run.id = %run.id, number = run.number, kind = run.kind.as_str(),
                    "the clock makes a run of a stack"
                );
                Ok(true)
            }
            Err(error @ Error::Unavailable { .. }) => Err(error),
            Err(error @ (Error::Invalid { .. } | Error::Conflict { .. })) => {
                self.store.stack_clock_passed(&tick, Some(&cut(error.to_string()))).await?;
                Ok(false)
            }
            Err(error) => {
                // It would be so each time, and hold up those behind it.
                let why = "the console could not make the run: its log says why";
                self.store.stack_clock_passed(&tick, Some(why)).await?;
                Err(error)
            }
        }
    }

    /// Plans of a schedule that nobody looks at are a decision of those who may approve: whether there are such plans, and, while there are,
    /// what they are made of.
    pub(crate) async fn stack_unattended_allowed(
        &self,
        ctx: &OpCtx,
        spec: &StackSpec,
        of: Unattended,
    ) -> Result<()> {
        if !spec.skips_approval() {
            return Ok(());
        }
        let allowed = match of {
            Unattended::New(project) => {
                self.authorized::<Project, Approve>(ctx, &ProjectSelector::Id(project)).await.map(drop)
            }
            Unattended::Changed(stack) => {
                self.authorized::<Stack, Approve>(ctx, &StackSelector::Id(stack)).await.map(drop)
            }
        };
        allowed.map_err(|error| match error {
            Error::Forbidden { .. } => Error::forbidden(
                "attributes.cron.autoApprove: only those who may approve the stack's plans have plans applied that nobody looks \
                 at, and change what such plans are made of",
            ),
            error => error,
        })
    }
}

/// What has plans that nobody looks at.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unattended {
    /// A new stack of this project.
    New(ProjectId),
    /// This stack, which is to be changed.
    Changed(StackId),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_times_are_compared_at_first_each_hour_and_when_the_clock_is_set_back() {
        let passes = ClockPasses::default();
        let at = |seconds: i64| DateTime::from_timestamp(1_000_000 + seconds, 0).unwrap();
        for (seconds, compares) in [(0, true), (10, false), (3599, false), (3600, true), (3700, false)] {
            assert_eq!(passes.compares(at(seconds)), compares, "{seconds}");
        }
        assert!(passes.compares(at(3690)));
        assert!(!passes.compares(at(3700)));
        passes.failed();
        assert!(passes.compares(at(3710)));
    }
}
