//! `plural cd stacks state …`.

use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use plural_wire::{
    Client, DiffStackState, ForceUnlockStack, GetStackState, ListStackStateVersions, RestoreStackState,
    StackStateChange, StackStateChangeKind, StackStateResource, StackStateVersion,
};

use crate::{
    args::{ConfirmArgs, ListOutputArgs, OutputArgs},
    error::CliError,
    key::is_id,
    output::{self, Row, age, cell, counted, or_dash},
    stacks,
    terminal::Terminal,
};

/// State of a stack: list, show, diff, pull, restore, unlock
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct StackStateArgs {
    #[command(subcommand)]
    pub(crate) command: StackStateCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StackStateCommand {
    List(StateListArgs),
    Show(StateShowArgs),
    Diff(StateDiffArgs),
    Pull(StatePullArgs),
    Restore(StateRestoreArgs),
    Unlock(StateUnlockArgs),
}

/// List the stored versions of a state, rejected ones included, newest first
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd stacks state list network
  plural cd stacks state list network -o json"
)]
pub(crate) struct StateListArgs {
    /// The stack: its name or id
    #[arg(value_name = "STACK")]
    pub(crate) stack: String,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Show the resources of a state: addresses, types and dependencies, without values
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks state show network
  plural cd stacks state show network 41 -o wide")]
pub(crate) struct StateShowArgs {
    /// The stack: its name or id
    #[arg(value_name = "STACK")]
    pub(crate) stack: String,

    /// A version: its serial or id; else the one that counts
    #[arg(value_name = "VERSION")]
    pub(crate) version: Option<String>,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Show what differs between two versions: addresses and names of attributes, without values
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks state diff network 41 42")]
pub(crate) struct StateDiffArgs {
    /// The stack: its name or id
    #[arg(value_name = "STACK")]
    pub(crate) stack: String,

    /// The earlier version: its serial or id
    #[arg(value_name = "FROM")]
    pub(crate) from: String,

    /// The later version: its serial or id
    #[arg(value_name = "TO")]
    pub(crate) to: String,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Write a state with its values, as the tool wrote it
///
/// It holds secrets. Needs the action state-read; the audit log records each read.
#[derive(Debug, Args)]
#[command(
    visible_alias = "export",
    after_help = "Examples:
  plural cd stacks state pull network --file network.tfstate
  plural cd stacks state pull network 41 > network.tfstate"
)]
pub(crate) struct StatePullArgs {
    /// The stack: its name or id
    #[arg(value_name = "STACK")]
    pub(crate) stack: String,

    /// A version: its serial or id; else the one that counts
    #[arg(value_name = "VERSION")]
    pub(crate) version: Option<String>,

    /// Write it to this file, for you alone, instead of standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// Make an earlier or a rejected version the state, under the next serial
///
/// Needs the action state-write. Refused while the state is locked. Plans that were made before can no longer be applied.
#[derive(Debug, Args)]
#[command(
    visible_alias = "accept",
    after_help = "Examples:
  plural cd stacks state restore network 41
  plural cd stacks state accept network 0190b8a2-7c11-7def-8000-0123456789ab"
)]
pub(crate) struct StateRestoreArgs {
    /// The stack: its name or id
    #[arg(value_name = "STACK")]
    pub(crate) stack: String,

    /// A version: its serial, or its id where it was rejected
    #[arg(value_name = "VERSION")]
    pub(crate) version: String,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Release a lock of a state that somebody holds
///
/// Needs the action state-write. What the holder's tool writes from then on is kept as a rejected version.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks state unlock network
  plural cd stacks state unlock network 6b0f5c4e-1f0e-7a5e-9b0a-0123456789ab --yes")]
pub(crate) struct StateUnlockArgs {
    /// The stack: its name or id
    #[arg(value_name = "STACK")]
    pub(crate) stack: String,

    /// The id of the lock; by default the one that is held
    #[arg(value_name = "LOCK")]
    pub(crate) lock: Option<String>,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

/// Resources of a state, as a cell.
pub(crate) fn resources(state: &StackStateVersion) -> String {
    state.resources.map_or_else(|| "encrypted".to_owned(), |count| count.to_string())
}

/// Resources of a state, in words.
pub(crate) fn resources_in_words(state: &StackStateVersion) -> String {
    match state.resources {
        Some(count) => counted(usize::try_from(count).unwrap_or_default(), "resource"),
        None => "resources that the tool encrypted".to_owned(),
    }
}

impl Row for StackStateVersion {
    const HEADINGS: (&'static [&'static str], usize) = (
        &[
            "SERIAL",
            "STATUS",
            "RESOURCES",
            "BYTES",
            "AGE",
            "AUTHOR",
            "ID",
            "FENCE",
            "LINEAGE",
            "DIGEST",
            "REQUEST",
        ],
        7,
    );

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("stackstate/{}", self.id)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        let status = match (&self.rejected, self.accepted_at) {
            (None, _) => "taken".to_owned(),
            (Some(_), Some(_)) => "accepted".to_owned(),
            (Some(why), None) => cell(Some(&format!("rejected: {why}"))),
        };
        vec![
            self.serial.to_string(),
            status,
            resources(self),
            self.size.to_string(),
            age(self.inserted_at, now),
            or_dash(Some(&self.author)),
            self.id.clone(),
            or_dash(self.fence.map(|fence| fence.to_string()).as_deref()),
            or_dash(Some(&self.lineage)),
            or_dash(Some(&self.digest)),
            or_dash(Some(&self.request_id)),
        ]
    }
}

impl Row for StackStateResource {
    const HEADINGS: (&'static [&'static str], usize) = (&["ADDRESS", "TYPE", "PROVIDER", "NEEDS"], 2);

    fn id(&self) -> &str {
        &self.identifier
    }

    fn name(&self) -> String {
        self.identifier.clone()
    }

    fn cells(&self, _now: DateTime<Utc>) -> Vec<String> {
        let needs = self.links.join(", ");
        [&self.identifier, &self.resource, &self.provider, &needs].map(|text| or_dash(Some(text))).to_vec()
    }
}

impl Row for StackStateChange {
    const HEADINGS: (&'static [&'static str], usize) = (&["CHANGE", "ADDRESS", "ATTRIBUTES"], 3);

    fn id(&self) -> &str {
        &self.identifier
    }

    fn name(&self) -> String {
        self.identifier.clone()
    }

    fn cells(&self, _now: DateTime<Utc>) -> Vec<String> {
        let change = match self.change {
            StackStateChangeKind::Added => "added",
            StackStateChangeKind::Removed => "removed",
            StackStateChangeKind::Changed => "changed",
            StackStateChangeKind::Unknown => "unknown",
        };
        vec![change.to_owned(), or_dash(Some(&self.identifier)), or_dash(Some(&self.attributes.join(", ")))]
    }
}

/// The version that is meant: by its id, or the newest that was taken under a serial.
async fn version(stack: &str, text: &str, client: &Client) -> Result<StackStateVersion, CliError> {
    let text = text.strip_prefix("stackstate/").unwrap_or(text);
    let all = client.send(&ListStackStateVersions { id: stack.to_owned() }).await?.state_versions;
    let is_it = |version: &StackStateVersion| {
        if is_id(text) {
            version.id == text
        } else {
            version.rejected.is_none() && version.serial.to_string() == text
        }
    };
    all.into_iter().find(is_it).ok_or_else(|| {
        let hint = "`plural cd stacks state list STACK` shows the versions that are kept";
        CliError::missing(format_args!("state version {text:?}"), hint)
    })
}

pub(crate) async fn run(
    command: StackStateCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        StackStateCommand::List(StateListArgs { stack, output }) => {
            let id = stacks::find(&stack, client).await?.id;
            let all = client.send(&ListStackStateVersions { id }).await?.state_versions;
            output::list(&all, &output, "no state yet; the first `tofu apply` writes one", terminal)
        }
        StackStateCommand::Show(StateShowArgs { stack, version: named, output }) => {
            let stack_id = stacks::find(&stack, client).await?.id;
            let version = match named {
                Some(text) => Some(version(&stack_id, &text, client).await?.id),
                None => None,
            };
            let state = client.send(&GetStackState { stack_id, version }).await?.state;
            output::list(&state, &output, "the state has no resources", terminal)
        }
        StackStateCommand::Diff(StateDiffArgs { stack, from, to, output }) => {
            let stack_id = stacks::find(&stack, client).await?.id;
            let from = version(&stack_id, &from, client).await?.id;
            let to = version(&stack_id, &to, client).await?.id;
            let changes = client.send(&DiffStackState { stack_id, from, to }).await?;
            output::list(&changes, &output, "no resource differs", terminal)
        }
        StackStateCommand::Pull(args) => pull(args, client, terminal).await,
        StackStateCommand::Restore(StateRestoreArgs { stack, version: named, confirm, output }) => {
            let stack = stacks::find(&stack, client).await?;
            let version = version(&stack.id, &named, client).await?;
            let what = format!(
                "make serial {} with {} the state of stack {}",
                version.serial,
                resources_in_words(&version),
                stack.name
            );
            terminal.confirm(&what, confirm.yes)?;
            let restored =
                client.send(&RestoreStackState { stack_id: stack.id, version: version.id }).await?;
            output::item(&restored, &output.output, terminal)
        }
        StackStateCommand::Unlock(StateUnlockArgs { stack, lock, confirm }) => {
            let stack = stacks::find(&stack, client).await?;
            let Some(held) = stack.lock else {
                return Err(CliError::new(format!("the state of stack {} is not locked", stack.name)));
            };
            let what = format!(
                "end the lock of {} ({}, {}) on the state of stack {}, whose tool may be running",
                held.author, held.who, held.operation, stack.name
            );
            terminal.confirm(&what, confirm.yes)?;
            let lock = lock.unwrap_or(held.id);
            client.send(&ForceUnlockStack { stack_id: stack.id, lock }).await?;
            terminal.say(format_args!("the state of stack {} is not locked any more", stack.name));
            Ok(())
        }
    }
}

async fn pull(args: StatePullArgs, client: &Client, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let StatePullArgs { stack, version: named, file } = args;
    let stack = stacks::find(&stack, client).await?;
    let version = match (named, &stack.state_version) {
        (Some(text), _) => version(&stack.id, &text, client).await?.id,
        (None, Some(state)) => state.id.clone(),
        (None, None) => return Err(CliError::new(format!("stack {} has no state yet", stack.name))),
    };
    if !is_id(&stack.id) || !is_id(&version) {
        return Err(CliError::new("the console answered with an id that is none"));
    }
    let mut download = client.stack_state(&stack.id, &version).await?;
    let Some(path) = file else {
        while let Some(piece) = download.piece().await? {
            terminal.out.write_all(&piece)?;
        }
        return Ok(terminal.out.flush()?);
    };
    let cannot = |error: std::io::Error| CliError::new(format!("cannot write {}: {error}", path.display()));
    // It holds secrets: the file is for its owner alone, and there only when it is whole.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new("."))).map_err(cannot)?;
    while let Some(piece) = download.piece().await? {
        std::io::Write::write_all(&mut file, &piece).map_err(cannot)?;
    }
    file.persist(&path).map_err(|error| cannot(error.error))?;
    Ok(())
}
