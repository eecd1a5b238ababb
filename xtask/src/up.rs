//! `cargo xtask up`: see it work.

use std::os::unix::process::CommandExt as _;

use crate::shell;

/// Everything but `--release` and `--debug` goes to `plural demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Options of `plural demo`; `--release` builds the optimised program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
    rest: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (own, passed): (Vec<&String>, Vec<&String>) =
        args.rest.iter().partition(|a| matches!(a.as_str(), "--release" | "--debug"));
    let is_release = own.last().is_some_and(|a| *a == "--release");
    let profile = if is_release { "release" } else { "dev" };

    // Cargo shows its progress on stderr; stdout stays the demo's own, for `--json`.
    shell::run(
        shell::cargo()
            .args(["build", "--package", "plural", "--bin", "plural", "--profile", profile])
            .arg("--manifest-path")
            .arg(shell::root().join("Cargo.toml")),
    )?;
    let folder = if is_release { "release" } else { "debug" };
    let plural = shell::metadata()?.target_directory.join(folder).join("plural");
    // In place of this process: signals and the exit code are the demo's.
    let failed = std::process::Command::new(&plural).arg("demo").args(passed).exec();
    anyhow::bail!("cannot run {}: {failed}", plural.display())
}
