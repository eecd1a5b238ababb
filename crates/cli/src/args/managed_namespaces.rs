//! The command line of `plural cd managed-namespaces`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{CascadeChoice, ConfirmArgs, ListOutputArgs, OutputArgs, WaitArgs};
use crate::key::parse_pair;

/// Managed namespaces, one namespace on many clusters: list, get, create, update, delete
#[derive(Debug, Args)]
#[command(visible_alias = "namespaces", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct ManagedNamespacesArgs {
    #[command(subcommand)]
    pub(crate) command: ManagedNamespaceCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ManagedNamespaceCommand {
    List(ManagedNamespaceListArgs),
    Get(ManagedNamespaceGetArgs),
    Create(Box<ManagedNamespaceCreateArgs>),
    Update(Box<ManagedNamespaceUpdateArgs>),
    Delete(ManagedNamespaceDeleteArgs),
}

/// List the managed namespaces
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd managed-namespaces list
  plural cd managed-namespaces list --watch"
)]
pub(crate) struct ManagedNamespaceListArgs {
    /// Keep running and print what changes
    #[arg(short, long)]
    pub(crate) watch: bool,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Show one managed namespace and how it is on each cluster
#[derive(Debug, Args)]
#[command(
    visible_alias = "describe",
    after_help = "Examples:
  plural cd managed-namespaces get team-a
  plural cd managed-namespaces get team-a -o json"
)]
pub(crate) struct ManagedNamespaceGetArgs {
    /// Its name or id
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What the namespace is like, and on which clusters
#[derive(Debug, Clone, Args)]
pub(crate) struct ManagedNamespaceContentArgs {
    /// Attributes as the API takes them: a JSON or YAML file with a mapping, or - for standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// For people
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,

    /// A label that it has at least; given several times: all of them
    #[arg(long = "label", value_parser = parse_pair, value_name = "NAME=VALUE")]
    pub(crate) labels: Vec<(String, String)>,

    /// An annotation that it has at least; given several times: all of them
    #[arg(long = "annotation", value_parser = parse_pair, value_name = "NAME=VALUE")]
    pub(crate) annotations: Vec<(String, String)>,

    /// A Secret in it that its default ServiceAccount pulls images with; given several times: with these and no others
    #[arg(long = "pull-secret", value_name = "SECRET")]
    pub(crate) pull_secrets: Vec<String>,

    /// Only clusters with this tag; given several times: with all of them
    #[arg(long = "tag", value_parser = parse_pair, value_name = "NAME=VALUE")]
    pub(crate) tags: Vec<(String, String)>,

    /// Only clusters of this distribution
    #[arg(long, value_name = "DISTRO")]
    pub(crate) distro: Option<String>,

    /// What becomes of it on clusters that are no longer meant; without it the namespace is forgotten, and the service in it
    /// stays as one of its own
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) cascade: Option<CascadeChoice>,
}

/// Create a namespace on every target cluster
///
/// The file may also name a service that comes with it:
///
///   labels: {team: a}
///   target: {tags: {stage: prod}}
///   service:
///     repositoryId: 0190b8a2-7c11-7def-8000-0123456789ab
///     git: {ref: main, folder: team}
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:
  plural cd managed-namespaces create team-a --label team=a --tag stage=prod
  plural cd managed-namespaces create team-a -f team-a.yaml --wait"
)]
pub(crate) struct ManagedNamespaceCreateArgs {
    /// Its name
    pub(crate) name: String,

    /// What the namespace is called in its clusters; its name when absent
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,

    /// Only clusters of this project (name or id); without it all, which only administrators may
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,

    #[command(flatten)]
    pub(crate) content: ManagedNamespaceContentArgs,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Change a managed namespace
///
/// What is not given stays as it is. Labels, annotations, pull secrets and tags are each replaced as a whole; in the file
/// `service: null` takes the service away, and `target: {tags: {}, distro: null}` means all clusters.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd managed-namespaces update team-a --label team=a --label tier=gold
  plural cd managed-namespaces update team-a -f team-a.yaml --wait")]
pub(crate) struct ManagedNamespaceUpdateArgs {
    /// Its name or id
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) content: ManagedNamespaceContentArgs,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Delete a managed namespace; its cascade decides what happens to its namespaces
///
/// Namespaces are deleted only with `cascade: {delete: true}`, only where they were made for it, and on each cluster only after
/// somebody approved.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd managed-namespaces delete team-a --dry-run
  plural cd managed-namespaces delete team-a --yes --wait")]
pub(crate) struct ManagedNamespaceDeleteArgs {
    /// Its name or id
    pub(crate) name: String,

    /// Show what would become of each namespace, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}
