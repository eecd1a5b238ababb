//! `plural console`.

use anyhow::Context;
use plural_console::{ConsoleConfig, RunningConsole};
use secrecy::ExposeSecret;

use crate::{
    memory,
    process::{LogArgs, keep_private},
};

/// Flags of `plural console`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConsoleConfig,
    #[command(flatten)]
    log: LogArgs,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let Args { config, log } = args;
    log.init()?;
    keep_private();
    let metrics = plural_kit::init_metrics()?;
    let is_password_given = config.admin_password.is_some();
    let mut console =
        RunningConsole::start(config, Some(metrics)).await.context("the console cannot start")?;
    if let Some(admin) = console.first_admin.take() {
        println!("First administrator of this console (shown once):");
        println!("  plural login --url {} --email {}", console.url, admin.email);
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
