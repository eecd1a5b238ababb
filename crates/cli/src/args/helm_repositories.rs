//! `plural cd helm-repositories …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{ConfirmArgs, ListOutputArgs, OutputArgs};

/// Chart repositories and registries that need credentials: list, set, delete
#[derive(Debug, Args)]
#[command(visible_alias = "helm-repos", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct HelmRepositoriesArgs {
    #[command(subcommand)]
    pub(crate) command: HelmRepositoryCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HelmRepositoryCommand {
    List(HelmRepositoryListArgs),
    Set(HelmRepositorySetArgs),
    Delete(HelmRepositoryDeleteArgs),
}

/// List the registered chart repositories
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd helm-repositories list
  plural cd helm-repositories list -o json"
)]
pub(crate) struct HelmRepositoryListArgs {
    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Register a chart repository, or change how it is read
///
/// Every service that names its address, or one below it, uses the credentials. Secrets never stand on the command line: the
/// password or token is read from standard input or from PLURAL_HELM_PASSWORD. What is not given stays as it was, except credentials
/// when the certificates change: give them again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd helm-repositories set https://charts.example.com/stable --username bot --password-stdin < token.txt
  plural cd helm-repositories set oci://registry.example.com/team --bearer --password-stdin < token.txt
  plural cd helm-repositories set https://charts.internal --ca-certificate internal-ca.pem")]
pub(crate) struct HelmRepositorySetArgs {
    /// Where it is: https://HOST/PATH or oci://HOST/PATH
    #[arg(value_name = "URL")]
    pub(crate) repository: String,

    /// Only services of this project use it (name or id); an empty text for services of all projects
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,

    /// User name for basic authentication
    #[arg(long, value_name = "NAME")]
    pub(crate) username: Option<String>,

    /// Sign in with a token that is sent as it is
    #[arg(long, conflicts_with = "username")]
    pub(crate) bearer: bool,

    /// Read the password or token from standard input
    #[arg(long)]
    pub(crate) password_stdin: bool,

    /// File with certificates (PEM) to trust besides the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_certificate: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Delete a chart repository and its credentials; services that use it continue without them
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd helm-repositories delete oci://registry.example.com/team
  plural cd helm-repositories delete https://charts.example.com/stable --yes")]
pub(crate) struct HelmRepositoryDeleteArgs {
    /// Its URL
    #[arg(value_name = "URL")]
    pub(crate) repository: String,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}
