//! `cargo xtask advisories`: known vulnerabilities of dependencies, and the reasons why some of them do not concern us.
//!
//! Not a part of `cargo xtask check`: the database changes every day and comes from a git host, and whether a commit is good must
//! depend on neither. Run it every night.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context;

use crate::{cargo_deny, install, shell};

const DATABASE: &str = "https://github.com/rustsec/advisory-db";
/// The section of deny.toml whose keys are added to.
const SECTION: &str = "[advisories]\n";

/// Arguments of `cargo xtask advisories`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Clone of the advisory database to use instead of fetching it, for a machine that does not reach its host
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let url = match &args.db {
        None => DATABASE.to_owned(),
        Some(folder) => local(folder)?,
    };
    install::install(cargo_deny::need()?.into_iter().collect(), true)?;
    let folder = shell::cache()?.join("advisories");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let config = folder.join("deny.toml");
    let text = fs::read_to_string(shell::root().join("deny.toml")).context("cannot read deny.toml")?;
    fs::write(&config, with_database(&text, &url, &folder)?)
        .with_context(|| format!("cannot write {}", config.display()))?;

    let fetched = shell::run(deny()?.args(["fetch", "--config"]).arg(&config).arg("db"));
    fetched.with_context(|| {
        format!(
            "cannot fetch the advisory database from {url}; clone {DATABASE} on a machine that reaches it, copy the clone \
             here, and say where it is with --db DIR"
        )
    })?;
    let mut check = deny()?;
    check.args(["check", "--config"]).arg(&config).args(["--disable-fetch", "advisories"]);
    shell::run(&mut check).context(
        "a dependency has a known vulnerability, or a reason in deny.toml is out of date: upgrade it, or add its id with \
         a reason to `ignore` in [advisories] of deny.toml",
    )
}

fn deny() -> anyhow::Result<Command> {
    let mut command = Command::new(cargo_deny::program()?);
    command.args(["--workspace", "--all-features", "--log-level", "warn"]).current_dir(shell::root());
    Ok(command)
}

/// The address of a clone on this machine.
fn local(folder: &Path) -> anyhow::Result<String> {
    let folder = folder
        .canonicalize()
        .with_context(|| format!("there is no advisory database at {}", folder.display()))?;
    anyhow::ensure!(
        folder.join("crates").is_dir() && folder.join(".git").exists(),
        "{} is no clone of {DATABASE}: it has no folder \"crates\", or is not a git repository",
        folder.display()
    );
    Ok(format!("file://{}", folder.display()))
}

/// The settings of the repository, with a database.
fn with_database(text: &str, url: &str, folder: &Path) -> anyhow::Result<String> {
    let (before, after) = text.split_once(SECTION).context("deny.toml has no section [advisories]")?;
    let quoted = |text: &str| serde_json::to_string(text);
    let path = quoted(&folder.join("databases").to_string_lossy())?;
    // The git program knows the proxies and credentials of this machine.
    let keys = format!("db-path = {path}\ndb-urls = [{}]\ngit-fetch-with-cli = true\n", quoted(url)?);
    Ok(format!("{before}{SECTION}{keys}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_is_added_to_the_settings_that_there_are() {
        let own = fs::read_to_string(shell::root().join("deny.toml")).unwrap();
        let made = with_database(&own, "file:///a \"b\"", Path::new("/cache")).unwrap();
        assert!(
            made.contains(
                "[advisories]\ndb-path = \"/cache/databases\"\ndb-urls = [\"file:///a \\\"b\\\"\"]\n"
            ),
            "{made}"
        );
        assert!(with_database("[graph]\n", DATABASE, Path::new("/cache")).is_err());
    }

    #[test]
    fn what_is_no_clone_is_refused() {
        let error = local(Path::new("/nowhere/at/all")).unwrap_err().to_string();
        assert!(error.contains("there is no advisory database"), "{error}");
        let error = local(&shell::root().join("docs")).unwrap_err().to_string();
        assert!(error.contains("is no clone of"), "{error}");
    }
}
