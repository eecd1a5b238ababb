//! `plural tokens …`, `plural password`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::{ConfirmArgs, ConnectionArgs, ListOutputArgs};
use crate::key::{ClusterKey, parse_lifetime};

/// Access tokens of yours: list, create, revoke
#[derive(Debug, Args)]
#[command(visible_alias = "token", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct TokensArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    #[command(subcommand)]
    pub(crate) command: TokenCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    List(TokenListArgs),
    Create(TokenCreateArgs),
    Revoke(TokenRevokeArgs),
}

/// List your access tokens and sessions
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural tokens list
  plural tokens list -o wide   # with the token that each was made with"
)]
pub(crate) struct TokenListArgs {
    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Create an access token and print it
///
/// A token that lasts no longer than your login is made at once, and ends with the login. One that outlasts it, as one
/// without --valid-for always does, needs your password.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural tokens create --valid-for 8h
  plural tokens create --cluster blue --valid-for 1h   # for the Kubernetes API of blue, and nothing else
  plural tokens create --password-stdin < password.txt > token.txt")]
pub(crate) struct TokenCreateArgs {
    /// How long it holds: 90m, 8h, 720h; until it is revoked when absent
    #[arg(long, value_parser = parse_lifetime, value_name = "DURATION")]
    pub(crate) valid_for: Option<Duration>,

    /// Reach the Kubernetes API of this cluster and nothing else; may be given several times
    #[arg(long = "cluster", value_name = "CLUSTER")]
    pub(crate) clusters: Vec<ClusterKey>,

    /// Reach the Kubernetes API of every cluster that you may read, and nothing else
    #[arg(long, conflicts_with = "clusters")]
    pub(crate) all_clusters: bool,

    /// Read your password from standard input instead of asking
    #[arg(long)]
    pub(crate) password_stdin: bool,
}

/// Revoke an access token, and every token that was made with it
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural tokens revoke 0190b8a2-7c11-7def-8000-0123456789ab")]
pub(crate) struct TokenRevokeArgs {
    /// Its id, as `plural tokens list` shows it
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

/// Change your password
///
/// Your sessions end. Access tokens stay valid, the one of this login included, unless --end-tokens revokes them. Those
/// that stay are listed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural password
  plural password --end-tokens   # somebody may hold a token of yours
  plural password --stdin < passwords.txt   # two lines: the current one, the new one")]
pub(crate) struct PasswordArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    /// Revoke all your access tokens, too
    #[arg(long)]
    pub(crate) end_tokens: bool,

    /// Read the current and the new password from two lines of standard input instead of asking
    #[arg(long)]
    pub(crate) stdin: bool,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}
