//! Runs of commands that somebody gives, in the environment of a stack.

use plural_core::access::Action;
use plural_core::form::FormAnswer;
use plural_core::ids::{ProjectId, StackId, StackRunId};
use plural_core::run_call::InputVariable;
use plural_core::stack::Stack;
use plural_core::stack_checks::check_environment;
use plural_core::stack_exec::{ExecCommand, ExecCommands, check_shown};
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

/// What is known of commands that are stored under a name.
pub(crate) struct Stored {
    /// They are for stacks of this project.
    pub(crate) project: ProjectId,
    /// Their name.
    pub(crate) name: String,
    /// What whoever starts them answered.
    pub(crate) answers: Vec<FormAnswer>,
}

impl Stored {
    /// Refuses a stack of another project, and answers that would take the place of what the stack gives its runs.
    fn check(&self, stack: &Stack, environment: &[InputVariable]) -> Result<()> {
        if stack.project_id != self.project {
            return Err(Error::invalid("stackId", "must be a stack of the project that the commands are of"));
        }
        for FormAnswer { name, .. } in &self.answers {
            let is_taken = stack.spec.dependencies.iter().flat_map(|dependency| &dependency.outputs);
            let mut taken =
                is_taken.flat_map(|output| [output.name.clone(), format!("TF_VAR_{}", output.name)]);
            if environment.iter().any(|variable| variable.name == *name) || taken.any(|taken| taken == *name)
            {
                return Err(Error::conflict(format!(
                    "{name} is a variable of stack {} already: rename the question, or the variable",
                    stack.name
                )));
            }
        }
        Ok(())
    }
}

fn variable(answer: &FormAnswer) -> InputVariable {
    InputVariable { name: answer.name.clone(), value: answer.value.clone(), secret: answer.is_secret() }
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
        Box::pin(self.stack_exec_of(ctx, stack, commands, None)).await
    }

    /// The same of commands that may be stored under a name.
    pub(crate) async fn stack_exec_of(
        &self,
        ctx: &OpCtx,
        stack: StackId,
        commands: Vec<ExecCommand>,
        stored: Option<Stored>,
    ) -> Result<StackRun> {
        let stack = self.authorized::<Stack, ExecStack>(ctx, &StackSelector::Id(stack)).await?;
        if stack.deleted_at.is_some() {
            return Err(Error::conflict("the stack is being deleted: restore it first"));
        }
        let mut inputs = self.stack_inputs_of(&stack).await?;
        if let Some(stored) = &stored {
            stored.check(&stack, &inputs.environment)?;
            inputs.environment.extend(stored.answers.iter().map(variable));
            check_environment(&inputs.environment).map_err(|error| match error {
                Error::Invalid { field: _, reason } => Error::invalid("answers", reason),
                error => error,
            })?;
            check_shown(&stored.answers, &inputs.environment)?;
        }
        let may_write = stack.held().allow(Action::Write);
        let exec = ExecCommands::asked(commands, &stack.spec.approval, may_write, &inputs.environment)?;
        let exec = match stored {
            Some(Stored { project: _, name, answers }) => exec.started(name, &answers),
            None => exec,
        };
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
