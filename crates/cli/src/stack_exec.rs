//! `plural cd stacks exec`: a command of one's own in the environment of a stack.

use clap::Args;
use plural_wire::{
    Client, CommandAttributes, CreateOnDemandRun, GetStackRun, StackRun, StackRunDetails, StackStatus,
    StepStage, StepStatus,
};

use crate::{
    args::OutputArgs,
    error::CliError,
    output,
    plain::one_line,
    stack_logs,
    stack_runs::{called, failure},
    stacks,
    terminal::Terminal,
};

/// Run a command of your own in the environment of a stack
///
/// Needs the action stack-exec. The command runs where the stack's runs do, on its newest commit, with its variables and files, after
/// the tool's `init`. It reads the stack's state; it writes it only where you may write the stack, and, where the stack asks for approval,
/// with --approve and once it is approved. No shell interprets it: `-- sh -c 'one | two'` asks for one. Readers of the stack and the audit log
/// see its words: name secret variables, and do not write their values.
///
/// Prints its output and ends with its exit code.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks exec network -- tofu state list
  plural cd stacks exec network --dir modules/vpc -- ls -l
  plural cd stacks exec network --approve -- tofu state rm 'aws_instance.old'")]
pub(crate) struct StackExecArgs {
    /// The stack: its name or id
    #[arg(value_name = "STACK")]
    stack: String,

    /// Folder below the one in which the tool runs
    #[arg(long, value_name = "FOLDER")]
    dir: Option<String>,

    /// Wait for approval where the stack asks for it, and run with the rights to apply
    #[arg(long)]
    approve: bool,

    /// Print the run, and do not wait for it
    #[arg(long)]
    no_wait: bool,

    #[command(flatten)]
    output: OutputArgs,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) async fn run(
    StackExecArgs { stack, dir, approve, no_wait, output, command }: StackExecArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let stack_id = stacks::find(&stack, client).await?.id;
    let mut words = command.into_iter();
    let Some(cmd) = words.next() else {
        return Err(CliError::usage("there is no command behind --"));
    };
    let command = CommandAttributes { approve: Some(approve), args: Some(words.collect()), cmd, dir };
    let made = client.send(&CreateOnDemandRun { stack_id, commands: vec![command] }).await?;
    if no_wait {
        return output::item(&made, &output.output, terminal);
    }
    follow(made, client, terminal).await
}

/// Prints what a run of commands prints, and ends as it does.
pub(crate) async fn follow(
    made: StackRun,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let name = one_line(&called(&made));
    terminal.say(format_args!("run {name} is made; `plural cd stacks cancel {name}` ends it"));
    let known = client.send(&GetStackRun { id: made.id.clone() }).await?;
    // What makes the tool ready is told by `logs`.
    let status = stack_logs::print_steps(known, |step| step.stage != StepStage::Init, true, client, terminal);
    status.await?;
    let StackRunDetails { run, steps, violations: _, cost: _ } =
        client.send(&GetStackRun { id: made.id }).await?;
    match run.status {
        StackStatus::Successful => Ok(()),
        StackStatus::PendingApproval => Err(CliError::new(format!("run {name} waits for approval"))
            .hint(format!("somebody agrees with `plural cd stacks approve {name}`"))),
        StackStatus::Queued
        | StackStatus::Pending
        | StackStatus::Running
        | StackStatus::Failed
        | StackStatus::Cancelled
        | StackStatus::Unknown => {
            let failed = steps.iter().find(|step| step.status == StepStatus::Failed);
            let code = failed.and_then(|step| step.exit_code).and_then(|code| u8::try_from(code).ok());
            let error = failure(&run);
            Err(match code.filter(|code| *code != 0) {
                Some(code) => error.code(code),
                None => error,
            })
        }
    }
}
