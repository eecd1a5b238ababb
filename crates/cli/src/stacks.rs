//! `plural cd stacks …`.

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use plural_wire::{
    Client, CreateStack, DeleteStack, DetachStack, GetInfrastructureStack, GetStackDetails,
    InfrastructureStack, ListInfrastructureStacks, PAGE_SIZE, RestoreStack, StackDetails, StackType, Tag,
    UpdateStack, all_pages,
};

use crate::{
    args::{ConfirmArgs, ListOutputArgs, OutputArgs},
    error::CliError,
    key::{self, parse_pair},
    output::{self, Row, age, or_dash},
    selector,
    stack_args::{self, StackKind, StackRemovalArgs, StackSettingsArgs},
    stack_commands::{self, StackCommandsArgs},
    stack_described,
    stack_drift::{self, StackDriftArgs},
    stack_exec::{self, StackExecArgs},
    stack_graph::{self, StackGraphArgs},
    stack_logs::{self, StackLogsArgs},
    stack_policy::{self, StackPolicyArgs},
    stack_pulls::{self, StackReleaseArgs},
    stack_run_args::{
        StackApproveArgs, StackCancelArgs, StackOutputsArgs, StackPlanArgs, StackRejectArgs,
        StackRestartArgs, StackRunArgs, StackRunsArgs, StackTriggerArgs, StackWaitingArgs,
    },
    stack_runs,
    stack_states::{self, StackStateArgs},
    terminal::Terminal,
    watch::watch,
};

const NOTHING: &str = "no stacks; `plural cd stacks create NAME` makes one";

/// Infrastructure stacks: create, plan, approve, apply, logs, outputs, state, destroy
#[derive(Debug, Args)]
#[command(visible_alias = "stack", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct StacksArgs {
    #[command(subcommand)]
    pub(crate) command: StackCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StackCommand {
    List(StackListArgs),
    Create(Box<StackCreateArgs>),
    Describe(StackDescribeArgs),
    Update(Box<StackUpdateArgs>),
    Plan(StackPlanArgs),
    Trigger(StackTriggerArgs),
    Runs(StackRunsArgs),
    Run(StackRunArgs),
    Logs(StackLogsArgs),
    Waiting(StackWaitingArgs),
    Approve(StackApproveArgs),
    Reject(StackRejectArgs),
    Cancel(StackCancelArgs),
    Restart(StackRestartArgs),
    Release(StackReleaseArgs),
    Exec(StackExecArgs),
    Commands(StackCommandsArgs),
    Outputs(StackOutputsArgs),
    Graph(StackGraphArgs),
    Drift(StackDriftArgs),
    Delete(StackDeleteArgs),
    Detach(StackDetachArgs),
    Restore(StackRestoreArgs),
    GenBackend(StackGenBackendArgs),
    State(StackStateArgs),
    Policy(StackPolicyArgs),
}

/// List the stacks that you may see
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd stacks list
  plural cd stacks list --project shop -o wide
  plural cd stacks list --tag stage=prod --tag team=shop
  plural cd stacks list --watch"
)]
pub(crate) struct StackListArgs {
    /// Only those of this project: its name or id
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,

    /// Only those with this tag; if given several times, those with all of them
    #[arg(long = "tag", value_parser = parse_pair, value_name = "NAME=VALUE")]
    pub(crate) tags: Vec<(String, String)>,

    /// Keep running and print what changes
    #[arg(short, long)]
    pub(crate) watch: bool,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Create a stack: infrastructure as code that runs in a cluster
///
/// Without --repository the stack has a state and no runs: `plural cd stacks gen-backend` writes the backend configuration for your tool.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks create network --project shop   # a state, for a tool that somebody runs elsewhere
  plural cd stacks create network --repository https://git.example.com/team/infra.git --ref main --folder network \\
    --cluster blue --approval
  plural cd stacks create network --repository https://git.example.com/team/infra.git --ref main --folder network \\
    --cluster blue --approval --approvers 2 --forbid-self-approval --env REGION=eu --secret-env TOKEN=@token.txt
  plural cd stacks create dns --type custom --repository https://git.example.com/team/infra.git --ref main --folder dns \\
    --cluster blue --tool-image registry.example.com/dns --plan-command './dns diff' --apply-command './dns push'
  plural cd stacks create dns --type custom --repository https://git.example.com/team/infra.git --ref main --folder dns \\
    --cluster blue --definition dns")]
pub(crate) struct StackCreateArgs {
    /// Its name, unique in the installation
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Project that it belongs to: name or id; else the default one
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,

    /// The tool that manages it
    #[arg(long = "type", value_enum, default_value_t = StackKind::Terraform, value_name = "TYPE")]
    pub(crate) kind: StackKind,

    /// Refuse to delete it
    #[arg(long)]
    pub(crate) protect: bool,

    #[command(flatten)]
    pub(crate) settings: StackSettingsArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Show one stack: its code, settings and state, and who holds the lock of the state
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

/// Change a stack; options that you leave out keep their value
///
/// A change of what its runs are made from starts a run, unless the stack is paused.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks update network --name core-network
  plural cd stacks update network --ref v1.4.0
  plural cd stacks update network --approval --approvers 2 --approval-expiry 24h
  plural cd stacks update network --env REGION=us --unset-env ZONE   # all other variables stay
  plural cd stacks update network --tag stage=prod --tag team=shop   # all its tags
  plural cd stacks update network --interval 5m --connection github
  plural cd stacks update network --paused true
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

    /// Whether it is paused: commits, its schedule and changes start no runs
    #[arg(long, value_name = "BOOL")]
    pub(crate) paused: Option<bool>,

    #[command(flatten)]
    pub(crate) settings: StackSettingsArgs,

    #[command(flatten)]
    pub(crate) removed: StackRemovalArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Destroy the resources of a stack, then delete the stack
///
/// A run plans the destruction, and waits for approval where the stack asks for it; until then, `restore` cancels the deletion. A stack
/// without a repository is deleted and nothing is destroyed, as with `detach`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks delete network
  plural cd stacks delete network --yes")]
pub(crate) struct StackDeleteArgs {
    /// The stack: its name or id
    #[arg(value_name = "STACK")]
    pub(crate) stack: String,

    #[command(flatten)]
    pub(crate) dependents: DependentsArgs,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

/// What becomes of what needs the stack
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct DependentsArgs {
    /// Delete it even if other stacks depend on it, or services or contexts import its outputs, which they then lack
    #[arg(long)]
    pub(crate) leave_dependents: bool,
}

impl DependentsArgs {
    /// As the API takes it, which refuses by itself.
    fn given(self) -> Option<bool> {
        self.leave_dependents.then_some(true)
    }

    /// What is asked before it happens.
    fn told(self) -> &'static str {
        if self.leave_dependents {
            "; what depends on it or imports its outputs is left without it"
        } else {
            ""
        }
    }
}

/// Delete a stack with all versions of its state, without destroying its resources
///
/// The resources in its state stay, and nothing manages them any more. Save the state first: `plural cd stacks state pull`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks detach network
  plural cd stacks detach network --yes")]
pub(crate) struct StackDetachArgs {
    /// The stack: its name or id
    #[arg(value_name = "STACK")]
    pub(crate) stack: String,

    #[command(flatten)]
    pub(crate) dependents: DependentsArgs,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

/// Cancel the deletion of a stack, if its destroy has not started
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks restore network
  plural cd stacks restore network -o json")]
pub(crate) struct StackRestoreArgs {
    /// The stack: its name or id
    #[arg(value_name = "STACK")]
    pub(crate) stack: String,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Write a backend configuration that keeps the state of Terraform or OpenTofu in a stack
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
    const HEADINGS: (&'static [&'static str], usize) = (
        &[
            "NAME",
            "PROJECT",
            "STATUS",
            "SERIAL",
            "RESOURCES",
            "LOCKED BY",
            "AGE",
            "TYPE",
            "CLUSTER",
            "COMMIT",
            "PROTECTED",
            "TAGS",
            "ID",
        ],
        7,
    );

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
            status(self),
            or_dash(state.map(|state| state.serial.to_string()).as_deref()),
            or_dash(state.map(stack_states::resources).as_deref()),
            or_dash(self.lock.as_ref().map(|lock| lock.author.as_str())),
            age(self.inserted_at, now),
            self.kind.as_str().to_owned(),
            or_dash(self.cluster.as_ref().map(|cluster| cluster.name.as_str())),
            or_dash(self.sha.as_deref().map(stack_runs::short).as_deref()),
            if self.protect { "yes" } else { "no" }.to_owned(),
            or_dash(Some(&tags(self).join(","))),
            self.id.clone(),
        ]
    }
}

/// The tags of a stack, as they are typed.
pub(crate) fn tags(stack: &InfrastructureStack) -> Vec<String> {
    stack.tags.iter().map(|tag| format!("{}={}", tag.name, tag.value)).collect()
}

/// How a stack stands, in a word or two.
pub(crate) fn status(stack: &InfrastructureStack) -> String {
    let word = stack.status.map_or("-", plural_wire::StackStatus::as_str);
    match (stack.deleted_at.is_some(), stack.paused) {
        (true, _) => format!("{word} (being deleted)"),
        (false, true) => format!("{word} (paused)"),
        (false, false) => word.to_owned(),
    }
}

/// Variables `id` and `name` of what a person calls a stack.
fn named(text: &str) -> (Option<String>, Option<String>) {
    key::id_or_name(text.strip_prefix("stack/").unwrap_or(text))
}

fn missing(text: &str) -> CliError {
    let hint = "`plural cd stacks list` shows those you may see";
    CliError::missing(format_args!("stack {text:?}"), hint)
}

/// The stack of this name or id.
pub(crate) async fn find(text: &str, client: &Client) -> Result<InfrastructureStack, CliError> {
    let (id, name) = named(text);
    let found = client.send(&GetInfrastructureStack { id, name }).await;
    found.map_err(|error| CliError::absent(error, || missing(text)))
}

/// The same with all that is known of it.
async fn details(text: &str, client: &Client) -> Result<StackDetails, CliError> {
    let (id, name) = named(text);
    let found = client.send(&GetStackDetails { id, name }).await;
    found.map_err(|error| CliError::absent(error, || missing(text)))
}

pub(crate) async fn run(
    command: StackCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        StackCommand::List(args) => list(args, client, terminal).await,
        StackCommand::Create(args) => create(*args, client, terminal).await,
        StackCommand::Describe(StackDescribeArgs { stack, output }) => {
            let known = details(&stack, client).await?;
            output::described(&known, &known.stack, &output.output, terminal, || {
                stack_described::words(&known)
            })
        }
        StackCommand::Update(args) => update(*args, client, terminal).await,
        StackCommand::Plan(args) => stack_runs::plan(args, client, terminal).await,
        StackCommand::Trigger(args) => stack_runs::trigger(args, client, terminal).await,
        StackCommand::Runs(args) => stack_runs::list(args, client, terminal).await,
        StackCommand::Run(args) => stack_runs::describe(args, client, terminal).await,
        StackCommand::Logs(args) => stack_logs::run(args, client, terminal).await,
        StackCommand::Waiting(args) => stack_runs::waiting(args, client, terminal).await,
        StackCommand::Approve(args) => stack_runs::approve(args, client, terminal).await,
        StackCommand::Reject(args) => stack_runs::reject(args, client, terminal).await,
        StackCommand::Cancel(args) => stack_runs::cancel(args, client, terminal).await,
        StackCommand::Restart(args) => stack_runs::restart(args, client, terminal).await,
        StackCommand::Release(args) => stack_pulls::release(args, client, terminal).await,
        StackCommand::Exec(args) => stack_exec::run(args, client, terminal).await,
        StackCommand::Commands(args) => stack_commands::run(args, client, terminal).await,
        StackCommand::Outputs(args) => stack_runs::outputs(args, client, terminal).await,
        StackCommand::Graph(args) => stack_graph::run(args, client, terminal).await,
        StackCommand::Drift(args) => stack_drift::run(args, client, terminal).await,
        StackCommand::Delete(args) => delete(args, client, terminal).await,
        StackCommand::Detach(args) => detach(args, client, terminal).await,
        StackCommand::Restore(StackRestoreArgs { stack, output }) => {
            let id = find(&stack, client).await?.id;
            output::item(&client.send(&RestoreStack { id }).await?, &output.output, terminal)
        }
        StackCommand::GenBackend(args) => gen_backend(args, client, terminal).await,
        StackCommand::Policy(args) => stack_policy::run(args, terminal),
        StackCommand::State(StackStateArgs { command }) => stack_states::run(command, client, terminal).await,
    }
}

async fn list(
    StackListArgs { project, tags, watch: watching, output }: StackListArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let project_id = key::project_id(client, project.as_deref()).await?;
    let tag_query = selector::query(tags.into_iter().map(|(name, value)| Tag { name, value }).collect());
    let list = |after| ListInfrastructureStacks {
        after,
        first: PAGE_SIZE,
        project_id: project_id.clone(),
        q: None,
        tag_query: tag_query.clone(),
    };
    let nothing = if tag_query.is_some() { "no stack fits" } else { NOTHING };
    if watching {
        return watch(&output, nothing, terminal, async || all_pages(client, list).await).await;
    }
    let all: Vec<InfrastructureStack> = all_pages(client, list).await?;
    output::list(&all, &output, nothing, terminal)
}

async fn create(args: StackCreateArgs, client: &Client, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let StackCreateArgs { name, project, kind, protect, settings, output } = args;
    let project_id = key::project_id(client, project.as_deref()).await?;
    // What runs here has its state here, unless it is told otherwise.
    let keeps = kind.has_state() && settings.repository.is_some();
    let nothing = StackRemovalArgs::default();
    let mut attributes = stack_args::attributes(settings, &nothing, None, client, terminal).await?;
    attributes.0.insert("name".to_owned(), name.into());
    attributes.0.insert("type".to_owned(), kind.as_str().into());
    if keeps {
        attributes.0.entry("manageState").or_insert_with(|| true.into());
    }
    if protect {
        attributes.0.insert("protect".to_owned(), true.into());
    }
    if let Some(project_id) = project_id {
        attributes.0.insert("projectId".to_owned(), project_id.into());
    }
    let made = client.send(&CreateStack { attributes }).await?;
    output::item(&made, &output.output, terminal)
}

async fn update(args: StackUpdateArgs, client: &Client, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let StackUpdateArgs { stack, name, protect, paused, settings, removed, output } = args;
    let is = details(&stack, client).await?;
    // As when it is made: what begins to run here has its state here, unless it is told otherwise.
    let keeps = matches!(is.stack.kind, StackType::Terraform | StackType::Terragrunt)
        && is.stack.git.is_none()
        && settings.repository.is_some();
    let mut attributes = stack_args::attributes(settings, &removed, Some(&is), client, terminal).await?;
    if keeps {
        attributes.0.entry("manageState").or_insert_with(|| true.into());
    }
    if let Some(name) = name {
        attributes.0.insert("name".to_owned(), name.into());
    }
    for (word, given) in [("protect", protect), ("paused", paused)] {
        if let Some(given) = given {
            attributes.0.insert(word.to_owned(), given.into());
        }
    }
    if attributes.0.is_empty() {
        return Err(CliError::unchanged_flags("stacks"));
    }
    let changed = client.send(&UpdateStack { id: is.stack.id, attributes }).await?;
    output::item(&changed, &output.output, terminal)
}

async fn delete(
    StackDeleteArgs { stack, dependents, confirm }: StackDeleteArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let stack = find(&stack, client).await?;
    if stack.git.is_none() {
        return forget(stack, (dependents, confirm), Forget::Delete, client, terminal).await;
    }
    let InfrastructureStack { id, name, state_version, .. } = stack;
    let what = match state_version.filter(|state| state.resources != Some(0)) {
        None => format!("destroy what stack {name} has, and delete it"),
        Some(state) => format!(
            "destroy what the state of stack {name} (serial {}) knows of, {}, and delete the stack",
            state.serial,
            stack_states::resources_in_words(&state)
        ),
    };
    terminal.confirm(&format!("{what}{}", dependents.told()), confirm.yes)?;
    client.send(&DeleteStack { id, forget: None, leave_dependents: dependents.given() }).await?;
    terminal.say(format_args!("stack {name} goes when what it has is destroyed"));
    terminal.say(format_args!(
        "hint: `plural cd stacks run {name}` shows how far that is; `plural cd stacks restore {name}` takes it back"
    ));
    Ok(())
}

async fn detach(
    StackDetachArgs { stack, dependents, confirm }: StackDetachArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let stack = find(&stack, client).await?;
    forget(stack, (dependents, confirm), Forget::Detach, client, terminal).await
}

/// By which operation a stack is forgotten.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Forget {
    Delete,
    Detach,
}

/// Deletes a stack and destroys nothing.
async fn forget(
    stack: InfrastructureStack,
    (dependents, confirm): (DependentsArgs, ConfirmArgs),
    by: Forget,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let InfrastructureStack { id, name, state_version, .. } = stack;
    let forgotten = state_version.filter(|state| state.resources != Some(0));
    let what = match &forgotten {
        None => format!("delete stack {name}"),
        Some(state) => format!(
            "delete stack {name} and forget what its state (serial {}) knows of, {}, which stays where it is",
            state.serial,
            stack_states::resources_in_words(state)
        ),
    };
    terminal.confirm(&format!("{what}{}", dependents.told()), confirm.yes)?;
    let (forget, leave_dependents) = (forgotten.map(|state| state.id), dependents.given());
    match by {
        Forget::Delete => client.send(&DeleteStack { id, forget, leave_dependents }).await?,
        Forget::Detach => client.send(&DetachStack { id, forget, leave_dependents }).await?,
    };
    terminal.say(format_args!("stack {name} deleted"));
    Ok(())
}

async fn gen_backend(
    StackGenBackendArgs { stack, file }: StackGenBackendArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let stack = find(&stack, client).await?;
    // It becomes a part of a program.
    if !key::is_id(&stack.id) {
        return Err(CliError::new("the console answered with an id that is none"));
    }
    let text = backend(client.url(), &stack.id);
    let Some(path) = file else { return Ok(write!(terminal.out, "{text}")?) };
    let cannot = |error: std::io::Error| CliError::new(format!("cannot write {}: {error}", path.display()));
    let mut file = std::fs::File::create_new(&path).map_err(cannot)?;
    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(cannot)?;
    terminal.say("hint: put an access token into TF_HTTP_PASSWORD, then run `tofu init`");
    Ok(())
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
