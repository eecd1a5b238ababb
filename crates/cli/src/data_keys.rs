//! `plural cd data-keys …` and `plural cd projects secrets`: what seals secrets at rest, and what it seals.

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use plural_wire::{
    Client, DataKey, GetSecretHoldings, ListInstallationDataKeys, ListProjectDataKeys,
    RotateInstallationDataKey, RotateProjectDataKeys, SecretHolding, SecretHoldings, SecretKind,
};

use crate::{
    args::{ConfirmArgs, ListOutputArgs},
    error::CliError,
    format::Format,
    key,
    output::{self, Row, age, or_dash},
    secret_backends,
    terminal::Terminal,
};

/// Keys that seal secrets at rest: list, rotate
#[derive(Debug, Args)]
#[command(visible_alias = "data-key", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct DataKeysArgs {
    #[command(subcommand)]
    pub(crate) command: DataKeyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DataKeyCommand {
    List(DataKeyListArgs),
    Rotate(DataKeyRotateArgs),
}

/// List the data keys of a project, or of the installation
///
/// For administrators of the project, or of the installation. The keys themselves are never shown.
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd data-keys list shop
  plural cd data-keys list
  plural cd data-keys list shop -o json"
)]
pub(crate) struct DataKeyListArgs {
    /// The project: its name or id
    #[arg(value_name = "PROJECT")]
    pub(crate) project: Option<String>,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Replace the data keys of a project, or that of the installation
///
/// The console seals every secret anew in the background, then destroys the keys of before: an hour later at the earliest. Values in earlier plans
/// and drift events are shown masked from then on.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd data-keys rotate shop
  plural cd data-keys rotate --yes")]
pub(crate) struct DataKeyRotateArgs {
    /// The project: its name or id
    #[arg(value_name = "PROJECT")]
    pub(crate) project: Option<String>,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Show what secrets of a project the console holds, never their values
///
/// For administrators of the project.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd projects secrets shop
  plural cd projects secrets shop -o json")]
pub(crate) struct ProjectSecretsArgs {
    /// The project: its name or id
    #[arg(value_name = "PROJECT")]
    pub(crate) project: String,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Names of things that are shown of each kind.
const NAMES: usize = 100;
const NO_KEYS: &str = "there are no data keys: nothing was sealed yet";

impl Row for DataKey {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["ID", "FOR", "STATE", "ENCRYPTED BY", "VERSION", "AGE"], 6);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("data-key/{}", self.id)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        let state = match (self.destroyed_at, self.retired_at) {
            (Some(_), _) => "Destroyed",
            (None, Some(_)) => "Retired",
            (None, None) => "Current",
        };
        vec![
            or_dash(Some(&self.id)),
            self.purpose.as_str().to_lowercase(),
            state.to_owned(),
            or_dash(Some(&self.encrypted_by)),
            or_dash(self.version.as_deref()),
            age(self.inserted_at, now),
        ]
    }
}

impl Row for SecretHolding {
    const HEADINGS: (&'static [&'static str], usize) = (&["KIND", "BACKEND", "VALUES", "THINGS", "NAMES"], 5);

    fn id(&self) -> &str {
        self.kind.as_str()
    }

    fn name(&self) -> String {
        format!("secrets/{}", word(self.kind))
    }

    fn cells(&self, _now: DateTime<Utc>) -> Vec<String> {
        vec![
            word(self.kind),
            secret_backends::word(self.backend),
            self.values.to_string(),
            self.things.to_string(),
            or_dash(Some(&self.names.join(", "))),
        ]
    }
}

/// `helm-values`.
fn word(kind: SecretKind) -> String {
    kind.as_str().to_lowercase().replace('_', "-")
}

pub(crate) async fn run(
    command: DataKeyCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        DataKeyCommand::List(DataKeyListArgs { project, output }) => {
            let keys = match project {
                None => client.send(&ListInstallationDataKeys {}).await?,
                Some(project) => {
                    let id = key::project(client, &project).await?.id;
                    client.send(&ListProjectDataKeys { id }).await?.data_keys
                }
            };
            output::list(&keys, &output, NO_KEYS, terminal)
        }
        DataKeyCommand::Rotate(DataKeyRotateArgs { project, confirm, output }) => {
            let keys = match project {
                None => {
                    terminal.confirm("replace the data key of the installation", confirm.yes)?;
                    client.send(&RotateInstallationDataKey {}).await?
                }
                Some(project) => {
                    let project = key::project(client, &project).await?;
                    terminal.confirm(
                        &format!("replace the data keys of project {}", project.name),
                        confirm.yes,
                    )?;
                    client.send(&RotateProjectDataKeys { project_id: project.id }).await?
                }
            };
            output::list(&keys, &output, NO_KEYS, terminal)
        }
    }
}

/// All that the console says of a project, in as many answers as it takes. Each thing is in one of them.
async fn holdings(client: &Client, project: &str) -> Result<SecretHoldings, CliError> {
    let (mut all, mut after) = (Vec::<SecretHolding>::new(), None);
    let mut holds_some = false;
    loop {
        let found = client.send(&GetSecretHoldings { id: project.to_owned(), after: after.clone() }).await?;
        let found = found.secret_holdings;
        let found = found.ok_or_else(|| CliError::new("the console did not say what secrets it holds"))?;
        let SecretHoldings { holds_none, end_cursor, holdings } = found;
        holds_some |= holds_none == Some(false);
        for SecretHolding { kind, backend, values, things, names } in holdings {
            match all.iter_mut().find(|known| (known.kind, known.backend) == (kind, backend)) {
                None => all.push(SecretHolding { kind, backend, values, things, names }),
                Some(known) => {
                    known.values += values;
                    known.things += things;
                    let room = NAMES.saturating_sub(known.names.len());
                    known.names.extend(names.into_iter().take(room));
                }
            }
        }
        if end_cursor.is_none() {
            return Ok(SecretHoldings { holds_none: Some(!holds_some), end_cursor, holdings: all });
        }
        if end_cursor == after {
            return Err(CliError::new("the console says what secrets it holds without an end"));
        }
        after = end_cursor;
    }
}

/// `plural cd projects secrets`.
pub(crate) async fn secrets(
    args: ProjectSecretsArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let ProjectSecretsArgs { project, output } = args;
    let project = key::project(client, &project).await?;
    let found = holdings(client, &project.id).await?;
    if found.holds_none == Some(true) && matches!(output.output, Format::Table | Format::Wide) {
        terminal.say(format_args!("this console holds no secret of project {}", project.name));
    }
    if matches!(output.output, Format::Table | Format::Wide | Format::Name) {
        return output::list(&found.holdings, &output, "", terminal);
    }
    output::program_one(&found, &output.output, terminal)
}
