//! `cargo xtask test`: install what is missing, start what all tests share, run the test programs side by side, and
//! count per backend.

mod lanes;
mod options;
mod programs;
mod report;
mod servers;
mod suite;
mod times;
mod totals;

use std::{
    fs,
    io::IsTerminal as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Instant,
};

use anyhow::Context as _;

use crate::{
    debian,
    go_programs::{self, User},
    install, keycloak, node_programs, python_programs, shell, web_console,
};
use lanes::{Job, Outcome, Runner};
use options::Options;
use programs::Program;
use servers::Servers;
use suite::{Selection, Suite};
use times::Times;
use totals::Totals;

/// How many programs run at once.
const LANES: usize = 2;

/// Programs whose tests wait for others more than they compute: how many tests run at once, for each core.
const WAITING: [(&str, f64); 2] = [("plural it", 1.5), ("store it", 2.0)];

/// Variables that ask for other cases or fewer. A suite is the same for everyone.
const OTHER_CASES: [&str; 5] = [
    "PLURAL_CORPUS_ONLY",
    "PLURAL_DIFFERENTIAL_SEED",
    "PLURAL_DIFFERENTIAL_COUNT",
    "PLURAL_REPLICA_KILLS",
    "PLURAL_REPLICA_KILL_SECONDS",
];

/// Every example in documentation has this in its test's name, and no other test has.
const IN_DOC_TESTS: &str = "(line ";

/// Which tests, and what may be done for them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Install nothing: when something is missing, say what and stop
    #[arg(long)]
    no_install: bool,
    /// Only this package's tests (may be given several times)
    #[arg(short, long, value_name = "NAME")]
    package: Vec<String>,
    /// One test program after another, with its output as it comes
    #[arg(long)]
    serial: bool,
    /// Print how long each program took, and the N tests that took longest [N: 25]
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "25")]
    slowest: Option<usize>,
    /// Only the tests that guard what worked before, counted by group; fails when a group ran nothing
    #[arg(long, value_name = "SUITE", conflicts_with_all = ["filter", "package"])]
    suite: Option<Suite>,
    /// Only tests whose name contains this; examples in documentation are left out
    filter: Option<String>,
    /// Options for the test programs, such as --test-threads=1
    #[arg(last = true, value_name = "OPTIONS")]
    rest: Vec<String>,
}

impl Args {
    fn options(&self) -> Options<'_> {
        Options { filter: self.filter.as_deref(), rest: &self.rest }
    }

    fn selection(&self) -> anyhow::Result<Option<Selection>> {
        let Some(suite) = self.suite else { return Ok(None) };
        anyhow::ensure!(
            !self.options().selects() && !self.options().has("--nocapture"),
            "--suite chooses the tests and counts them: options that choose others, and --nocapture, do not go with it"
        );
        Selection::read(suite, shell::root()).map(Some)
    }

    /// Whether someone watches a few tests: their output is of more use while it comes.
    fn is_serial(&self) -> bool {
        self.serial || self.package.len() == 1 || self.options().has("--nocapture")
    }
}

/// What takes minutes, most of them spent waiting for downloads, and is not compiled with.
fn needs_while_compiling() -> anyhow::Result<Vec<install::Need>> {
    let mut needs = keycloak::needs()?;
    needs.extend(python_programs::needs()?);
    needs.extend(go_programs::needs(User::TestsLater)?);
    Ok(needs)
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let started = Instant::now();
    // Before anything is built: it may be wrong.
    let selection = args.selection()?;
    let needs = go_programs::needs(User::Tests)?
        .into_iter()
        .chain(debian::needs())
        // They are installed with what Debian gives.
        .chain(node_programs::needs()?)
        .collect();
    install::install(needs, !args.no_install)?;
    // The programs under test embed it.
    web_console::build()?;
    if args.no_install {
        install::install(needs_while_compiling()?, false)?;
    }
    let programs = thread::scope(|scope| {
        let installing = scope.spawn(|| install::install(needs_while_compiling()?, true));
        let building = Instant::now();
        let programs = programs::build(&args.package)?;
        eprintln!("built the tests in {}", shell::took(building));
        installing.join().map_err(|_| anyhow::anyhow!("installing what tests start ended in a panic"))??;
        anyhow::Ok(programs)
    })?;

    let starting = Instant::now();
    let links = go_programs::link()?;
    let servers = Servers::start(&links)?;
    eprintln!("started {} in {}", servers.what(), shell::took(starting));

    let mut times = Times::load()?;
    let folder = shell::metadata()?.target_directory.join("test-output");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut jobs = jobs(args, selection.as_ref(), programs, &environment(&servers, links)?)?;
    if !args.serial {
        jobs.sort_by(|a, b| times.seconds(&b.name).total_cmp(&times.seconds(&a.name)));
    }
    let lanes = if args.is_serial() { 1 } else { LANES.min(jobs.len().max(1)) };
    if lanes > 1 {
        eprintln!(
            "{} test programs, {lanes} at once; each one's output comes when it ends, and until then is in {}",
            jobs.len(),
            folder.display()
        );
    }
    let outcomes = Runner::new(folder, lanes).run(jobs);
    drop(servers);

    if !args.options().selects() && selection.is_none() {
        times.add(&outcomes);
        let file = times.save()?;
        eprintln!("times of all tests are in {}", file.display());
    }
    conclude(args, selection.as_ref(), &outcomes, started)
}

/// Print what is to be known at the end, and fail if tests failed.
fn conclude(
    args: &Args,
    selection: Option<&Selection>,
    outcomes: &[Outcome],
    started: Instant,
) -> anyhow::Result<()> {
    let mut totals = Totals::default();
    for outcome in outcomes {
        totals.add(outcome);
        if let Some(trouble) = &outcome.trouble {
            totals.add_failure(format!("{}: {trouble}", outcome.name));
        }
    }
    if let Some(count) = args.slowest {
        println!("\n{}", times::slowest(outcomes, count));
    }
    for Outcome { name, report, trouble, tail, .. } in outcomes {
        if !report.failures.is_empty() {
            println!("\n== {name}: {}", report.failures);
        }
        if let Some(trouble) = trouble {
            println!("\n== {name}: {trouble}; the end of its output:\n{tail}");
        }
    }
    let groups = selection.map(|selection| selection.count(outcomes));
    if let Some(groups) = &groups {
        print!("\n{groups}");
    }
    println!(
        "\n{}\n{}tests took {}\n{}",
        totals.one_backend(),
        totals.per_backend(),
        shell::took(started),
        totals.last_line()
    );
    anyhow::ensure!(totals.failed() == 0, "tests failed: {}", totals.failures().join(", "));
    groups.map_or(Ok(()), |groups| groups.complete())
}

/// What to run, without the programs that have no test for the command line's filter.
fn jobs(
    args: &Args,
    selection: Option<&Selection>,
    programs: Vec<Program>,
    environment: &Environment,
) -> anyhow::Result<Vec<Job>> {
    let options = args.options();
    let cores = thread::available_parallelism().map_or(2, usize::from);
    // One toolchain built all of them.
    let reports_times = !options.has("--report-time") && programs.first().is_some_and(reports_times);
    if !reports_times {
        eprintln!(
            "the test programs are not asked how long each test takes: their --report-time is refused, or given"
        );
    }
    let mut jobs = Vec::new();
    for program in programs {
        let chosen = match selection {
            Some(selection) => match selection.filters(&program.name) {
                Some(filters) => filters,
                None => continue,
            },
            None => Vec::new(),
        };
        let words: Vec<&str> = chosen.into_iter().chain(options.words()).collect();
        if !has_tests(&program, options, &words) {
            continue;
        }
        let mut command = program.command();
        environment.apply(&mut command);
        if selection.is_some() {
            for name in OTHER_CASES {
                command.env_remove(name);
            }
        }
        command.args(&words);
        let mut threads = cores;
        if !args.is_serial()
            && !options.has("--test-threads")
            && std::env::var_os("RUST_TEST_THREADS").is_none()
        {
            threads = threads_of(&program.name, cores);
            command.arg(format!("--test-threads={threads}"));
        }
        if std::io::stdout().is_terminal() && !options.has("--color") {
            command.arg("--color=always");
        }
        if reports_times {
            report_times(&mut command);
        }
        jobs.push(Job {
            name: program.name,
            command,
            threads,
            is_noisy: false,
            has_result: !options.has("--list"),
        });
    }
    if !options.selects() && selection.is_none() && has_doc_tests(&args.package)? {
        // By the same cargo command as the build, so that nothing is compiled anew: with `--doc`, cargo would run
        // rustdoc for crates too that say to have no examples.
        let mut command = programs::cargo_test(&args.package);
        environment.apply(&mut command);
        command.args(["--no-fail-fast", "--", IN_DOC_TESTS]).args(options.words());
        let name = "doc tests".to_owned();
        jobs.push(Job { name, command, threads: cores, is_noisy: true, has_result: true });
    }
    if jobs.is_empty() {
        eprintln!("no test has such a name");
    }
    Ok(jobs)
}

/// More tests at once than cores where tests wait.
fn threads_of(program: &str, cores: usize) -> usize {
    let factor = WAITING.iter().find(|(name, _)| *name == program).map_or(1.0, |(_, factor)| *factor);
    (cores as f64 * factor).ceil() as usize
}

/// Whether a program has a test that would run. One that cannot be asked is run, and says itself what is wrong.
fn has_tests(program: &Program, options: Options<'_>, words: &[&str]) -> bool {
    if options.has("--list") {
        return true;
    }
    let listed = program.command().args(words).arg("--list").stdin(Stdio::null()).output();
    listed.map_or(true, |listed| {
        let text = String::from_utf8_lossy(&listed.stdout);
        !(listed.status.success() && text.lines().any(|line| line.starts_with("0 tests, 0 bench")))
    })
}

/// Let a program say how long each test took. On a stable toolchain libtest takes this option only from a compiler
/// that builds itself, as this variable claims. It is for the test program alone: cargo would build everything anew.
fn report_times(command: &mut Command) {
    command.args(["-Zunstable-options", "--report-time"]).env("RUSTC_BOOTSTRAP", "1");
}

/// Whether [`report_times`] works with this toolchain.
fn reports_times(program: &Program) -> bool {
    let mut command = program.command();
    report_times(&mut command);
    command.arg("--list").stdin(Stdio::null()).output().is_ok_and(|listed| listed.status.success())
}

/// Whether one of these packages has examples in its documentation that are tests: `doctest = false` says no.
fn has_doc_tests(packages: &[String]) -> anyhow::Result<bool> {
    let mut packages = shell::metadata()?
        .packages
        .iter()
        .filter(|package| packages.is_empty() || packages.contains(&package.name));
    Ok(packages.any(|package| package.targets.iter().any(|target| target.doctest)))
}

/// What the test programs find in their environment.
struct Environment {
    variables: Vec<(String, PathBuf)>,
}

impl Environment {
    fn apply(&self, command: &mut Command) {
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
    }
}

fn environment(servers: &Servers, links: PathBuf) -> anyhow::Result<Environment> {
    let mut variables: Vec<(String, PathBuf)> =
        servers.env().iter().map(|(name, value)| (name.clone(), value.into())).collect();
    if let Some(corpus) = corpus() {
        eprintln!("real charts and overlays from {}", corpus.display());
        variables.push(("PLURAL_CORPUS".to_owned(), corpus));
    }
    variables.push((go_programs::FOLDER_ENV.to_owned(), links));
    let cache = shell::cache()?;
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    variables.push(("PLURAL_TEST_EXCLUSIVE".to_owned(), exclusive(&cache)));
    Ok(Environment { variables })
}

/// The file that heavy tests lock, whatever program or checkout they belong to.
fn exclusive(cache: &Path) -> PathBuf {
    cache.join("test-exclusive.lock")
}

/// Folder with `helm-corpus/` and `kustomize-corpus/`: real inputs and what the real programs print, which are
/// no part of the repository. `$PLURAL_CORPUS`, else a folder `shared` beside the checkout.
pub(crate) fn corpus() -> Option<PathBuf> {
    let named = std::env::var_os("PLURAL_CORPUS").filter(|value| !value.is_empty()).map(PathBuf::from);
    let beside = || shell::root().parent().map(|parent| parent.join("shared"));
    named.or_else(beside).filter(|folder| folder.join("helm-corpus").is_dir())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Whole {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Args {
        Whole::parse_from(format!("test {line}").split_whitespace()).args
    }

    #[test]
    fn the_command_line_is_read() {
        let args = parse("-p plural-store renames -- --test-threads=1 lists");
        assert_eq!(args.package, ["plural-store"]);
        assert_eq!(args.options().words().collect::<Vec<_>>(), ["renames", "--test-threads=1", "lists"]);
        assert!(args.is_serial() && args.slowest.is_none());
        assert_eq!(parse("--slowest").slowest, Some(25));
        assert_eq!(parse("--slowest 10 --no-install").slowest, Some(10));
        assert!(parse("--serial").is_serial() && !parse("").is_serial());
        assert!(parse("-- --nocapture").is_serial());
        assert_eq!(parse("--suite bad-days").suite, Some(Suite::BadDays));
        assert!(parse("--suite regression -- --test-threads=1").selection().unwrap().is_some());
        for wrong in ["--suite attacks -- renames", "--suite attacks -- --skip slow"] {
            assert!(parse(wrong).selection().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_waits_has_more_threads() {
        assert_eq!(threads_of("plural it", 2), 3);
        assert_eq!(threads_of("store it", 2), 4);
        assert_eq!(threads_of("core lib", 2), 2);
        assert_eq!(threads_of("plural it", 16), 24);
    }
}
