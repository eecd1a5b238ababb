//! Stacks whose outputs the templates of services read.

use async_graphql::{Context, ID, InputObject, Object};
use plural_core::Result;
use plural_core::ids::StackId;

use super::{
    error::{Nullable, id_in, nullable},
    record::by_id,
    stack::{InfrastructureStack, StackOutput, outputs},
};

/// A stack whose outputs templates read.
#[derive(InputObject)]
pub(crate) struct ServiceImportAttributes {
    /// Its id.
    stack_id: ID,
}

impl ServiceImportAttributes {
    /// The stacks of a list.
    pub(super) fn parse_all(all: Vec<Self>) -> Result<Vec<StackId>> {
        let mut stacks = Vec::with_capacity(all.len());
        for Self { stack_id } in all {
            let stack: Option<StackId> = id_in("attributes.imports.stackId", Some(&stack_id.0))?;
            stacks.extend(stack);
        }
        Ok(stacks)
    }
}

/// A stack whose outputs a service's templates read, as `imports["NAME"]`.
pub(crate) struct ServiceImport(plural_core::service_import::ServiceImport);

impl From<plural_core::service_import::ServiceImport> for ServiceImport {
    fn from(import: plural_core::service_import::ServiceImport) -> Self {
        Self(import)
    }
}

/// A stack whose outputs a service's templates read, as `imports["NAME"]`.
#[Object]
impl ServiceImport {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// The stack.
    async fn stack(&self, ctx: &Context<'_>) -> Nullable<InfrastructureStack> {
        nullable(by_id::<plural_core::stack::Stack, _>(ctx, self.0.stack_id)).await
    }

    /// What the stack gives. Values that the tool calls sensitive are for those who may read its state.
    async fn outputs(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<StackOutput>>> {
        nullable(outputs(ctx, self.0.stack_id)).await
    }

    /// Whether sensitive outputs are among what templates read: whoever imported the stack might read its state.
    async fn sensitive(&self) -> Option<bool> {
        Some(self.0.secrets)
    }
}
