//! `plural cd scm-webhooks …`.

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use plural_wire::{
    Client, CreateScmWebhookPointer, DeleteScmWebhook, GetScmWebhook, ListScmWebhooks, PAGE_SIZE,
    RegisterScmWebhook, ScmWebhook, ScmWebhookAttributes, Secret, UnregisterScmWebhook, all_pages,
};

use crate::{
    args::{ConfirmArgs, OutputArgs},
    error::CliError,
    file,
    format::ListOutputArgs,
    key,
    output::{self, Row, age, or_dash},
    scm_connections,
    terminal::Terminal,
};

const NOTHING: &str = "no webhooks found; `plural cd scm-webhooks register` makes one at its host";

/// Webhooks of git hosts, each of one connection: list, register, unregister, create, delete
#[derive(Debug, Args)]
#[command(visible_alias = "scm-webhook", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct ScmWebhooksArgs {
    #[command(subcommand)]
    pub(crate) command: ScmWebhookCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScmWebhookCommand {
    List(ScmWebhookListArgs),
    Register(ScmWebhookRegisterArgs),
    Unregister(ScmWebhookUnregisterArgs),
    Create(ScmWebhookCreateArgs),
    Delete(ScmWebhookDeleteArgs),
}

/// List the webhooks of the connections that you may see
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd scm-webhooks list
  plural cd scm-webhooks list -o json"
)]
pub(crate) struct ScmWebhookListArgs {
    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Of what the host has a webhook
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct ScmWebhookPlaceArgs {
    /// Of this repository: its slug, such as acme/shop
    #[arg(long, value_name = "OWNER/NAME")]
    pub(crate) repository: Option<String>,

    /// Of all repositories of this organization, group, workspace or project
    #[arg(long, value_name = "NAME")]
    pub(crate) organization: Option<String>,
}

/// Create a webhook at the host of a connection
///
/// The console makes it by the host's API, with an address and a secret of its own. Where it is there already, it gets its secret again.
/// The connection's token needs the right to make webhooks, and the connection has to be allowed all repositories that it covers.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd scm-webhooks register github --repository acme/shop
  plural cd scm-webhooks register github --organization acme")]
pub(crate) struct ScmWebhookRegisterArgs {
    /// The connection that it is believed for: its name or id
    #[arg(value_name = "CONNECTION")]
    pub(crate) connection: String,

    #[command(flatten)]
    pub(crate) place: ScmWebhookPlaceArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Remove a webhook at the host of a connection
///
/// Its address stays, for others that send to it; `delete` ends that.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd scm-webhooks unregister github --repository acme/shop --yes")]
pub(crate) struct ScmWebhookUnregisterArgs {
    /// The connection that it is believed for: its name or id
    #[arg(value_name = "CONNECTION")]
    pub(crate) connection: String,

    #[command(flatten)]
    pub(crate) place: ScmWebhookPlaceArgs,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

/// Create the address to which a webhook of a git host sends
///
/// At the host you make the webhook yourself, with this address and secret; `register` makes both. It is believed for repositories of the
/// owner that the connection may touch.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  openssl rand -hex 32 > secret.txt
  plural cd scm-webhooks create --connection github --owner acme --secret-file secret.txt")]
pub(crate) struct ScmWebhookCreateArgs {
    /// The connection that it is believed for: its name or id
    #[arg(long, value_name = "NAME")]
    pub(crate) connection: String,

    /// Organization, group or user whose repositories it covers
    #[arg(long, value_name = "OWNER")]
    pub(crate) owner: String,

    /// File with the secret that the host signs with, or - for standard input: at least 16 characters
    #[arg(long, value_name = "FILE")]
    pub(crate) secret_file: PathBuf,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Delete a webhook: what is sent to its address is refused from then on
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd scm-webhooks delete 0190b8a2-7c11-7def-8000-0123456789ab --yes")]
pub(crate) struct ScmWebhookDeleteArgs {
    /// Its id
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

impl Row for ScmWebhook {
    const HEADINGS: (&'static [&'static str], usize) = (&["WEBHOOK", "CONNECTION", "URL", "AGE", "ID"], 5);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("scm-webhook/{}", self.id)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        vec![
            or_dash(Some(&self.name)),
            or_dash(self.connection.as_ref().map(|connection| connection.name.as_str())),
            or_dash(Some(&self.url)),
            age(self.inserted_at, now),
            self.id.clone(),
        ]
    }
}

pub(crate) async fn run(
    command: ScmWebhookCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        ScmWebhookCommand::List(ScmWebhookListArgs { output }) => {
            let all = all_pages(client, |after| ListScmWebhooks { after, first: PAGE_SIZE }).await?;
            output::list(&all, &output, NOTHING, terminal)
        }
        ScmWebhookCommand::Register(ScmWebhookRegisterArgs { connection, place, output }) => {
            let connection_id = scm_connections::find(&connection, client).await?.id;
            let ScmWebhookPlaceArgs { repository, organization } = place;
            let ask = RegisterScmWebhook { connection_id, repository, organization };
            let made = client.send(&ask).await?;
            terminal.say("the host sends to this address from now on");
            output::item(&made, &output.output, terminal)
        }
        ScmWebhookCommand::Unregister(ScmWebhookUnregisterArgs { connection, place, confirm }) => {
            let connection = scm_connections::find(&connection, client).await?;
            let ScmWebhookPlaceArgs { repository, organization } = place;
            let name = repository.as_deref().or(organization.as_deref()).unwrap_or_default().to_owned();
            let what = format!("remove the webhook of {name} at the host of connection {}", connection.name);
            terminal.confirm(&what, confirm.yes)?;
            let ask = UnregisterScmWebhook { connection_id: connection.id, repository, organization };
            client.send(&ask).await?;
            terminal.say(format_args!("the host sends nothing about {name} any more"));
            Ok(())
        }
        ScmWebhookCommand::Create(args) => create(args, client, terminal).await,
        ScmWebhookCommand::Delete(ScmWebhookDeleteArgs { id, confirm }) => {
            let bare = key::bare_id("scm-webhook", &id).to_owned();
            let ask = GetScmWebhook { id: Some(bare.clone()), external_id: None };
            let webhook = client.send(&ask).await.map_err(|error| {
                let hint = "`plural cd scm-webhooks list` shows those that you may see";
                CliError::absent(error, || CliError::missing(format_args!("webhook {bare:?}"), hint))
            })?;
            terminal.confirm(&format!("delete webhook {}", webhook.name), confirm.yes)?;
            client.send(&DeleteScmWebhook { id: webhook.id }).await?;
            terminal.say(format_args!("webhook {} deleted", webhook.name));
            Ok(())
        }
    }
}

async fn create(
    args: ScmWebhookCreateArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let ScmWebhookCreateArgs { connection, owner, secret_file, output } = args;
    let text = file::text_or_input("the secret", &secret_file, terminal)?;
    let connection = scm_connections::find(&connection, client).await?;
    let attributes = ScmWebhookAttributes {
        hmac: Secret::new(text.trim()),
        kind: connection.kind,
        owner,
        connection_id: Some(connection.id),
    };
    let made = client.send(&CreateScmWebhookPointer { attributes }).await?;
    terminal.say("make a webhook at the host that sends JSON to this address, signed with the secret");
    output::item(&made, &output.output, terminal)
}
