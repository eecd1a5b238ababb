//! `plural cd stacks commands …`: commands of stacks under a name, which others start with answers.

use std::{fmt::Write as _, path::PathBuf};

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use plural_wire::{
    AddCustomStackRun, ChangeCustomStackRun, Client, CustomStackRun, DeleteCustomStackRun, GetCustomStackRun,
    ListCustomStackRuns, PAGE_SIZE, StartCustomStackRun, all_pages,
};
use serde_json::{Map, Value, json};

use crate::{
    args::{ConfirmArgs, ListOutputArgs, OutputArgs},
    error::CliError,
    file, form, key,
    key::parse_pair,
    output::{self, Row, age, or_dash},
    plain::one_line,
    stack_arg_values::{SecretVariable, parse_secret},
    stack_exec, stacks,
    terminal::Terminal,
};

const NOTHING: &str =
    "no named commands; `plural cd stacks commands create NAME --stack STACK -- COMMAND` stores some";

/// Named commands, with questions: list, create, run
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct StackCommandsArgs {
    #[command(subcommand)]
    command: StackCommandsCommand,
}

#[derive(Debug, Subcommand)]
enum StackCommandsCommand {
    List(CommandsListArgs),
    Create(CommandsCreateArgs),
    Describe(CommandsDescribeArgs),
    Update(CommandsUpdateArgs),
    Delete(CommandsDeleteArgs),
    Run(CommandsRunArgs),
}

/// List the named commands that you may see
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd stacks commands list
  plural cd stacks commands list --stack network   # its own, and those of all stacks of its project"
)]
struct CommandsListArgs {
    /// Only those that can be started for this stack: its name or id
    #[arg(long, value_name = "STACK")]
    stack: Option<String>,

    /// Only those of this project: its name or id
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,

    #[command(flatten)]
    output: ListOutputArgs,
}

/// What is stored
#[derive(Debug, Args)]
struct Stored {
    /// What they are for, in Markdown
    #[arg(long, value_name = "TEXT")]
    documentation: Option<String>,

    /// JSON or YAML file with commands and configuration, called as the API calls them (CustomStackRunAttributes), or - for standard
    /// input; options win over it
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// One command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Store named commands, for a stack or for all stacks of a project
///
/// Answers become environment variables of the commands, named after the questions. No shell interprets the commands.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks commands create resources --stack network -- tofu state list
  plural cd stacks commands create grow --stack network --file grow.yaml
  plural cd stacks commands create providers --project shop -- tofu providers")]
struct CommandsCreateArgs {
    /// Their name, unique in the project
    #[arg(value_name = "NAME")]
    name: String,

    /// The stack that they are of: its name or id
    #[arg(long, value_name = "STACK", conflicts_with = "project")]
    stack: Option<String>,

    /// Without a stack: the project whose stacks they are of, name or id; else the default one
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,

    #[command(flatten)]
    stored: Stored,

    #[command(flatten)]
    output: OutputArgs,
}

/// Show named commands, with their questions
#[derive(Debug, Args)]
#[command(
    visible_alias = "get",
    after_help = "Examples:
  plural cd stacks commands describe grow
  plural cd stacks commands describe grow -o yaml"
)]
struct CommandsDescribeArgs {
    /// The commands: their name or id
    #[arg(value_name = "COMMANDS")]
    commands: String,

    #[command(flatten)]
    output: OutputArgs,
}

/// Change named commands; options that you leave out keep their value
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks commands update grow --file grow.yaml
  plural cd stacks commands update grow --name enlarge")]
struct CommandsUpdateArgs {
    /// The commands: their name or id
    #[arg(value_name = "COMMANDS")]
    commands: String,

    /// A new name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    #[command(flatten)]
    stored: Stored,

    #[command(flatten)]
    output: OutputArgs,
}

/// Delete named commands; runs that were started stay
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks commands delete grow --yes")]
struct CommandsDeleteArgs {
    /// The commands: their name or id
    #[arg(value_name = "COMMANDS")]
    commands: String,

    #[command(flatten)]
    confirm: ConfirmArgs,
}

/// Start named commands, with answers
///
/// Needs the action stack-exec on the stack. Prints what they print and ends with their exit code, as `plural cd stacks exec` does.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks commands run resources
  plural cd stacks commands run grow --answer SIZE=5 --secret-answer TOKEN=@token.txt
  plural cd stacks commands run providers --stack network   # commands of a project")]
struct CommandsRunArgs {
    /// The commands: their name or id
    #[arg(value_name = "COMMANDS")]
    commands: String,

    /// Of commands of a project: the stack to run them for, name or id
    #[arg(long, value_name = "STACK")]
    stack: Option<String>,

    /// Answer to a question; may be given several times. For secrets use --secret-answer
    #[arg(long, value_parser = parse_pair, value_name = "NAME=VALUE")]
    answer: Vec<(String, String)>,

    /// Secret answer: NAME=@FILE reads it from a file, NAME=- from standard input; NAME alone asks for it, or reads a line of standard input
    #[arg(long, value_parser = parse_secret, value_name = "NAME[=@FILE]")]
    secret_answer: Vec<SecretVariable>,

    /// Print the run, and do not wait for it
    #[arg(long)]
    no_wait: bool,

    #[command(flatten)]
    output: OutputArgs,
}

impl Row for CustomStackRun {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["NAME", "STACK", "PROJECT", "COMMANDS", "QUESTIONS", "AGE", "ID"], 6);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("commands/{}", self.id)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        vec![
            or_dash(Some(&self.name)),
            or_dash(self.stack.as_ref().map(|stack| stack.name.as_str())),
            or_dash(self.project.as_ref().map(|project| project.name.as_str())),
            self.commands.len().to_string(),
            self.configuration.len().to_string(),
            age(self.inserted_at, now),
            self.id.clone(),
        ]
    }
}

pub(crate) async fn run(
    StackCommandsArgs { command }: StackCommandsArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        StackCommandsCommand::List(CommandsListArgs { stack, project, output }) => {
            let stack = match stack {
                Some(stack) => Some(stacks::find(&stack, client).await?.id),
                None => None,
            };
            let project = key::project_id(client, project.as_deref()).await?;
            let all = all(stack, project, client).await?;
            output::list(&all, &output, NOTHING, terminal)
        }
        StackCommandsCommand::Create(args) => create(args, client, terminal).await,
        StackCommandsCommand::Describe(CommandsDescribeArgs { commands, output }) => {
            let known = find(&commands, None, client).await?;
            output::described(&known, &known, &output.output, terminal, || words(&known))
        }
        StackCommandsCommand::Update(args) => update(args, client, terminal).await,
        StackCommandsCommand::Delete(CommandsDeleteArgs { commands, confirm }) => {
            let known = find(&commands, None, client).await?;
            let name = one_line(&known.name);
            terminal.confirm(&format!("delete the commands {name}"), confirm.yes)?;
            client.send(&DeleteCustomStackRun { id: known.id }).await?;
            terminal.say(format_args!("commands {name} deleted"));
            Ok(())
        }
        StackCommandsCommand::Run(args) => start(args, client, terminal).await,
    }
}

async fn create(
    CommandsCreateArgs { name, stack, project, stored, output }: CommandsCreateArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let mut attributes = attributes(stored, terminal)?;
    if !attributes.contains_key("commands") {
        return Err(CliError::usage("there are no commands: give --file FILE, or one behind --"));
    }
    attributes.insert("name".to_owned(), name.into());
    if let Some(stack) = stack {
        attributes.insert("stackId".to_owned(), stacks::find(&stack, client).await?.id.into());
    } else if let Some(project) = project {
        attributes.insert("projectId".to_owned(), key::project(client, &project).await?.id.into());
    }
    let made = client.send(&AddCustomStackRun(json!({"attributes": attributes}))).await?;
    shown(&made, client, &output, terminal).await
}

async fn update(
    CommandsUpdateArgs { commands, name, stored, output }: CommandsUpdateArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let known = find(&commands, None, client).await?;
    let mut attributes = attributes(stored, terminal)?;
    if let Some(name) = name {
        attributes.insert("name".to_owned(), name.into());
    } else if attributes.is_empty() {
        return Err(CliError::usage(
            "there is nothing to change: give --name, --documentation, --file or a command",
        ));
    }
    // The API asks for it.
    attributes.entry("name").or_insert_with(|| known.name.clone().into());
    let changed = json!({"id": known.id, "attributes": attributes});
    let changed = client.send(&ChangeCustomStackRun(changed)).await?;
    shown(&changed, client, &output, terminal).await
}

async fn shown(
    made: &Value,
    client: &Client,
    output: &OutputArgs,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let id = made["id"].as_str().unwrap_or_default().to_owned();
    output::item(&client.send(&GetCustomStackRun { id }).await?, &output.output, terminal)
}

/// What is stored, as the API calls it.
fn attributes(
    Stored { documentation, file, command }: Stored,
    terminal: &mut Terminal<'_>,
) -> Result<Map<String, Value>, CliError> {
    let mut attributes = match file {
        Some(path) => file::mapping("commands", &path, terminal)?,
        None => Map::new(),
    };
    if let Some(documentation) = documentation {
        attributes.insert("documentation".to_owned(), documentation.into());
    }
    let mut words = command.into_iter();
    if let Some(cmd) = words.next() {
        let args: Vec<String> = words.collect();
        attributes.insert("commands".to_owned(), json!([{"cmd": cmd, "args": args}]));
    }
    Ok(attributes)
}

async fn start(
    CommandsRunArgs { commands, stack, answer, secret_answer, no_wait, output }: CommandsRunArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let stack_id = match stack {
        Some(stack) => Some(stacks::find(&stack, client).await?.id),
        None => None,
    };
    let known = find(&commands, stack_id.as_deref(), client).await?;
    let mut answers: Map<String, Value> =
        answer.into_iter().map(|(name, value)| (name, Value::String(value))).collect();
    for secret in &secret_answer {
        let (name, value) = secret.read(terminal)?;
        answers.insert(name, value.into());
    }
    let made = client.send(&StartCustomStackRun { id: known.id, stack_id, answers: Some(answers) }).await?;
    if no_wait {
        return output::item(&made, &output.output, terminal);
    }
    stack_exec::follow(made, client, terminal).await
}

async fn all(
    stack_id: Option<String>,
    project_id: Option<String>,
    client: &Client,
) -> Result<Vec<CustomStackRun>, CliError> {
    let list = |after| ListCustomStackRuns {
        after,
        first: PAGE_SIZE,
        stack_id: stack_id.clone(),
        project_id: project_id.clone(),
    };
    Ok(all_pages(client, list).await?)
}

/// The commands of this name or id; of a stack, those that can be started for it.
async fn find(text: &str, stack: Option<&str>, client: &Client) -> Result<CustomStackRun, CliError> {
    let missing = || {
        let hint = "`plural cd stacks commands list` shows those you may see";
        CliError::missing(format_args!("commands {text:?}"), hint)
    };
    let text = key::bare_id("commands", text);
    if key::is_id(text) {
        let found = client.send(&GetCustomStackRun { id: text.to_owned() }).await;
        return found.map_err(|error| CliError::absent(error, missing));
    }
    let mut named = all(stack.map(str::to_owned), None, client).await?;
    named.retain(|known| known.name == text);
    match (named.pop(), named.is_empty()) {
        (None, _) => Err(missing()),
        (Some(known), true) => Ok(known),
        (Some(_), false) => Err(CliError::usage(format!("several projects have commands called {text:?}"))
            .hint("name them by id: `plural cd stacks commands list` shows those")),
    }
}

/// What `describe` says.
fn words(known: &CustomStackRun) -> String {
    let mut text = format!("Name: {}\n", one_line(&known.name));
    if let Some(stack) = &known.stack {
        let _ = writeln!(text, "Stack: {}", one_line(&stack.name));
    }
    if let Some(project) = &known.project {
        let _ = writeln!(text, "Project: {}", one_line(&project.name));
    }
    if let Some(documentation) = &known.documentation {
        let _ = writeln!(text, "For: {}", one_line(documentation));
    }
    text.push_str("Commands:\n");
    for command in &known.commands {
        let words: Vec<&str> =
            [command.cmd.as_str()].into_iter().chain(command.args.iter().map(String::as_str)).collect();
        let folder = command.dir.as_ref().map(|dir| format!(" (in {dir})")).unwrap_or_default();
        let waits = if command.approve == Some(true) { ", when people agreed" } else { "" };
        let _ = writeln!(text, "  {}", one_line(&format!("{words:?}{folder}{waits}")));
    }
    text.push_str(&form::asks(&known.configuration));
    text
}
