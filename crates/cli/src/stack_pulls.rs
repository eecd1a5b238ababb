//! `plural cd stacks release`: commits of forks that may be planned.

use clap::Args;
use plural_wire::{Client, ReleasePullRequestCommit};

use crate::{
    args::{ConfirmArgs, OutputArgs},
    error::CliError,
    output, stacks,
    terminal::Terminal,
};

/// Allow the commit of a fork's pull request to be planned
///
/// Needs the action approve. A plan runs the code of the commit with the variables, files and plan rights of the stack: read the commit
/// first. The release is valid for this commit only, and starts the run that plans it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks release network --pull-request https://github.com/acme/infra/pull/7 \\
    --commit 7f3e9b2c5d1a4e8f9b0c2d3e4f5a6b7c8d9e0f1a")]
pub(crate) struct StackReleaseArgs {
    /// The stack: its name or id
    #[arg(value_name = "STACK")]
    stack: String,

    /// The pull request: the address of its page
    #[arg(long, value_name = "URL")]
    pull_request: String,

    /// The commit that you read, in full; if it is no longer the head, nothing is released
    #[arg(long, value_name = "SHA")]
    commit: String,

    #[command(flatten)]
    confirm: ConfirmArgs,

    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) async fn release(
    StackReleaseArgs { stack, pull_request, commit, confirm, output }: StackReleaseArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let stack = stacks::find(&stack, client).await?;
    let what = format!(
        "let commit {commit} run with the variables, the files and the plan rights of stack {}",
        stack.name
    );
    terminal.confirm(&what, confirm.yes)?;
    let release = ReleasePullRequestCommit { id: stack.id, url: pull_request, sha: commit };
    output::item(&client.send(&release).await?, &output.output, terminal)
}
