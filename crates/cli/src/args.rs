//! The command line: every flag, default and example.

mod clusters;
mod contexts;
mod global_services;
mod helm_repositories;
mod links;
mod login;
mod managed_namespaces;
mod repositories;
mod services;
mod tokens;

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::{
    access::AccessArgs,
    audit::AuditArgs,
    auth::AuthArgs,
    data_keys::DataKeysArgs,
    documents::{ApplyArgs, DeleteArgs, DiffArgs, ExplainArgs, GetArgs},
    federated_credentials::FederatedCredentialsArgs,
    groups::GroupsArgs,
    jobs::JobsArgs,
    key::parse_duration,
    passkeys::PasskeysArgs,
    personas::PersonasArgs,
    pr::PrArgs,
    projects::ProjectsArgs,
    providers::ProvidersArgs,
    registration_tokens::RegistrationTokensArgs,
    roles::RolesArgs,
    saved_views::SavedViewsArgs,
    scm_connections::ScmConnectionsArgs,
    scm_webhooks::ScmWebhooksArgs,
    second_factor::SecondFactorArgs,
    service_accounts::ServiceAccountsArgs,
    stack_definitions::StackDefinitionsArgs,
    stack_settings::SettingsArgs,
    stacks::StacksArgs,
    sync_windows::SyncWindowsArgs,
    users::{UsersArgs, WhoAmIArgs},
};

pub(crate) use crate::format::{ListOutputArgs, OutputArgs};
pub(crate) use clusters::*;
pub(crate) use contexts::*;
pub(crate) use global_services::*;
pub(crate) use helm_repositories::*;
pub(crate) use links::LinksArgs;
pub(crate) use login::*;
pub(crate) use managed_namespaces::*;
pub(crate) use repositories::*;
pub(crate) use services::*;
pub(crate) use tokens::*;

/// Run a fleet of Kubernetes clusters from one place
#[derive(Debug, Parser)]
#[command(name = "plural", version, propagate_version = false, subcommand_required = true)]
#[command(arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "`cd` is continuous deployment. Its commands can be written without it:
  plural services list             for  plural cd services list
  plural status blue/web           for  plural cd services describe blue/web
  plural history|refresh|wait|sync|diff|rollback|tree blue/web   for those of  plural cd services")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Login(LoginArgs),
    Logout(LogoutArgs),
    Tokens(TokensArgs),
    Whoami(WhoAmIArgs),
    Password(PasswordArgs),
    SecondFactor(SecondFactorArgs),
    Passkeys(PasskeysArgs),
    Auth(AuthArgs),
    Apply(Box<ApplyArgs>),
    Diff(DiffArgs),
    Get(GetArgs),
    Delete(DeleteArgs),
    Explain(ExplainArgs),
    Cd(Box<CdArgs>),
    Pr(Box<PrArgs>),
    Audit(Box<AuditArgs>),
    Version(VersionArgs),
    Completion(CompletionArgs),
}

/// Which console, and as whom
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectionArgs {
    /// Address of the console; else the profile's
    #[arg(long, global = true, env = "PLURAL_CONSOLE_URL", hide_env_values = true, value_name = "URL")]
    pub(crate) url: Option<String>,

    /// PEM file of an authority that signs the console's certificate
    #[arg(long, global = true, env = "PLURAL_CONSOLE_CA_FILE", hide_env_values = true, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,

    /// Which of the saved logins to use; else the last one
    #[arg(long, global = true, env = "PLURAL_PROFILE", hide_env_values = true, value_name = "NAME")]
    pub(crate) profile: Option<String>,
}

/// Continuous deployment: clusters, repositories, services and everything else of the fleet
#[derive(Debug, Args)]
#[command(visible_alias = "deployments", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct CdArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    #[command(subcommand)]
    pub(crate) command: CdCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CdCommand {
    Login(CdLoginArgs),
    Clusters(ClustersArgs),
    #[command(hide = true)]
    Bootstrap(Box<BootstrapArgs>),
    Repositories(RepositoriesArgs),
    HelmRepositories(HelmRepositoriesArgs),
    Projects(ProjectsArgs),
    Services(Box<ServicesArgs>),
    GlobalServices(GlobalServicesArgs),
    ManagedNamespaces(ManagedNamespacesArgs),
    SyncWindows(SyncWindowsArgs),
    Contexts(ContextsArgs),
    Stacks(StacksArgs),
    StackDefinitions(StackDefinitionsArgs),
    ScmConnections(ScmConnectionsArgs),
    ScmWebhooks(ScmWebhooksArgs),
    SavedViews(SavedViewsArgs),
    Users(UsersArgs),
    Groups(GroupsArgs),
    Providers(ProvidersArgs),
    Access(AccessArgs),
    Roles(RolesArgs),
    ServiceAccounts(ServiceAccountsArgs),
    FederatedCredentials(FederatedCredentialsArgs),
    DataKeys(DataKeysArgs),
    Settings(SettingsArgs),
    RegistrationTokens(RegistrationTokensArgs),
    Personas(PersonasArgs),
    Jobs(JobsArgs),
}

/// Whether to wait
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct WaitArgs {
    /// Wait until it is done
    #[arg(long)]
    pub(crate) wait: bool,

    /// How long to wait: 90s, 5m, 1h
    #[arg(long, default_value = "5m", value_parser = parse_duration, requires = "wait", value_name = "DURATION")]
    pub(crate) timeout: Duration,
}

/// Confirmation
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ConfirmArgs {
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// Print the version of this program
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural version
  plural version -o json")]
pub(crate) struct VersionArgs {
    /// How to print the answer
    #[arg(short, long, value_enum, default_value_t = VersionFormat::Text, value_name = "FORMAT")]
    pub(crate) output: VersionFormat,
}

/// How to print a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum VersionFormat {
    /// One line of text.
    Text,
    /// One JSON object.
    Json,
    /// The same in YAML.
    Yaml,
}

/// Print a completion script for a shell
///
/// The script knows commands and options. Completion that also knows the names of clusters, services, repositories, projects,
/// contexts, global services, managed namespaces, stacks, automations, governances and connections to git hosts asks the console while you
/// type: put `source <(COMPLETE=bash plural)` into ~/.bashrc instead,
/// `source <(COMPLETE=zsh plural)` into ~/.zshrc, or `COMPLETE=fish plural | source` into ~/.config/fish/config.fish. It uses your
/// saved login, waits for less than a second, and is silent where there is none.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural completion bash > ~/.local/share/bash-completion/completions/plural
  plural completion zsh > \"${fpath[1]}/_plural\"
  plural completion fish > ~/.config/fish/completions/plural.fish")]
pub(crate) struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}
