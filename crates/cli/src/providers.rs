//! `plural cd providers …`.

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use plural_wire::{
    Client, CreateIdentityProvider, DeleteIdentityProvider, GetIdentityProvider, IdentityProvider,
    IdentityProviderAttributes, IdentityProviderGroupAttributes, IdentityProviderUpdateAttributes,
    ListIdentityProviders, PAGE_SIZE, Secret, UpdateIdentityProvider, all_pages,
};

use crate::{
    args::{ConfirmArgs, OutputArgs},
    error::CliError,
    format::ListOutputArgs,
    groups,
    output::{self, Row, age, or_dash},
    terminal::Terminal,
};

const NOTHING: &str = "no identity providers found; `plural cd providers create NAME` makes one";

/// Identity providers that users sign in with (OpenID Connect): list, create, describe, update, delete
#[derive(Debug, Args)]
#[command(visible_alias = "provider", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct ProvidersArgs {
    #[command(subcommand)]
    pub(crate) command: ProviderCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProviderCommand {
    List(ProviderListArgs),
    Create(Box<ProviderCreateArgs>),
    Describe(ProviderDescribeArgs),
    Update(Box<ProviderUpdateArgs>),
    Delete(ProviderDeleteArgs),
}

/// List the identity providers
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd providers list"
)]
pub(crate) struct ProviderListArgs {
    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// What of a provider can change
#[derive(Debug, Args)]
pub(crate) struct ProviderSettingArgs {
    /// Ask the provider for this besides openid; may be given several times [default: email, profile]
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Option<Vec<String>>,

    /// The claim that lists a user's groups
    #[arg(long, value_name = "CLAIM")]
    pub(crate) groups_claim: Option<String>,

    /// Users with this group of the provider are members of this group of the console; may be given several times. All that are
    /// given replace those that there are
    #[arg(long = "group", value_name = "THEIRS=OURS", value_parser = parse_group)]
    pub(crate) groups: Option<Vec<(String, String)>>,

    /// The provider may vouch for e-mail addresses of this domain, "*" for all; may be given several times
    #[arg(long = "domain", value_name = "DOMAIN")]
    pub(crate) domains: Option<Vec<String>>,

    /// Create an account at first sign-in; otherwise only existing users can sign in
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) creates_users: Option<bool>,

    /// Read your password, and the client secret behind it unless the client is public, from lines of standard input
    #[arg(long)]
    pub(crate) stdin: bool,
}

/// Create an identity provider
///
/// Register the console at the provider first, with the redirect URI https://CONSOLE/auth/callback/NAME. You are asked for your own
/// password, since a provider can sign in as your users, and for the client secret.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd providers create acme --issuer https://id.example.com --client-id plural --domain example.com --creates-users
  plural cd providers create acme --issuer https://id.example.com/realms/main --client-id plural --domain example.com \\
      --groups-claim groups --group platform=admins --group dev=developers --stdin < secrets.txt   # two lines: password, secret")]
pub(crate) struct ProviderCreateArgs {
    /// Its name: lower case, part of the redirect URI
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Who it says it is, exactly as its /.well-known/openid-configuration says
    #[arg(long, value_name = "URL")]
    pub(crate) issuer: String,

    /// What it knows this console as
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: String,

    /// The client has no secret
    #[arg(long)]
    pub(crate) public: bool,

    #[command(flatten)]
    pub(crate) settings: ProviderSettingArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Show one identity provider
#[derive(Debug, Args)]
#[command(
    visible_alias = "get",
    after_help = "Examples:
  plural cd providers describe acme"
)]
pub(crate) struct ProviderDescribeArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Change an identity provider
///
/// Options that you leave out keep their value. You are asked for your own password.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd providers update acme --domain example.com --domain example.org
  plural cd providers update acme --new-secret")]
pub(crate) struct ProviderUpdateArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// What it knows this console as
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,

    /// Ask for another client secret
    #[arg(long)]
    pub(crate) new_secret: bool,

    #[command(flatten)]
    pub(crate) settings: ProviderSettingArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Delete an identity provider: who signed in with it is signed out, and leaves the groups that it gave
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd providers delete acme --yes")]
pub(crate) struct ProviderDeleteArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

fn parse_group(text: &str) -> Result<(String, String), String> {
    // A group of ours has no "=" in its name more often than one of theirs, such as CN=ops,DC=example.
    match text.rsplit_once('=') {
        Some((theirs, ours)) if !theirs.is_empty() && !ours.is_empty() => {
            Ok((theirs.to_owned(), ours.to_owned()))
        }
        _ => Err("must be THEIRS=OURS".to_owned()),
    }
}

impl Row for IdentityProvider {
    const HEADINGS: (&'static [&'static str], usize) = (&["NAME", "ISSUER", "DOMAINS", "AGE", "ID"], 4);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("provider/{}", self.name)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        vec![
            or_dash(Some(&self.name)),
            or_dash(Some(&self.issuer)),
            or_dash(Some(&self.domains.join(", "))),
            age(self.inserted_at, now),
            self.id.clone(),
        ]
    }
}

async fn find(name: &str, client: &Client) -> Result<IdentityProvider, CliError> {
    let name = name.strip_prefix("provider/").unwrap_or(name).to_owned();
    client.send(&GetIdentityProvider { name: name.clone() }).await.map_err(|error| {
        let hint = "`plural cd providers list` shows the identity providers";
        CliError::absent(error, || CliError::missing(format_args!("identity provider {name:?}"), hint))
    })
}

pub(crate) async fn run(
    command: ProviderCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        ProviderCommand::List(ProviderListArgs { output }) => {
            let providers =
                all_pages(client, |after| ListIdentityProviders { after, first: PAGE_SIZE }).await?;
            output::list(&providers, &output, NOTHING, terminal)
        }
        ProviderCommand::Create(args) => create(*args, client, terminal).await,
        ProviderCommand::Describe(ProviderDescribeArgs { name, output }) => {
            let provider = find(&name, client).await?;
            output::described(&provider, &provider, &output.output, terminal, || {
                description(&provider, client.url())
            })
        }
        ProviderCommand::Update(args) => update(*args, client, terminal).await,
        ProviderCommand::Delete(ProviderDeleteArgs { name, confirm }) => {
            let provider = find(&name, client).await?;
            let what =
                format!("delete identity provider {} and sign out who signed in with it", provider.name);
            terminal.confirm(&what, confirm.yes)?;
            client.send(&DeleteIdentityProvider { id: provider.id }).await?;
            terminal.say(format_args!("identity provider {} deleted", provider.name));
            Ok(())
        }
    }
}

/// The caller's password, and the client secret where one is wanted.
fn secrets(
    stdin: bool,
    wanted: bool,
    terminal: &mut Terminal<'_>,
) -> Result<(Secret, Option<Secret>), CliError> {
    let mut secret = |question: &str| {
        let text = if stdin {
            terminal.line()?
        } else {
            let hint = "pipe your password and the client secret in, a line each, with --stdin";
            terminal.ask_secret(question).map_err(|error| error.hint(hint))?
        };
        Ok::<_, CliError>(Secret::new(text.trim_end_matches(['\r', '\n'])))
    };
    let own = secret("Your password")?;
    let client = if wanted { Some(secret("Client secret")?) } else { None };
    Ok((own, client))
}

/// Groups of ours are named, and told to the console by id.
async fn mapped(
    groups: Option<Vec<(String, String)>>,
    client: &Client,
) -> Result<Option<Vec<IdentityProviderGroupAttributes>>, CliError> {
    let Some(groups) = groups else { return Ok(None) };
    let mut mapped = Vec::with_capacity(groups.len());
    for (claim, ours) in groups {
        let group_id = groups::find(&ours, client).await?.id;
        mapped.push(IdentityProviderGroupAttributes { claim, group_id });
    }
    Ok(Some(mapped))
}

async fn create(
    args: ProviderCreateArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let ProviderCreateArgs { name, issuer, client_id, public, settings, output } = args;
    let ProviderSettingArgs { scopes, groups_claim, groups, domains, creates_users, stdin } = settings;
    let groups = mapped(groups, client).await?;
    let (own, client_secret) = secrets(stdin, !public, terminal)?;
    let attributes = IdentityProviderAttributes {
        name,
        issuer,
        client_id,
        client_secret,
        scopes,
        groups_claim,
        groups,
        domains,
        creates_users,
    };
    let made = client.send(&CreateIdentityProvider { attributes, current_password: Some(own) }).await?;
    let url = client.url().trim_end_matches('/');
    terminal.say(format_args!("its redirect URI is {url}/auth/callback/{}", made.name));
    output::item(&made, &output.output, terminal)
}

async fn update(
    args: ProviderUpdateArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let ProviderUpdateArgs { name, client_id, new_secret, settings, output } = args;
    let ProviderSettingArgs { scopes, groups_claim, groups, domains, creates_users, stdin } = settings;
    let id = find(&name, client).await?.id;
    let groups = mapped(groups, client).await?;
    let (own, client_secret) = secrets(stdin, new_secret, terminal)?;
    let attributes = IdentityProviderUpdateAttributes {
        client_id,
        client_secret,
        scopes,
        groups_claim,
        groups,
        domains,
        creates_users,
    };
    let change = UpdateIdentityProvider { id, attributes, current_password: Some(own) };
    output::item(&client.send(&change).await?, &output.output, terminal)
}

fn description(provider: &IdentityProvider, url: &str) -> String {
    let line = |name: &str, value: String| vec![format!("{name}:"), value];
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let redirect = format!("{}/auth/callback/{}", url.trim_end_matches('/'), provider.name);
    let mut lines = vec![
        line("Provider", or_dash(Some(&provider.name))),
        line("Id", provider.id.clone()),
        line("Issuer", or_dash(Some(&provider.issuer))),
        line("Redirect URI", redirect),
        line("Client", or_dash(Some(&provider.client_id))),
        line("Secret", yes(provider.has_secret)),
        line("Scopes", or_dash(Some(&provider.scopes.join(", ")))),
        line("Domains", or_dash(Some(&provider.domains.join(", ")))),
        line("Creates users", yes(provider.creates_users)),
        line("Groups claim", or_dash(provider.groups_claim.as_deref())),
    ];
    for (place, mapped) in provider.groups.iter().enumerate() {
        let name = if place == 0 { "Groups:" } else { "" };
        let ours = mapped.group.as_ref().map_or("(deleted)", |group| group.name.as_str());
        lines.push(vec![name.to_owned(), format!("{} = {ours}", or_dash(Some(&mapped.claim)))]);
    }
    output::columns(&lines, 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_pairs() {
        let pair = |text: &str| parse_group(text).ok();
        assert_eq!(pair("ops=admins"), Some(("ops".into(), "admins".into())));
        assert_eq!(pair("CN=ops,DC=example=admins"), Some(("CN=ops,DC=example".into(), "admins".into())));
        for bad in ["ops", "=admins", "ops=", ""] {
            assert_eq!(pair(bad), None, "{bad}");
        }
    }
}
