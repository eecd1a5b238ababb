//! Runs that are not over: those of one stack, and those that wait for people.

use std::collections::HashSet;

use plural_core::ids::StackId;
use plural_core::page::{Direction, Page, PageRequest};
use plural_core::stack::Stack;
use plural_core::stack_run::{RunTrigger, StackRun};
use plural_core::{Error, Result};

use crate::access::Read;
use crate::app::App;
use crate::ctx::OpCtx;

/// Runs of one stack that people may have under way at once.
const MAX_OPEN: usize = 50;
/// Runs that wait are read so many at once, at least: whoever asks may read few of them.
const WAITING: u32 = 100;

impl App {
    /// Refuses one more run of a stack that has so many under way: each that no agent starts takes its time.
    pub(crate) async fn stack_has_room(&self, stack: StackId) -> Result<()> {
        let open = self.store.stack_runs_open_of(stack).await?;
        // Anybody may open a pull request: those have a limit of their own.
        if open.iter().filter(|run| run.trigger != RunTrigger::PullRequest).count() < MAX_OPEN {
            return Ok(());
        }
        Err(Error::conflict(format!(
            "the stack has {MAX_OPEN} runs that are not over: cancel some, or wait until they have ended"
        )))
    }

    /// All runs that wait for approval and that the caller may read, oldest first.
    pub async fn runs_waiting(&self, ctx: &OpCtx, page: &PageRequest) -> Result<Page<StackRun>> {
        plural_core::access::visibility(ctx.actor())?;
        let wanted = page.limit as usize + 1;
        let mut next = PageRequest { limit: page.limit.saturating_add(1).max(WAITING), ..*page };
        let mut found: Vec<StackRun> = Vec::new();
        loop {
            let (runs, last) = self.store.stack_runs_waiting(&next).await?;
            let stacks: HashSet<StackId> = runs.iter().map(|run| run.stack_id).collect();
            let stacks: Vec<StackId> = stacks.into_iter().collect();
            let readable = self.authorized_many::<Stack, Read>(ctx, &stacks).await?;
            let readable: HashSet<StackId> = readable.iter().map(|stack| stack.id).collect();
            found.extend(runs.into_iter().filter(|run| readable.contains(&run.stack_id)));
            if last.is_none() || found.len() >= wanted {
                break;
            }
            match page.direction {
                Direction::Forward => next.after = last,
                Direction::Backward => next.before = last,
            }
        }
        found.truncate(wanted);
        Ok(Page::from_rows(page, found))
    }
}
