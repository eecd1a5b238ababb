//! `plural cd registration-tokens …`.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use clap::{Args, Subcommand};
use plural_wire::{
    BootstrapToken, BootstrapTokenAttributes, Client, CreateBootstrapToken, DeleteBootstrapToken,
    ListBootstrapTokens, PAGE_SIZE, Tag, all_pages,
};

use crate::{
    args::{ConfirmArgs, ListOutputArgs, OutputArgs},
    error::CliError,
    key::{self, parse_lifetime, parse_pair},
    output::{self, MadeToken, Row, age, or_dash},
    proof::{Proof, send_proven},
    service_accounts,
    terminal::Terminal,
};

const NOTHING: &str =
    "no registration tokens; `plural cd registration-tokens create --project PROJECT` makes one";

/// Registration tokens, with which machines make clusters of one project and do nothing else: list, create, delete
#[derive(Debug, Args)]
#[command(visible_alias = "registration-token", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct RegistrationTokensArgs {
    #[command(subcommand)]
    pub(crate) command: RegistrationTokenCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RegistrationTokenCommand {
    List(RegistrationTokenListArgs),
    Create(RegistrationTokenCreateArgs),
    Delete(RegistrationTokenDeleteArgs),
}

/// List the registration tokens of the projects that you may see
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd registration-tokens list
  plural cd registration-tokens list --project edge -o json"
)]
pub(crate) struct RegistrationTokenListArgs {
    /// Only those of this project (name or id)
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Create a registration token and print it
///
/// It goes into a machine image or a provisioning tool: `plural cd clusters bootstrap NAME --token-file FILE` makes a cluster of the
/// project with it. It reads nothing and changes nothing else. It does no more than you may do: it makes no cluster once you may not.
/// With --service-account, that account counts in your place.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd registration-tokens create --project edge --valid-for 720h > token.txt
  plural cd registration-tokens create --project edge --name shops --limit 200 --prefix shop- --tag stage=edge \\
    --service-account registrar@shop.example.com > token.txt")]
pub(crate) struct RegistrationTokenCreateArgs {
    /// Project that its clusters belong to (name or id)
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: String,

    /// A name for people
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// How long it holds: 90m, 8h, 720h; thirty days when absent, 8784h at most
    #[arg(long, value_parser = parse_lifetime, value_name = "DURATION")]
    pub(crate) valid_for: Option<Duration>,

    /// Clusters that it makes at most
    #[arg(long, value_name = "COUNT")]
    pub(crate) limit: Option<i64>,

    /// How the handles of its clusters begin: put before those that do not
    #[arg(long, value_name = "PREFIX")]
    pub(crate) prefix: Option<String>,

    /// Tag that its clusters get; may be given several times
    #[arg(long = "tag", value_parser = parse_pair, value_name = "NAME=VALUE")]
    pub(crate) tags: Vec<(String, String)>,

    /// In whose name it makes clusters: the e-mail address or id of a service account that you may assume
    #[arg(long, value_name = "ACCOUNT")]
    pub(crate) service_account: Option<String>,

    /// Read your password from standard input instead of asking
    #[arg(long)]
    pub(crate) password_stdin: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Revoke a registration token
///
/// The clusters that were made with it stay.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd registration-tokens delete 0190b8a2-7c11-7def-8000-0123456789ab --yes")]
pub(crate) struct RegistrationTokenDeleteArgs {
    /// Its id, as `plural cd registration-tokens list` shows it
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

impl Row for BootstrapToken {
    const HEADINGS: (&'static [&'static str], usize) = (
        &[
            "NAME",
            "HINT",
            "PROJECT",
            "USES",
            "LAST USED",
            "EXPIRES",
            "MADE FOR",
            "PREFIX",
            "TAGS",
            "AGE",
            "ID",
        ],
        7,
    );

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("registrationtoken/{}", self.id)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        let uses = self.uses.unwrap_or_default();
        let tags: Vec<String> = self.tags.iter().map(|tag| format!("{}={}", tag.name, tag.value)).collect();
        vec![
            or_dash(self.name.as_deref()),
            or_dash(self.hint.as_deref()),
            or_dash(self.project.as_ref().map(|project| project.name.as_str())),
            match self.limit {
                Some(limit) => format!("{uses} of {limit}"),
                None => uses.to_string(),
            },
            age(self.last_used_at, now),
            or_dash(self.expires_at.map(|at| at.to_rfc3339_opts(SecondsFormat::Secs, true)).as_deref()),
            or_dash(self.user.as_ref().map(|user| user.email.as_str())),
            or_dash(self.prefix.as_deref()),
            or_dash(Some(&tags.join(","))),
            age(self.inserted_at, now),
            self.id.clone(),
        ]
    }
}

pub(crate) async fn run(
    command: RegistrationTokenCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        RegistrationTokenCommand::List(RegistrationTokenListArgs { project, output }) => {
            let project_id = key::project_id(client, project.as_deref()).await?;
            let list =
                |after| ListBootstrapTokens { after, first: PAGE_SIZE, project_id: project_id.clone() };
            let all: Vec<BootstrapToken> = all_pages(client, list).await?;
            output::list(&all, &output, NOTHING, terminal)
        }
        RegistrationTokenCommand::Create(args) => create(args, client, terminal).await,
        RegistrationTokenCommand::Delete(RegistrationTokenDeleteArgs { id, confirm }) => {
            let id = key::bare_id("registrationtoken", &id).to_owned();
            terminal.confirm(&format!("revoke registration token {id}"), confirm.yes)?;
            client.send(&DeleteBootstrapToken { id: id.clone() }).await.map_err(|error| {
                let hint = "`plural cd registration-tokens list` shows those you may see";
                CliError::absent(error, || CliError::missing(format_args!("registration token {id:?}"), hint))
            })?;
            terminal.say(format_args!("registration token {id} revoked"));
            Ok(())
        }
    }
}

async fn create(
    args: RegistrationTokenCreateArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let RegistrationTokenCreateArgs {
        project,
        name,
        valid_for,
        limit,
        prefix,
        tags,
        service_account,
        password_stdin,
        output,
    } = args;
    let output = output.shown_once()?;
    let user_id = match service_account {
        Some(account) => Some(service_accounts::find(&account, client).await?.id),
        None => None,
    };
    let tags: Vec<Tag> = tags.into_iter().map(|(name, value)| Tag { name, value }).collect();
    let attributes = BootstrapTokenAttributes {
        project_id: key::project(client, &project).await?.id,
        user_id,
        name,
        // Whole minutes: what is shorter is a minute.
        expiry: valid_for.map(|time| format!("{}m", time.as_secs().div_ceil(60).max(1))),
        limit,
        prefix,
        tags: (!tags.is_empty()).then_some(tags),
    };
    let proof = Proof {
        stdin: password_stdin,
        why: "a registration token that outlasts this login needs your password",
        hint: "add --password-stdin and pipe your password in, or --valid-for with a time within that of your login",
    };
    let request = CreateBootstrapToken { attributes, current_password: None };
    let made =
        send_proven(request, |request| &mut request.current_password, &proof, client, terminal).await?;
    let token = made.token.ok_or_else(|| CliError::new("the console created no registration token"))?;
    if let Some(at) = made.expires_at {
        terminal.say(format_args!("valid until {}", at.to_rfc3339_opts(SecondsFormat::Secs, true)));
    }
    let told = MadeToken { id: &made.id, token: token.expose(), expires_at: made.expires_at };
    output::told_once(&told, token.expose(), &[token.expose()], &output, terminal)
}
