//! The commands of a person: `plural login`, `plural logout`, `plural cd …`, `plural version`, `plural completion`.
//!
//! Habits are kubectl's: data goes to stdout, talk to stderr; `-o json|yaml|name|wide`; exit code 0
//! for done, 1 for failed, 2 for a command line that cannot be understood; an error says the next step.
//!
//! A binary that has more subcommands adds them to [`command`] and hands the rest to [`dispatch`].

mod access;
mod args;
mod audit;
mod audit_file;
mod auth;
mod bootstrap;
mod canary;
mod clusters;
mod completion;
mod config;
mod configuration;
mod connect;
mod contexts;
mod data_keys;
mod deprecations;
mod documents;
mod error;
mod federated_credentials;
mod file;
mod flags;
mod form;
mod format;
mod global_services;
mod groups;
mod helm_repositories;
mod invites;
mod jobs;
mod jsonpath;
mod key;
mod kubeconfig;
mod links;
mod login;
mod logout;
mod loopback;
mod managed_namespaces;
mod manifests;
mod output;
mod passkeys;
mod personas;
mod plain;
mod pr;
mod pr_automation_file;
mod pr_automations;
mod pr_files;
mod pr_governances;
mod pr_instances;
mod pr_life;
mod pr_merge;
mod pr_open;
mod pr_plan;
mod pr_test;
mod pr_told;
mod preview;
mod projects;
mod proof;
mod providers;
mod recordings;
mod reference;
mod registration_tokens;
mod rendering;
mod replay;
mod repositories;
mod roles;
mod saved_views;
mod scm_connections;
mod scm_webhooks;
mod second_factor;
mod secret_backends;
mod selector;
mod service_accounts;
mod service_delete;
mod service_drift;
mod service_failures;
mod service_files;
mod service_life;
mod service_logs;
mod service_sync;
mod service_tree;
mod services;
mod shorthand;
mod stack_arg_values;
mod stack_args;
mod stack_check_args;
mod stack_commands;
mod stack_definitions;
mod stack_described;
mod stack_drift;
mod stack_exec;
mod stack_follow_args;
mod stack_given;
mod stack_graph;
mod stack_logs;
mod stack_policy;
mod stack_pulls;
mod stack_run_args;
mod stack_runs;
mod stack_settings;
mod stack_states;
mod stack_tags_args;
mod stacks;
mod sync_args;
mod sync_described;
mod sync_windows;
mod table;
mod terminal;
mod tokens;
mod unsaid;
mod users;
mod wait;
mod watch;

use std::{ffi::OsString, future::Future, path::Path, pin::Pin, process::ExitCode};

use clap::{ArgMatches, Command, CommandFactory, FromArgMatches};

use args::{CdArgs, CdCommand, Cli, ClusterCommand, RepositoryCommand, ServiceCommand, Verb};
pub use completion::{Lookup, complete, completions};
use connect::{connect, connect_as};
pub use error::CliError;
use plain::Plain;
use recordings::RecordingCommand;
pub use reference::reference;
pub use shorthand::in_full;
pub use terminal::{Screen, Terminal, Variables};
pub use unsaid::without_secrets;

/// The command line of all that this crate does, named `plural`.
pub fn command() -> Command {
    Cli::command()
}

/// Parses `args` (the program's name first) and does what they say, on the process's own streams.
pub fn run<I, T>(args: I) -> ExitCode
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    if complete(command) {
        return ExitCode::SUCCESS;
    }
    let mut command = command();
    let args = in_full(&command, args);
    match command.try_get_matches_from_mut(&args) {
        Ok(matches) => dispatch(command, &matches),
        Err(error) => {
            // Help and version are not failures: clap knows which is which, and where each goes.
            let error = without_secrets(error, &command, &args);
            let _ = error.print();
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
        }
    }
}

/// Does what `matches` of `command` say, on the process's own streams. `command` is the whole
/// command line, with whatever its owner added: completion is made from it.
pub fn dispatch(command: Command, matches: &ArgMatches) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut out = std::io::stdout().lock();
    let mut err = std::io::stderr();
    let mut input = std::io::stdin().lock();
    let mut terminal = Terminal::of_process(&mut out, &mut err, &mut input);
    ExitCode::from(runtime.block_on(Box::pin(execute(command, matches, &mut terminal))))
}

/// Does what `matches` say on the given streams and answers the exit code; errors are told on
/// `terminal.err`. What a terminal would take for a command is escaped on both.
pub async fn execute(command: Command, matches: &ArgMatches, terminal: &mut Terminal<'_>) -> u8 {
    let Terminal { out, err, input, interactive, screen, variable } = terminal;
    let cli = Cli::from_arg_matches(matches);
    let exact = cli.as_ref().is_ok_and(|cli| prints_a_file(&cli.verb, screen.is_some()));
    let mut out = if exact { Plain::exact(&mut **out) } else { Plain::of_screen(&mut **out, screen.clone()) };
    let mut err = Plain::new(&mut **err);
    let mut terminal = Terminal {
        out: &mut out,
        err: &mut err,
        input: &mut **input,
        interactive: *interactive,
        screen: screen.clone(),
        variable: Box::new(|name| variable(name)),
    };
    let flags = flags::Flags::of(&command, matches);
    let done = match cli {
        Ok(cli) => act(command, cli, &mut terminal).await,
        Err(error) => Err(CliError::usage(error.to_string())),
    };
    match done {
        Ok(()) => 0,
        Err(error) => {
            let error = error.in_words_of(&flags);
            error.print(&mut terminal);
            error.exit_code()
        }
    }
}

/// Whether standard output is a file's content, which must come as it is. On a screen it does only where the command
/// itself looks at what it shows.
fn prints_a_file(verb: &Verb, screen: bool) -> bool {
    if let Verb::Audit(args) = verb {
        return matches!(args.command, audit::AuditCommand::Export(_)) && !screen;
    }
    if let Verb::Pr(args) = verb {
        return args.prints_a_patch() && !screen;
    }
    let Verb::Cd(args) = verb else { return matches!(verb, Verb::Completion(_)) };
    if let CdCommand::Clusters(clusters) = &args.command
        && let ClusterCommand::Recordings(recordings) = &clusters.command
    {
        return match &recordings.command {
            RecordingCommand::Play(_) => true,
            RecordingCommand::Get(_) => !screen,
            RecordingCommand::List(_) => false,
        };
    }
    let is_file = matches!(&args.command, CdCommand::Services(services) if matches!(services.command, ServiceCommand::Files(_)));
    is_file && !screen
}

/// Where a machine keeps its registration token, of a command that takes one in place of a login.
fn token_file(command: &CdCommand) -> Option<&Path> {
    if let CdCommand::Bootstrap(args) = command {
        return args.token_file.as_deref();
    }
    let CdCommand::Clusters(clusters) = command else { return None };
    let ClusterCommand::Bootstrap(args) = &clusters.command else { return None };
    args.token_file.as_deref()
}

async fn act(command: Command, cli: Cli, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    match cli.verb {
        Verb::Login(args) => login::login(args, terminal).await,
        Verb::Logout(args) => logout::logout(args, terminal).await,
        Verb::Tokens(args) => {
            let connection = connect(&args.connection, terminal)?;
            tokens::run(args.command, &connection.client, terminal).await
        }
        Verb::Audit(args) => {
            let args = *args;
            if let audit::AuditCommand::Verify(verify) = &args.command
                && verify.file.is_some()
            {
                // No console is asked.
                let audit::AuditCommand::Verify(verify) = args.command else { return Ok(()) };
                return audit::verify_file(verify, terminal);
            }
            let connection = connect(&args.connection, terminal)?;
            audit::run(args.command, &connection.client, terminal).await
        }
        Verb::Whoami(args) => {
            let connection = connect(&args.connection, terminal)?;
            users::whoami(args, &connection, terminal).await
        }
        Verb::Password(args) => {
            let connection = connect(&args.connection, terminal)?;
            tokens::password(args, &connection.client, terminal).await
        }
        Verb::SecondFactor(args) => {
            let connection = connect(&args.connection, terminal)?;
            second_factor::run(args.command, &connection.client, terminal).await
        }
        Verb::Passkeys(args) => {
            let connection = connect(&args.connection, terminal)?;
            passkeys::run(args.command, &connection.client, terminal).await
        }
        Verb::Auth(args) => {
            let connection = connect(&args.connection, terminal)?;
            auth::run(args.command, &connection.client, terminal).await
        }
        Verb::Apply(args) => apart(move || documents::apply(*args, terminal)).await,
        Verb::Diff(args) => apart(move || documents::diff(args, terminal)).await,
        Verb::Get(args) => apart(move || documents::get(args, terminal)).await,
        Verb::Delete(args) => apart(move || documents::delete(args, terminal)).await,
        Verb::Explain(args) => documents::explain(&args, terminal),
        Verb::Cd(args) => apart(move || cd(*args, terminal)).await,
        Verb::Pr(args) => apart(move || pr::run(*args, terminal)).await,
        Verb::Version(args) => output::version(args.output, terminal),
        Verb::Completion(args) => {
            let mut command = command;
            let mut script = Vec::new();
            clap_complete::generate(args.shell, &mut command, "plural", &mut script);
            terminal.out.write_all(&script)?;
            Ok(())
        }
    }
}

/// What a command does, out of the way: without optimisation the frame of whoever awaits them all would hold one of each.
fn apart<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::pin(make())
}

async fn cd(mut args: CdArgs, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    if let CdCommand::Login(login) = args.command {
        return login::cd_login(login, args.connection, terminal).await;
    }
    if let CdCommand::Repositories(noun) = &mut args.command
        && let RepositoryCommand::Create(create) = &mut noun.command
        && create.repository.is_some()
        && let Some(url) = create.url.take()
    {
        // Beside a repository, it is what --url is everywhere else.
        args.connection.url = Some(url);
    }
    if let CdCommand::Stacks(noun) = args.command {
        if let stacks::StackCommand::Policy(policy) = noun.command {
            // No console is asked.
            return stack_policy::run(policy, terminal);
        }
        args.command = CdCommand::Stacks(noun);
    }
    let connection = match token_file(&args.command) {
        Some(file) => connect_as(&args.connection, bootstrap::token(file, terminal)?, terminal)?,
        None => connect(&args.connection, terminal)?,
    };
    let connection = &connection;
    let client = &connection.client;
    match args.command {
        CdCommand::Login(_) => Ok(()),
        CdCommand::Bootstrap(args) => apart(move || bootstrap::run(*args, connection, terminal)).await,
        CdCommand::Clusters(noun) => apart(move || clusters::run(noun.command, connection, terminal)).await,
        CdCommand::Repositories(noun) => {
            apart(move || repositories::run(noun.command, client, terminal)).await
        }
        CdCommand::HelmRepositories(noun) => {
            apart(move || helm_repositories::run(noun.command, client, terminal)).await
        }
        CdCommand::Projects(noun) => apart(move || projects::run(noun.command, client, terminal)).await,
        CdCommand::SyncWindows(noun) => {
            apart(move || sync_windows::run(noun.command, client, terminal)).await
        }
        CdCommand::Services(noun) => apart(move || services::run(noun.command, client, terminal)).await,
        CdCommand::GlobalServices(noun) => {
            apart(move || global_services::run(noun.command, client, terminal)).await
        }
        CdCommand::ManagedNamespaces(noun) => {
            apart(move || managed_namespaces::run(noun.command, client, terminal)).await
        }
        CdCommand::Contexts(noun) => apart(move || contexts::run(noun.command, client, terminal)).await,
        CdCommand::StackDefinitions(noun) => {
            apart(move || stack_definitions::run(noun.command, client, terminal)).await
        }
        CdCommand::Stacks(noun) => apart(move || stacks::run(noun.command, client, terminal)).await,
        CdCommand::ScmConnections(noun) => {
            apart(move || scm_connections::run(noun.command, client, terminal)).await
        }
        CdCommand::ScmWebhooks(noun) => {
            apart(move || scm_webhooks::run(noun.command, client, terminal)).await
        }
        CdCommand::SavedViews(noun) => apart(move || saved_views::run(noun.command, client, terminal)).await,
        CdCommand::Users(noun) => apart(move || users::run(noun.command, client, terminal)).await,
        CdCommand::Groups(noun) => apart(move || groups::run(noun.command, client, terminal)).await,
        CdCommand::Providers(noun) => apart(move || providers::run(noun.command, client, terminal)).await,
        CdCommand::Access(noun) => apart(move || access::run(noun.command, client, terminal)).await,
        CdCommand::FederatedCredentials(noun) => {
            apart(move || federated_credentials::run(noun.command, client, terminal)).await
        }
        CdCommand::ServiceAccounts(noun) => {
            apart(move || service_accounts::run(noun.command, client, terminal)).await
        }
        CdCommand::Personas(noun) => apart(move || personas::run(noun.command, client, terminal)).await,
        CdCommand::RegistrationTokens(noun) => {
            apart(move || registration_tokens::run(noun.command, client, terminal)).await
        }
        CdCommand::Roles(noun) => apart(move || roles::run(noun.command, client, terminal)).await,
        CdCommand::Settings(noun) => apart(move || stack_settings::run(noun.command, client, terminal)).await,
        CdCommand::DataKeys(noun) => apart(move || data_keys::run(noun.command, client, terminal)).await,
        CdCommand::Jobs(noun) => apart(move || jobs::run(noun.command, client, terminal)).await,
    }
}
