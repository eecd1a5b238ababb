//! Tasks of this repository: `cargo xtask up`, `test`, `check`, `bench`, `gen`, `accept`, `advisories`, `house`, `release`, `ui`,
//! `gallery`, `tidy`.
//!
//! Kept small on purpose: it is the first thing that a newcomer compiles. What needs the product's crates is a
//! binary of theirs that a task builds and runs.

mod accept;
mod advisories;
mod bench;
mod cargo_deny;
mod check;
mod debian;
mod generate;
mod go_programs;
mod house;
mod install;
mod keycloak;
mod node_programs;
mod python_programs;
mod release;
mod shell;
mod test;
mod tidy;
mod up;
mod web_console;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks of this repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Build plural and run it: a console, two simulated clusters, and a git repository to commit to
    #[command(disable_help_flag = true)]
    Up(up::Args),
    /// Install what the tests need, run them all, and print totals per backend
    Test(test::Args),
    /// Format, lints, licences and layering: what every commit must pass
    Check,
    /// Measure, beside the limit measured in the same run
    #[command(disable_help_flag = true)]
    Bench(bench::Args),
    /// Make the generated files anew (GraphQL schema, the client's shapes, command line reference)
    Gen,
    /// Take today's output as the expected output of snapshot tests; review the difference
    Accept(accept::Args),
    /// Known vulnerabilities of dependencies. Not a part of check: their database comes from a git host
    Advisories(advisories::Args),
    /// What a change costs here: touch points, lists, exported names, circles, build times
    House(house::Args),
    /// Build plural as it is given away: linked statically, so that it starts in every image, and started once to see it
    Release(release::Args),
    /// Build the web console into ui/dist, from where the program embeds it
    Ui,
    /// Screenshots of every page of the web console into ui/gallery; with `docs`, those of the documentation
    Gallery(web_console::GalleryArgs),
    /// Undeclared files, file sizes, crate layering, dependencies that nothing uses
    Tidy,
}

fn main() -> ExitCode {
    let done = match Args::parse().task {
        Task::Up(args) => up::run(&args),
        Task::Test(args) => test::run(&args),
        Task::Check => check::run(),
        Task::Bench(args) => bench::run(&args),
        Task::Gen => generate::run(),
        Task::Accept(args) => accept::run(&args),
        Task::Advisories(args) => advisories::run(&args),
        Task::House(args) => house::run(&args),
        Task::Release(args) => release::run(&args),
        Task::Ui => web_console::build(),
        Task::Gallery(args) => web_console::gallery(&args),
        Task::Tidy => tidy::run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}
