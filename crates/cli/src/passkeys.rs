//! `plural passkeys …`: keys that your devices hold and sign you in with, in a browser.

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use plural_wire::{Client, DeletePasskey, ListPasskeys, Passkey, PasskeyAttributes, UpdatePasskey};

use crate::{
    args::{ConfirmArgs, ConnectionArgs, ListOutputArgs, OutputArgs},
    error::CliError,
    key,
    output::{self, Row, age, or_dash},
    terminal::Terminal,
    users,
};

const NOTHING: &str = "no passkeys; `plural passkeys add` says where one is added";

/// Passkeys that sign you in without a password, in a browser: list, add, rename, delete
#[derive(Debug, Args)]
#[command(visible_alias = "passkey", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct PasskeysArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    #[command(subcommand)]
    pub(crate) command: PasskeyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PasskeyCommand {
    List(PasskeyListArgs),
    Add(PasskeyAddArgs),
    Rename(PasskeyRenameArgs),
    Delete(PasskeyDeleteArgs),
}

/// List your passkeys
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural passkeys list
  plural passkeys list --user ada@example.com   # as an administrator"
)]
pub(crate) struct PasskeyListArgs {
    /// Another user, by e-mail address; for administrators
    #[arg(long, value_name = "EMAIL")]
    pub(crate) user: Option<String>,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Print the address at which a passkey is added
///
/// A browser adds it: your device, or a security key, makes the key and keeps its secret half.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural passkeys add")]
pub(crate) struct PasskeyAddArgs {}

/// Give a passkey another name
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural passkeys rename 0190b8a2-7c11-7def-8000-0123456789ab 'the blue key'")]
pub(crate) struct PasskeyRenameArgs {
    /// Its id, as `plural passkeys list` shows it
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// The name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Delete a passkey of yours, or as an administrator one of a user
///
/// It signs nobody in from then on. Sessions that were opened with it go on: `plural tokens list` shows yours.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural passkeys delete 0190b8a2-7c11-7def-8000-0123456789ab --yes")]
pub(crate) struct PasskeyDeleteArgs {
    /// Its id, as `plural passkeys list` shows it
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

impl Row for Passkey {
    const HEADINGS: (&'static [&'static str], usize) = (&["NAME", "LAST USED", "AGE", "ID"], 4);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("passkey/{}", self.id)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        let used = self.last_used_at.map(|at| at.format("%Y-%m-%d %H:%M").to_string());
        vec![
            or_dash(Some(&self.name)),
            used.unwrap_or_else(|| "never".to_owned()),
            age(self.inserted_at, now),
            self.id.clone(),
        ]
    }
}

pub(crate) async fn run(
    command: PasskeyCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        PasskeyCommand::List(PasskeyListArgs { user, output }) => {
            let user_id = match user {
                Some(email) => Some(users::find(&email, client).await?.id),
                None => None,
            };
            let passkeys = client.send(&ListPasskeys { user_id }).await?;
            output::list(&passkeys, &output, NOTHING, terminal)
        }
        PasskeyCommand::Add(PasskeyAddArgs {}) => {
            terminal.say("open this address in a browser on the device that the passkey is for:");
            writeln!(terminal.out, "{}/auth/passkeys", client.url().trim_end_matches('/'))?;
            Ok(terminal.out.flush()?)
        }
        PasskeyCommand::Rename(PasskeyRenameArgs { id, name, output }) => {
            let id = key::bare_id("passkey", &id).to_owned();
            let change = UpdatePasskey { id: id.clone(), attributes: PasskeyAttributes { name } };
            let changed = client.send(&change).await.map_err(|error| absent(error, &id))?;
            output::item(&changed, &output.output, terminal)
        }
        PasskeyCommand::Delete(PasskeyDeleteArgs { id, confirm }) => {
            let id = key::bare_id("passkey", &id).to_owned();
            terminal.confirm(&format!("delete passkey {id}"), confirm.yes)?;
            client.send(&DeletePasskey { id: id.clone() }).await.map_err(|error| absent(error, &id))?;
            terminal.say(format_args!("passkey {id} deleted"));
            Ok(())
        }
    }
}

fn absent(error: plural_wire::ClientError, id: &str) -> CliError {
    CliError::absent(error, || {
        CliError::missing(format!("passkey {id}"), "`plural passkeys list` shows yours")
    })
}
