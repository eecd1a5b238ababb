//! Dependencies between stacks.

use async_graphql::{Context, ID, InputObject, Object, SimpleObject};
use plural_core::Result;
use plural_core::ids::StackId;

use super::{
    error::{IntoGraphql, List, Nullable, id, items, nullable},
    limited::limited,
    record::by_id,
    request::request,
    stack::InfrastructureStack,
};

/// A stack that another one depends on, and the outputs that it takes from it.
#[derive(Debug, InputObject)]
pub(crate) struct StackDependencyAttributes {
    /// The stack.
    stack_id: ID,
    /// The outputs. Empty: only the order counts.
    outputs: List<StackOutputReferenceAttributes>,
}

/// An output that a stack takes as a variable.
#[derive(Debug, InputObject)]
pub(crate) struct StackOutputReferenceAttributes {
    /// Name of the output.
    output: String,
    /// Name of the variable.
    variable: String,
}

/// The input merged with the current dependencies: the recorded rights of unchanged ones stay.
pub(super) fn dependencies(
    list: List<StackDependencyAttributes>,
    was: &[plural_core::stack_dependency::StackDependency],
) -> Result<Option<Vec<plural_core::stack_dependency::StackDependency>>> {
    let Some(list) = items(list) else { return Ok(None) };
    let mut all = Vec::with_capacity(list.len());
    for StackDependencyAttributes { stack_id, outputs } in list {
        let stack_id: StackId = id(&stack_id).map_err(|error| error.named_in("attributes.dependencies"))?;
        let reference = |StackOutputReferenceAttributes { output, variable }| {
            plural_core::stack_dependency::OutputReference { output, name: variable }
        };
        let outputs: Vec<_> = items(outputs).unwrap_or_default().into_iter().map(reference).collect();
        let same = was.iter().find(|was| was.stack_id == stack_id && was.outputs == outputs);
        let reads_state = same.is_some_and(|was| was.reads_state);
        all.push(plural_core::stack_dependency::StackDependency { stack_id, outputs, reads_state });
    }
    Ok(Some(all))
}

/// A stack that another one depends on, and the outputs that it takes from it.
pub(crate) struct StackDependency(plural_core::stack_dependency::StackDependency);

impl From<plural_core::stack_dependency::StackDependency> for StackDependency {
    fn from(dependency: plural_core::stack_dependency::StackDependency) -> Self {
        Self(dependency)
    }
}

/// A stack that another one depends on, and the outputs that it takes from it.
#[Object]
impl StackDependency {
    /// Its id.
    async fn stack_id(&self) -> ID {
        self.0.stack_id.to_string().into()
    }

    /// The stack; absent if you may not see it.
    async fn stack(&self, ctx: &Context<'_>) -> Nullable<InfrastructureStack> {
        nullable(by_id::<plural_core::stack::Stack, _>(ctx, self.0.stack_id)).await
    }

    /// The outputs.
    async fn outputs(&self, ctx: &Context<'_>) -> List<StackOutputReference> {
        limited(ctx, self.0.outputs.iter().cloned().map(StackOutputReference::from))
    }
}

/// An output that a stack takes as a variable.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackOutputReference {
    /// Name of the output.
    output: String,
    /// Name of the variable.
    variable: String,
}

impl From<plural_core::stack_dependency::OutputReference> for StackOutputReference {
    fn from(reference: plural_core::stack_dependency::OutputReference) -> Self {
        let plural_core::stack_dependency::OutputReference { output, name } = reference;
        Self { output, variable: name }
    }
}

/// The dependencies between stacks, as far as you may see them.
#[derive(SimpleObject)]
pub(crate) struct StackGraph {
    /// The stacks, dependencies first.
    stacks: List<InfrastructureStack>,
    /// The dependencies.
    edges: List<StackGraphEdge>,
}

/// A stack, and one that it depends on.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackGraphEdge {
    /// The stack.
    stack_id: ID,
    /// The one that it depends on.
    upstream_id: ID,
}

/// The direct dependents of a stack.
pub(super) async fn dependents(
    ctx: &Context<'_>,
    stack: StackId,
) -> async_graphql::Result<List<InfrastructureStack>> {
    let request = request(ctx);
    let found = request.app.stack_dependents(&request.op, stack).await.into_graphql(ctx)?;
    Ok(limited(ctx, found.into_iter().map(InfrastructureStack::from)))
}

/// Reading the graph of stacks.
#[derive(Default)]
pub(crate) struct StackDependencyQuery;

/// Reading the graph of stacks.
#[Object]
impl StackDependencyQuery {
    /// The dependencies between stacks, as far as you may see them. Stacks without any are left out.
    async fn stack_graph(&self, ctx: &Context<'_>) -> Nullable<StackGraph> {
        nullable(async {
            let request = request(ctx);
            let graph = request.app.stack_graph(&request.op).await.into_graphql(ctx)?;
            let edge = |(stack, upstream): (StackId, StackId)| StackGraphEdge {
                stack_id: stack.to_string().into(),
                upstream_id: upstream.to_string().into(),
            };
            Ok(Some(StackGraph {
                stacks: limited(ctx, graph.stacks.into_iter().map(InfrastructureStack::from)),
                edges: limited(ctx, graph.edges.into_iter().map(edge)),
            }))
        })
        .await
    }
}
