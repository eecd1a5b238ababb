//! `plural pr governance …`.

use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use plural_wire::{
    Client, DeletePrGovernance, GetPrGovernance, GovernanceWebhook, GovernanceWebhookAttributes,
    ListPrGovernances, PAGE_SIZE, PrGovernance, PrGovernanceAttributes, PrGovernanceConfigurationAttributes,
    PrGovernanceType, Secret, UpsertPrGovernance, all_pages,
};

use crate::{
    args::{ConfirmArgs, ListOutputArgs, OutputArgs},
    error::CliError,
    file, key,
    output::{self, Row, age, or_dash},
    scm_connections,
    terminal::Terminal,
};

const NOTHING: &str = "no governances found; `plural pr governance create NAME` makes one";

/// Governances, which confirm pull requests before they are merged: list, create, describe, update, delete
#[derive(Debug, Args)]
#[command(visible_alias = "governances", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct PrGovernancesArgs {
    #[command(subcommand)]
    command: PrGovernanceCommand,
}

#[derive(Debug, Subcommand)]
enum PrGovernanceCommand {
    List(GovernanceListArgs),
    Create(GovernanceCreateArgs),
    Describe(GovernanceDescribeArgs),
    Update(GovernanceUpdateArgs),
    Delete(GovernanceDeleteArgs),
}

/// List the governances that you may see
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural pr governance list
  plural pr governance list -o json"
)]
struct GovernanceListArgs {
    #[command(flatten)]
    output: ListOutputArgs,
}

/// Create a governance
///
/// The console calls ADDRESS/v1/open, /v1/confirm and /v1/close. What it confirms is approved with the account of the connection, which
/// must not be the one that opens the pull requests.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  openssl rand -hex 32 > secret.txt
  plural pr governance create board --connection approver --webhook-url https://board.example.com --secret-file secret.txt")]
struct GovernanceCreateArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    name: String,

    /// Connection to the git host whose account approves: its name or id
    #[arg(long, value_name = "CONNECTION")]
    connection: String,

    /// The address that /v1/open, /v1/confirm and /v1/close are below
    #[arg(long, value_name = "ADDRESS")]
    webhook_url: String,

    /// File with the secret that calls are signed with, or - for standard input: at least 16 characters
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,

    /// Project that it belongs to (name or id); else that of the connection
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,

    #[command(flatten)]
    output: OutputArgs,
}

/// Show one governance; its secret is never shown
#[derive(Debug, Args)]
#[command(
    visible_alias = "get",
    after_help = "Examples:
  plural pr governance describe board
  plural pr governance describe board -o json"
)]
struct GovernanceDescribeArgs {
    /// Its name or id
    #[arg(value_name = "NAME")]
    name: String,

    #[command(flatten)]
    output: OutputArgs,
}

/// Change a governance
///
/// Options that you leave out keep their value. What it confirmed before stays confirmed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural pr governance update board --webhook-url https://new.example.com
  plural pr governance update board --secret-file secret.txt
  plural pr governance update board --no-secret")]
struct GovernanceUpdateArgs {
    /// Its name or id
    #[arg(value_name = "NAME")]
    name: String,

    /// Connection to the git host whose account approves: its name or id
    #[arg(long, value_name = "CONNECTION")]
    connection: Option<String>,

    /// The address that /v1/open, /v1/confirm and /v1/close are below
    #[arg(long, value_name = "ADDRESS")]
    webhook_url: Option<String>,

    /// File with the secret that calls are signed with, or - for standard input: at least 16 characters
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,

    /// Stop signing calls
    #[arg(long, conflicts_with = "secret_file")]
    no_secret: bool,

    #[command(flatten)]
    output: OutputArgs,
}

/// Delete a governance with its secret
///
/// It is refused while an automation names it, or an open pull request has it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural pr governance delete board --yes")]
struct GovernanceDeleteArgs {
    /// Its name or id
    #[arg(value_name = "NAME")]
    name: String,

    #[command(flatten)]
    confirm: ConfirmArgs,
}

impl Row for PrGovernance {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["NAME", "CONNECTION", "ADDRESS", "SIGNED", "PROJECT", "AGE", "ID"], 6);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("pr-governance/{}", self.name)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        let webhook = webhook(self);
        vec![
            or_dash(Some(&self.name)),
            or_dash(self.connection.as_ref().map(|connection| connection.name.as_str())),
            or_dash(webhook.map(|webhook| webhook.url.as_str())),
            yes(webhook),
            or_dash(self.project.as_ref().map(|project| project.name.as_str())),
            age(self.inserted_at, now),
            self.id.clone(),
        ]
    }
}

fn webhook(governance: &PrGovernance) -> Option<&GovernanceWebhook> {
    governance.configuration.as_ref()?.webhook.as_ref()
}

fn yes(webhook: Option<&GovernanceWebhook>) -> String {
    let is_signed = webhook.is_some_and(|webhook| webhook.signed == Some(true));
    if is_signed { "yes" } else { "no" }.to_owned()
}

pub(crate) async fn run(
    PrGovernancesArgs { command }: PrGovernancesArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        PrGovernanceCommand::List(GovernanceListArgs { output }) => {
            let all = all_pages(client, |after| ListPrGovernances { after, first: PAGE_SIZE }).await?;
            output::list(&all, &output, NOTHING, terminal)
        }
        PrGovernanceCommand::Create(args) => create(args, client, terminal).await,
        PrGovernanceCommand::Describe(GovernanceDescribeArgs { name, output }) => {
            let known = find(&name, client).await?;
            output::described(&known, &known, &output.output, terminal, || description(&known))
        }
        PrGovernanceCommand::Update(args) => update(args, client, terminal).await,
        PrGovernanceCommand::Delete(GovernanceDeleteArgs { name, confirm }) => {
            let known = find(&name, client).await?;
            terminal.confirm(&format!("delete governance {} with its secret", known.name), confirm.yes)?;
            client.send(&DeletePrGovernance { id: known.id }).await?;
            terminal.say(format_args!("governance {} deleted", known.name));
            Ok(())
        }
    }
}

async fn create(
    args: GovernanceCreateArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let GovernanceCreateArgs { name, connection, webhook_url, secret_file, project, output } = args;
    let secret = secret(secret_file.as_deref(), terminal)?;
    // The console makes one or changes the one that has the name: whoever makes one means no other.
    match client.send(&GetPrGovernance { id: None, name: Some(name.clone()) }).await {
        Ok(_) => {
            return Err(CliError::usage(format!("there is a governance {name:?} already"))
                .hint("`plural pr governance update` changes it"));
        }
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    let connection = scm_connections::find(&connection, client).await?;
    let project_id = key::project_id(client, project.as_deref()).await?;
    let webhook = GovernanceWebhookAttributes { url: webhook_url, secret };
    let attributes = attributes(name, connection.id, Some(webhook), project_id);
    let made = client.send(&UpsertPrGovernance { attributes }).await?;
    terminal.say("`plural pr automations update NAME --governance` has the pull requests of an automation confirmed by it");
    output::item(&made, &output.output, terminal)
}

async fn update(
    args: GovernanceUpdateArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let GovernanceUpdateArgs { name, connection, webhook_url, secret_file, no_secret, output } = args;
    if connection.is_none() && webhook_url.is_none() && secret_file.is_none() && !no_secret {
        return Err(CliError::usage("nothing to change")
            .hint("see the examples of `plural pr governance update --help`"));
    }
    let secret = match secret(secret_file.as_deref(), terminal)? {
        // An empty text ends what there is.
        None if no_secret => Some(Secret::new("")),
        secret => secret,
    };
    let known = find(&name, client).await?;
    let connection_id = match (connection, &known.connection) {
        (Some(connection), _) => scm_connections::find(&connection, client).await?.id,
        (None, Some(connection)) => connection.id.clone(),
        (None, None) => {
            return Err(CliError::usage(
                "you do not see the connection of the governance: give --connection",
            ));
        }
    };
    let url = webhook_url.or_else(|| webhook(&known).map(|webhook| webhook.url.clone()));
    let webhook = url.map(|url| GovernanceWebhookAttributes { url, secret });
    let attributes = attributes(known.name, connection_id, webhook, None);
    let changed = client.send(&UpsertPrGovernance { attributes }).await?;
    output::item(&changed, &output.output, terminal)
}

fn attributes(
    name: String,
    connection_id: String,
    webhook: Option<GovernanceWebhookAttributes>,
    project_id: Option<String>,
) -> PrGovernanceAttributes {
    PrGovernanceAttributes {
        kind: PrGovernanceType::Webhook,
        name,
        connection_id,
        configuration: Some(PrGovernanceConfigurationAttributes { webhook, service_now: None }),
        project_id,
    }
}

fn secret(path: Option<&Path>, terminal: &mut Terminal<'_>) -> Result<Option<Secret>, CliError> {
    let Some(path) = path else { return Ok(None) };
    let text = file::text_or_input("the secret", path, terminal)?;
    let text = text.trim();
    if text.is_empty() {
        return Err(CliError::usage(format!("{} is empty (the secret)", path.display())));
    }
    Ok(Some(Secret::new(text)))
}

pub(crate) async fn find(name: &str, client: &Client) -> Result<PrGovernance, CliError> {
    let text = name.strip_prefix("pr-governance/").unwrap_or(name);
    let (id, name) = key::id_or_name(text);
    client.send(&GetPrGovernance { id, name }).await.map_err(|error| {
        let hint = "`plural pr governance list` shows those that you may see";
        CliError::absent(error, || CliError::missing(format_args!("governance {text:?}"), hint))
    })
}

fn description(known: &PrGovernance) -> String {
    let line = |name: &str, value: String| vec![format!("{name}:"), value];
    let project = known.project.as_ref().map(|project| project.name.as_str());
    let webhook = webhook(known);
    let lines = [
        line("Governance", or_dash(Some(&known.name))),
        line("Id", known.id.clone()),
        line("Type", or_dash(known.kind.map(PrGovernanceType::as_str))),
        line("Project", or_dash(project)),
        line("Connection", or_dash(known.connection.as_ref().map(|connection| connection.name.as_str()))),
        line("Address", or_dash(webhook.map(|webhook| webhook.url.as_str()))),
        line("Signed", yes(webhook)),
    ];
    output::columns(&lines, 2)
}
