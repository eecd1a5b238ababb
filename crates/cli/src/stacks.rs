//! `plural cd stacks …`.

use std::{fmt::Write as _, path::PathBuf};

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use plural_wire::{
    Client, CreateStack, DeleteStack, GetInfrastructureStack, InfrastructureStack, ListInfrastructureStacks,
    PAGE_SIZE, StackAttributes, StackType, StackUpdateAttributes, UpdateStack, all_pages,
};

use crate::{
    args::{ConfirmArgs, ListOutputArgs, OutputArgs},
    error::CliError,
    key,
    output::{self, Row, age, or_dash},
    stack_states::{self, StackStateArgs},
    terminal::Terminal,
};

const NOTHING: &str = "no stacks; `plural cd stacks create NAME` makes one";

/// Infrastructure stacks and their state: list, create, describe, update, delete, state, gen-backend
#[derive(Debug, Args)]
#[command(visible_alias = "stack", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct StacksArgs {
    #[command(subcommand)]
    pub(crate) command: StackCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StackCommand {
    List(StackListArgs),
    Create(StackCreateArgs),
    Describe(StackDescribeArgs),
    Update(StackUpdateArgs),
    Delete(StackDeleteArgs),
    GenBackend(StackGenBackendArgs),
    State(StackStateArgs),
}

/// List the stacks that you may see
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd stacks list
  plural cd stacks list --project shop -o wide"
)]
pub(crate) struct StackListArgs {
    /// Only those of this project: its name or id
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Create a stack, whose state the console then holds
///
/// Terraform and OpenTofu write the state: `plural cd stacks gen-backend` says to them where. Whoever may write in the project may
/// read and write it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks create network --project shop
  plural cd stacks create network --protect")]
pub(crate) struct StackCreateArgs {
    /// Its name, unique in the installation
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Where it belongs: a project's name or id; else the default one
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,

    /// Refuse to delete it
    #[arg(long)]
    pub(crate) protect: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Show one stack: its state, and who holds that
#[derive(Debug, Args)]
#[command(
    visible_alias = "get",
    after_help = "Examples:
  plural cd stacks describe network
  plural cd stacks describe network -o yaml"
)]
pub(crate) struct StackDescribeArgs {
    /// The stack: its name or id
    #[arg(value_name = "STACK")]
    pub(crate) stack: String,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Change the name of a stack, or whether it may be deleted
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks update network --name core-network
  plural cd stacks update network --protect false")]
pub(crate) struct StackUpdateArgs {
    /// The stack: its name or id
    #[arg(value_name = "STACK")]
    pub(crate) stack: String,

    /// A new name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Whether to refuse to delete it
    #[arg(long, value_name = "BOOL")]
    pub(crate) protect: Option<bool>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Delete a stack with all versions of its state
///
/// Nothing is destroyed: what the state knows of stays where it is, and nothing knows of it any more. Destroy it with the tool first,
/// or export the state.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks delete network
  plural cd stacks delete network --yes")]
pub(crate) struct StackDeleteArgs {
    /// The stack: its name or id
    #[arg(value_name = "STACK")]
    pub(crate) stack: String,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

/// Write a file that has Terraform or OpenTofu keep its state in a stack
///
/// The file has no secret in it. The tool reads the access token from the variable TF_HTTP_PASSWORD; the token's user needs the
/// actions state-read and state-write on the stack, which the role write has.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks gen-backend network
  plural cd stacks gen-backend network --file plural_backend_override.tf")]
pub(crate) struct StackGenBackendArgs {
    /// The stack: its name or id
    #[arg(value_name = "STACK")]
    pub(crate) stack: String,

    /// Write it to this file, which must not be there yet, instead of standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

impl Row for InfrastructureStack {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["NAME", "PROJECT", "SERIAL", "RESOURCES", "LOCKED BY", "AGE", "TYPE", "PROTECTED", "ID"], 6);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("stack/{}", self.name)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        let state = self.state_version.as_ref();
        vec![
            or_dash(Some(&self.name)),
            or_dash(self.project.as_ref().map(|project| project.name.as_str())),
            or_dash(state.map(|state| state.serial.to_string()).as_deref()),
            or_dash(state.map(stack_states::resources).as_deref()),
            or_dash(self.lock.as_ref().map(|lock| lock.author.as_str())),
            age(self.inserted_at, now),
            self.kind.as_str().to_owned(),
            if self.protect { "yes" } else { "no" }.to_owned(),
            self.id.clone(),
        ]
    }
}

/// The stack of this name or id.
pub(crate) async fn find(text: &str, client: &Client) -> Result<InfrastructureStack, CliError> {
    let text = text.strip_prefix("stack/").unwrap_or(text);
    let (id, name) = key::id_or_name(text);
    client.send(&GetInfrastructureStack { id, name }).await.map_err(|error| {
        let hint = "`plural cd stacks list` shows those you may see";
        CliError::absent(error, || CliError::missing(format_args!("stack {text:?}"), hint))
    })
}

pub(crate) async fn run(
    command: StackCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        StackCommand::List(StackListArgs { project, output }) => {
            let project_id = match project {
                Some(project) => Some(key::project(client, &project).await?.id),
                None => None,
            };
            let list = |after| ListInfrastructureStacks {
                after,
                first: PAGE_SIZE,
                project_id: project_id.clone(),
                q: None,
            };
            let all: Vec<InfrastructureStack> = all_pages(client, list).await?;
            output::list(&all, &output, NOTHING, terminal)
        }
        StackCommand::Create(StackCreateArgs { name, project, protect, output }) => {
            let project_id = match project {
                Some(project) => Some(key::project(client, &project).await?.id),
                None => None,
            };
            let attributes = StackAttributes {
                name,
                kind: StackType::Terraform,
                project_id,
                protect: Some(protect),
                read_bindings: None,
                write_bindings: None,
            };
            let made = client.send(&CreateStack { attributes }).await?;
            output::item(&made, &output.output, terminal)
        }
        StackCommand::Describe(StackDescribeArgs { stack, output }) => {
            let stack = find(&stack, client).await?;
            output::described(&stack, &stack, &output.output, terminal, || words(&stack))
        }
        StackCommand::Update(StackUpdateArgs { stack, name, protect, output }) => {
            if name.is_none() && protect.is_none() {
                return Err(CliError::unchanged_flags("stacks"));
            }
            let id = find(&stack, client).await?.id;
            let attributes =
                StackUpdateAttributes { name, protect, read_bindings: None, write_bindings: None };
            let changed = client.send(&UpdateStack { id, attributes }).await?;
            output::item(&changed, &output.output, terminal)
        }
        StackCommand::Delete(StackDeleteArgs { stack, confirm }) => {
            let InfrastructureStack { id, name, state_version, .. } = find(&stack, client).await?;
            let forgotten = state_version.filter(|state| state.resources != Some(0));
            let what = match &forgotten {
                None => format!("delete stack {name}"),
                Some(state) => format!(
                    "delete stack {name} and forget what its state (serial {}) knows of, {}, which stays where it is",
                    state.serial,
                    stack_states::resources_in_words(state)
                ),
            };
            terminal.confirm(&what, confirm.yes)?;
            client.send(&DeleteStack { id, forget: forgotten.map(|state| state.id) }).await?;
            terminal.say(format_args!("stack {name} deleted"));
            Ok(())
        }
        StackCommand::GenBackend(StackGenBackendArgs { stack, file }) => {
            let stack = find(&stack, client).await?;
            // It becomes a part of a program.
            if !key::is_id(&stack.id) {
                return Err(CliError::new("the console answered with an id that is none"));
            }
            let text = backend(client.url(), &stack.id);
            let Some(path) = file else { return Ok(write!(terminal.out, "{text}")?) };
            let cannot =
                |error: std::io::Error| CliError::new(format!("cannot write {}: {error}", path.display()));
            let mut file = std::fs::File::create_new(&path).map_err(cannot)?;
            std::io::Write::write_all(&mut file, text.as_bytes()).map_err(cannot)?;
            terminal.say("hint: put an access token into TF_HTTP_PASSWORD, then run `tofu init`");
            Ok(())
        }
        StackCommand::State(StackStateArgs { command }) => stack_states::run(command, client, terminal).await,
    }
}

/// All that is known of a stack.
fn words(stack: &InfrastructureStack) -> String {
    let now = Utc::now();
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let name = format!("{name}:");
        let _ = writeln!(text, "{name:<12}{value}");
    };
    line("Name", &or_dash(Some(&stack.name)));
    line("Id", &or_dash(Some(&stack.id)));
    line("Project", &or_dash(stack.project.as_ref().map(|project| project.name.as_str())));
    line("Type", stack.kind.as_str());
    line("Protected", if stack.protect { "yes" } else { "no" });
    line("Age", &age(stack.inserted_at, now));
    match &stack.state_version {
        None => line("State", "none yet"),
        Some(state) => {
            line(
                "State",
                &format!(
                    "serial {}, {}, written {} ago by {}",
                    state.serial,
                    stack_states::resources_in_words(state),
                    age(state.inserted_at, now),
                    or_dash(Some(&state.author))
                ),
            );
            line("Lineage", &or_dash(Some(&state.lineage)));
        }
    }
    match &stack.lock {
        None => line("Lock", "none"),
        Some(lock) => {
            line(
                "Lock",
                &format!(
                    "{} since {} by {} ({}, {})",
                    or_dash(Some(&lock.id)),
                    age(lock.inserted_at, now),
                    or_dash(Some(&lock.author)),
                    or_dash(Some(&lock.who)),
                    or_dash(Some(&lock.operation))
                ),
            );
        }
    }
    text
}

/// An override file: the tools read it after the others, whatever backend those name.
fn backend(console: &str, id: &str) -> String {
    let address = format!("{}/v1/stacks/{id}/state", console.trim_end_matches('/'));
    format!(
        "# Written by `plural cd stacks gen-backend`. It holds no secret: put an access token into TF_HTTP_PASSWORD.
terraform {{
  backend \"http\" {{
    address        = \"{address}\"
    lock_address   = \"{address}\"
    unlock_address = \"{address}\"
    lock_method    = \"LOCK\"
    unlock_method  = \"UNLOCK\"
    username       = \"plural\"
  }}
}}
"
    )
}
