//! `cargo xtask bench`: figures beside their limits.

use std::os::unix::process::CommandExt as _;

use crate::{
    debian,
    go_programs::{self, User},
    install, shell, test, web_console,
};

/// Everything goes to the bench program; `--help` lists the benches.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// `NAME [--json] [OPTIONS]`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
    rest: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let names = |bench: &str| args.rest.iter().any(|argument| argument == bench);
    if names("ui") {
        // Before the program that embeds it.
        install::install(debian::browser(), true)?;
        web_console::build()?;
    }
    // Always optimised: a figure of a debug build is of no use to anyone.
    shell::run(
        shell::cargo()
            .args(["build", "--release", "--package", "plural-bench", "--package", "plural", "--bins"])
            .current_dir(shell::root()),
    )?;
    let target = &shell::metadata()?.target_directory;
    let program = target.join("release").join("plural-bench");
    let mut command = std::process::Command::new(&program);
    command.args(&args.rest).env("PLURAL_BENCH_DIR", target.join("bench"));
    if names("render") {
        install::install(go_programs::needs(User::Benches)?, true)?;
        if let Some(corpus) = test::corpus() {
            command.env("PLURAL_CORPUS", corpus);
        }
    }
    if names("stacks") {
        install::install(go_programs::needs(User::TestsLater)?, true)?;
    }
    // Plans of a commit need no git host.
    let is_plan_alone = names("--only=plan") || args.rest.windows(2).any(|two| two == ["--only", "plan"]);
    if names("pr") && !is_plan_alone {
        install::install(debian::database(), true)?;
        install::install(go_programs::needs(User::PullRequests)?, true)?;
    }
    command.env(go_programs::FOLDER_ENV, go_programs::link()?);
    let failed = command.exec();
    anyhow::bail!("cannot run {}: {failed}", program.display())
}
