//! Definitions of stacks: named steps and an image that stacks of many projects use. Everybody reads them, so that a stack can name one;
//! whoever changes one changes what all of its stacks run, so that is for administrators of the installation.

use async_trait::async_trait;
use plural_core::access::Scope;
use plural_core::ids::{StackDefinitionId, StackId};
use plural_core::stack::Stack;
use plural_core::stack_definition::{NewStackDefinition, StackDefinition};
use plural_core::stack_run::{RunKind, RunTrigger};
use plural_core::stack_spec::StackSpec;
use plural_core::{Error, Result};

use crate::access::{Audited, Installation, Write, authorize_installation, noun};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::records::{Search, record};
use crate::stack::StackSelector;
use crate::stack_run::NewRun;

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
    /// A definition that is this from now on.
    async fn stack_definition_update(
        &self,
        by: Audited<'_, StackDefinition, Write>,
        is: &NewStackDefinition,
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
    /// a run that waits for approval was made of what the definition said before, and is refused.
    pub async fn stack_definition_update(
        &self,
        ctx: &OpCtx,
        id: StackDefinitionId,
        is: &NewStackDefinition,
    ) -> Result<StackDefinition> {
        let selector = StackDefinitionSelector::Id(id);
        let was = self.authorized::<StackDefinition, Write>(ctx, &selector).await?;
        is.check()?;
        let changed =
            self.store.stack_definition_update(was.audited(ctx, "stack_definition.update"), is).await?;
        if !was.runs_as(&changed) {
            self.stack_definition_spreads(ctx, id).await?;
        }
        Ok(changed)
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

    /// Each stack of a definition plans again. What one of them cannot is told by its next run, and holds up no other.
    async fn stack_definition_spreads(&self, ctx: &OpCtx, id: StackDefinitionId) -> Result<()> {
        for stack in self.store.stack_definition_stacks(id).await? {
            let found = self.authorized::<Stack, Write>(ctx, &StackSelector::Id(stack)).await;
            let made = match found {
                Ok(stack) if stack.paused || stack.source.is_none() || stack.deleted_at.is_some() => continue,
                Ok(stack) => {
                    let new = NewRun { kind: RunKind::Apply, trigger: RunTrigger::Spec };
                    self.stack_run_of(ctx, &stack, new).await.map(drop)
                }
                Err(error) => Err(error),
            };
            if let Err(error) = made {
                let error = error.log_text();
                tracing::warn!(stack.id = %stack, error, "a stack whose definition was changed has no run of it");
            }
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
        let found = self.get::<StackDefinition>(&self.system_ctx(), &StackDefinitionSelector::Id(id)).await;
        let definition = found.map_err(|error| match error {
            Error::NotFound { .. } => Error::invalid("attributes.definitionId", "is that of no definition"),
            error => error,
        })?;
        definition.laid_under(spec)
    }
}
