//! `plural cd services …`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use plural_core::service::Reference;

use super::{ConfirmArgs, LinksArgs, ListOutputArgs, OutputArgs, WaitArgs};
use crate::{
    canary::CanaryArgs,
    key::{ClusterKey, RepositoryKey, ServiceKey, parse_duration, parse_pair, parse_reference},
    preview::ServiceRenderArgs,
    rendering::RenderingArgs,
    selector::TagSelector,
    service_drift::{ServiceDriftArgs, ServiceIgnoreArgs, ServiceTakeOverArgs},
    service_failures::ServiceFailuresArgs,
    service_files::{ServiceFilesArgs, ServiceTarballArgs},
    service_life::{
        ServiceAgentUpgradeArgs, ServiceCloneArgs, ServiceDetachArgs, ServiceEventsArgs, ServicePauseArgs,
        ServiceReleaseArgs, ServiceResumeArgs, ServiceRevisionsArgs, ServiceRollbackArgs,
        ServiceRotateSeedArgs,
    },
    service_logs::ServiceLogsArgs,
    service_sync::{ServiceApprovePruneArgs, ServiceDiffArgs, ServicePlanArgs, ServiceSyncArgs},
    service_tree::ServiceTreeArgs,
    sync_args::SyncArgs,
};

/// Services: list, create, update, describe, plan, sync, roll back, pause, copy, delete
#[derive(Debug, Args)]
#[command(visible_aliases = ["svc", "service"], subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct ServicesArgs {
    #[command(subcommand)]
    pub(crate) command: ServiceCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    List(ServiceListArgs),
    Create(ServiceCreateArgs),
    Update(ServiceUpdateArgs),
    Describe(ServiceDescribeArgs),
    Tree(ServiceTreeArgs),
    Logs(ServiceLogsArgs),
    Revisions(ServiceRevisionsArgs),
    Events(ServiceEventsArgs),
    Failures(ServiceFailuresArgs),
    Kick(ServiceKickArgs),
    Wait(ServiceWaitArgs),
    Files(ServiceFilesArgs),
    Tarball(ServiceTarballArgs),
    Render(ServiceRenderArgs),
    Plan(ServicePlanArgs),
    Diff(ServiceDiffArgs),
    Sync(ServiceSyncArgs),
    ApprovePrune(ServiceApprovePruneArgs),
    Drift(ServiceDriftArgs),
    Ignore(ServiceIgnoreArgs),
    TakeOver(ServiceTakeOverArgs),
    Canary(CanaryArgs),
    Rollback(ServiceRollbackArgs),
    Release(ServiceReleaseArgs),
    Pause(ServicePauseArgs),
    Resume(ServiceResumeArgs),
    RotateSeed(ServiceRotateSeedArgs),
    AgentUpgrade(ServiceAgentUpgradeArgs),
    Clone(ServiceCloneArgs),
    Detach(ServiceDetachArgs),
    Delete(ServiceDeleteArgs),
}

/// List services, of one cluster or of all that you may see
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd services list
  plural cd services list blue -o wide
  plural cd services list blue --watch"
)]
pub(crate) struct ServiceListArgs {
    /// Only of this cluster: its handle or id
    #[arg(value_name = "CLUSTER")]
    pub(crate) of_cluster: Option<ClusterKey>,

    /// The same as an option
    #[arg(long, conflicts_with = "of_cluster", value_name = "CLUSTER")]
    pub(crate) cluster: Option<ClusterKey>,

    /// Only services on clusters with such tags, as kubectl selects labels: a=b,a!=b,a in (x,y),a notin (x,y),a,!a. The
    /// others are left out here, not by the console
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<TagSelector>,

    /// Keep running and print what changes
    #[arg(short, long)]
    pub(crate) watch: bool,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Where a service comes from and what it is given
#[derive(Debug, Clone, Args)]
pub(crate) struct ServiceSourceArgs {
    /// Git repository: its URL or id
    #[arg(long, visible_aliases = ["repo", "repo-id"], value_name = "REPOSITORY")]
    pub(crate) repository: Option<RepositoryKey>,

    /// Branch, tag, commit, or semver range of tags such as ">=1.2, <2"
    #[arg(long = "ref", visible_alias = "git-ref", value_name = "REF")]
    pub(crate) git_ref: Option<String>,

    /// Folder in the repository
    #[arg(long = "folder", visible_alias = "git-folder", value_name = "FOLDER")]
    pub(crate) git_folder: Option<String>,

    /// Value for templates; may be given several times. It can be read in the process list: put
    /// secrets into --conf-file
    #[arg(long, value_parser = parse_pair, value_name = "NAME=VALUE")]
    pub(crate) conf: Vec<(String, String)>,

    /// Value for templates that only the agent of the service's cluster finds, so that the console never holds it:
    /// secret:[NAMESPACE/]NAME#KEY, configmap:[NAMESPACE/]NAME#KEY, vault:PATH#KEY, sops:FILE[#KEY] or age:FILE[#KEY]; may be
    /// given several times
    #[arg(long, value_parser = parse_reference, value_name = "NAME=REFERENCE")]
    pub(crate) conf_from: Vec<(String, Reference)>,

    /// JSON or YAML file that maps names to values for templates, or - for standard input
    #[arg(long, visible_alias = "config-file", value_name = "FILE")]
    pub(crate) conf_file: Option<PathBuf>,

    /// Only plan: apply nothing
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) dry_run: Option<bool>,

    /// Refuse its deletion until the protection is removed
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) protect: Option<bool>,

    /// Render .liquid files
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) templated: Option<bool>,
}

/// Keep a folder of a git repository applied in a cluster
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services create blue/web --repository https://git.example.com/team/deploy.git --ref main --folder web
  plural cd services create blue/web --namespace shop --repository https://git.example.com/team/deploy.git \\
    --ref '>=1.2, <2' --folder web --conf replicas=3 --wait
  plural cd services create blue/redis --chart-url oci://registry.example.com/charts/redis --chart-version '19.x' \\
    --values redis.yaml
  plural cd services create blue/web --repository https://git.example.com/team/deploy.git --ref main --folder web \\
    --depends-on db --depends-on green/queue   # waits until both are healthy")]
pub(crate) struct ServiceCreateArgs {
    /// Cluster and name as CLUSTER/NAME, or the cluster with --name
    #[arg(value_name = "CLUSTER/NAME")]
    pub(crate) target: String,

    /// Name of the service, unless it stands behind the cluster
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Label for people
    #[arg(long = "version", value_name = "VERSION")]
    pub(crate) label: Option<String>,

    /// Namespace its objects go to unless they name one; else the service's name
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,

    #[command(flatten)]
    pub(crate) source: ServiceSourceArgs,

    #[command(flatten)]
    pub(crate) rendering: Box<RenderingArgs>,

    #[command(flatten)]
    pub(crate) sync: Box<SyncArgs>,

    #[command(flatten)]
    pub(crate) links: LinksArgs,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Change a service; options that you leave out keep their value
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services update blue/web --ref v1.4.0 --wait
  plural cd services update blue/web --conf replicas=5 --unset-conf greeting   # all other values stay
  plural cd services update blue/web --conf-file values.yaml --replace-conf   # no others stay
  plural cd services update blue/web --conf-from password=secret:db#password   # read in the cluster only
  plural cd services update blue/redis --chart-version 19.1.2
  plural cd services update blue/web --sync manual --self-heal=false
  plural cd services update blue/web --set policy.prunePercent=30
  plural cd services update blue/web --namespace shop   # then: plural cd services approve-prune blue/web
  plural cd services update blue/web --dry-run=false")]
pub(crate) struct ServiceUpdateArgs {
    /// The service: CLUSTER/NAME or its id
    #[arg(value_name = "SERVICE")]
    pub(crate) service: ServiceKey,

    /// Another namespace for its objects; those in the one before are deleted once you approve that
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,

    #[command(flatten)]
    pub(crate) source: ServiceSourceArgs,

    /// Remove a value for templates; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) unset_conf: Vec<String>,

    /// Remove all values for templates that --conf, --conf-from and --conf-file do not name
    #[arg(long, conflicts_with = "unset_conf")]
    pub(crate) replace_conf: bool,

    #[command(flatten)]
    pub(crate) rendering: Box<RenderingArgs>,

    #[command(flatten)]
    pub(crate) sync: Box<SyncArgs>,

    #[command(flatten)]
    pub(crate) links: LinksArgs,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Show one service with its objects and errors
#[derive(Debug, Args)]
#[command(
    visible_alias = "get",
    after_help = "Examples:
  plural cd services describe blue/web
  plural cd services describe @blue/web -o yaml"
)]
pub(crate) struct ServiceDescribeArgs {
    /// The service: CLUSTER/NAME or its id
    #[arg(value_name = "SERVICE")]
    pub(crate) service: ServiceKey,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Fetch the repository of a service and reconcile now
#[derive(Debug, Args)]
#[command(visible_aliases = ["refresh", "reconcile"], after_help = "Examples:
  plural cd services kick blue/web
  plural cd services kick blue/web --wait   # until it was looked at and is healthy")]
pub(crate) struct ServiceKickArgs {
    /// The service: CLUSTER/NAME or its id
    #[arg(value_name = "SERVICE")]
    pub(crate) service: ServiceKey,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Wait until services are healthy, or gone
///
/// Ends at once, with exit code 1, where waiting does not help: an error that somebody has to mend, deletions that wait for
/// approval, a service that is paused or syncs manually.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services wait blue/web
  plural cd services wait blue/web green/web --timeout 10m
  plural cd services wait blue/old --for deleted")]
pub(crate) struct ServiceWaitArgs {
    /// The services: CLUSTER/NAME or ids
    #[arg(value_name = "SERVICE", required = true)]
    pub(crate) services: Vec<ServiceKey>,

    /// What to wait for
    #[arg(long = "for", value_enum, default_value_t = ServiceGoal::Healthy, value_name = "GOAL")]
    pub(crate) goal: ServiceGoal,

    /// How long to wait: 90s, 5m, 1h
    #[arg(long, default_value = "5m", value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) timeout: Duration,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServiceGoal {
    /// Its current revision is applied, and all its objects are ready.
    Healthy,
    /// It and its objects are gone.
    Deleted,
}

/// Delete a service and its objects in the cluster
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services delete blue/web
  plural cd services delete blue/web --yes --wait
  plural cd services delete blue/db --cascade   # first what depends on it, then it
  plural cd services delete blue/web --soft   # forget it, leave its objects")]
pub(crate) struct ServiceDeleteArgs {
    /// The service: CLUSTER/NAME or its id
    #[arg(value_name = "SERVICE")]
    pub(crate) service: ServiceKey,

    /// Remove the service and leave its objects
    #[arg(long, visible_alias = "detach")]
    pub(crate) soft: bool,

    /// Delete what depends on it as well, and first
    #[arg(long, conflicts_with = "soft")]
    pub(crate) cascade: bool,

    /// Remove its namespace as well, unless others use it
    #[arg(long, conflicts_with_all = ["soft", "cascade"])]
    pub(crate) delete_namespace: bool,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}
