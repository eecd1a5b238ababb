//! Figures of the whole product: `cargo xtask bench NAME [--json]`.
//!
//! A bench runs once and reports numbers; it never fails because a number is bad. Those that run for long (`soak`, and
//! `proxy --sustained`) fail when a request is refused or a line of an audit log is lost: what they measure is then not what
//! they say. Beside each figure stands the limit that was measured in the same run, and what the last run on this machine said.

mod allocations;
mod api;
mod apply;
mod audit;
mod auth;
mod commit;
mod crowd;
mod fleet;
mod git;
mod idle;
mod list;
mod machine;
mod means;
mod memory;
mod page;
mod poll;
mod pr;
mod proxy;
mod proxy_load;
mod proxy_upstream;
mod render;
mod report;
mod samples;
mod seed;
mod server;
mod soak;
mod spread;
mod stacks;
mod sync;
mod table;
mod ui;
mod usage;
mod workload;

use std::{env, path::PathBuf};

use anyhow::Context as _;
use clap::{Parser, Subcommand};

use crate::report::Report;

/// Figures of the whole product.
#[derive(Debug, Parser)]
#[command(name = "plural-bench", bin_name = "cargo xtask bench")]
struct Args {
    /// One JSON object on stdout instead of a table
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// From a commit to the clusters: simulated ones, with the parts of the way
    Commit(commit::Options),
    /// Many services arrive in one real cluster, beside the API server's own rate
    Apply(apply::Options),
    /// Lines of the audit log a second, with its chain, beside the same rows without one
    Audit(audit::Options),
    /// Decisions about access: a cached token, and lists of many services for a user with many bindings
    Auth(auth::Options),
    /// Unchanged polls of many agents over TLS, beside an empty handler on the same stack
    Poll(poll::Options),
    /// Very many agents on one console: connecting at once, resting, being told
    Fleet(crowd::Options),
    /// Pull requests at Gitea: a form to its difference, to the open pull request, and a merge to its service; and plans of a commit
    /// over many simulated clusters
    Pr(pr::Options),
    /// Requests of people through console and agent, beside the same without them
    Proxy(proxy::Options),
    /// A large repository: first clone, fetches, digests of many services, artifacts built and given out, beside git and
    /// a server of nothing else
    Git(git::Options),
    /// Memory, CPU and writes of a console and an agent that have nothing to do, on a real cluster
    Idle(idle::Options),
    /// First rows of long lists, and pages in their middle
    List(list::Options),
    /// Memory of a console at rest by how many services it has
    Memory(memory::Options),
    /// Real charts and overlays, rendered in process, beside Helm and Kustomize
    Render(render::Options),
    /// Server-side applies per second that the real API server itself reaches: the limit of `apply`
    Server(server::Options),
    /// Memory of a console that works for an hour, with commits, lists, tokens and requests through the proxy, while nobody
    /// scrapes it
    Soak(soak::Options),
    /// Runs of stacks: commits to plans, the harness beside the bare tool, many stacks at rest, a large state, logs
    Stacks(stacks::Options),
    /// The engine alone: thousands of objects arrive, stay, and are put right, on the real API server; and a global
    /// service over many simulated clusters
    Sync(sync::Options),
    /// The web console in Chromium: first rows, searches, frames, changes that become visible, and what open pages cost
    Ui(ui::Options),
    /// Put the figures of the last runs into docs/benchmarks.md
    Page,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Args { json, bench } = Args::parse();
    if matches!(bench, Bench::Page) {
        return page::write(&folder()?);
    }
    let load = machine::load();
    let metrics = plural_kit::init_metrics()?;
    // Parts of it may be left out, and run later.
    let has_parts = matches!(bench, Bench::Pr(_));
    let (name, figures) = match bench {
        Bench::Commit(options) => ("commit", commit::run(&options, &metrics).await?),
        Bench::Apply(options) => ("apply", apply::run(&options, &metrics).await?),
        Bench::Audit(options) => ("audit", audit::run(&options, &metrics).await?),
        Bench::Auth(options) => ("auth", Box::pin(auth::run(&options)).await?),
        Bench::Idle(options) => ("idle", idle::run(&options).await?),
        Bench::Fleet(options) => ("fleet", Box::pin(crowd::run(&options)).await?),
        Bench::Git(options) => ("git", git::run(&options).await?),
        Bench::Proxy(options) => (options.name(), Box::pin(proxy::run(&options, &metrics)).await?),
        Bench::Pr(options) => ("pr", Box::pin(pr::run(&options)).await?),
        Bench::Poll(options) => ("poll", poll::run(&options).await?),
        Bench::List(options) => ("list", Box::pin(list::run(&options)).await?),
        Bench::Memory(options) => ("memory", memory::run(&options).await?),
        Bench::Render(options) => ("render", render::run(&options)?),
        Bench::Server(options) => ("server", server::run(&options).await?),
        Bench::Soak(options) => ("soak", Box::pin(soak::run(&options)).await?),
        Bench::Stacks(options) => ("stacks", Box::pin(stacks::run(&options)).await?),
        Bench::Sync(options) => ("sync", sync::run(&options).await?),
        Bench::Ui(options) => ("ui", Box::pin(ui::run(&options)).await?),
        // Done above: it measures nothing.
        Bench::Page => return Ok(()),
    };
    let mut report = Report {
        bench: name.to_owned(),
        machine: machine::describe(&load),
        commit: machine::commit(),
        figures,
    };
    let folder = folder()?;
    let before = Report::read(&folder, name);
    if has_parts && let Some(before) = &before {
        report.keep(before);
    }
    report.write(&folder)?;
    if json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print!("{}", table::render(&report, before.as_ref()));
    }
    Ok(())
}

/// Where reports are kept: `target/bench`.
fn folder() -> anyhow::Result<PathBuf> {
    if let Some(folder) = env::var_os("PLURAL_BENCH_DIR") {
        return Ok(folder.into());
    }
    // …/target/release/plural-bench
    let program = env::current_exe()?;
    let target = program.ancestors().nth(2).context("this program is not in a target folder")?;
    Ok(target.join("bench"))
}
