//! The commands about runs of stacks.

use std::time::Duration;

use clap::Args;

use crate::{
    args::{ConfirmArgs, ListOutputArgs, OutputArgs, WaitArgs},
    key::parse_duration,
};

/// Show what a run would change, without applying it
///
/// Waits for the plan and prints it. With --detailed-exitcode, the exit code is 0 without changes, 2 with changes, and 1 when the
/// plan failed, as for `terraform plan`.
///
/// With --pull-request, it plans the head commit of that pull request, and reports the result at the git host. The commit of a fork
/// is only checked until somebody releases it: `plural cd stacks release`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks plan network
  plural cd stacks plan network --pull-request https://github.com/acme/infra/pull/7
  plural cd stacks plan network --detailed-exitcode --timeout 30m
  plural cd stacks plan network --no-wait -o name")]
pub(crate) struct StackPlanArgs {
    /// The stack: its name or id
    #[arg(value_name = "STACK")]
    pub(crate) stack: String,

    /// Plan the head commit of this pull request: the address of its page
    #[arg(long, value_name = "URL")]
    pub(crate) pull_request: Option<String>,

    /// Print the run, and do not wait for its plan
    #[arg(long, conflicts_with = "detailed_exitcode")]
    pub(crate) no_wait: bool,

    /// How long to wait: 90s, 5m, 1h
    #[arg(long, default_value = "15m", value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) timeout: Duration,

    /// Exit with 2 when there are changes
    #[arg(long)]
    pub(crate) detailed_exitcode: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Start a run of a stack: plan, then apply that plan
///
/// Where the stack asks for approval, the run waits for it: `plural cd stacks approve`. With --wait, the command ends when the run is
/// over or waits for approval.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks trigger network
  plural cd stacks trigger network --wait --timeout 30m
  plural cd stacks trigger network --destroy   # its resources; the stack stays")]
pub(crate) struct StackTriggerArgs {
    /// The stack: its name or id
    #[arg(value_name = "STACK")]
    pub(crate) stack: String,

    /// Destroy all resources of the stack
    #[arg(long)]
    pub(crate) destroy: bool,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// List the runs of a stack, newest first: its plans, applies and destructions
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks runs network
  plural cd stacks runs network --all
  plural cd stacks runs network -o wide
  plural cd stacks runs network --watch")]
pub(crate) struct StackRunsArgs {
    /// The stack: its name or id
    #[arg(value_name = "STACK")]
    pub(crate) stack: String,

    /// Also plans of pull requests, drift checks, and commands
    #[arg(long)]
    pub(crate) all: bool,

    /// Keep running and print what changes
    #[arg(short, long)]
    pub(crate) watch: bool,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Show a run: its steps, its plan, who approved it, why it failed
///
/// With --watch, it is printed again whenever it changes, until it is over. The exit code is then 0 if it succeeded, and 1 if it failed or
/// was cancelled.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks run network      # the newest one
  plural cd stacks run network/12   # by its number
  plural cd stacks run network --watch
  plural cd stacks run 0190b8a2-7c11-7def-8000-0123456789ab -o json")]
pub(crate) struct StackRunArgs {
    /// The run: STACK/NUMBER, its id, or a stack, for its newest one
    #[arg(value_name = "RUN")]
    pub(crate) run: String,

    /// Keep running and print what changes, until the run is over
    #[arg(short, long)]
    pub(crate) watch: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// List the runs that wait for approval, of all stacks that you may see
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks waiting
  plural cd stacks waiting --watch")]
pub(crate) struct StackWaitingArgs {
    /// Keep running and print what changes
    #[arg(short, long)]
    pub(crate) watch: bool,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Approve the plan of a run: exactly the one that is shown
///
/// Prints the plan and asks. A script names the digest of the plan that was read, and is not asked: another plan is refused.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks approve network
  plural cd stacks approve network/12 --digest 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
  plural cd stacks approve network/12 --yes   # the plan as it is now, whatever it says")]
pub(crate) struct StackApproveArgs {
    /// The run: STACK/NUMBER, its id, or a stack, for its newest one
    #[arg(value_name = "RUN")]
    pub(crate) run: String,

    /// The digest of the plan that you read
    #[arg(long, value_name = "DIGEST")]
    pub(crate) digest: Option<String>,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Reject the plan of a run that waits for approval
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks reject network --reason 'it replaces the database'
  plural cd stacks reject network/12 --reason 'wait for Monday' --yes")]
pub(crate) struct StackRejectArgs {
    /// The run: STACK/NUMBER, its id, or a stack, for its newest one
    #[arg(value_name = "RUN")]
    pub(crate) run: String,

    /// The reason, for whoever started it
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Cancel a run: immediately if its tool has not started, otherwise when the tool has stopped
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks cancel network
  plural cd stacks cancel network/12 --yes")]
pub(crate) struct StackCancelArgs {
    /// The run: STACK/NUMBER, its id, or a stack, for its newest one
    #[arg(value_name = "RUN")]
    pub(crate) run: String,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Start a new run of the same kind, with the current settings of the stack
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks restart network
  plural cd stacks restart network/12 --wait")]
pub(crate) struct StackRestartArgs {
    /// The run: STACK/NUMBER, its id, or a stack, for its newest one
    #[arg(value_name = "RUN")]
    pub(crate) run: String,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Print the outputs of a stack
///
/// Values that the tool marks as sensitive are shown only to those who may read the state.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks outputs network
  plural cd stacks outputs network vpc_id   # the bare value
  plural cd stacks outputs network -o json")]
pub(crate) struct StackOutputsArgs {
    /// The stack: its name or id
    #[arg(value_name = "STACK")]
    pub(crate) stack: String,

    /// Print only the value of this output
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}
