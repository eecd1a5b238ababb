//! Definitions of stacks: named steps and an image that stacks of many projects use. Everybody reads them, so that a stack can name one;
//! whoever changes one changes what all of its stacks run, so that is for administrators of the installation.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::access::Scope;
use plural_core::ids::{StackDefinitionId, StackId};
use plural_core::stack::Stack;
use plural_core::stack_definition::{NewStackDefinition, StackDefinition};
use plural_core::stack_run::{RunKind, RunPhase, RunStatus, RunTrigger, StackRun};
use plural_core::stack_spec::StackSpec;
use plural_core::{Error, Result};

use crate::access::{Audited, Installation, Write, actor_name, authorize_installation, noun};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::job::NewJob;
use crate::jobs::{FollowDefinition, FollowedDefinition};
use crate::records::{Search, record};
use crate::stack::StackSelector;
use crate::stack_run::{NewRun, user_of};

/// Which definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StackDefinitionSelector {
    /// By id.
    Id(StackDefinitionId),
    /// By exact name.
    Name(String),
}

noun!(StackDefinition, "stack definition", d => Some(d.id.uuid()), d.name.to_string());
record!(StackDefinition, StackDefinitionId, StackDefinitionSelector, Search, under: Scope::Installation);

/// Writing definitions of stacks.
#[async_trait]
pub trait StackDefinitionStore: Send + Sync + 'static {
    /// A new definition.
    async fn stack_definition_create(
        &self,
        by: Audited<'_, Installation, Write>,
        id: StackDefinitionId,
        new: &NewStackDefinition,
    ) -> Result<StackDefinition>;
    /// A definition that is this from now on; [`Error::Conflict`] where it was changed since then, if that is said. The job is enqueued where
    /// its stacks run something else by that.
    async fn stack_definition_update(
        &self,
        by: Audited<'_, StackDefinition, Write>,
        is: &NewStackDefinition,
        unchanged_since: Option<DateTime<Utc>>,
        follow: &NewJob,
    ) -> Result<StackDefinition>;
    /// Removes a definition; [`Error::Conflict`] while a stack names it.
    async fn stack_definition_delete(&self, by: Audited<'_, StackDefinition, Write>) -> Result<()>;
    /// The stacks that name it, oldest first.
    async fn stack_definition_stacks(&self, id: StackDefinitionId) -> Result<Vec<StackId>>;
}

impl App {
    /// A new definition of stacks; administrators only.
    pub async fn stack_definition_create(
        &self,
        ctx: &OpCtx,
        new: &NewStackDefinition,
    ) -> Result<StackDefinition> {
        let by = authorize_installation::<Write>(ctx, Scope::Installation)?;
        new.check()?;
        let id = StackDefinitionId::new();
        let by = by.audited_new(ctx, "stack_definition.create", "stack definition", id, &new.name);
        self.store.stack_definition_create(by, id, new).await
    }

    /// A changed definition; administrators only. Where its stacks run something else from then on, each that is not paused plans again:
    /// a run that waits for approval was made of what the definition said before, and is refused. Whoever read it first says when it had been
    /// changed last: else they would take back what somebody else changed meanwhile.
    pub async fn stack_definition_update(
        &self,
        ctx: &OpCtx,
        id: StackDefinitionId,
        is: &NewStackDefinition,
        unchanged_since: Option<DateTime<Utc>>,
    ) -> Result<StackDefinition> {
        let selector = StackDefinitionSelector::Id(id);
        let was = self.authorized::<StackDefinition, Write>(ctx, &selector).await?;
        is.check()?;
        let (by, author) = (user_of(ctx), actor_name(ctx.actor()));
        let follow = NewJob::of::<FollowDefinition>(&FollowedDefinition { definition: id, by, author })?;
        let by = was.audited(ctx, "stack_definition.update");
        self.store.stack_definition_update(by, is, unchanged_since, &follow).await
    }

    /// Removes a definition that no stack names; administrators only.
    pub async fn stack_definition_delete(
        &self,
        ctx: &OpCtx,
        id: StackDefinitionId,
    ) -> Result<StackDefinition> {
        let selector = StackDefinitionSelector::Id(id);
        let definition = self.authorized::<StackDefinition, Write>(ctx, &selector).await?;
        self.store.stack_definition_delete(definition.audited(ctx, "stack_definition.delete")).await?;
        Ok(definition.into_inner())
    }

    /// A definition was changed: its stacks plan again.
    pub(crate) async fn stack_definition_followed(&self, followed: &FollowedDefinition) -> Result<()> {
        let mut failed = None;
        for stack in self.store.stack_definition_stacks(followed.definition).await? {
            // What one of them cannot holds up no other.
            if let Err(error) = Box::pin(self.defined_follows(stack, followed)).await {
                let told = error.log_text();
                tracing::warn!(stack.id = %stack, error = told, "cannot let a stack follow its definition");
                failed = Some(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Makes a run of a stack whose newest run was made of another definition. Nothing of one that has no run yet, is paused, deleted, or is
    /// being destroyed or was: however often this is asked, there is one run of what the definition says.
    async fn defined_follows(&self, id: StackId, followed: &FollowedDefinition) -> Result<()> {
        let system = self.system_ctx();
        let stack = match self.authorized::<Stack, Write>(&system, &StackSelector::Id(id)).await {
            Ok(stack) => stack,
            Err(Error::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        if stack.paused || stack.deleted_at.is_some() || stack.source.is_none() {
            return Ok(());
        }
        let Some(newest) = self.store.stack_run_newest(id).await? else { return Ok(()) };
        let destroys = newest.kind == RunKind::Destroy;
        // What ended before it was applied destroyed nothing.
        if destroys && !(newest.status == RunStatus::Cancelled && newest.phase == RunPhase::Plan) {
            return Ok(());
        }
        let is_of =
            |spec: &StackSpec| spec.made_by(newest.kind, newest.trigger).runs_as(&newest.snapshot.spec);
        let new = NewRun { kind: RunKind::Apply, trigger: RunTrigger::Spec };
        let made = match self.stack_spec_defined(&stack.spec).await {
            // A run that was to destroy says nothing of what was applied.
            Ok(spec) if !destroys && is_of(&spec) => return Ok(()),
            Ok(_) => self.stack_run_made(&system, &stack, new).await,
            Err(error) => Err(error),
        };
        let mut made = match made {
            Ok(made) => made,
            Err(error @ (Error::Invalid { .. } | Error::Conflict { .. })) => {
                let error = error.log_text();
                tracing::warn!(stack.id = %id, error, "a stack whose definition was changed cannot run");
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        // Who may not approve what is their own does not approve this.
        made.run.created_by = followed.by;
        made.run.author.clone_from(&followed.author);
        let run = self.store.stack_run_create(stack.audited(&system, "stack.run.create"), &made).await?;
        tracing::info!(
            stack.id = %id, stack_run.id = %run.id, number = run.number,
            "a changed definition makes a run of a stack"
        );
        Ok(())
    }

    /// Refuses whoever last changed what the definition of a run says, where they may not approve what is their own.
    pub(crate) async fn stack_definition_approvable(&self, ctx: &OpCtx, run: &StackRun) -> Result<()> {
        let StackSpec { approval, definition_id, .. } = &run.snapshot.spec;
        let (true, Some(id)) = (approval.forbid_self, *definition_id) else { return Ok(()) };
        let by = match self.get::<StackDefinition>(&self.system_ctx(), &StackDefinitionSelector::Id(id)).await
        {
            Ok(definition) => (definition.changed_by, definition.changed_as),
            // The plan of a stack whose definition is gone is refused where it would be applied.
            Err(Error::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        if Box::pin(self.is_who_changed(ctx, by.0, by.1.as_deref())).await? {
            return Err(Error::forbidden(
                "you last changed the definition of this stack: somebody else has to approve its plan",
            ));
        }
        Ok(())
    }

    /// A stack with what its definition gives it now.
    ///
    /// # Errors
    /// [`Error::Invalid`] where the two do not fit, or the definition is gone.
    pub(crate) async fn stack_defined(&self, stack: &Stack) -> Result<Stack> {
        let spec = self.stack_spec_defined(&stack.spec).await?;
        Ok(Stack { spec, ..stack.clone() })
    }

    /// The same of its document.
    pub(crate) async fn stack_spec_defined(&self, spec: &StackSpec) -> Result<StackSpec> {
        let Some(id) = spec.definition_id else { return Ok(spec.clone()) };
        // Whoever asks holds much already: in a box, it takes no room of theirs.
        let found = Box::pin(async move {
            self.get::<StackDefinition>(&self.system_ctx(), &StackDefinitionSelector::Id(id)).await
        });
        let definition = found.await.map_err(|error| match error {
            Error::NotFound { .. } => Error::invalid("attributes.definitionId", "is that of no definition"),
            error => error,
        })?;
        definition.laid_under(spec)
    }
}
