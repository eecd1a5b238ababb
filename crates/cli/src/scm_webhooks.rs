//! `plural cd scm-webhooks …`.

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use plural_wire::{
    Client, CreateScmWebhookPointer, DeleteScmWebhook, GetScmWebhook, ListScmWebhooks, PAGE_SIZE, ScmWebhook,
    ScmWebhookAttributes, Secret, all_pages,
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

const NOTHING: &str = "no webhooks found; `plural cd scm-webhooks create` makes an address for one";

/// Webhooks of git hosts, each of one connection: list, create, delete
#[derive(Debug, Args)]
#[command(visible_alias = "scm-webhook", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct ScmWebhooksArgs {
    #[command(subcommand)]
    pub(crate) command: ScmWebhookCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScmWebhookCommand {
    List(ScmWebhookListArgs),
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

/// Make the address that a webhook of a git host sends to
///
/// At the host you make the webhook yourself, with this address and secret. It is believed for repositories of the owner that the connection
/// may touch.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  openssl rand -hex 32 > secret.txt
  plural cd scm-webhooks create --connection github --owner acme --secret-file secret.txt")]
pub(crate) struct ScmWebhookCreateArgs {
    /// The connection that it is believed for: its name or id
    #[arg(long, value_name = "NAME")]
    pub(crate) connection: String,

    /// Organization, group or user whose repositories it tells of
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
