//! The command line: every flag, default and example.

mod contexts;
mod helm_repositories;
mod links;
mod repositories;

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};

mod global_services;
mod managed_namespaces;

pub(crate) use global_services::*;
pub(crate) use managed_namespaces::*;

use crate::{
    canary::CanaryArgs,
    deprecations::ClusterDeprecationsArgs,
    key::{ClusterKey, RepositoryKey, ServiceKey, parse_duration, parse_pair},
    output::Format,
    preview::ServiceRenderArgs,
    projects::ProjectsArgs,
    recordings::RecordingsArgs,
    rendering::RenderingArgs,
    service_drift::{ServiceDriftArgs, ServiceIgnoreArgs, ServiceTakeOverArgs},
    service_files::ServiceFilesArgs,
    service_life::{
        ServiceCloneArgs, ServiceDetachArgs, ServiceEventsArgs, ServicePauseArgs, ServiceReleaseArgs,
        ServiceResumeArgs, ServiceRevisionsArgs, ServiceRollbackArgs,
    },
    service_sync::{ServiceApprovePruneArgs, ServiceDiffArgs, ServicePlanArgs, ServiceSyncArgs},
    service_tree::ServiceTreeArgs,
    sync_args::SyncArgs,
    sync_windows::SyncWindowsArgs,
};

pub(crate) use contexts::{
    ContextCommand, ContextDeleteArgs, ContextGetArgs, ContextListArgs, ContextSaveArgs, ContextsArgs,
};
pub(crate) use helm_repositories::{
    HelmRepositoriesArgs, HelmRepositoryCommand, HelmRepositoryDeleteArgs, HelmRepositoryListArgs,
    HelmRepositorySetArgs,
};
pub(crate) use links::LinksArgs;
pub(crate) use repositories::{
    RepositoriesArgs, RepositoryCommand, RepositoryCreateArgs, RepositoryDeleteArgs, RepositoryListArgs,
};

/// Run a fleet of Kubernetes clusters from one place
#[derive(Debug, Parser)]
#[command(name = "plural", version, propagate_version = false, subcommand_required = true)]
#[command(arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Login(LoginArgs),
    Logout(LogoutArgs),
    Cd(Box<CdArgs>),
    Version(VersionArgs),
    Completion(CompletionArgs),
}

/// Which console, and as whom
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectionArgs {
    /// Address of the console; else the profile's
    #[arg(long, global = true, env = "PLURAL_CONSOLE_URL", hide_env_values = true, value_name = "URL")]
    pub(crate) url: Option<String>,

    /// PEM file of an authority that signs the console's certificate
    #[arg(long, global = true, env = "PLURAL_CONSOLE_CA_FILE", hide_env_values = true, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,

    /// Which of the saved logins to use; else the last one
    #[arg(long, global = true, env = "PLURAL_PROFILE", hide_env_values = true, value_name = "NAME")]
    pub(crate) profile: Option<String>,
}

/// Log in to a console and remember it
///
/// Signs in with an e-mail address and a password, creates an access token and keeps it in
/// ~/.plural/profiles.yml (readable by you alone). Programs need no login: they set
/// PLURAL_CONSOLE_URL and PLURAL_CONSOLE_TOKEN. HTTPS_PROXY and NO_PROXY are honoured, except for
/// a console on this machine.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural login --url https://console.example.com
  plural login --url https://console.example.com --email ada@example.com --password-stdin < password.txt
  plural login --url https://console.example.com --token-stdin < token.txt")]
pub(crate) struct LoginArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    /// E-mail address to sign in with; asked for when absent
    #[arg(long, value_name = "EMAIL")]
    pub(crate) email: Option<String>,

    /// Read the password from standard input instead of asking
    #[arg(long, requires = "email")]
    pub(crate) password_stdin: bool,

    /// Read an access token from standard input and keep that, without signing in
    #[arg(long, conflicts_with_all = ["email", "password_stdin"])]
    pub(crate) token_stdin: bool,
}

/// Log out: revoke the token that login made, and forget it
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural logout
  plural logout --profile staging
  plural logout --local   # the console does not answer any more")]
pub(crate) struct LogoutArgs {
    /// Which of the saved logins; else the last one
    #[arg(long, env = "PLURAL_PROFILE", hide_env_values = true, value_name = "NAME")]
    pub(crate) profile: Option<String>,

    /// Forget it here and leave its token valid
    #[arg(long)]
    pub(crate) local: bool,
}

/// Clusters, repositories, services, global services and contexts of the fleet
#[derive(Debug, Args)]
#[command(visible_alias = "deployments", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct CdArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    #[command(subcommand)]
    pub(crate) command: CdCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CdCommand {
    Clusters(ClustersArgs),
    Repositories(RepositoriesArgs),
    HelmRepositories(HelmRepositoriesArgs),
    Projects(ProjectsArgs),
    Services(Box<ServicesArgs>),
    GlobalServices(GlobalServicesArgs),
    ManagedNamespaces(ManagedNamespacesArgs),
    SyncWindows(SyncWindowsArgs),
    Contexts(ContextsArgs),
}

/// How to print
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct OutputArgs {
    /// How to print the answer
    #[arg(short, long, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub(crate) output: Format,
}

/// Whether to wait
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct WaitArgs {
    /// Wait until it is done
    #[arg(long)]
    pub(crate) wait: bool,

    /// How long to wait: 90s, 5m, 1h
    #[arg(long, default_value = "5m", value_parser = parse_duration, requires = "wait", value_name = "DURATION")]
    pub(crate) timeout: Duration,
}

/// Confirmation
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ConfirmArgs {
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// Clusters: list, create, describe, tag, delete, bootstrap, kubeconfig
#[derive(Debug, Args)]
#[command(visible_alias = "cluster", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct ClustersArgs {
    #[command(subcommand)]
    pub(crate) command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    List(ClusterListArgs),
    Create(ClusterCreateArgs),
    Describe(ClusterDescribeArgs),
    Deprecations(ClusterDeprecationsArgs),
    Tag(ClusterTagArgs),
    Delete(ClusterDeleteArgs),
    Bootstrap(BootstrapArgs),
    Kubeconfig(KubeconfigArgs),
    Credential(CredentialArgs),
    Recordings(RecordingsArgs),
}

/// List the clusters that you may see
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd clusters list
  plural cd clusters list --tag stage=prod -o wide
  plural cd clusters list --watch"
)]
pub(crate) struct ClusterListArgs {
    /// Only clusters with this tag; given several times: with all of them
    #[arg(long = "tag", value_parser = parse_pair, value_name = "NAME=VALUE")]
    pub(crate) tags: Vec<(String, String)>,

    /// Only clusters of this project (name or id)
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,

    /// Keep running and print what changes
    #[arg(short, long)]
    pub(crate) watch: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Properties of a new cluster
#[derive(Debug, Clone, Args)]
pub(crate) struct ClusterProperties {
    /// Unique short name to address it by; made from NAME when absent
    #[arg(long, value_name = "HANDLE")]
    pub(crate) handle: Option<String>,

    /// Tag to select it by; may be given several times
    #[arg(long = "tag", value_parser = parse_pair, value_name = "NAME=VALUE")]
    pub(crate) tags: Vec<(String, String)>,

    /// Project it belongs to (name or id); else the default project
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,

    /// Data for templates: a JSON or YAML file with a mapping, or - for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) metadata: Option<PathBuf>,

    /// Refuse its deletion until the protection is taken off
    #[arg(long)]
    pub(crate) protect: bool,
}

/// Register a cluster
///
/// The cluster joins the fleet when its agent runs: see `plural cd clusters bootstrap`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd clusters create blue --tag stage=prod
  plural cd clusters create blue --wait --timeout 10m   # until its agent reports")]
pub(crate) struct ClusterCreateArgs {
    /// Name of the cluster
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) properties: ClusterProperties,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Show one cluster
#[derive(Debug, Args)]
#[command(
    visible_alias = "get",
    after_help = "Examples:
  plural cd clusters describe blue
  plural cd clusters describe @blue -o json"
)]
pub(crate) struct ClusterDescribeArgs {
    /// The cluster: its handle or id
    #[arg(value_name = "CLUSTER")]
    pub(crate) cluster: ClusterKey,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Change the tags of a cluster
///
/// Global services and managed namespaces that target the new tags come by themselves; those that no longer do go as
/// their cascade says.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd clusters tag blue stage=prod region=eu
  plural cd clusters tag blue stage-   # without it")]
pub(crate) struct ClusterTagArgs {
    /// The cluster: its handle or id
    #[arg(value_name = "CLUSTER")]
    pub(crate) cluster: ClusterKey,

    /// NAME=VALUE gives it a tag, NAME- takes one away
    #[arg(value_name = "TAG", required = true)]
    pub(crate) tags: Vec<String>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Delete a cluster: remove what we put into it, then forget it
///
/// Every service's objects are removed by the cluster's agent before the record goes. With --soft the
/// record goes at once and all objects stay.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd clusters delete blue
  plural cd clusters delete blue --yes --wait
  plural cd clusters delete blue --soft   # forget it, touch nothing")]
pub(crate) struct ClusterDeleteArgs {
    /// The cluster: its handle or id
    #[arg(value_name = "CLUSTER")]
    pub(crate) cluster: ClusterKey,

    /// Forget the cluster and leave everything in it
    #[arg(long, visible_alias = "detach")]
    pub(crate) soft: bool,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

/// Bring the cluster of your kubeconfig into the fleet
///
/// Registers the cluster, or with --new-token one that is registered already, and prints the manifests of its agent:
/// namespace, service account, cluster role binding, secret and deployment. The secret holds the
/// cluster's deploy token: do not keep the output. With --apply they go to kubectl instead.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd clusters bootstrap blue --image IMAGE | kubectl apply --server-side -f -
  plural cd clusters bootstrap blue --image IMAGE --apply --context blue-admin --wait")]
pub(crate) struct BootstrapArgs {
    /// Name of the cluster
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) properties: ClusterProperties,

    /// Container image of the agent: any image whose entry point is this program
    #[arg(long, env = "PLURAL_AGENT_IMAGE", hide_env_values = true, value_name = "IMAGE")]
    pub(crate) image: String,

    /// Address of the console as the cluster reaches it; else what the console says
    #[arg(long, value_name = "URL")]
    pub(crate) agent_url: Option<String>,

    /// Namespace of the agent
    #[arg(long, default_value = "plural-system", value_name = "NAMESPACE")]
    pub(crate) namespace: String,

    /// Give a cluster that is registered already another deploy token; the old one ends at once
    #[arg(long)]
    pub(crate) new_token: bool,

    /// Apply with kubectl instead of printing
    #[arg(long)]
    pub(crate) apply: bool,

    /// Context of the kubeconfig that kubectl uses
    #[arg(long, requires = "apply", value_name = "CONTEXT")]
    pub(crate) context: Option<String>,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,
}

/// Write a kubeconfig that reaches a cluster through the console
///
/// It holds no secret: kubectl asks this program for a token, which is made from your saved login and ends after an
/// hour. What you may do in the cluster, its own RBAC decides: your e-mail address is the user, your groups are the
/// groups.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd clusters kubeconfig blue --merge
  plural cd clusters kubeconfig blue --file blue.yaml
  plural cd clusters kubeconfig blue > blue.yaml")]
pub(crate) struct KubeconfigArgs {
    /// The cluster: its handle or id
    #[arg(value_name = "CLUSTER")]
    pub(crate) cluster: ClusterKey,

    /// Add it to your kubeconfig ($KUBECONFIG, else ~/.kube/config) and make it the current context
    #[arg(long, conflicts_with = "file")]
    pub(crate) merge: bool,

    /// Write it to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// Name of the context; else plural-HANDLE
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
}

/// Print a token for kubectl
///
/// Called by kubectl, as the kubeconfigs of `plural cd clusters kubeconfig` say: prints an ExecCredential
/// (client.authentication.k8s.io/v1) with a token that ends after an hour, and keeps it for the next call.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd clusters credential --url https://console.example.com")]
pub(crate) struct CredentialArgs {}

/// Services: list, create, update, describe, plan, sync, roll back, pause, copy, delete
#[derive(Debug, Args)]
#[command(visible_alias = "svc", subcommand_required = true, arg_required_else_help = true)]
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
    Revisions(ServiceRevisionsArgs),
    Events(ServiceEventsArgs),
    Kick(ServiceKickArgs),
    Files(ServiceFilesArgs),
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

    /// Keep running and print what changes
    #[arg(short, long)]
    pub(crate) watch: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
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

    /// JSON or YAML file that maps names to values for templates, or - for standard input
    #[arg(long, visible_alias = "config-file", value_name = "FILE")]
    pub(crate) conf_file: Option<PathBuf>,

    /// Only plan: apply nothing
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) dry_run: Option<bool>,

    /// Refuse its deletion until the protection is taken off
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

/// Change a service; what is not named stays as it is
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services update blue/web --ref v1.4.0 --wait
  plural cd services update blue/web --conf replicas=5
  plural cd services update blue/redis --chart-version 19.1.2
  plural cd services update blue/web --sync manual --self-heal=false
  plural cd services update blue/web --dry-run=false")]
pub(crate) struct ServiceUpdateArgs {
    /// The service: CLUSTER/NAME or its id
    #[arg(value_name = "SERVICE")]
    pub(crate) service: ServiceKey,

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

/// Look at a service's repository now and reconcile it
#[derive(Debug, Args)]
#[command(after_help = "Examples:
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

/// Delete a service: remove its objects from the cluster, then forget it
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

    /// Forget the service and leave its objects
    #[arg(long, visible_alias = "detach")]
    pub(crate) soft: bool,

    /// Delete what depends on it as well, and first
    #[arg(long, conflicts_with = "soft")]
    pub(crate) cascade: bool,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

/// Print the version of this program
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural version
  plural version -o json")]
pub(crate) struct VersionArgs {
    /// How to print the answer
    #[arg(short, long, value_enum, default_value_t = VersionFormat::Text, value_name = "FORMAT")]
    pub(crate) output: VersionFormat,
}

/// How to print a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum VersionFormat {
    /// One line of text.
    Text,
    /// One JSON object.
    Json,
    /// The same in YAML.
    Yaml,
}

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural completion bash > ~/.local/share/bash-completion/completions/plural
  plural completion zsh > \"${fpath[1]}/_plural\"
  plural completion fish > ~/.config/fish/completions/plural.fish")]
pub(crate) struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}
