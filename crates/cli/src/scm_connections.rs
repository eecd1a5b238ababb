//! `plural cd scm-connections …`.

use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand, ValueEnum};
use plural_wire::{
    AzureDevopsAttributes, BitbucketDatacenterAttributes, Client, CreateScmConnection, DeleteScmConnection,
    GetScmConnection, GithubAppAttributes, HttpProxyAttributes, ListScmConnections, PAGE_SIZE, ScmConnection,
    ScmConnectionAttributes, ScmType, Secret, UpdateScmConnection, all_pages,
};

use crate::{
    args::{ConfirmArgs, OutputArgs},
    error::CliError,
    file,
    format::ListOutputArgs,
    key,
    output::{self, Row, age, or_dash},
    terminal::Terminal,
};

const NOTHING: &str = "no connections found; `plural cd scm-connections create NAME` makes one";

/// Connections to git hosts, with which pull requests are opened: list, create, describe, update, delete
#[derive(Debug, Args)]
#[command(visible_alias = "scm-connection", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct ScmConnectionsArgs {
    #[command(subcommand)]
    pub(crate) command: ScmConnectionCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScmConnectionCommand {
    List(ScmConnectionListArgs),
    Create(Box<ScmConnectionCreateArgs>),
    Describe(ScmConnectionDescribeArgs),
    Update(Box<ScmConnectionUpdateArgs>),
    Delete(ScmConnectionDeleteArgs),
}

/// List the connections that you may see
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd scm-connections list
  plural cd scm-connections list -o json"
)]
pub(crate) struct ScmConnectionListArgs {
    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// What kind of git host it is
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TypeArg {
    /// GitHub, also GitHub Enterprise
    Github,
    /// GitLab
    Gitlab,
    /// Bitbucket Cloud
    Bitbucket,
    /// Bitbucket Data Center
    BitbucketDatacenter,
    /// Azure DevOps
    AzureDevops,
    /// Gitea, or Forgejo
    Gitea,
    /// Git alone, without pull requests
    Plain,
}

impl From<TypeArg> for ScmType {
    fn from(kind: TypeArg) -> Self {
        match kind {
            TypeArg::Github => Self::Github,
            TypeArg::Gitlab => Self::Gitlab,
            TypeArg::Bitbucket => Self::Bitbucket,
            TypeArg::BitbucketDatacenter => Self::BitbucketDatacenter,
            TypeArg::AzureDevops => Self::AzureDevops,
            TypeArg::Gitea => Self::Gitea,
            TypeArg::Plain => Self::Plain,
        }
    }
}

/// How the host is reached, and what of it may be touched
#[derive(Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct ScmReachArgs {
    /// A repository that may be touched, as acme/shop, acme/* or acme/**; may be given several times. All that are given replace
    /// those that there are; without any, none may be touched
    #[arg(long = "repository", value_name = "PATTERN")]
    pub(crate) repositories: Option<Vec<String>>,

    /// Organization, group or user that is meant where a repository is named without one
    #[arg(long, value_name = "OWNER")]
    pub(crate) owner: Option<String>,

    /// Who signs in, where the host wants to know besides the token
    #[arg(long, value_name = "USER")]
    pub(crate) username: Option<String>,

    /// Where repositories are cloned from, in place of the host's own address; of plain git ssh://USER@HOST/PATH, too
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) base_url: Option<String>,

    /// Where the API is, in place of the host's own address
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) api_url: Option<String>,

    /// The connection is meant where none is named
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) default: Option<bool>,

    /// File with the token or password, or - for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// GitHub App that signs in, in place of a token: its number
    #[arg(long, value_name = "NUMBER", requires = "installation_id")]
    pub(crate) app_id: Option<String>,

    /// Number of the App's installation
    #[arg(long, value_name = "NUMBER", requires = "app_id")]
    pub(crate) installation_id: Option<String>,

    /// File with the App's private key, or - for standard input
    #[arg(long, value_name = "FILE", requires = "app_id")]
    pub(crate) app_key_file: Option<PathBuf>,

    /// Organization of Azure DevOps
    #[arg(long, value_name = "NAME", requires_all = ["azure_project", "azure_username"])]
    pub(crate) azure_organization: Option<String>,

    /// Project of Azure DevOps
    #[arg(long, value_name = "NAME", requires = "azure_organization")]
    pub(crate) azure_project: Option<String>,

    /// Who signs in at Azure DevOps
    #[arg(long, value_name = "USER", requires = "azure_organization")]
    pub(crate) azure_username: Option<String>,

    /// Slug of the user that signs in at Bitbucket Data Center
    #[arg(long, value_name = "SLUG")]
    pub(crate) user_slug: Option<String>,

    /// File with the private key that commits are signed with, or - for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) signing_key_file: Option<PathBuf>,

    /// File with the private key that signs in at an ssh address of plain git, or - for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) ssh_key_file: Option<PathBuf>,

    /// File with the passphrase of that key, or - for standard input
    #[arg(long, value_name = "FILE", requires = "ssh_key_file")]
    pub(crate) ssh_passphrase_file: Option<PathBuf>,

    /// File with the only ssh host keys that are accepted, as in known_hosts, or - for standard input; else the first one seen is kept
    #[arg(long, value_name = "FILE")]
    pub(crate) known_hosts: Option<PathBuf>,

    /// File with the address of a proxy, which may hold a password, or - for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) proxy_file: Option<PathBuf>,
}

/// Create a connection to a git host
///
/// Secrets come from files or standard input, so that they never stand on the command line. Without --repository the connection may touch
/// no repository.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd scm-connections create github --type github --repository 'acme/*' --token-file token.txt
  plural cd scm-connections create app --type github --app-id 12 --installation-id 34 --app-key-file app.pem --repository acme/infra
  plural cd scm-connections create gitea --type gitea --base-url https://git.example.com --project shop --repository 'shop/**' \\
      --token-file - < token.txt
  plural cd scm-connections create plain --type plain --base-url ssh://git@git.example.com/srv --repository 'acme/*' \\
      --ssh-key-file deploy --known-hosts known_hosts")]
pub(crate) struct ScmConnectionCreateArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// What kind of git host it is
    #[arg(long = "type", value_enum, value_name = "TYPE")]
    pub(crate) kind: TypeArg,

    /// Project that it belongs to (name or id); else the whole installation, which is for administrators
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,

    #[command(flatten)]
    pub(crate) reach: ScmReachArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Show one connection; its secrets are never shown
#[derive(Debug, Args)]
#[command(
    visible_alias = "get",
    after_help = "Examples:
  plural cd scm-connections describe github
  plural cd scm-connections describe github -o json"
)]
pub(crate) struct ScmConnectionDescribeArgs {
    /// Its name or id
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Change a connection
///
/// Options that you leave out keep their value. Where an address, the proxy or the ssh host keys change, the token, the App's key or the ssh
/// key has to be given again: it would be sent elsewhere.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd scm-connections update github --token-file token.txt
  plural cd scm-connections update github --repository 'acme/*' --repository other/infra
  plural cd scm-connections update github --no-proxy --token-file token.txt")]
pub(crate) struct ScmConnectionUpdateArgs {
    /// Its name or id
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// A new name
    #[arg(long, value_name = "NAME")]
    pub(crate) rename: Option<String>,

    /// Forget the token
    #[arg(long, conflicts_with = "token_file")]
    pub(crate) no_token: bool,

    /// Forget the key that commits are signed with
    #[arg(long, conflicts_with = "signing_key_file")]
    pub(crate) no_signing_key: bool,

    /// Forget the ssh key and its passphrase, for an address that is not of ssh any more
    #[arg(long, conflicts_with = "ssh_key_file")]
    pub(crate) no_ssh_key: bool,

    /// Forget the ssh host keys: the first one that is seen is kept
    #[arg(long, conflicts_with = "known_hosts")]
    pub(crate) no_known_hosts: bool,

    /// Go through no proxy
    #[arg(long, conflicts_with = "proxy_file")]
    pub(crate) no_proxy: bool,

    #[command(flatten)]
    pub(crate) reach: ScmReachArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Delete a connection with its secrets
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd scm-connections delete github
  plural cd scm-connections delete github --yes")]
pub(crate) struct ScmConnectionDeleteArgs {
    /// Its name or id
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

impl Row for ScmConnection {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["NAME", "TYPE", "PROJECT", "DEFAULT", "REPOSITORIES", "AGE", "ID"], 6);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("scm-connection/{}", self.name)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        vec![
            or_dash(Some(&self.name)),
            self.kind.as_str().to_owned(),
            or_dash(self.project.as_ref().map(|project| project.name.as_str())),
            yes(self.default == Some(true)),
            or_dash(Some(&self.repositories.join(", "))),
            age(self.inserted_at, now),
            self.id.clone(),
        ]
    }
}

fn yes(is: bool) -> String {
    if is { "yes" } else { "no" }.to_owned()
}

pub(crate) async fn find(name: &str, client: &Client) -> Result<ScmConnection, CliError> {
    let text = name.strip_prefix("scm-connection/").unwrap_or(name);
    let (id, name) = key::id_or_name(text);
    client.send(&GetScmConnection { id, name }).await.map_err(|error| {
        let hint = "`plural cd scm-connections list` shows those that you may see";
        CliError::absent(error, || CliError::missing(format_args!("connection {text:?}"), hint))
    })
}

pub(crate) async fn run(
    command: ScmConnectionCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        ScmConnectionCommand::List(ScmConnectionListArgs { output }) => {
            let all = all_pages(client, |after| ListScmConnections { after, first: PAGE_SIZE }).await?;
            output::list(&all, &output, NOTHING, terminal)
        }
        ScmConnectionCommand::Create(args) => create(*args, client, terminal).await,
        ScmConnectionCommand::Describe(ScmConnectionDescribeArgs { name, output }) => {
            let connection = find(&name, client).await?;
            output::described(&connection, &connection, &output.output, terminal, || description(&connection))
        }
        ScmConnectionCommand::Update(args) => update(*args, client, terminal).await,
        ScmConnectionCommand::Delete(ScmConnectionDeleteArgs { name, confirm }) => {
            let connection = find(&name, client).await?;
            let what = format!("delete connection {} with its secrets", connection.name);
            terminal.confirm(&what, confirm.yes)?;
            client.send(&DeleteScmConnection { id: connection.id }).await?;
            terminal.say(format_args!("connection {} deleted", connection.name));
            Ok(())
        }
    }
}

async fn create(
    args: ScmConnectionCreateArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let ScmConnectionCreateArgs { name, kind, project, reach, output } = args;
    let touches_none = reach.repositories.is_none();
    let mut attributes = attributes(name, kind.into(), reach, terminal)?;
    if let Some(project) = &project {
        attributes.project_id = Some(key::project(client, project).await?.id);
    }
    let made = client.send(&CreateScmConnection { attributes }).await?;
    if touches_none {
        terminal.say(
            "it may touch no repository yet: `plural cd scm-connections update NAME --repository PATTERN` lets it",
        );
    }
    output::item(&made, &output.output, terminal)
}

async fn update(
    args: ScmConnectionUpdateArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let ScmConnectionUpdateArgs {
        name,
        rename,
        no_token,
        no_signing_key,
        no_ssh_key,
        no_known_hosts,
        no_proxy,
        reach,
        output,
    } = args;
    let ends = no_token || no_signing_key || no_ssh_key || no_known_hosts || no_proxy;
    if rename.is_none() && !ends && reach == ScmReachArgs::default() {
        return Err(CliError::usage("nothing to change")
            .hint("see the examples of `plural cd scm-connections update --help`"));
    }
    let known = find(&name, client).await?;
    let mut attributes = attributes(rename.unwrap_or(known.name), known.kind, reach, terminal)?;
    // An empty text ends what there is.
    let end = || Secret::new("");
    if no_token {
        attributes.token = Some(end());
    }
    if no_signing_key {
        attributes.signing_private_key = Some(end());
    }
    if no_ssh_key {
        attributes.ssh_private_key = Some(end());
    }
    if no_known_hosts {
        attributes.known_hosts = Some(String::new());
    }
    if no_proxy {
        attributes.proxy = Some(HttpProxyAttributes { url: end(), noproxy: None });
    }
    let changed = client.send(&UpdateScmConnection { id: known.id, attributes }).await?;
    output::item(&changed, &output.output, terminal)
}

/// What is told to the console of a connection.
fn attributes(
    name: String,
    kind: ScmType,
    reach: ScmReachArgs,
    terminal: &mut Terminal<'_>,
) -> Result<ScmConnectionAttributes, CliError> {
    let ScmReachArgs {
        repositories,
        owner,
        username,
        base_url,
        api_url,
        default,
        token_file,
        app_id,
        installation_id,
        app_key_file,
        azure_organization,
        azure_project,
        azure_username,
        user_slug,
        signing_key_file,
        ssh_key_file,
        ssh_passphrase_file,
        known_hosts,
        proxy_file,
    } = reach;
    let from_input = [
        &token_file,
        &app_key_file,
        &signing_key_file,
        &ssh_key_file,
        &ssh_passphrase_file,
        &known_hosts,
        &proxy_file,
    ];
    let from_input = from_input.into_iter().filter(|path| path.as_deref() == Some(Path::new("-")));
    if from_input.count() > 1 {
        return Err(
            CliError::usage("only one file can come from standard input").hint("give the others as files")
        );
    }
    let mut read = |what: &str, path: Option<PathBuf>, is_phrase: bool| -> Result<Option<String>, CliError> {
        let Some(path) = path else { return Ok(None) };
        let text = file::text_or_input(what, &path, terminal)?;
        // Blanks at its ends may belong to a passphrase; the end of its line does not.
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let line = line.strip_suffix('\r').unwrap_or(line);
        let text = if is_phrase { line } else { text.trim() };
        if text.is_empty() {
            return Err(CliError::usage(format!("{} is empty ({what})", path.display())));
        }
        Ok(Some(text.to_owned()))
    };
    let known_hosts = read("the host keys", known_hosts, false)?;
    let ssh_passphrase = read("the passphrase of the ssh key", ssh_passphrase_file, true)?.map(Secret::new);
    let mut secret = |what: &str, path: Option<PathBuf>| -> Result<Option<Secret>, CliError> {
        Ok(read(what, path, false)?.map(Secret::new))
    };
    let app_key = secret("the private key of the App", app_key_file)?;
    let github = app_id.zip(installation_id).map(|(app_id, installation_id)| GithubAppAttributes {
        app_id,
        installation_id,
        private_key: app_key.unwrap_or_else(|| Secret::new("")),
    });
    let azure = azure_organization
        .zip(azure_project)
        .zip(azure_username)
        .map(|((organization, project), username)| AzureDevopsAttributes { username, organization, project });
    Ok(ScmConnectionAttributes {
        name,
        kind,
        project_id: None,
        owner,
        username,
        token: secret("the token", token_file)?,
        base_url,
        api_url,
        github,
        azure,
        bitbucket_datacenter: user_slug.map(|user_slug| BitbucketDatacenterAttributes { user_slug }),
        default,
        proxy: secret("the address of the proxy", proxy_file)?
            .map(|url| HttpProxyAttributes { url, noproxy: None }),
        signing_private_key: secret("the signing key", signing_key_file)?,
        ssh_private_key: secret("the ssh key", ssh_key_file)?,
        ssh_passphrase,
        known_hosts,
        repositories,
    })
}

fn description(connection: &ScmConnection) -> String {
    let line = |name: &str, value: String| vec![format!("{name}:"), value];
    let ScmConnection {
        id,
        name,
        kind,
        default,
        owner,
        username,
        base_url,
        api_url,
        repositories,
        has_token,
        has_signing_key,
        has_ssh_key,
        has_proxy,
        known_hosts,
        inserted_at: _,
        updated_at: _,
        github,
        azure,
        bitbucket_datacenter,
        project,
    } = connection;
    let project = project.as_ref().map_or("(the whole installation)", |project| project.name.as_str());
    let mut lines = vec![
        line("Connection", or_dash(Some(name))),
        line("Id", id.clone()),
        line("Type", kind.as_str().to_owned()),
        line("Project", or_dash(Some(project))),
        line("Default", yes(*default == Some(true))),
        line("Owner", or_dash(owner.as_deref())),
        line("User", or_dash(username.as_deref())),
        line("Base URL", or_dash(base_url.as_deref())),
        line("API URL", or_dash(api_url.as_deref())),
        line("Token", yes(*has_token)),
        line("Signing key", yes(*has_signing_key)),
        line("Proxy", yes(*has_proxy)),
    ];
    if *has_ssh_key {
        lines.push(line("SSH key", yes(true)));
        let keys = known_hosts.as_deref().unwrap_or("(the first that is seen)");
        for (place, key) in keys.lines().enumerate() {
            let name = if place == 0 { "Host keys:" } else { "" };
            lines.push(vec![name.to_owned(), or_dash(Some(key))]);
        }
    }
    if let Some(app) = github {
        let text = format!("{}, installation {}", app.app_id, app.installation_id);
        lines.push(line("GitHub App", or_dash(Some(&text))));
    }
    if let Some(azure) = azure {
        let text = format!("{}/{} as {}", azure.organization, azure.project, azure.username);
        lines.push(line("Azure DevOps", or_dash(Some(&text))));
    }
    if let Some(of) = bitbucket_datacenter {
        lines.push(line("User slug", or_dash(Some(&of.user_slug))));
    }
    let none = ["(none: it may touch no repository)".to_owned()];
    let all = if repositories.is_empty() { &none[..] } else { repositories };
    for (place, pattern) in all.iter().enumerate() {
        let name = if place == 0 { "Repositories:" } else { "" };
        lines.push(vec![name.to_owned(), or_dash(Some(pattern))]);
    }
    output::columns(&lines, 2)
}
