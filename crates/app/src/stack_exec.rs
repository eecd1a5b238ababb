//! Runs of commands that somebody gives, in the environment of a stack.

use plural_core::access::Action;
use plural_core::ids::{StackId, StackRunId};
use plural_core::stack::Stack;
use plural_core::stack_exec::{ExecCommand, ExecCommands};
use plural_core::stack_run::{RunKind, RunTrigger, StackRun};
use plural_core::stack_spec::StackSpec;
use plural_core::{Error, Result};

use crate::access::{Authorized, ExecStack, Write};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::stack::StackSelector;
use crate::stack_run::{NewRun, RunMove, user_of};

/// Who may end a run.
pub(crate) enum Canceller {
    /// Somebody who may write its stack.
    Writer(Authorized<Stack, Write>),
    /// Whoever gave it its commands.
    Giver(Authorized<Stack, ExecStack>),
}

impl App {
    /// A run of these commands, of the stack's newest code and in its environment; needs the right to run them. What they may do to the
    /// stack's state is for [`ExecCommands::asked`] to say. It has its turn as every run, supersedes none, and says nothing of how the
    /// stack stands. The audit log has the commands.
    pub async fn stack_exec(
        &self,
        ctx: &OpCtx,
        stack: StackId,
        commands: Vec<ExecCommand>,
    ) -> Result<StackRun> {
        let stack = self.authorized::<Stack, ExecStack>(ctx, &StackSelector::Id(stack)).await?;
        if stack.deleted_at.is_some() {
            return Err(Error::conflict("the stack is being deleted: restore it first"));
        }
        let inputs = self.stack_inputs_of(&stack).await?;
        let may_write = stack.held().allow(Action::Write);
        let exec = ExecCommands::asked(commands, &stack.spec.approval, may_write, &inputs.environment)?;
        self.stack_has_room(stack.id).await?;
        let name = format!("{}: {}", stack.name, exec.told());
        let spec = StackSpec { exec: Some(exec), ..stack.spec.clone() };
        let with = Stack { spec, ..Stack::clone(&stack) };
        let new = NewRun { kind: RunKind::Commands, trigger: RunTrigger::Manual };
        let made = self.stack_run_made_with(ctx, &with, new, &inputs).await?;
        let by = stack.audited_new(ctx, "stack.run.exec", "stack", stack.id, &name);
        self.store.stack_run_exec(by, &made).await
    }

    /// As whom somebody may end a run.
    pub(crate) async fn stack_run_canceller(&self, ctx: &OpCtx, id: StackRunId) -> Result<Canceller> {
        let denied = match self.stack_run_for::<Write>(ctx, id).await {
            Ok((stack, _)) => return Ok(Canceller::Writer(stack)),
            Err(denied @ Error::Forbidden { .. }) => denied,
            Err(error) => return Err(error),
        };
        match self.stack_run_for::<ExecStack>(ctx, id).await {
            Ok((stack, run))
                if run.kind == RunKind::Commands
                    && run.created_by.is_some()
                    && run.created_by == user_of(ctx) =>
            {
                Ok(Canceller::Giver(stack))
            }
            Ok(_) | Err(Error::Forbidden { .. }) => Err(denied),
            Err(error) => Err(error),
        }
    }

    /// A step towards the end of a run, for whoever may end it.
    pub(crate) async fn stack_run_cancelled(
        &self,
        ctx: &OpCtx,
        by: &Canceller,
        id: StackRunId,
        change: &RunMove,
    ) -> Result<Option<StackRun>> {
        const ACTION: &str = "stack.run.cancel";
        match by {
            Canceller::Writer(stack) => {
                self.store.stack_run_change(stack.audited(ctx, ACTION), id, change).await
            }
            Canceller::Giver(stack) => {
                self.store.stack_run_exec_change(stack.audited(ctx, ACTION), id, change).await
            }
        }
    }
}
