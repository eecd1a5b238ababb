//! `cargo xtask test`: install what is missing, start what all tests share, run them, and count per backend.

mod servers;
mod totals;

use std::{
    fs,
    io::{BufRead as _, BufReader, IsTerminal as _, Write as _},
    path::PathBuf,
    process::Stdio,
    time::Instant,
};

use anyhow::Context as _;

use crate::{control_plane, debian, install, peers, shell};
use servers::Servers;
use totals::Totals;

/// Which tests, and what may be done for them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Install nothing: when something is missing, say what and stop
    #[arg(long)]
    no_install: bool,
    /// Only this package's tests (may be given several times)
    #[arg(short, long, value_name = "NAME")]
    package: Vec<String>,
    /// Only tests whose name contains this
    filter: Option<String>,
    /// Options for the test programs, such as --test-threads=1
    #[arg(last = true, value_name = "OPTIONS")]
    rest: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let started = Instant::now();
    let needs = control_plane::needs()?.into_iter().chain(debian::needs()).chain(peers::needs()?).collect();
    install::install(needs, !args.no_install)?;

    let building = Instant::now();
    // The servers' program belongs to the testkit, which has to be part of the same build: a build of fewer
    // packages would choose other features and compile the dependencies twice.
    let mut build = cargo_test(args);
    if !args.package.is_empty() {
        build.args(["--package", "plural-testkit"]);
    }
    shell::run(build.arg("--no-run"))?;
    eprintln!("built the tests in {}", shell::took(building));

    let starting = Instant::now();
    let not_run = NotRun::new()?;
    let servers = Servers::start()?;
    eprintln!("started {} in {}", servers.what(), shell::took(starting));

    let mut command = cargo_test(args);
    command.arg("--no-fail-fast").args(&args.filter).arg("--").args(&args.rest);
    let is_terminal = std::io::stdout().is_terminal();
    if is_terminal {
        command.arg("--color=always");
    }
    command.envs(servers.env()).env("PLURAL_TEST_NOT_RUN", &not_run.file).stdout(Stdio::piped());
    if let Some(corpus) = corpus() {
        eprintln!("real charts and overlays from {}", corpus.display());
        command.env("PLURAL_CORPUS", corpus);
    }
    let peers = peers::folder()?;
    if peers.is_dir() {
        command.env("PLURAL_PEERS", peers);
    }
    let mut tests = command.spawn().context("cannot run cargo test")?;
    let output = BufReader::new(tests.stdout.take().context("cargo test has no output")?);
    let mut totals = Totals::default();
    let mut stdout = std::io::stdout();
    for line in output.split(b'\n') {
        let line = line?;
        stdout.write_all(&line)?;
        stdout.write_all(b"\n")?;
        totals.read(&String::from_utf8_lossy(&line));
    }
    let status = tests.wait()?;
    drop(servers);
    totals.not_run(&not_run.names());

    println!("\n{}tests took {}\n{}", totals.per_backend(), shell::took(started), totals.last_line());
    anyhow::ensure!(totals.failed() == 0, "tests failed: {}", totals.failures().join(", "));
    anyhow::ensure!(
        status.success(),
        "cargo test failed ({status}) without a failed test: see its output above"
    );
    Ok(())
}

/// Folder with `helm-corpus/` and `kustomize-corpus/`: real inputs and what the real programs print, which are
/// no part of the repository. `$PLURAL_CORPUS`, else a folder `shared` beside the checkout.
pub(crate) fn corpus() -> Option<PathBuf> {
    let named = std::env::var_os("PLURAL_CORPUS").filter(|value| !value.is_empty()).map(PathBuf::from);
    let beside = || shell::root().parent().map(|parent| parent.join("shared"));
    named.or_else(beside).filter(|folder| folder.join("helm-corpus").is_dir())
}

fn cargo_test(args: &Args) -> std::process::Command {
    let mut command = shell::cargo();
    command.arg("test").current_dir(shell::root());
    if args.package.is_empty() {
        command.arg("--workspace");
    }
    for package in &args.package {
        command.args(["--package", package]);
    }
    command
}

/// The file where tests write that they did not run.
struct NotRun {
    file: PathBuf,
}

impl NotRun {
    fn new() -> anyhow::Result<Self> {
        let file = std::env::temp_dir().join(format!("plural-not-run-{}", std::process::id()));
        fs::write(&file, "").with_context(|| format!("cannot write {}", file.display()))?;
        Ok(Self { file })
    }

    fn names(&self) -> Vec<String> {
        fs::read_to_string(&self.file).unwrap_or_default().lines().map(str::to_owned).collect()
    }
}

impl Drop for NotRun {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.file));
    }
}
