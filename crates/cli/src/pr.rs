//! `plural pr …`.

use clap::{Args, Subcommand};

use crate::{
    error::CliError,
    pr_test::{self, ContractsArgs, TemplateArgs, TestArgs},
    terminal::Terminal,
};

/// Pull requests that automations make: try them here, without a console
#[derive(Debug, Args)]
#[command(visible_alias = "pull-requests", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct PrArgs {
    #[command(subcommand)]
    command: PrCommand,
}

#[derive(Debug, Subcommand)]
enum PrCommand {
    Test(TestArgs),
    Template(TemplateArgs),
    Contracts(ContractsArgs),
}

pub(crate) fn run(PrArgs { command }: PrArgs, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    match command {
        PrCommand::Test(args) => pr_test::test(args, terminal),
        PrCommand::Template(args) => pr_test::template(args, terminal),
        PrCommand::Contracts(args) => pr_test::contracts(args, terminal),
    }
}
