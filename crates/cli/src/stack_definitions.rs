//! `plural cd stack-definitions …`.

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use plural_wire::{
    Client, CreateStackDefinition, DeleteStackDefinition, GetStackDefinition, ListStackDefinitions,
    PAGE_SIZE, StackDefinition, StackDefinitionAttributes, StackDefinitionConfiguration, StackDefinitionHook,
    StackDefinitionStep, UpdateStackDefinition, all_pages,
};
use serde_json::{Map, Value, json};

use crate::{
    args::{ConfirmArgs, ListOutputArgs, OutputArgs},
    error::CliError,
    key,
    output::{self, Row, age, or_dash},
    stack_args::steps,
    terminal::Terminal,
};

const NOTHING: &str = "no definitions of stacks; `plural cd stack-definitions create NAME` makes one";

/// Definitions of stacks, commands and an image that many custom stacks share: list, create, describe, update, delete
#[derive(Debug, Args)]
#[command(visible_alias = "stack-definition", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct StackDefinitionsArgs {
    #[command(subcommand)]
    pub(crate) command: StackDefinitionCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StackDefinitionCommand {
    List(StackDefinitionListArgs),
    Create(StackDefinitionCreateArgs),
    Describe(StackDefinitionDescribeArgs),
    Update(StackDefinitionUpdateArgs),
    Delete(StackDefinitionDeleteArgs),
}

/// List the definitions of stacks
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd stack-definitions list
  plural cd stack-definitions list -o json"
)]
pub(crate) struct StackDefinitionListArgs {
    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// What the stacks of a definition run
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct StackDefinitionSettingsArgs {
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,

    /// Image with the programs, without tag; a stack that names one keeps its own
    #[arg(long, value_name = "IMAGE")]
    pub(crate) tool_image: Option<String>,

    /// Tag of that image
    #[arg(long, value_name = "VERSION")]
    pub(crate) tool_version: Option<String>,

    /// Shell command that says what would change; may be given several times
    #[arg(long, value_name = "COMMAND")]
    pub(crate) plan_command: Vec<String>,

    /// Shell command that changes it; may be given several times
    #[arg(long, value_name = "COMMAND")]
    pub(crate) apply_command: Vec<String>,

    /// Shell command that destroys everything; may be given several times
    #[arg(long, value_name = "COMMAND")]
    pub(crate) destroy_command: Vec<String>,

    /// Shell command that runs after a stage, init, plan, verify, apply or destroy; may be given several times. A stack that has
    /// hooks keeps its own
    #[arg(long, value_parser = parse_hook, value_name = "STAGE=COMMAND")]
    pub(crate) hook: Vec<(String, String)>,

    /// Remove all hooks
    #[arg(long, conflicts_with = "hook")]
    pub(crate) no_hooks: bool,
}

/// Create a definition of stacks
///
/// A custom stack names it with `plural cd stacks create --definition`, and then has no commands of its own.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stack-definitions create dns --tool-image registry.example.com/dns --plan-command './dns diff' \\
    --apply-command './dns push' --destroy-command './dns clear'")]
pub(crate) struct StackDefinitionCreateArgs {
    /// Its name, unique in the installation
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) settings: StackDefinitionSettingsArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Show one definition of stacks
#[derive(Debug, Args)]
#[command(
    visible_alias = "get",
    after_help = "Examples:
  plural cd stack-definitions describe dns
  plural cd stack-definitions describe dns -o yaml"
)]
pub(crate) struct StackDefinitionDescribeArgs {
    /// The definition: its name or id
    #[arg(value_name = "DEFINITION")]
    pub(crate) definition: String,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Change a definition of stacks; options that you leave out keep their value
///
/// After a change of what its stacks run, each of them that is not paused plans again. --plan-command and --apply-command replace both;
/// --destroy-command and --hook replace the earlier ones.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stack-definitions update dns --tool-version v2
  plural cd stack-definitions update dns --plan-command './dns diff' --apply-command './dns push --force'")]
pub(crate) struct StackDefinitionUpdateArgs {
    /// The definition: its name or id
    #[arg(value_name = "DEFINITION")]
    pub(crate) definition: String,

    /// A new name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    #[command(flatten)]
    pub(crate) settings: StackDefinitionSettingsArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Delete a definition that no stack names
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stack-definitions delete dns --yes")]
pub(crate) struct StackDefinitionDeleteArgs {
    /// The definition: its name or id
    #[arg(value_name = "DEFINITION")]
    pub(crate) definition: String,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

fn parse_hook(text: &str) -> Result<(String, String), String> {
    let (stage, command) = text.split_once('=').unwrap_or((text, ""));
    if !matches!(stage, "init" | "plan" | "verify" | "apply" | "destroy") || command.is_empty() {
        return Err(
            "it must have the form STAGE=COMMAND, with the stage init, plan, verify, apply or destroy"
                .to_owned(),
        );
    }
    Ok((stage.to_uppercase(), command.to_owned()))
}

impl Row for StackDefinition {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["NAME", "IMAGE", "COMMANDS", "DESCRIPTION", "AGE", "ID"], 5);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("stack-definition/{}", self.name)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        vec![
            or_dash(Some(&self.name)),
            or_dash(image(&self.configuration).as_deref()),
            (self.steps.len() + self.delete_steps.len()).to_string(),
            output::cell(self.description.as_deref()),
            age(self.inserted_at, now),
            self.id.clone(),
        ]
    }
}

/// The image with its tag.
fn image(configuration: &StackDefinitionConfiguration) -> Option<String> {
    let StackDefinitionConfiguration { image, version, tag, hooks: _ } = configuration;
    let image = image.as_ref()?;
    Some(match tag.as_ref().or(version.as_ref()) {
        Some(tag) => format!("{image}:{tag}"),
        None => image.clone(),
    })
}

/// The definition of this name or id.
pub(crate) async fn find(text: &str, client: &Client) -> Result<StackDefinition, CliError> {
    let (id, name) = key::id_or_name(text.strip_prefix("stack-definition/").unwrap_or(text));
    client.send(&GetStackDefinition { id, name }).await.map_err(|error| {
        let hint = "`plural cd stack-definitions list` shows all of them";
        CliError::absent(error, || CliError::missing(format_args!("definition of stacks {text:?}"), hint))
    })
}

pub(crate) async fn run(
    command: StackDefinitionCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        StackDefinitionCommand::List(StackDefinitionListArgs { output }) => {
            let list = |after| ListStackDefinitions { after, first: PAGE_SIZE, q: None };
            let all: Vec<StackDefinition> = all_pages(client, list).await?;
            output::list(&all, &output, NOTHING, terminal)
        }
        StackDefinitionCommand::Create(StackDefinitionCreateArgs { name, settings, output }) => {
            let mut attributes = Map::from_iter([("name".to_owned(), name.into())]);
            lay(settings, &mut attributes);
            let attributes = StackDefinitionAttributes(attributes);
            output::item(&client.send(&CreateStackDefinition { attributes }).await?, &output.output, terminal)
        }
        StackDefinitionCommand::Describe(StackDefinitionDescribeArgs { definition, output }) => {
            let known = find(&definition, client).await?;
            output::described(&known, &known, &output.output, terminal, || words(&known))
        }
        StackDefinitionCommand::Update(StackDefinitionUpdateArgs { definition, name, settings, output }) => {
            if name.is_none() && settings.is_empty() {
                return Err(CliError::unchanged_flags("stack-definitions"));
            }
            let is = find(&definition, client).await?;
            let mut given = attributes(&is);
            if let Some(name) = name {
                given.insert("name".to_owned(), name.into());
            }
            lay(settings, &mut given);
            let attributes = StackDefinitionAttributes(given);
            // What is left out is as it was then.
            let update = UpdateStackDefinition { id: is.id, attributes, unchanged_since: is.updated_at };
            let changed = client.send(&update).await?;
            output::item(&changed, &output.output, terminal)
        }
        StackDefinitionCommand::Delete(StackDefinitionDeleteArgs { definition, confirm }) => {
            let StackDefinition { id, name, .. } = find(&definition, client).await?;
            terminal.confirm(&format!("delete the definition of stacks {name}"), confirm.yes)?;
            client.send(&DeleteStackDefinition { id }).await?;
            terminal.say(format_args!("definition of stacks {name} deleted"));
            Ok(())
        }
    }
}

impl StackDefinitionSettingsArgs {
    /// Nothing is given.
    fn is_empty(&self) -> bool {
        let Self {
            description,
            tool_image,
            tool_version,
            plan_command,
            apply_command,
            destroy_command,
            hook,
            no_hooks,
        } = self;
        [description, tool_image, tool_version].iter().all(|given| given.is_none())
            && [plan_command, apply_command, destroy_command].iter().all(|given| given.is_empty())
            && hook.is_empty()
            && !no_hooks
    }
}

/// All that a definition is, as the API takes it: an update replaces the whole.
fn attributes(is: &StackDefinition) -> Map<String, Value> {
    let StackDefinition {
        id: _,
        name,
        description,
        inserted_at: _,
        updated_at: _,
        configuration,
        steps,
        delete_steps,
    } = is;
    let StackDefinitionConfiguration { image, version, tag, hooks } = configuration;
    let hook = |hook: &StackDefinitionHook| json!({"cmd": hook.cmd, "args": hook.args, "afterStage": hook.after_stage.as_str()});
    let step = |step: &StackDefinitionStep| json!({"cmd": step.cmd, "args": step.args, "stage": step.stage.as_str()});
    let hooks: Vec<Value> = hooks.iter().map(hook).collect();
    let [steps, delete_steps] =
        [steps, delete_steps].map(|steps| steps.iter().map(step).collect::<Vec<Value>>());
    Map::from_iter([
        ("name".to_owned(), json!(name)),
        ("description".to_owned(), json!(description)),
        ("configuration".to_owned(), json!({"image": image, "version": version, "tag": tag, "hooks": hooks})),
        ("steps".to_owned(), json!(steps)),
        ("deleteSteps".to_owned(), json!(delete_steps)),
    ])
}

/// What is given, over what is there.
fn lay(given: StackDefinitionSettingsArgs, attributes: &mut Map<String, Value>) {
    let StackDefinitionSettingsArgs {
        description,
        tool_image,
        tool_version,
        plan_command,
        apply_command,
        destroy_command,
        hook,
        no_hooks,
    } = given;
    if let Some(description) = description {
        attributes.insert("description".to_owned(), description.into());
    }
    let commands: Vec<Value> = steps("PLAN", plan_command).chain(steps("APPLY", apply_command)).collect();
    if !commands.is_empty() {
        attributes.insert("steps".to_owned(), Value::Array(commands));
    }
    let undo: Vec<Value> = steps("DESTROY", destroy_command).collect();
    if !undo.is_empty() {
        attributes.insert("deleteSteps".to_owned(), Value::Array(undo));
    }
    let mut configuration = match attributes.remove("configuration") {
        Some(Value::Object(configuration)) => configuration,
        _ => Map::new(),
    };
    if let Some(image) = tool_image {
        configuration.insert("image".to_owned(), image.into());
    }
    if let Some(version) = tool_version {
        configuration.insert("version".to_owned(), version.into());
        // It would win.
        configuration.remove("tag");
    }
    if no_hooks {
        configuration.insert("hooks".to_owned(), json!([]));
    }
    if !hook.is_empty() {
        let hooks = hook.into_iter();
        let hooks = hooks
            .map(|(stage, command)| json!({"afterStage": stage, "cmd": "sh", "args": ["-c", command]}))
            .collect();
        configuration.insert("hooks".to_owned(), Value::Array(hooks));
    }
    attributes.insert("configuration".to_owned(), Value::Object(configuration));
}

fn words(known: &StackDefinition) -> String {
    let line = |name: &str, value: String| vec![format!("{name}:"), value];
    let mut lines = vec![
        line("Definition", or_dash(Some(&known.name))),
        line("Id", or_dash(Some(&known.id))),
        line("Description", or_dash(known.description.as_deref())),
        line("Image", or_dash(image(&known.configuration).as_deref())),
    ];
    let said = |stage: &str, cmd: &str, args: &[String]| {
        let command: Vec<&str> = std::iter::once(cmd).chain(args.iter().map(String::as_str)).collect();
        or_dash(Some(&format!("{}: {}", stage.to_lowercase(), command.join(" "))))
    };
    let step = |step: &StackDefinitionStep| said(step.stage.as_str(), &step.cmd, &step.args);
    lines.extend(known.steps.iter().map(|one| line("Command", step(one))));
    lines.extend(known.delete_steps.iter().map(|one| line("Undo", step(one))));
    lines.extend(known.configuration.hooks.iter().map(|hook| {
        line("Hook", format!("after {}", said(hook.after_stage.as_str(), &hook.cmd, &hook.args)))
    }));
    output::columns(&lines, 2)
}
