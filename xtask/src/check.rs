//! `cargo xtask check`: what every commit must pass, apart from the tests.

use std::{process::Command, time::Instant};

use crate::{cargo_deny, install, shell, tidy, web_console};

type Step = (&'static str, fn() -> anyhow::Result<()>);

const STEPS: [Step; 5] =
    [("fmt", fmt), ("clippy", clippy), ("deny", deny), ("tidy", tidy::run), ("ui", web_console::check)];

pub(crate) fn run() -> anyhow::Result<()> {
    let mut lines = Vec::new();
    let mut failed = Vec::new();
    for (name, step) in STEPS {
        eprintln!("== {name}");
        let started = Instant::now();
        let outcome = step();
        let took = shell::took(started);
        match outcome {
            Ok(()) => lines.push(format!("{name}: ok, {took}")),
            Err(e) => {
                eprintln!("{name}: {e:#}");
                lines.push(format!("{name}: FAILED, {took}"));
                failed.push(name);
            }
        }
    }
    println!("{}", lines.join("\n"));
    anyhow::ensure!(failed.is_empty(), "check failed: {}", failed.join(", "));
    Ok(())
}

fn fmt() -> anyhow::Result<()> {
    shell::run(shell::cargo().args(["fmt", "--all", "--check"]).current_dir(shell::root()))
}

fn clippy() -> anyhow::Result<()> {
    shell::run(
        shell::cargo()
            .args(["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"])
            .current_dir(shell::root()),
    )
}

/// Licences, bans and sources. Advisories are left to a job that has the advisory database: whether a commit
/// is good must not depend on the day.
fn deny() -> anyhow::Result<()> {
    install::install(cargo_deny::need()?.into_iter().collect(), true)?;
    shell::run(
        Command::new(cargo_deny::program()?)
            .args(["--workspace", "--all-features", "--log-level", "warn"])
            .args(["check", "--hide-inclusion-graph", "licenses", "bans", "sources"])
            .current_dir(shell::root()),
    )
}
