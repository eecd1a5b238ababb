//! Runs of stacks: from a commit to a plan, what the harness costs beside the bare tool, many stacks at rest, a large state, and
//! logs on their way to whoever follows them.

mod bare;
mod logs;
mod plans;
mod rest;
mod state;
mod watched;
mod world;

use crate::report::Figure;

use world::World;

/// How many, and how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Commits that are planned, one after the other
    #[arg(long, default_value_t = 30)]
    commits: usize,
    /// Times that the tool plans the same without us
    #[arg(long, default_value_t = 10)]
    bare: usize,
    /// Stacks of the console that rests
    #[arg(long, default_value_t = 1000)]
    stacks: usize,
    /// Repositories that they are in
    #[arg(long, default_value_t = 10)]
    repositories: usize,
    /// Seconds of rest in which its CPU is counted; a repository is looked at once a minute
    #[arg(long, default_value_t = 120)]
    rest: u64,
    /// MiB of the state
    #[arg(long, default_value_t = 50)]
    state: usize,
    /// Times that it is stored and read
    #[arg(long, default_value_t = 10)]
    times: usize,
    /// Lines that are printed one by one
    #[arg(long, default_value_t = 100)]
    lines: usize,
    /// Seconds in which a thousand lines each are printed
    #[arg(long, default_value_t = 30)]
    seconds: usize,
}

pub(crate) async fn run(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let Options { commits, bare, stacks, repositories, rest, state, times, lines, seconds } = *options;
    anyhow::ensure!(
        commits > 0 && bare > 0 && times > 0 && lines > 0,
        "nothing is measured that is not done"
    );
    anyhow::ensure!(
        repositories > 0 && stacks >= repositories,
        "a repository without a stack is not looked at"
    );
    let mut figures = Vec::new();
    {
        let mut world = World::start().await?;
        figures.extend(Box::pin(plans::run(&mut world, commits, bare)).await?);
        figures.extend(Box::pin(logs::run(&mut world, lines, seconds)).await?);
        figures.extend(Box::pin(state::run(&mut world, state, times)).await?);
        world.stop();
    }
    figures.extend(Box::pin(rest::run(stacks, repositories, rest)).await?);
    Ok(figures)
}
