//! `plural console`.

use anyhow::Context;
use plural_console::{ChildProgram, ConsoleConfig, RunningConsole};
use secrecy::{ExposeSecret, SecretString};

use crate::{
    agent, memory,
    process::{LogArgs, keep_private},
};

/// The argument with which this program evaluates rules in the folder that it is in, and answers.
pub(crate) const RULES: &str = "evaluate-rules";
/// The argument with which it runs the automation in the folder that it is in, and answers.
pub(crate) const SCAFFOLD: &str = "run-automation";

/// How a console evaluates rules; in its own process where programs cannot be confined.
pub(crate) fn rules_program() -> anyhow::Result<Option<ChildProgram>> {
    if !cfg!(target_os = "linux") {
        return Ok(None);
    }
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    Ok(Some(ChildProgram { program, sandbox: agent::SANDBOX, child: RULES }))
}

/// How a console runs automations; not at all where programs cannot be confined.
pub(crate) fn scaffold_program() -> anyhow::Result<Option<ChildProgram>> {
    Ok(rules_program()?.map(|program| ChildProgram { child: SCAFFOLD, ..program }))
}

/// Flags of `plural console`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    config: ConsoleConfig,
    #[command(flatten)]
    log: LogArgs,
}

/// What is done to a console that does not run, or beside one.
#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Give a user another password, for whoever can log in as nobody
    ///
    /// Run it where the console runs, with its settings: it opens the console's database. A console with a SQLite database has to
    /// be stopped first. The user's sessions and access tokens end, and the audit log records it. The new password is
    /// printed once, unless it comes from standard input.
    #[command(after_help = "Examples:
  plural console reset-password --data-dir plural-data
  plural console reset-password --email ada@example.com --password-stdin < password.txt")]
    ResetPassword(Box<ResetArgs>),
}

#[derive(Debug, clap::Args)]
struct ResetArgs {
    /// E-mail address of the user; else that of the first administrator
    #[arg(long, value_name = "EMAIL")]
    email: Option<String>,

    /// Read the new password from standard input
    #[arg(long)]
    password_stdin: bool,

    #[command(flatten)]
    config: ConsoleConfig,
}

async fn reset_password(args: ResetArgs) -> anyhow::Result<()> {
    let ResetArgs { email, password_stdin, config } = args;
    keep_private();
    let given = password_stdin.then(|| {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line)?;
        anyhow::Ok(SecretString::from(line.trim_end_matches(['\r', '\n'])))
    });
    let given = given.transpose().context("cannot read the password")?;
    let email = email.unwrap_or_else(|| config.admin_email.clone());
    let user = plural_console::reset_password(&config, &email, given)
        .await
        .context("the password cannot be reset")?;
    println!("New password of {}; what they were signed in with has ended:", user.email);
    if password_stdin {
        println!("  password: the one that was given");
    } else {
        println!("  password: {}", user.password.expose_secret());
    }
    Ok(())
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let Args { command, config, log } = args;
    if let Some(Command::ResetPassword(args)) = command {
        return reset_password(*args).await;
    }
    log.init()?;
    keep_private();
    let metrics = plural_kit::init_metrics()?;
    let config =
        ConsoleConfig { rules_program: rules_program()?, scaffold_program: scaffold_program()?, ..config };
    let is_password_given = config.admin_password.is_some();
    let mut console =
        RunningConsole::start(config, Some(metrics)).await.context("the console cannot start")?;
    if let Some(admin) = console.first_admin.take() {
        println!("First administrator of this console (shown once):");
        println!("  plural login --url {} --email {}", console.public_url, admin.email);
        if is_password_given {
            // Whoever chose it knows it, and what a Pod prints is kept in logs.
            println!("  password: the one that was given");
        } else {
            // Told once, to whoever started it; never logged.
            println!("  password: {}", admin.password.expose_secret());
        }
    }
    let shutdown = console.shutdown().clone();
    tokio::select! {
        signal = shutdown.on_process_signal() => signal.context("cannot wait for signals")?,
        ended = console.ended() => return Ok(ended?),
        never = memory::give_back() => match never {},
    }
    tracing::info!("stopping");
    Ok(console.ended().await?)
}
