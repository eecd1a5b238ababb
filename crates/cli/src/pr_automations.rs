//! `plural pr automations …`.

use std::{fmt::Write as _, path::PathBuf};

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand, ValueEnum};
use plural_wire::{
    AddPrAutomation, ChangePrAutomation, Client, DeletePrAutomation, GetPrAutomation, ListPrAutomations,
    MergeWindow, PAGE_SIZE, PrAutomation, PrRole, ReadPrAutomation, all_pages,
};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use crate::{
    args::{ConfirmArgs, ListOutputArgs, OutputArgs},
    error::CliError,
    form,
    format::Format,
    key::{self, RepositoryKey, ServiceKey},
    output::{self, Row, age, or_dash},
    plain::one_line,
    pr_automation_file::{self, AutomationFile},
    pr_merge,
    terminal::Terminal,
};

const NOTHING: &str = "no automations found; `plural pr automations create --file FILE` makes one";

/// Automations that open pull requests: list, create, describe, update, delete
#[derive(Debug, Args)]
#[command(visible_alias = "automation", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct PrAutomationsArgs {
    #[command(subcommand)]
    command: PrAutomationCommand,
}

#[derive(Debug, Subcommand)]
enum PrAutomationCommand {
    List(AutomationListArgs),
    Create(AutomationCreateArgs),
    Describe(AutomationDescribeArgs),
    Update(AutomationUpdateArgs),
    Delete(AutomationDeleteArgs),
}

/// What an automation is for
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RoleArg {
    /// Makes or changes clusters
    Cluster,
    /// Makes or changes services
    Service,
    /// Makes or changes pipelines
    Pipeline,
    /// Changes something
    Update,
    /// Upgrades something
    Upgrade,
    /// Changes what something costs
    Cost,
}

impl From<RoleArg> for PrRole {
    fn from(role: RoleArg) -> Self {
        match role {
            RoleArg::Cluster => Self::Cluster,
            RoleArg::Service => Self::Service,
            RoleArg::Pipeline => Self::Pipeline,
            RoleArg::Update => Self::Update,
            RoleArg::Upgrade => Self::Upgrade,
            RoleArg::Cost => Self::Cost,
        }
    }
}

/// List the automations that you may see
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural pr automations list
  plural pr automations list --role service --project shop"
)]
struct AutomationListArgs {
    /// Only those with this role
    #[arg(long, value_enum, value_name = "ROLE")]
    role: Option<RoleArg>,

    /// Only those of this project: its name or id
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,

    /// Only those with this in their name
    #[arg(long, value_name = "TEXT")]
    query: Option<String>,

    #[command(flatten)]
    output: ListOutputArgs,
}

/// What an automation uses, over what its file says
#[derive(Debug, Args)]
struct Uses {
    /// Connection to the git host with which pull requests are opened: its name or id
    #[arg(long, value_name = "CONNECTION")]
    connection: Option<String>,

    /// Repository of external templates: its URL or id
    #[arg(long, value_name = "REPOSITORY")]
    repository: Option<RepositoryKey>,

    /// Service that it is about: CLUSTER/NAME or its id
    #[arg(long, value_name = "SERVICE")]
    service: Option<ServiceKey>,

    /// Governance that confirms the pull requests that it opens from then on: its name or id
    #[arg(long, value_name = "GOVERNANCE")]
    governance: Option<String>,

    /// No governance confirms them
    #[arg(long, conflicts_with = "governance")]
    no_governance: bool,

    /// Check and print what would be sent to the console, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Create an automation from a file
///
/// The file is YAML or JSON: a PrAutomation as public scaffolds have it (kind, metadata, spec), or what is in its spec.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural pr automations create --file service.yaml --connection github
  plural pr automations create --file service.yaml --connection github --project shop --name 'Add a service'
  plural pr automations create --file service.yaml --connection github --dry-run -o yaml")]
struct AutomationCreateArgs {
    /// File with the automation, or - for standard input
    #[arg(long, value_name = "FILE")]
    file: PathBuf,

    /// Its name; else that of the file
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Project that it belongs to: name or id; else that of the file, else the default one
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,

    #[command(flatten)]
    uses: Uses,

    #[command(flatten)]
    output: OutputArgs,
}

/// Show an automation: what it asks, and which files it changes
#[derive(Debug, Args)]
#[command(
    visible_alias = "get",
    after_help = "Examples:
  plural pr automations describe 'Add a service'
  plural pr automations describe 'Add a service' -o json"
)]
struct AutomationDescribeArgs {
    /// Its name or id
    #[arg(value_name = "AUTOMATION")]
    automation: String,

    #[command(flatten)]
    output: OutputArgs,
}

/// Change an automation; fields that neither the file nor the options name keep their value
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural pr automations update 'Add a service' --file service.yaml
  plural pr automations update 'Add a service' --name 'Add a web service'
  plural pr automations update 'Add a service' --file service.yaml --dry-run")]
struct AutomationUpdateArgs {
    /// Its name or id
    #[arg(value_name = "AUTOMATION")]
    automation: String,

    /// File with what changes, or - for standard input
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// A new name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    #[command(flatten)]
    uses: Uses,

    #[command(flatten)]
    output: OutputArgs,
}

/// Delete an automation; pull requests that it opened stay
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural pr automations delete 'Add a service'
  plural pr automations delete 'Add a service' --yes")]
struct AutomationDeleteArgs {
    /// Its name or id
    #[arg(value_name = "AUTOMATION")]
    automation: String,

    #[command(flatten)]
    confirm: ConfirmArgs,
}

impl Row for PrAutomation {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["NAME", "ROLE", "REPOSITORY", "PROJECT", "QUESTIONS", "AGE", "ID"], 6);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("pr-automation/{}", self.name)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        vec![
            or_dash(Some(&self.name)),
            or_dash(self.role.map(PrRole::as_str)),
            or_dash(self.identifier.as_deref()),
            or_dash(self.project.as_ref().map(|project| project.name.as_str())),
            self.configuration.len().to_string(),
            age(self.inserted_at, now),
            self.id.clone(),
        ]
    }
}

pub(crate) async fn run(
    PrAutomationsArgs { command }: PrAutomationsArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        PrAutomationCommand::List(args) => list(args, client, terminal).await,
        PrAutomationCommand::Create(args) => create(args, client, terminal).await,
        PrAutomationCommand::Describe(AutomationDescribeArgs { automation, output }) => {
            let known = find(&automation, client).await?;
            let all = client.send(&ReadPrAutomation(json!({"id": known.id}))).await?;
            output::described(&all, &known, &output.output, terminal, || words(&known, &all))
        }
        PrAutomationCommand::Update(args) => update(args, client, terminal).await,
        PrAutomationCommand::Delete(AutomationDeleteArgs { automation, confirm }) => {
            let known = find(&automation, client).await?;
            let name = one_line(&known.name);
            terminal.confirm(&format!("delete the automation {name}"), confirm.yes)?;
            client.send(&DeletePrAutomation { id: known.id }).await?;
            terminal.say(format_args!("automation {name} deleted"));
            Ok(())
        }
    }
}

async fn list(
    AutomationListArgs { role, project, query, output }: AutomationListArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let project_id = key::project_id(client, project.as_deref()).await?;
    let page = |after| ListPrAutomations {
        after,
        first: PAGE_SIZE,
        project_id: project_id.clone(),
        role: role.map(PrRole::from),
        q: query.clone(),
    };
    let all = all_pages(client, page).await?;
    output::list(&all, &output, NOTHING, terminal)
}

async fn create(
    AutomationCreateArgs { file, name, project, uses, output }: AutomationCreateArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let mut given = pr_automation_file::read(&file, terminal)?;
    if let Some(name) = name {
        given.attributes.insert("name".to_owned(), name.into());
    }
    if let Some(project) = project {
        given.attributes.remove("projectId");
        given.project = Some(project);
    }
    let dry_run = uses.dry_run;
    let attributes = used(given, uses, client).await?;
    if !attributes.contains_key("name") {
        return Err(CliError::usage("the automation has no name: give --name"));
    }
    if !attributes.contains_key("connectionId") {
        return Err(CliError::usage("the automation has no connection to a git host: give --connection"));
    }
    pr_automation_file::check(&attributes)?;
    if dry_run {
        return planned(&attributes, &output, terminal);
    }
    let made = client.send(&AddPrAutomation(json!({"attributes": attributes}))).await?;
    shown(&made, client, &output, terminal).await
}

async fn update(
    AutomationUpdateArgs { automation, file, name, uses, output }: AutomationUpdateArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let known = find(&automation, client).await?;
    let mut given = match file {
        Some(file) => pr_automation_file::read(&file, terminal)?,
        None => AutomationFile::default(),
    };
    // The file names what it was made from, which may have another name by now.
    given.attributes.remove("name");
    if let Some(name) = name {
        given.attributes.insert("name".to_owned(), name.into());
    }
    let dry_run = uses.dry_run;
    let attributes = used(given, uses, client).await?;
    if attributes.is_empty() {
        return Err(CliError::usage("there is nothing to change: give --file, --name or what it uses")
            .hint("see the examples of `plural pr automations update --help`"));
    }
    let mut whole = attributes.clone();
    whole.entry("title").or_insert_with(|| known.title.clone().into());
    whole.entry("message").or_insert_with(|| known.message.clone().into());
    // Whether it has a repository of templates already, the console knows.
    whole.entry("repositoryId").or_insert(Value::Null);
    whole.entry("git").or_insert_with(|| json!({"ref": "main", "folder": ""}));
    pr_automation_file::check(&whole)?;
    if dry_run {
        return planned(&attributes, &output, terminal);
    }
    let changed = json!({"id": known.id, "attributes": attributes});
    let changed = client.send(&ChangePrAutomation(changed)).await?;
    shown(&changed, client, &output, terminal).await
}

/// What is told to the console: what the file says, and over it what the options do.
async fn used(
    mut given: AutomationFile,
    Uses { connection, repository, service, governance, no_governance, dry_run: _ }: Uses,
    client: &Client,
) -> Result<Map<String, Value>, CliError> {
    if let Some(connection) = connection {
        given.attributes.remove("connectionId");
        given.connection = Some(connection);
    }
    if let Some(repository) = repository {
        given.attributes.insert("repositoryId".to_owned(), repository.get(client).await?.id.into());
    }
    if let Some(service) = service {
        given.attributes.insert("serviceId".to_owned(), service.get(client).await?.service.id.into());
    }
    if let Some(governance) = governance {
        given.attributes.remove("governanceId");
        given.governance = Some(governance);
    } else if no_governance {
        // An empty text ends what there is.
        given.governance = None;
        given.attributes.insert("governanceId".to_owned(), "".into());
    }
    given.resolved(client).await
}

/// What would be told to the console.
fn planned(
    attributes: &Map<String, Value>,
    output: &OutputArgs,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    terminal.say("the automation is well formed; nothing was changed (dry run)");
    match output.output {
        Format::Yaml => output::yaml(attributes, terminal),
        Format::Table
        | Format::Wide
        | Format::Json
        | Format::Name
        | Format::JsonPath(_)
        | Format::Columns(_) => output::json(attributes, terminal),
    }
}

async fn shown(
    made: &Value,
    client: &Client,
    output: &OutputArgs,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let id = made["id"].as_str().map(str::to_owned);
    let made = client.send(&GetPrAutomation { id, name: None }).await?;
    output::item(&made, &output.output, terminal)
}

pub(crate) async fn find(text: &str, client: &Client) -> Result<PrAutomation, CliError> {
    let text = text.strip_prefix("pr-automation/").unwrap_or(text);
    let (id, name) = key::id_or_name(text);
    client.send(&GetPrAutomation { id, name }).await.map_err(|error| {
        let hint = "`plural pr automations list` shows those that you may see";
        CliError::absent(error, || CliError::missing(format_args!("automation {text:?}"), hint))
    })
}

/// What `describe` says.
fn words(known: &PrAutomation, all: &Value) -> String {
    let mut text = format!("Name: {}\n", one_line(&known.name));
    let mut line = |what: &str, value: Option<&str>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let _ = writeln!(text, "{what}: {}", one_line(value));
        }
    };
    line("For", known.documentation.as_deref());
    line("Role", known.role.map(PrRole::as_str));
    line("Project", known.project.as_ref().map(|project| project.name.as_str()));
    line("Connection", all["connection"]["name"].as_str());
    line("Governance", all["governance"]["name"].as_str());
    line("Repository", known.identifier.as_deref());
    line("Branch", known.branch.as_deref());
    line("Title", known.title.as_deref());
    for window in all["mergeWindows"].as_array().into_iter().flatten() {
        // One that a newer console writes otherwise is not shown here, but in its JSON.
        let window = MergeWindow::deserialize(window).ok().map(|window| pr_merge::window_words(&window));
        line("Merge window", window.as_deref());
    }
    line("To confirm", all["confirmation"]["text"].as_str());
    for one in all["confirmation"]["checklist"].as_array().into_iter().flatten() {
        line("To tick", one["label"].as_str());
    }
    line("You may open pull requests", all["mayCreate"].as_bool().map(|may| if may { "yes" } else { "no" }));
    text.push_str(&form::asks(&known.configuration));
    let steps = steps(all);
    if !steps.is_empty() {
        text.push_str("Does:\n");
    }
    for step in steps {
        let _ = writeln!(text, "  {}", one_line(&step));
    }
    text
}

/// What it does, a line each, in its order.
fn steps(all: &Value) -> Vec<String> {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let each = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut steps = Vec::new();
    if !all["lua"].is_null() {
        steps.push("runs a script first".to_owned());
    }
    let helm = &all["vendor"]["helm"];
    if !helm.is_null() {
        steps.push(format!(
            "unpacks the chart {} {} into {}",
            word(&helm["chart"]),
            word(&helm["version"]),
            word(&helm["destination"])
        ));
    }
    for template in each(&all["creates"]["templates"]) {
        steps.push(format!("makes {} of {}", word(&template["destination"]), word(&template["source"])));
    }
    for of in ["regexReplacements", "yamlOverlays"] {
        for change in each(&all["updates"][of]) {
            steps.push(format!("changes {}", word(&change["file"])));
        }
    }
    for edit in each(&all["updates"]["edits"]) {
        steps.push(edited(&edit));
    }
    for file in each(&all["updates"]["files"]) {
        steps.push(format!("changes files that match {}", word(&file)));
    }
    for of in ["files", "folders"] {
        for path in each(&all["deletes"][of]) {
            steps.push(format!("takes {} away", word(&path)));
        }
    }
    steps
}

/// What an edit of a single value does.
fn edited(edit: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (file, edit) = (word(&edit["file"]), &edit["edit"]);
    let path = Some(word(&edit["path"])).filter(|path| !path.is_empty());
    let place = path.as_ref().map_or_else(|| file.clone(), |path| format!("{path} in {file}"));
    match edit["op"].as_str() {
        Some("set") => format!("sets {place}"),
        Some("delete") => format!("takes {place} away"),
        Some("merge") => format!("puts values over {place}"),
        Some("append") => format!("adds an item to {place}"),
        Some("express") => format!("gives {place} the expression {}", word(&edit["expression"])),
        Some("block") => {
            let labels = edit["labels"].as_array().into_iter().flatten().map(word);
            let named: Vec<String> = std::iter::once(word(&edit["block"])).chain(labels).collect();
            format!("makes or sets the block {} in {place}", named.join(" "))
        }
        // One of a newer console.
        _ => format!("changes {place}"),
    }
}
