//! The command line of git repositories.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{ConfirmArgs, ListOutputArgs, OutputArgs, WaitArgs};
use crate::key::RepositoryKey;

/// Git repositories: list, get, create, delete
#[derive(Debug, Args)]
#[command(visible_alias = "repos", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct RepositoriesArgs {
    #[command(subcommand)]
    pub(crate) command: RepositoryCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RepositoryCommand {
    List(RepositoryListArgs),
    Get(RepositoryGetArgs),
    Update(Box<RepositoryUpdateArgs>),
    Create(Box<RepositoryCreateArgs>),
    Delete(RepositoryDeleteArgs),
}

/// List the git repositories
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd repositories list
  plural cd repositories list -o json"
)]
pub(crate) struct RepositoryListArgs {
    /// Keep running and print what changes
    #[arg(short, long)]
    pub(crate) watch: bool,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Show one git repository
#[derive(Debug, Args)]
#[command(
    visible_alias = "describe",
    after_help = "Examples:
  plural cd repositories get https://git.example.com/team/deploy.git
  plural cd repositories get https://git.example.com/team/deploy.git -o json"
)]
pub(crate) struct RepositoryGetArgs {
    /// The repository: its URL or id
    #[arg(value_name = "REPOSITORY")]
    pub(crate) repository: RepositoryKey,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Register a git repository
///
/// Secrets never stand on the command line: the password or access token is read from standard input
/// or from PLURAL_GIT_PASSWORD, a private key from a file, its passphrase from PLURAL_GIT_PASSPHRASE, a proxy to go
/// through from PLURAL_GIT_PROXY, since its address may hold a password.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd repositories create https://git.example.com/team/deploy.git
  plural cd repositories create https://git.example.com/team/deploy.git --username bot --password-stdin < token.txt
  plural cd repositories create git@git.example.com:team/deploy.git --private-key ~/.ssh/deploy --wait
  plural cd repositories create https://git.example.com/shop/deploy.git --project shop
  plural cd repositories create https://git.example.com/team/deploy.git --allowed-signers allowed_signers")]
pub(crate) struct RepositoryCreateArgs {
    /// Where to fetch from: https, ssh or git@host:path
    #[arg(value_name = "REPOSITORY", required_unless_present = "repository_url")]
    pub(crate) repository: Option<String>,

    /// The same as an option; beside REPOSITORY, the address of the console
    #[arg(id = "repository_url", long = "url", value_name = "URL")]
    pub(crate) url: Option<String>,

    /// Address of the console; else the profile's
    // It has the id of the `--url` of every other command, whose place is taken here.
    #[arg(id = "url", long = "console-url", value_name = "URL", help_heading = "Connection")]
    pub(crate) console_url: Option<String>,

    /// Project that it belongs to, by name or id [default: the default project]
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,

    #[command(flatten)]
    pub(crate) access: RepositoryAccessArgs,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Change a git repository: its address, its credentials, who signs for it
///
/// Options that you leave out keep their value, and services go on reading from it meanwhile. Secrets are read as `create`
/// reads them. Credentials do not follow a repository to another host: give them again with --to.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd repositories update https://git.example.com/team/deploy.git --username bot --password-stdin < token.txt
  plural cd repositories update git@git.example.com:team/deploy.git --private-key ~/.ssh/new --wait
  plural cd repositories update https://old.example.com/deploy.git --to https://new.example.com/deploy.git")]
pub(crate) struct RepositoryUpdateArgs {
    /// The repository: its URL or id
    #[arg(value_name = "REPOSITORY")]
    pub(crate) repository: RepositoryKey,

    /// Where to fetch from instead
    #[arg(long = "to", visible_alias = "new-url", value_name = "URL")]
    pub(crate) new_url: Option<String>,

    #[command(flatten)]
    pub(crate) access: RepositoryAccessArgs,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// How it is fetched
#[derive(Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct RepositoryAccessArgs {
    /// User name for basic authentication
    #[arg(long, value_name = "NAME")]
    pub(crate) username: Option<String>,

    /// Read the password or access token from standard input
    #[arg(long, requires = "username")]
    pub(crate) password_stdin: bool,

    /// File with a private key for SSH
    #[arg(long, conflicts_with = "username", value_name = "FILE")]
    pub(crate) private_key: Option<PathBuf>,

    /// File with the certificates (PEM) that sign the host's, in place of the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) git_ca_file: Option<PathBuf>,

    /// File with the only SSH host keys that are accepted, as in known_hosts
    #[arg(long, value_name = "FILE")]
    pub(crate) known_hosts: Option<PathBuf>,

    /// File with the SSH keys that commits must be signed with, as git's gpg.ssh.allowedSignersFile names it
    #[arg(long, value_name = "FILE")]
    pub(crate) allowed_signers: Option<PathBuf>,

    /// File with the OpenPGP public keys that commits must be signed with, armoured
    #[arg(long, value_name = "FILE")]
    pub(crate) openpgp_keys: Option<PathBuf>,
}

/// Delete a git repository that no service uses
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd repositories delete https://git.example.com/team/deploy.git
  plural cd repositories delete https://git.example.com/team/deploy.git --yes")]
pub(crate) struct RepositoryDeleteArgs {
    /// The repository: its URL or id
    #[arg(value_name = "REPOSITORY")]
    pub(crate) repository: RepositoryKey,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}
