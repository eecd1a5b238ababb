//! `cargo xtask ui`: builds the web console into `ui/dist`, from where the program embeds it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use anyhow::Context as _;

use crate::{
    go_programs::fingerprint,
    shell::{self, which},
};

/// What the build reads, from the repository's root.
const INPUTS: [&str; 7] = [
    "ui/package.json",
    "ui/package-lock.json",
    "ui/index.html",
    "ui/vite.config.ts",
    "ui/codegen.ts",
    "ui/tsconfig.json",
    "docs/reference/schema.graphql",
];

/// Builds it if something that it is made from is newer.
pub(crate) fn run() -> anyhow::Result<()> {
    let npm = which("npm").context("npm is not on $PATH: install Node.js 20 or newer")?;
    install(&npm)?;
    if is_built()? {
        return Ok(());
    }
    eprintln!("building the web console");
    shell::run(Command::new(npm).args(["run", "--silent", "build"]).current_dir(folder()))
}

/// Builds it where Node.js is; a program without the web console is complete but for its pages.
pub(crate) fn run_if_possible() -> anyhow::Result<()> {
    if which("npm").is_none() {
        eprintln!("npm is not on $PATH: the program is built without the web console");
        return Ok(());
    }
    run()
}

/// Types, lints and format, where Node.js is.
pub(crate) fn check() -> anyhow::Result<()> {
    let Some(npm) = which("npm") else {
        eprintln!("npm is not on $PATH: the web console is not checked");
        return Ok(());
    };
    install(&npm)?;
    shell::run(Command::new(npm).args(["run", "--silent", "check"]).current_dir(folder()))
}

/// Screenshots of every page into `ui/gallery`, of what is built.
pub(crate) fn gallery() -> anyhow::Result<()> {
    run()?;
    shell::run(Command::new("node").args(["tests/gallery.mjs", "gallery"]).current_dir(folder()))
}

fn folder() -> PathBuf {
    shell::root().join("ui")
}

/// Its packages, once for each lock file.
fn install(npm: &Path) -> anyhow::Result<()> {
    let lock = folder().join("package-lock.json");
    let text = fs::read(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
    let wanted = format!("{:016x}", fingerprint(&text));
    let mark = folder().join("node_modules/.installed");
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    shell::run(
        Command::new(npm).args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(folder()),
    )?;
    // Last: packages that are marked are whole.
    fs::write(&mark, wanted).with_context(|| format!("cannot write {}", mark.display()))
}

fn is_built() -> anyhow::Result<bool> {
    let Ok(built) = fs::metadata(folder().join("dist/index.html")).and_then(|page| page.modified()) else {
        return Ok(false);
    };
    let mut newest = SystemTime::UNIX_EPOCH;
    for input in INPUTS {
        newest = newest.max(modified(&shell::root().join(input))?);
    }
    for part in ["src", "public"] {
        newest = newest.max(newest_in(&folder().join(part))?);
    }
    Ok(built >= newest)
}

fn newest_in(folder: &Path) -> anyhow::Result<SystemTime> {
    let mut newest = modified(folder)?;
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        // Made by the build itself.
        if path.ends_with("generated") {
            continue;
        }
        newest = newest.max(if path.is_dir() { newest_in(&path)? } else { modified(&path)? });
    }
    Ok(newest)
}

fn modified(path: &Path) -> anyhow::Result<SystemTime> {
    fs::metadata(path)
        .and_then(|about| about.modified())
        .with_context(|| format!("cannot read {}", path.display()))
}
