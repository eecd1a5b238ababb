//! `plural cd clusters …`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};

use super::{ConfirmArgs, ListOutputArgs, OutputArgs, WaitArgs};
use crate::{
    deprecations::ClusterDeprecationsArgs,
    key::{ClusterKey, parse_lifetime, parse_pair},
    recordings::RecordingsArgs,
    selector::TagSelector,
};

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
    Update(ClusterUpdateArgs),
    Deprecations(ClusterDeprecationsArgs),
    Tag(ClusterTagArgs),
    Delete(ClusterDeleteArgs),
    #[command(alias = "install")]
    Bootstrap(Box<BootstrapArgs>),
    /// Add a cluster anew whose agent is lost: the same as `bootstrap --rejoin` of a cluster that is registered
    #[command(
        hide = true,
        after_help = "Examples:
  plural cd clusters reinstall blue --image IMAGE --apply"
    )]
    Reinstall(Box<BootstrapArgs>),
    RotateToken(RotateTokenArgs),
    Kubeconfig(KubeconfigArgs),
    /// Add a cluster to your kubeconfig: the same as `kubeconfig --merge`
    #[command(after_help = "Examples:
  plural cd clusters get-credentials blue
  plural cd clusters get-credentials @blue --file blue.yaml")]
    GetCredentials(KubeconfigArgs),
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
  plural cd clusters list -l 'stage in (prod,test),!legacy' --sort-by age
  plural cd clusters list --watch"
)]
pub(crate) struct ClusterListArgs {
    /// Only clusters with this tag; given several times: with all of them
    #[arg(long = "tag", value_parser = parse_pair, value_name = "NAME=VALUE")]
    pub(crate) tags: Vec<(String, String)>,

    /// Only clusters with such tags, as kubectl selects labels: a=b,a!=b,a in (x,y),a notin (x,y),a,!a. The console looks
    /// for a=b, the rest is left out here
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<TagSelector>,

    /// Only clusters of this project (name or id)
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,

    /// Keep running and print what changes
    #[arg(short, long)]
    pub(crate) watch: bool,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
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

    /// Refuse its deletion until the protection is removed
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

/// Change the handle or the name of a cluster
///
/// Services, bindings and agents stay: they know the cluster by its id. Kubeconfigs name the handle; write them again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd clusters update blue --handle blue-eu
  plural cd clusters update @blue --name 'Blue (EU)'")]
pub(crate) struct ClusterUpdateArgs {
    /// The cluster: its handle or id
    #[arg(value_name = "CLUSTER")]
    pub(crate) cluster: ClusterKey,

    /// The new handle, unique
    #[arg(long, required_unless_present = "name", value_name = "HANDLE")]
    pub(crate) handle: Option<String>,

    /// The new name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

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

/// Delete a cluster: remove what services put into it, then its record
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

    /// Remove the cluster from the console and leave everything in it
    #[arg(long, visible_alias = "detach")]
    pub(crate) soft: bool,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

/// Add the cluster of your kubeconfig to the fleet
///
/// Registers the cluster, or with --rejoin one that is registered already, and prints the manifests of its agent:
/// namespace, service account, roles, secrets and deployment. One secret holds a join token: the first agent that uses it is
/// the cluster's, and has a deploy token of its own from then on. Applying the same manifests again changes nothing. With
/// --apply they go to kubectl instead.
///
/// A machine that sets up its own cluster has a registration token in place of a login (`plural cd registration-tokens create`): the
/// command can be repeated until the agent has joined.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd clusters bootstrap blue --image IMAGE | kubectl apply --server-side -f -
  plural cd clusters bootstrap blue --image IMAGE --apply --context blue-admin --wait
  plural cd clusters bootstrap shop-7 --url https://console.example.com --token-file token.txt --image IMAGE --apply")]
pub(crate) struct BootstrapArgs {
    /// Name of the cluster
    #[arg(required_unless_present = "name")]
    pub(crate) cluster: Option<String>,

    /// The same as an option
    #[arg(long, conflicts_with = "cluster", value_name = "NAME")]
    pub(crate) name: Option<String>,

    #[command(flatten)]
    pub(crate) properties: ClusterProperties,

    /// Container image of the agent: any image whose entry point is this program
    #[arg(long, env = "PLURAL_AGENT_IMAGE", hide_env_values = true, value_name = "IMAGE")]
    pub(crate) image: String,

    /// Address of the console as the cluster reaches it; else what the console says
    #[arg(long, value_name = "URL")]
    pub(crate) agent_url: Option<String>,

    /// Let the agent speak plain HTTP to the console: its deploy token and the services' secrets go over
    /// the network in clear, unless something in between encrypts
    #[arg(long)]
    pub(crate) insecure_http: bool,

    /// Namespace of the agent
    #[arg(long, default_value = "plural-system", value_name = "NAMESPACE")]
    pub(crate) namespace: String,

    /// Make another join token for a cluster that is registered already: its agent's Secret is lost, or the first join token
    /// ended. An agent that has joined goes on until another one joins
    #[arg(long, alias = "new-token", conflicts_with = "token_file")]
    pub(crate) rejoin: bool,

    /// File with a registration token, or - for standard input: what this machine makes its cluster with
    #[arg(long, conflicts_with_all = ["project", "valid_for", "wait"], value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// How long the join token holds: 30m, 24h, 720h at most; a day when absent
    #[arg(long, value_parser = parse_lifetime, value_name = "DURATION")]
    pub(crate) valid_for: Option<Duration>,

    /// Apply with kubectl instead of printing
    #[arg(long)]
    pub(crate) apply: bool,

    /// Context of the kubeconfig that kubectl uses
    #[arg(long, requires = "apply", value_name = "CONTEXT")]
    pub(crate) context: Option<String>,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,
}

/// Rotate the deploy token of a cluster's agent
///
/// The agent draws a new token, keeps it in its Secret, and uses it; the old one then ends. It does so by itself every 30
/// days, or as often as the console was told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd clusters rotate-token blue --yes
  plural cd clusters bootstrap blue --rejoin --image IMAGE   # the agent's token is lost, or somebody else's")]
pub(crate) struct RotateTokenArgs {
    /// The cluster: its handle or id
    #[arg(value_name = "CLUSTER")]
    pub(crate) cluster: ClusterKey,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
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
/// (client.authentication.k8s.io/v1) with a token that ends after an hour and reaches the Kubernetes API of one cluster, and
/// keeps it for the next call.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd clusters credential --cluster 0190b8a2-7c11-7def-8000-0123456789ab --url https://console.example.com")]
pub(crate) struct CredentialArgs {
    /// Id of the cluster that the token reaches; without it the token reaches all clusters that you may read, as
    /// kubeconfigs of earlier releases ask for it
    #[arg(long, value_name = "ID")]
    pub(crate) cluster: Option<String>,
}
