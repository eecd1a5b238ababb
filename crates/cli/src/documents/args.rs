//! The command line of documents.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::set::Selector;
use crate::args::{ConfirmArgs, ConnectionArgs, ListOutputArgs, WaitArgs};
use crate::selector::TagSelector;

/// Which files
#[derive(Debug, Clone, Args)]
pub(crate) struct FileArgs {
    /// File or folder with documents in YAML or JSON, - for standard input; may be given several times
    #[arg(short = 'f', long = "filename", required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Folders below the folders too
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
}

/// How to print what was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ApplyFormat {
    /// The documents as they are now, with `status.action`.
    Json,
    /// The same in YAML.
    Yaml,
    /// One kind/name a line.
    Name,
}

/// Make the fleet be as documents in files say
///
/// Documents have apiVersion deployments.plural.sh/v1alpha1; `plural explain KIND` shows their fields. A field that a document
/// does not name stays as it is, null resets it. Everything is checked before anything is changed, in an order in which each
/// document follows what it refers to; what is as it should be is not written. Secrets of v1 among the files supply secret
/// values.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural apply -f web.yaml
  plural apply -f fleet/ -R --wait
  plural apply -f fleet/ --dry-run
  plural apply -f fleet/ -l app=shop --prune
  kustomize build fleet | plural apply -f -")]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    #[command(flatten)]
    pub(crate) files: FileArgs,

    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Only documents with these labels; what they make is recorded for --prune
    #[arg(short = 'l', long, value_name = "KEY=VALUE,…")]
    pub(crate) selector: Option<Selector>,

    /// Delete what earlier runs with this -l made and no document describes any more; never a cluster
    #[arg(long)]
    pub(crate) prune: bool,

    /// Project of a new record for --prune; else the default project
    #[arg(long, requires = "selector", value_name = "PROJECT")]
    pub(crate) record_project: Option<String>,

    /// How to print what was done
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<ApplyFormat>,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

/// Show what applying files would change
///
/// The exit code is 0 where nothing would change, 1 where something would, and 2 or more for an error. Secret values are
/// masked. Those of services are compared, which the audit log records as reading them; others the console does not tell.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural diff -f fleet/ -R
  plural get svc blue/web -o yaml | sed 's/ref: main/ref: v2/' | plural diff -f -")]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    #[command(flatten)]
    pub(crate) files: FileArgs,

    /// Only documents with these labels
    #[arg(short = 'l', long, value_name = "KEY=VALUE,…")]
    pub(crate) selector: Option<Selector>,
}

/// Delete what documents in files describe
///
/// In the reverse of the order in which it is applied.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural delete -f web.yaml
  plural delete -f fleet/ -R --yes --wait")]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    #[command(flatten)]
    pub(crate) files: FileArgs,

    /// Only documents with these labels
    #[arg(short = 'l', long, value_name = "KEY=VALUE,…")]
    pub(crate) selector: Option<Selector>,

    /// Take what is not there as deleted
    #[arg(long)]
    pub(crate) ignore_not_found: bool,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

/// Show things of the fleet, as tables or as documents for `plural apply`
///
/// Kinds may be short or in the plural: svc, gs, repo, cl, ns, ctx, win, clusters. Secret values are never printed; a comment names
/// them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural get services
  plural get svc blue/web -o yaml > web.yaml
  plural get cluster/blue
  plural get repo,ctx,svc,gs -o yaml
  plural get svc -o jsonpath='{.items[*].metadata.name}'
  plural get all -o name")]
pub(crate) struct GetArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    /// Kind of things, several with commas between them, or all; KIND/NAME is one thing
    #[arg(value_name = "KIND")]
    pub(crate) kinds: String,

    /// Their names; services are named CLUSTER/NAME, repositories by their URL
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// Only clusters with such tags, and services on them: a=b,a!=b,a in (x,y),a notin (x,y),a,!a
    #[arg(short = 'l', long, conflicts_with = "names", value_name = "SELECTOR")]
    pub(crate) selector: Option<TagSelector>,

    /// Name the secret values of services too; the audit log records it as reading them
    #[arg(long)]
    pub(crate) secret_names: bool,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Show the fields of documents of a kind
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural explain service
  plural explain svc.helm
  plural explain gs.template.syncConfig")]
pub(crate) struct ExplainArgs {
    /// Kind, or a field below it
    #[arg(value_name = "KIND[.FIELD]")]
    pub(crate) field: String,
}
