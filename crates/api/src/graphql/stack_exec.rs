//! Runs of commands that a user gives.

use async_graphql::{Context, ID, InputObject, Object};
use plural_core::stack_exec::ExecCommand;

use super::{
    error::{IntoGraphql, List, Nullable, id, items, nullable},
    request::request,
    stack_run::StackRun,
};

/// A command that a user runs on demand. It does not go through a shell.
#[derive(Debug, InputObject)]
pub(crate) struct CommandAttributes {
    /// Program.
    cmd: String,
    /// Its arguments.
    args: List<String>,
    /// Folder below the tool's working folder.
    dir: Option<String>,
    /// It waits for approval if the stack requires that, and then runs with the rights to apply.
    approve: Option<bool>,
}

impl From<CommandAttributes> for ExecCommand {
    fn from(CommandAttributes { cmd, args, dir, approve }: CommandAttributes) -> Self {
        Self {
            cmd,
            args: items(args).unwrap_or_default(),
            dir: dir.filter(|dir| !dir.is_empty()),
            approve: approve.unwrap_or_default(),
        }
    }
}

/// Running commands in the environment of stacks.
#[derive(Default)]
pub(crate) struct StackExecMutation;

/// Running commands in the environment of stacks.
#[Object]
impl StackExecMutation {
    /// Runs your own commands in the environment of a stack. Needs the action `stack-exec` on it.
    async fn create_on_demand_run(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "stackId", desc = "The id of the stack.")] stack: ID,
        #[graphql(desc = "In this order; the first one that fails is the last.")] commands: Vec<
            CommandAttributes,
        >,
    ) -> Nullable<StackRun> {
        nullable(async {
            let request = request(ctx);
            let stack = id(&stack).into_graphql(ctx)?;
            let commands = commands.into_iter().map(ExecCommand::from).collect();
            let made = Box::pin(request.app.stack_exec(&request.op, stack, commands)).await;
            Ok(Some(made.into_graphql(ctx)?.into()))
        })
        .await
    }
}
