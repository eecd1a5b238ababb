//! `plural cd contexts …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{ConfirmArgs, ListOutputArgs, OutputArgs};

/// Contexts, documents that the templates of services read: list, get, save, delete
#[derive(Debug, Args)]
#[command(visible_alias = "context", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct ContextsArgs {
    #[command(subcommand)]
    pub(crate) command: ContextCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ContextCommand {
    List(ContextListArgs),
    Get(ContextGetArgs),
    Save(ContextSaveArgs),
    Delete(ContextDeleteArgs),
}

/// List the contexts that you may see
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd contexts list
  plural cd contexts list -o json"
)]
pub(crate) struct ContextListArgs {
    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Print the document of a context; secret values are never shown
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd contexts get network
  plural cd contexts get network -o json")]
pub(crate) struct ContextGetArgs {
    /// Its name
    #[arg(value_name = "CONTEXT")]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Create or change a context: every service that uses it is rendered again
///
/// What is not given stays as it was. Secret values come from a file, so that they never stand on the command line.
#[derive(Debug, Args)]
#[command(
    visible_alias = "upsert",
    after_help = "Examples:
  plural cd contexts save network --file network.yaml
  plural cd contexts save database --file database.yaml --secrets-file secrets.yaml --project shop
  plural cd contexts save network --import vpc/subnet --import zone=vpc/first_zone
  plural cd contexts save database --import-sensitive password=db/master_password
  printf 'region: eu-west-1\\n' | plural cd contexts save network --file -"
)]
pub(crate) struct ContextSaveArgs {
    /// Its name: templates read contexts.NAME
    #[arg(value_name = "CONTEXT")]
    pub(crate) name: String,

    /// JSON or YAML file with the whole document, or - for standard input
    #[arg(short, long, alias = "config-file", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// JSON or YAML file that maps names to secret values; replaces all of them
    #[arg(long, value_name = "FILE")]
    pub(crate) secrets_file: Option<PathBuf>,

    /// Output of a stack that it takes, as STACK/OUTPUT, or NAME=STACK/OUTPUT for another name; may be given several times. These
    /// and those of --import-sensitive are all that it takes
    #[arg(long = "import", value_name = "[NAME=]STACK/OUTPUT")]
    pub(crate) imports: Vec<String>,

    /// Output that it takes also where the tool calls it sensitive; needs the right to read the stack's state
    #[arg(long = "import-sensitive", value_name = "[NAME=]STACK/OUTPUT")]
    pub(crate) sensitive_imports: Vec<String>,

    /// It takes no outputs any more
    #[arg(long, conflicts_with_all = ["imports", "sensitive_imports"])]
    pub(crate) no_imports: bool,

    /// Project that a new one belongs to (name or id); else the default project
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Delete a context that no service uses
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd contexts delete network
  plural cd contexts delete network --yes")]
pub(crate) struct ContextDeleteArgs {
    /// Its name
    #[arg(value_name = "CONTEXT")]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}
