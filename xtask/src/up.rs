//! `cargo xtask up`: see it work.

use std::os::unix::process::CommandExt as _;

use crate::{shell, web_console};

/// Everything but `--release` and `--debug` goes to `plural demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Options of `plural demo`; `--release` builds the optimised program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
    rest: Vec<String>,
}

impl Args {
    /// Whether to build the optimised program, and what `plural demo` gets.
    fn split(&self) -> (bool, Vec<&str>) {
        let (own, passed): (Vec<&str>, Vec<&str>) =
            self.rest.iter().map(String::as_str).partition(|a| matches!(*a, "--release" | "--debug"));
        (own.last() == Some(&"--release"), passed)
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (is_release, passed) = args.split();
    let profile = if is_release { "release" } else { "dev" };

    web_console::build()?;
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

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    #[command(disable_help_flag = true)]
    struct Whole {
        #[command(flatten)]
        args: Args,
    }

    fn split(line: &str) -> (bool, Vec<String>) {
        let whole = Whole::parse_from(format!("up {line}").split(' ').filter(|w| !w.is_empty()));
        let (is_release, passed) = whole.args.split();
        (is_release, passed.into_iter().map(str::to_owned).collect())
    }

    #[test]
    fn options_go_to_the_demo() {
        assert_eq!(split(""), (false, vec![]));
        assert_eq!(split("--once --clusters 3").1, ["--once", "--clusters", "3"]);
        assert_eq!(
            split("--kubeconfig a b --git . --json").1,
            ["--kubeconfig", "a", "b", "--git", ".", "--json"]
        );
        assert_eq!(split("--help").1, ["--help"]);
        assert_eq!(split("--once --release"), (true, vec!["--once".to_owned()]));
    }
}
