//! `cargo xtask accept`: today's output becomes the expected output.

use crate::shell;

/// Which tests to take the output of.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this package's
    #[arg(short, long, value_name = "NAME")]
    package: Option<String>,
    /// Only tests whose name contains this
    filter: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut command = shell::cargo();
    command.args(["test", "--quiet"]).current_dir(shell::root());
    match &args.package {
        Some(package) => command.args(["--package", package]),
        None => command.arg("--workspace"),
    };
    command
        .args(&args.filter)
        .env("INSTA_UPDATE", "always")
        .env("INSTA_FORCE_PASS", "1")
        .env("PLURAL_GEN", "1");
    shell::run(&mut command)?;
    eprintln!("accepted; `git diff` shows what changed: read it as you would read code");
    Ok(())
}
