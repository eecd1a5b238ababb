//! Stacks: infrastructure that a tool keeps, and whose state the console holds.

use async_trait::async_trait;
use plural_core::access::Scope;
use plural_core::ids::{ProjectId, StackId, StateVersionId};
use plural_core::policy::Policy;
use plural_core::project::Project;
use plural_core::stack::{NewStack, Stack, StackChange};
use plural_core::{Error, Result};
use uuid::Uuid;

use crate::access::{Admin, Audited, Bindable, Grant, Noun, Write};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::policy;
use crate::project::ProjectSelector;
use crate::records::record;

/// Which stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StackSelector {
    /// By id.
    Id(StackId),
    /// By exact name.
    Name(String),
}

/// Which stacks of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StackFilter {
    /// In this project.
    pub project_id: Option<ProjectId>,
    /// Name contains this.
    pub q: Option<String>,
}

record!(Stack, StackId, StackSelector, StackFilter);

impl Noun for Stack {
    const NOUN: &'static str = "stack";

    fn identity(&self) -> (Option<Uuid>, String) {
        (Some(self.id.uuid()), self.name.to_string())
    }

    /// Besides people, the Jobs of its runs reach its state.
    fn guarded_by(&self, scope: Scope) -> Scope {
        match scope {
            Scope::Chain(bindings) => Scope::Stack(self.id, bindings),
            scope => scope,
        }
    }
}

impl Bindable for Stack {
    fn policy(&self) -> Policy {
        self.id.into()
    }
}

/// Writing stacks; their state is written through [`crate::stack_state::StackStateStore`].
#[async_trait]
pub trait StackStore: Send + Sync + 'static {
    /// A new stack with its policy; [`Error::Conflict`] for a name that another one has.
    async fn stack_create(
        &self,
        by: Audited<'_, Project, Write>,
        stack: &Stack,
        grant: Option<&Grant>,
    ) -> Result<()>;
    /// Changes a stack.
    async fn stack_update(
        &self,
        by: Audited<'_, Stack, Write>,
        change: &StackChange,
        grant: Option<&Grant>,
    ) -> Result<()>;
    /// Removes a stack with its policy and all versions of its state; [`Error::Conflict`] for a protected one, one whose state is
    /// locked, and one whose state has resources and is not the version `forget`.
    async fn stack_delete(&self, by: Audited<'_, Stack, Admin>, forget: Option<StateVersionId>)
    -> Result<()>;
}

impl App {
    /// A new stack; needs write access to its project, and admin access where it comes with bindings of its own.
    pub async fn stack_create(&self, ctx: &OpCtx, new: NewStack) -> Result<Stack> {
        let NewStack { name, tool, project_id, protect, bindings } = new;
        let selector = project_id.map_or(ProjectSelector::Default, ProjectSelector::Id);
        let project = self.authorized::<Project, Write>(ctx, &selector).await;
        let project = project.map_err(|error| error.named_in("attributes.projectId"))?;
        let (id, at) = (StackId::new(), ctx.now());
        let grant = if bindings.is_empty() {
            None
        } else {
            Some(policy::grant(ctx, self.authorized::<Project, _>(ctx, &selector).await, id, &bindings)?)
        };
        let stack = Stack {
            id,
            project_id: project.id,
            name,
            tool,
            protect,
            lock: None,
            state: None,
            created_at: at,
            updated_at: at,
        };
        let by = project.audited_new(ctx, "stack.create", "stack", id, &stack.name);
        self.store.stack_create(by, &stack, grant.as_ref()).await?;
        Ok(stack)
    }

    /// A changed stack; its bindings need admin access to it.
    pub async fn stack_update(&self, ctx: &OpCtx, id: StackId, change: &StackChange) -> Result<Stack> {
        let selector = StackSelector::Id(id);
        let grant = if change.bindings.is_empty() {
            None
        } else {
            let stack = self.authorized::<Stack, Admin>(ctx, &selector).await?;
            Some(Grant::on(&stack, ctx, &change.bindings)?)
        };
        let stack = self.authorized::<Stack, Write>(ctx, &selector).await?;
        self.store.stack_update(stack.audited(ctx, "stack.update"), change, grant.as_ref()).await?;
        self.get::<Stack>(ctx, &selector).await
    }

    /// Removes a stack with all versions of its state; needs admin access to it. What the state knows of stays where it is, and
    /// nothing knows of it any more: `forget` names the version of which somebody has decided that.
    pub async fn stack_delete(
        &self,
        ctx: &OpCtx,
        id: StackId,
        forget: Option<StateVersionId>,
    ) -> Result<Stack> {
        let stack = self.authorized::<Stack, Admin>(ctx, &StackSelector::Id(id)).await?;
        self.store.stack_delete(stack.audited(ctx, "stack.delete"), forget).await?;
        Ok(stack.into_inner())
    }
}

/// Why a state is not given up.
pub fn forgets(resources: Option<u64>, serial: u64, version: StateVersionId) -> Error {
    let what = match resources {
        Some(1) => "has 1 resource".to_owned(),
        Some(count) => format!("has {count} resources"),
        None => "is encrypted by the tool and may have resources".to_owned(),
    };
    Error::conflict(format!(
        "the stack's state (serial {serial}) {what}, which the deletion forgets and does not destroy: destroy them with the tool \
         first, or confirm with forget: {version}"
    ))
}
