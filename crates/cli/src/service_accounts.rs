//! `plural cd service-accounts …`.

use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use plural_wire::{
    Client, CreateServiceAccount, CreateServiceAccountToken, DeleteServiceAccount, EndServiceAccountTokens,
    ListServiceAccounts, PAGE_SIZE, PolicyBindingAttributes, ServiceAccount, ServiceAccountAttributes,
    UpdateServiceAccount, all_pages,
};

use crate::{
    args::{ConfirmArgs, ListOutputArgs, OutputArgs},
    error::CliError,
    groups,
    key::{self, parse_lifetime},
    output::{self, MadeToken, Row, age, or_dash},
    proof::{Proof, send_proven},
    terminal::Terminal,
    users,
};

const NOTHING: &str =
    "no service accounts; `plural cd service-accounts create NAME --project PROJECT` makes one";

/// Service accounts, users that are machines: list, create, update, delete, token, end-tokens
#[derive(Debug, Args)]
#[command(visible_alias = "service-account", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct ServiceAccountsArgs {
    #[command(subcommand)]
    pub(crate) command: ServiceAccountCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ServiceAccountCommand {
    List(ServiceAccountListArgs),
    Create(ServiceAccountCreateArgs),
    Update(ServiceAccountUpdateArgs),
    Delete(ServiceAccountDeleteArgs),
    Token(ServiceAccountTokenArgs),
    EndTokens(ServiceAccountEndTokensArgs),
}

/// List the service accounts of the projects that you may read, and those that you may assume
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd service-accounts list"
)]
pub(crate) struct ServiceAccountListArgs {
    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Who may assume an account
#[derive(Debug, Args)]
pub(crate) struct AssumeArgs {
    /// E-mail address of a user who may assume it; may be given several times
    #[arg(long = "user", value_name = "EMAIL")]
    pub(crate) users: Vec<String>,

    /// Name of a group that may assume it; may be given several times
    #[arg(long = "group", value_name = "NAME")]
    pub(crate) groups: Vec<String>,
}

/// Create a service account that a project owns
///
/// It may read and change nothing: `plural cd access grant` decides that, by its address. Administrators of the project may assume
/// it, and whoever --user and --group name.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd service-accounts create deployer --project shop --email deployer@shop.example.com --group shop-team")]
pub(crate) struct ServiceAccountCreateArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// The project that owns it: its name or id; else the default one
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,

    /// Its address, unique among all users; else one is made up
    #[arg(long, value_name = "EMAIL")]
    pub(crate) email: Option<String>,

    #[command(flatten)]
    pub(crate) assume: AssumeArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Change the name of a service account, or who may assume it
///
/// --user and --group replace all who may assume it. Their tokens of it stay: `plural cd service-accounts end-tokens` ends them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd service-accounts update deployer@shop.example.com --group shop-team --user ada@example.com")]
pub(crate) struct ServiceAccountUpdateArgs {
    /// Its e-mail address or id
    #[arg(value_name = "ACCOUNT")]
    pub(crate) account: String,

    /// A new name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    #[command(flatten)]
    pub(crate) assume: AssumeArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Delete a service account: its tokens end
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd service-accounts delete deployer@shop.example.com --yes")]
pub(crate) struct ServiceAccountDeleteArgs {
    /// Its e-mail address or id
    #[arg(value_name = "ACCOUNT")]
    pub(crate) account: String,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

/// Create an access token of a service account and print it
///
/// For those who may assume it. A token that lasts no longer than your login ends with the login; one that outlasts it needs your
/// password. What is done with the token is in the audit log under the account's name and yours.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd service-accounts token deployer@shop.example.com --valid-for 1h
  plural cd service-accounts token deployer@shop.example.com --password-stdin < password.txt > token.txt")]
pub(crate) struct ServiceAccountTokenArgs {
    /// Its e-mail address or id
    #[arg(value_name = "ACCOUNT")]
    pub(crate) account: String,

    /// How long it holds: 90m, 8h, 720h; until it is revoked when absent
    #[arg(long, value_parser = parse_lifetime, value_name = "DURATION")]
    pub(crate) valid_for: Option<Duration>,

    /// Read your password from standard input instead of asking
    #[arg(long)]
    pub(crate) password_stdin: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// End all access tokens of a service account
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd service-accounts end-tokens deployer@shop.example.com --yes")]
pub(crate) struct ServiceAccountEndTokensArgs {
    /// Its e-mail address or id
    #[arg(value_name = "ACCOUNT")]
    pub(crate) account: String,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

impl Row for ServiceAccount {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["EMAIL", "NAME", "PROJECT", "ASSUMED BY", "AGE", "ID"], 5);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("serviceaccount/{}", self.email)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        let assume =
            self.assume_bindings.iter().filter_map(|binding| match (&binding.user, &binding.group) {
                (Some(user), _) => Some(user.email.as_str()),
                (None, Some(group)) => Some(group.name.as_str()),
                (None, None) => None,
            });
        vec![
            or_dash(Some(&self.email)),
            or_dash(Some(&self.name)),
            or_dash(self.project.as_ref().map(|project| project.name.as_str())),
            or_dash(Some(&assume.collect::<Vec<_>>().join(", "))),
            age(self.inserted_at, now),
            self.id.clone(),
        ]
    }
}

/// The account of this address or id, among those that the caller may see.
pub(crate) async fn find(account: &str, client: &Client) -> Result<ServiceAccount, CliError> {
    let account = key::bare_id("serviceaccount", account);
    let q = (!key::is_id(account)).then(|| account.to_owned());
    let list = |after| ListServiceAccounts { after, first: PAGE_SIZE, q: q.clone() };
    let all: Vec<ServiceAccount> = all_pages(client, list).await?;
    let is_it = |one: &ServiceAccount| one.id == account || one.email.eq_ignore_ascii_case(account);
    all.into_iter().find(is_it).ok_or_else(|| {
        let hint = "`plural cd service-accounts list` shows those that you may see";
        CliError::missing(format_args!("service account {account:?}"), hint)
    })
}

async fn subjects(
    AssumeArgs { users, groups }: &AssumeArgs,
    client: &Client,
) -> Result<Option<Vec<PolicyBindingAttributes>>, CliError> {
    let mut subjects = Vec::new();
    for email in users {
        let user_id = Some(users::find(email, client).await?.id);
        subjects.push(PolicyBindingAttributes { user_id, ..PolicyBindingAttributes::default() });
    }
    for name in groups {
        let group_id = Some(groups::find(name, client).await?.id);
        subjects.push(PolicyBindingAttributes { group_id, ..PolicyBindingAttributes::default() });
    }
    Ok((!subjects.is_empty()).then_some(subjects))
}

pub(crate) async fn run(
    command: ServiceAccountCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        ServiceAccountCommand::List(ServiceAccountListArgs { output }) => {
            let list = |after| ListServiceAccounts { after, first: PAGE_SIZE, q: None };
            output::list(&all_pages(client, list).await?, &output, NOTHING, terminal)
        }
        ServiceAccountCommand::Create(ServiceAccountCreateArgs { name, project, email, assume, output }) => {
            let project_id = key::project_id(client, project.as_deref()).await?;
            let assume_bindings = subjects(&assume, client).await?;
            let attributes = ServiceAccountAttributes {
                name: Some(name),
                email,
                assume_bindings,
                project_id,
                ..ServiceAccountAttributes::default()
            };
            let made = client.send(&CreateServiceAccount { attributes }).await?;
            output::item(&made, &output.output, terminal)
        }
        ServiceAccountCommand::Update(ServiceAccountUpdateArgs { account, name, assume, output }) => {
            let assume_bindings = subjects(&assume, client).await?;
            if name.is_none() && assume_bindings.is_none() {
                return Err(CliError::unchanged_flags("service-accounts"));
            }
            let id = find(&account, client).await?.id;
            let attributes =
                ServiceAccountAttributes { name, assume_bindings, ..ServiceAccountAttributes::default() };
            let changed = client.send(&UpdateServiceAccount { id, attributes }).await?;
            output::item(&changed, &output.output, terminal)
        }
        ServiceAccountCommand::Delete(ServiceAccountDeleteArgs { account, confirm }) => {
            let account = find(&account, client).await?;
            terminal.confirm(&format!("delete service account {}", account.email), confirm.yes)?;
            client.send(&DeleteServiceAccount { id: account.id }).await?;
            terminal.say(format_args!("service account {} deleted", account.email));
            Ok(())
        }
        ServiceAccountCommand::Token(args) => token(args, client, terminal).await,
        ServiceAccountCommand::EndTokens(ServiceAccountEndTokensArgs { account, confirm }) => {
            let account = find(&account, client).await?;
            terminal.confirm(&format!("end all tokens of {}", account.email), confirm.yes)?;
            let ended = client.send(&EndServiceAccountTokens { id: account.id }).await?;
            let ended = usize::try_from(ended).unwrap_or_default();
            terminal.say(format_args!("{} of {} ended", output::counted(ended, "token"), account.email));
            Ok(())
        }
    }
}

async fn token(
    args: ServiceAccountTokenArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let ServiceAccountTokenArgs { account, valid_for, password_stdin, output } = args;
    let output = output.shown_once()?;
    let proof = Proof {
        stdin: password_stdin,
        why: "a token that outlasts this login needs your password",
        hint: "add --password-stdin and pipe your password in, or --valid-for with a time within that of your login",
    };
    let request = CreateServiceAccountToken {
        id: find(&account, client).await?.id,
        scopes: None,
        // Whole minutes: what is shorter is a minute.
        expiry: valid_for.map(|time| format!("{}m", time.as_secs().div_ceil(60).max(1))),
        current_password: None,
    };
    let made =
        send_proven(request, |request| &mut request.current_password, &proof, client, terminal).await?;
    let token = made.token.ok_or_else(|| CliError::new("the console created no access token"))?;
    match made.expires_at {
        Some(at) => terminal.say(format_args!("valid until {}", at.to_rfc3339())),
        None => terminal.say("valid until it is revoked"),
    }
    let id = made.id.as_deref().unwrap_or_default();
    let told = MadeToken { id, token: token.expose(), expires_at: made.expires_at };
    output::told_once(&told, token.expose(), &[token.expose()], &output, terminal)
}
