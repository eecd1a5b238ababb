//! Runs as they are made: of what there is of a stack now.

use plural_core::ids::StackRunId;
use plural_core::project::Project;
use plural_core::stack::Stack;
use plural_core::stack_dependency::Upstream;
use plural_core::stack_run::{RunKind, RunPhase, RunSnapshot, RunStatus, StackRun};
use plural_core::stack_steps::steps;
use plural_core::{Error, Result};

use crate::access::{Authorized, Write, actor_name};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::job::NewJob;
use crate::jobs::{PrepareStackRun, PreparedRun};
use crate::project::ProjectSelector;
use crate::stack_inputs::OpenInputs;
use crate::stack_run::{MadeRun, NewRun, user_of};

impl App {
    /// The run itself, of whatever there is of the stack.
    pub(crate) async fn stack_run_of(
        &self,
        ctx: &OpCtx,
        stack: &Authorized<Stack, Write>,
        new: NewRun,
    ) -> Result<StackRun> {
        match Box::pin(self.stack_run_stored(ctx, stack, new)).await {
            // Its definition may have been changed while the run was made of it.
            Err(Error::Conflict { .. }) if stack.spec.definition_id.is_some() => {
                Box::pin(self.stack_run_stored(ctx, stack, new)).await
            }
            stored => stored,
        }
    }

    async fn stack_run_stored(
        &self,
        ctx: &OpCtx,
        stack: &Authorized<Stack, Write>,
        new: NewRun,
    ) -> Result<StackRun> {
        let made = self.stack_run_made(ctx, stack, new).await?;
        self.store.stack_run_create(stack.audited(ctx, "stack.run.create"), &made).await
    }

    /// A run that is not stored yet.
    pub(crate) async fn stack_run_made(&self, ctx: &OpCtx, stack: &Stack, new: NewRun) -> Result<MadeRun> {
        let inputs = self.stack_inputs_of(stack).await?;
        self.stack_run_made_with(ctx, stack, new, &inputs).await
    }

    /// The same, of these inputs.
    pub(crate) async fn stack_run_made_with(
        &self,
        ctx: &OpCtx,
        stack: &Stack,
        new: NewRun,
        inputs: &OpenInputs,
    ) -> Result<MadeRun> {
        let NewRun { kind, trigger } = new;
        let Some(source) = &stack.source else {
            return Err(Error::conflict(
                "the stack has no source: give it a repository, a git ref and a cluster to run it from here",
            ));
        };
        if kind == RunKind::Destroy && stack.protect {
            return Err(Error::conflict("the stack is protected: take the protection away first"));
        }
        let stack = &self.stack_defined(stack).await?;
        // Refused now, and not by the Job: a tool that cannot do it as the stack is.
        for phase in RunPhase::ALL {
            steps(stack.tool, &stack.spec.made_by(kind, trigger), kind, phase)?;
        }
        // The clock makes runs as its schedule says.
        let selector = ProjectSelector::Id(stack.project_id);
        let project = self.get::<Project>(&self.system_ctx(), &selector).await?;
        let said = self.stack_job_said(&project).await?;
        let spec = stack.spec.made_by(kind, trigger).with_job_defaults(said);
        let made_of = Stack { spec, ..Stack::clone(stack) };
        let (id, at) = (StackRunId::new(), ctx.now());
        let run = StackRun {
            id,
            stack_id: stack.id,
            project_id: stack.project_id,
            cluster_id: source.cluster_id,
            number: 0,
            kind,
            trigger,
            status: RunStatus::Queued,
            phase: RunPhase::Plan,
            attempt: 0,
            snapshot: RunSnapshot {
                tool: stack.tool,
                repository_id: source.repository_id,
                git: source.git.clone(),
                inputs_digest: self.stack_inputs_digest(&made_of, inputs)?,
                spec: made_of.spec,
                upstream: (!stack.spec.dependencies.is_empty()).then(Upstream::default),
            },
            source: None,
            plan: None,
            approvals: Vec::new(),
            cancel_asked: false,
            error: None,
            job: None,
            heartbeat_at: None,
            created_by: user_of(ctx),
            author: actor_name(ctx.actor()),
            created_at: at,
            started_at: None,
            finished_at: None,
            sequence: 0,
        };
        let inputs = self.run_inputs_sealed(stack.project_id, id, inputs).await?;
        let prepare = NewJob::of::<PrepareStackRun>(&PreparedRun { run: id })?;
        Ok(MadeRun { run, inputs, prepare })
    }
}
