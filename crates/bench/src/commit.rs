//! From a commit to running objects.

use std::{
    collections::HashSet,
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use plural_agent::{AgentEvent, Parts};
use plural_kit::Metrics;
use plural_testkit::{GitRemote, TestCluster};

use crate::{fleet::Fleet, means::Means, report::Figure, samples::Samples, server::apply, workload::objects};

const WITHIN: Duration = Duration::from_mins(1);
const NAMESPACE: &str = "bench";
const FOLDER: &str = "web";

/// How often, and where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Commits
    #[arg(long, default_value_t = 100)]
    commits: usize,
    /// Numbers of simulated clusters
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10])]
    clusters: Vec<usize>,
}

pub(crate) async fn run(options: &Options, metrics: &Metrics) -> anyhow::Result<Vec<Figure>> {
    let limit = limit().await?;
    let mut figures = Vec::new();
    for &clusters in &options.clusters {
        eprintln!("{} commits to {clusters} clusters", options.commits);
        figures.extend(commits(options.commits, clusters, metrics, limit).await?);
    }
    Ok(figures)
}

/// What cannot be left out: git's fetch of one commit, and one server-side apply per changed object.
async fn limit() -> anyhow::Result<f64> {
    let remote = GitRemote::new()?;
    let mirror = GitRemote::new()?;
    let cluster = TestCluster::kubesim().await?;
    let client = cluster.client().await?;
    let namespace = cluster.namespace().await?;
    let mut samples = Samples::default();
    for round in 0..20 {
        remote.push_files([("web/objects.yaml", round.to_string())])?;
        let mut object = objects(&namespace, 0).into_iter().nth(1).context("no ConfigMap")?;
        if let Some(data) = object.get_mut("data") {
            *data = serde_json::json!({ "round": round.to_string() });
        }
        let started = Instant::now();
        fetch(&mirror.path(), &remote.path())?;
        apply(&client, &object).await?;
        samples.add(started.elapsed());
    }
    Ok(samples.percentile(50))
}

fn fetch(mirror: &Path, from: &Path) -> anyhow::Result<()> {
    let done = Command::new("git")
        .arg("-C")
        .arg(mirror)
        .args(["fetch", "--quiet", "--no-tags"])
        .arg(from)
        .arg("+refs/heads/*:refs/heads/*")
        .output()
        .context("cannot run git")?;
    anyhow::ensure!(done.status.success(), "git fetch failed: {}", String::from_utf8_lossy(&done.stderr));
    Ok(())
}

async fn commits(
    count: usize,
    clusters: usize,
    metrics: &Metrics,
    limit: f64,
) -> anyhow::Result<Vec<Figure>> {
    // All commits exist before the first is told of, so that only moving the branch is left to be timed.
    let remote = GitRemote::new()?;
    let ids = (0..=count)
        .map(|round| remote.push_files([(format!("{FOLDER}/objects.yaml"), manifests(round)?)]))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let (first, rest) = ids.split_first().context("no commits")?;
    remote.set_ref("refs/heads/main", first)?;

    let mut fleet = Fleet::start(Some(metrics.clone())).await?;
    fleet.add_simulated(clusters).await?;
    let repository = fleet.repository(&remote.path()).await?;
    for member in 0..fleet.members() {
        fleet.service(member, &repository, FOLDER, NAMESPACE).await?;
    }
    fleet.start_agents()?;
    arrival(&mut fleet, first, Instant::now()).await?;

    let before = Means::read(metrics);
    let (mut each, mut last) = (Samples::default(), Samples::default());
    let mut parts = [(); 5].map(|()| Samples::default());
    for commit in rest {
        let moved = Instant::now();
        move_branch(&remote, commit)?;
        let arrived = arrival(&mut fleet, commit, moved).await?;
        let mut slowest = Duration::ZERO;
        for (took, Parts { poll, queue, fetch, render, apply }) in arrived {
            each.add(took);
            slowest = slowest.max(took);
            for (samples, part) in parts.iter_mut().zip([poll, queue, fetch, render, apply]) {
                samples.add(part);
            }
        }
        last.add(slowest);
    }
    let after = Means::read(metrics);
    fleet.stop().await?;

    let mut p50 = Figure::new(format!("{clusters} clusters, p50"), each.percentile(50), "ms")
        .at_most(300.0)
        .beside("limit (git fetch and one apply)", limit);
    for (name, histogram) in [
        ("git fetch", "plural_git_fetch_seconds"),
        ("digest", "plural_git_closures_seconds"),
        ("artifact", "plural_git_artifact_seconds"),
        ("revise", "plural_service_revise_seconds"),
    ] {
        p50 = p50.beside(name, after.since(&before, histogram));
    }
    for (name, samples) in ["hint to answer", "queue", "fetch", "render", "apply"].into_iter().zip(&parts) {
        p50 = p50.beside(name, samples.percentile(50));
    }
    Ok(vec![
        p50,
        Figure::new(format!("{clusters} clusters, p99"), each.percentile(99), "ms")
            .at_most(1000.0)
            .beside("commits", count as f64),
        Figure::new(format!("{clusters} clusters, the last of them, p50"), last.percentile(50), "ms")
            .beside("p99", last.percentile(99)),
    ])
}

/// The objects of the service, one of which is new with each round.
fn manifests(round: usize) -> anyhow::Result<String> {
    let mut documents = Vec::new();
    for mut object in objects(NAMESPACE, 0) {
        if object.get("kind").is_some_and(|kind| kind == "ConfigMap")
            && let Some(data) = object.get_mut("data")
        {
            *data = serde_json::json!({ "round": round.to_string() });
        }
        documents.push(serde_json::to_string(&object)?);
    }
    Ok(documents.join("\n---\n") + "\n")
}

/// As git moves a branch, without the milliseconds that starting git takes.
pub(crate) fn move_branch(remote: &GitRemote, commit: &str) -> anyhow::Result<()> {
    let branch = remote.path().join("refs/heads/main");
    let lock = branch.with_extension("lock");
    fs::write(&lock, format!("{commit}\n"))?;
    fs::rename(&lock, &branch).context("cannot move the branch")
}

/// Wait until every cluster has the commit; returns how long each took and the parts of it.
async fn arrival(fleet: &mut Fleet, commit: &str, from: Instant) -> anyhow::Result<Vec<(Duration, Parts)>> {
    let mut waiting: HashSet<usize> = (0..fleet.members()).collect();
    let mut arrived = Vec::new();
    while !waiting.is_empty() {
        let told = tokio::time::timeout(WITHIN, fleet.told.recv())
            .await
            .with_context(|| format!("{commit} did not arrive everywhere within {WITHIN:?}"))?
            .context("the agents stopped")?;
        match told.event {
            AgentEvent::Applied { commit_sha, parts, .. }
                if commit_sha == commit && waiting.remove(&told.member) =>
            {
                arrived.push((told.at.duration_since(from), parts));
            }
            AgentEvent::Failed { service, message, .. } => anyhow::bail!("{service} failed: {message}"),
            _ => {}
        }
    }
    Ok(arrived)
}
