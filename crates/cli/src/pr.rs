//! `plural pr …`.

use clap::{Args, Subcommand};

use crate::{
    args::ConnectionArgs,
    connect::connect,
    error::CliError,
    pr_automations::{self, PrAutomationsArgs},
    terminal::Terminal,
};

/// Pull requests: the automations that open them
#[derive(Debug, Args)]
#[command(visible_alias = "pull-requests", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct PrArgs {
    #[command(flatten)]
    connection: ConnectionArgs,

    #[command(subcommand)]
    command: PrCommand,
}

#[derive(Debug, Subcommand)]
enum PrCommand {
    Automations(PrAutomationsArgs),
}

pub(crate) async fn run(
    PrArgs { connection, command }: PrArgs,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let connection = connect(&connection, terminal)?;
    match command {
        PrCommand::Automations(args) => pr_automations::run(args, &connection.client, terminal).await,
    }
}
