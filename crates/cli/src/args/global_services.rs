//! The command line of `plural cd global-services`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{ConfirmArgs, ListOutputArgs, OutputArgs, WaitArgs};
use crate::key::{ServiceKey, parse_pair};

/// Global services, one service on many clusters: list, create, update, describe, rollout, delete
#[derive(Debug, Args)]
#[command(visible_alias = "global", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct GlobalServicesArgs {
    #[command(subcommand)]
    pub(crate) command: GlobalServiceCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GlobalServiceCommand {
    List(GlobalServiceListArgs),
    Create(Box<GlobalServiceCreateArgs>),
    Update(Box<GlobalServiceUpdateArgs>),
    Describe(GlobalServiceDescribeArgs),
    Rollout(GlobalServiceRolloutArgs),
    Delete(GlobalServiceDeleteArgs),
}

/// List the global services
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd global-services list
  plural cd global-services list --watch"
)]
pub(crate) struct GlobalServiceListArgs {
    /// Keep running and print what changes
    #[arg(short, long)]
    pub(crate) watch: bool,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Which clusters are meant, and what becomes of those that no longer are
#[derive(Debug, Clone, Args)]
pub(crate) struct GlobalServiceTargetArgs {
    /// Attributes as the API takes them: a JSON or YAML file with a mapping, or - for standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// Only clusters with this tag; given several times: with all of them
    #[arg(long = "tag", value_parser = parse_pair, value_name = "NAME=VALUE")]
    pub(crate) tags: Vec<(String, String)>,

    /// Only clusters of this distribution
    #[arg(long, value_name = "DISTRO")]
    pub(crate) distro: Option<String>,

    /// Take over a service of the same name that a cluster has already
    #[arg(long)]
    pub(crate) reparent: bool,

    /// What becomes of instances that are no longer wanted; without it they stay as services of their own
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) cascade: Option<CascadeChoice>,
}

/// What becomes of instances that are no longer wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CascadeChoice {
    /// Delete them with their objects.
    Delete,
    /// Forget them; their objects stay.
    Detach,
}

impl CascadeChoice {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Detach => "detach",
        }
    }
}

/// Deploy a service to every target cluster
///
/// The instances are copies of a service (--service), now and whenever it changes, or made from the template in
/// the file. The file may also say how changes move from cluster to cluster:
///
///   template:
///     repositoryId: 0190b8a2-7c11-7def-8000-0123456789ab
///     git: {ref: main, folder: monitoring}
///   rollout:
///     cohorts:
///       - {name: canary, members: {tag: {name: tier, value: canary}}}
///       - {name: some, members: {percent: 25}}
///     maxUnavailable: 10%
///     soakSeconds: 300
///     undo: true
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:
  plural cd global-services create monitoring --service blue/monitoring --tag stage=prod
  plural cd global-services create monitoring -f monitoring.yaml --wait"
)]
pub(crate) struct GlobalServiceCreateArgs {
    /// Its name
    pub(crate) name: String,

    /// The service whose copies the instances are: CLUSTER/NAME or its id
    #[arg(long, value_name = "SERVICE")]
    pub(crate) service: Option<ServiceKey>,

    /// Only clusters of this project (name or id); without it all, which only administrators may
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,

    #[command(flatten)]
    pub(crate) target: GlobalServiceTargetArgs,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Change a global service
///
/// What is not named, by a flag or in the file, stays as it is. What is named replaces what was there: all tags, the whole
/// template, the whole rollout. A null in the file clears.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd global-services update monitoring -f monitoring.yaml --wait
  plural cd global-services update monitoring --tag stage=prod --tag region=eu
  echo 'distro: null' | plural cd global-services update monitoring -f -")]
pub(crate) struct GlobalServiceUpdateArgs {
    /// Its name or id
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) target: GlobalServiceTargetArgs,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Show one global service, its rollout and its instances
#[derive(Debug, Args)]
#[command(
    visible_alias = "get",
    after_help = "Examples:
  plural cd global-services describe monitoring"
)]
pub(crate) struct GlobalServiceDescribeArgs {
    /// Its name or id
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What to do with a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RolloutChoice {
    /// Show where it stands; with --wait until it stands still.
    Status,
    /// Stop where it is.
    #[value(alias = "halt")]
    Pause,
    /// Go on after it halted or was paused; clusters that are unwell now are not waited for.
    Resume,
    /// Give everybody back what was before.
    Undo,
}

/// Show, pause, resume or undo the rollout of a global service
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd global-services rollout status monitoring --wait
  plural cd global-services rollout pause monitoring
  plural cd global-services rollout undo monitoring --wait")]
pub(crate) struct GlobalServiceRolloutArgs {
    /// What to do
    #[arg(value_enum, value_name = "ACTION")]
    pub(crate) action: RolloutChoice,

    /// Name or id of the global service
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Delete a global service; its cascade decides what happens to its instances
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd global-services delete monitoring
  plural cd global-services delete monitoring --yes --wait")]
pub(crate) struct GlobalServiceDeleteArgs {
    /// Its name or id
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}
