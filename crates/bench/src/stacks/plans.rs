//! From a commit to a plan, and what the harness adds to the tool.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use plural_testkit::GitRemote;
use plural_wire::{StackRun, StackStatus};
use serde_json::json;

use super::{
    bare::{self, Bare},
    watched::Watch,
    world::{WITHIN, World},
};
use crate::{commit::move_branch, report::Figure, samples::Samples};

const FOLDER: &str = "infra";
/// Between two looks at whether a harness has ended.
const LOOK: Duration = Duration::from_millis(10);
/// MiB that a harness may use.
const MEMORY: f64 = 30.0;

/// A resource of the kind that is built in: planning it asks nobody.
fn code(round: usize) -> String {
    format!("resource \"terraform_data\" \"one\" {{\n  input = \"round {round}\"\n}}\n")
}

/// Parts of the way of one commit.
#[derive(Default)]
struct Parts {
    /// From the moved branch until the console made a run.
    made: Samples,
    /// From there until the harness spoke.
    begun: Samples,
    /// From there until the plan was stored.
    planned: Samples,
}

pub(super) async fn run(world: &mut World, commits: usize, times: usize) -> anyhow::Result<Vec<Figure>> {
    // All commits exist before the first is told of, so that only moving the branch is left to be timed.
    let remote = GitRemote::new()?;
    let ids = (0..=commits)
        .map(|round| remote.push_files([(format!("{FOLDER}/main.tf"), code(round))]))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let (first, rest) = ids.split_first().context("no commits")?;
    remote.set_ref("refs/heads/main", first)?;
    let stack = world.stack(&remote, ("TERRAFORM", FOLDER), json!({"manageState": true})).await?;
    world.until(&stack, "the first plan", waits).await?;

    eprintln!("the tool alone plans {times} times");
    let Bare { planned: by_hand, all: bare } = bare::plan(world, &stack, &code(0), times).await?;
    eprintln!("{commits} commits are planned");
    let watch = Watch::start()?;
    let (mut whole, mut parts) = (Samples::default(), Parts::default());
    let mut runs = Vec::new();
    for commit in rest {
        let (moved, at) = (Instant::now(), Utc::now());
        move_branch(&remote, commit)?;
        let is_it = |run: &StackRun| run.sha.as_deref() == Some(commit.as_str()) && waits(run);
        let run = world.until(&stack, "a commit's plan", is_it).await?;
        whole.add(moved.elapsed());
        parts.add(at, &run);
        // It says that it is done, and ends: the next commit does not wait for that on its core.
        let started = Instant::now();
        while watch.is_running(&run.id) {
            anyhow::ensure!(started.elapsed() < WITHIN, "the harness of a plan does not end");
            tokio::time::sleep(LOOK).await;
        }
        runs.push(run.id);
    }
    let seen = watch.stop()?;
    let mut lives = Samples::default();
    let mut memory = Vec::new();
    for harness in seen.iter().filter(|harness| runs.contains(&harness.run)) {
        lives.add(harness.until.duration_since(harness.from));
        memory.push(harness.most);
    }
    anyhow::ensure!(lives.len() == runs.len(), "{} harnesses were seen of {}", lives.len(), runs.len());
    memory.sort_unstable();
    let mebibytes = |bytes: Option<&u64>| bytes.map_or(0.0, |bytes| *bytes as f64 / f64::from(1 << 20));

    let alone = bare.percentile(50);
    Ok(vec![
        Figure::new("commit to a planned run, besides the tool, p50", whole.percentile(50) - alone, "ms")
            .at_most(2000.0)
            .beside("with the tool p50", whole.percentile(50))
            .beside("with the tool p99", whole.percentile(99))
            .beside("tool alone", alone)
            .beside("commit to run", parts.made.percentile(50))
            .beside("run to harness", parts.begun.percentile(50))
            .beside("harness to plan", parts.planned.percentile(50))
            .beside("commits", runs.len() as f64),
        Figure::new("harness over the bare tool, p50", lives.percentile(50) - alone, "ms")
            .at_most(1000.0)
            .beside("harness p50", lives.percentile(50))
            .beside("harness p99", lives.percentile(99))
            .beside("tool alone: init, plan, show twice", alone)
            .beside("tool alone: init, plan", by_hand.percentile(50)),
        Figure::new("harness, memory at its most", mebibytes(memory.last()), "MiB")
            .at_most(MEMORY)
            .beside("p50", mebibytes(memory.get(memory.len() / 2))),
    ])
}

fn waits(run: &StackRun) -> bool {
    run.status == StackStatus::PendingApproval
}

impl Parts {
    fn add(&mut self, moved: DateTime<Utc>, run: &StackRun) {
        let stored = run.plan.as_ref().and_then(|plan| plan.at);
        let times = [Some(moved), run.created_at, run.started_at, stored];
        for (place, samples) in [&mut self.made, &mut self.begun, &mut self.planned].into_iter().enumerate() {
            // The console's clock is this machine's.
            let between = times[place].zip(times[place + 1]).and_then(|(from, to)| (to - from).to_std().ok());
            samples.add(between.unwrap_or_default());
        }
    }
}
