//! A global service over many simulated clusters: when each has been told of it, when all are healthy, and the same for a
//! change of it.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use plural_agent::{AgentEvent, Parts};
use plural_testkit::GitRemote;

use crate::{fleet::Fleet, report::Figure, samples::Samples, workload::objects};

const NAMESPACE: &str = "bench";
const FOLDER: &str = "web";
const WITHIN: Duration = Duration::from_mins(5);
/// Between two looks at whether all are healthy.
const LOOK: Duration = Duration::from_millis(50);

/// How long it took until each cluster was told and until it had applied, and until the console knew all to be healthy.
struct Arrival {
    told: Samples,
    applied: Samples,
    healthy: Duration,
}

pub(crate) async fn run(clusters: usize) -> anyhow::Result<Vec<Figure>> {
    eprintln!("a global service over {clusters} simulated clusters");
    let remote = GitRemote::new()?;
    let documents: Vec<String> =
        objects(NAMESPACE, 0).iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    remote.push_files([(format!("{FOLDER}/objects.yaml"), documents.join("\n---\n") + "\n")])?;
    let mut fleet = Fleet::start(None).await?;
    fleet.add_simulated(clusters).await?;
    let repository = fleet.repository(&remote.path()).await?;
    fleet.start_agents()?;
    connected(&mut fleet).await?;

    let started = Instant::now();
    let id = fleet.global_service(&repository, FOLDER, NAMESPACE).await?;
    let first = arrival(&mut fleet, &id, 1, started).await?;
    let started = Instant::now();
    fleet.global_service_changed(&id, &repository, FOLDER, NAMESPACE, "2.0.0").await?;
    let change = arrival(&mut fleet, &id, 2, started).await?;
    fleet.stop().await?;

    let mut figures = Vec::new();
    for (what, Arrival { told, applied, healthy }) in [("it comes", first), ("it changes", change)] {
        let name = format!("global service over {clusters} clusters, {what}");
        figures.push(
            Figure::new(format!("{name}, all told"), told.percentile(100) / 1e3, "s")
                .at_most(2.0)
                .beside("p50", told.percentile(50) / 1e3),
        );
        figures.push(
            Figure::new(format!("{name}, all healthy"), healthy.as_secs_f64(), "s")
                .at_most(10.0)
                .beside("applied p50", applied.percentile(50) / 1e3)
                .beside("applied, last", applied.percentile(100) / 1e3),
        );
    }
    Ok(figures)
}

/// Waits until every agent has its stream.
async fn connected(fleet: &mut Fleet) -> anyhow::Result<()> {
    let mut waiting: HashSet<usize> = (0..fleet.members()).collect();
    while !waiting.is_empty() {
        let told = tokio::time::timeout(WITHIN, fleet.told.recv()).await;
        let told = told.with_context(|| format!("{} agents are not connected", waiting.len()))?;
        let told = told.context("the agents stopped")?;
        if matches!(told.event, AgentEvent::Connected) {
            waiting.remove(&told.member);
        }
    }
    Ok(())
}

/// Waits until every cluster has applied a generation and the console knows it to be healthy.
async fn arrival(fleet: &mut Fleet, id: &str, generation: u64, from: Instant) -> anyhow::Result<Arrival> {
    let (mut told, mut applied) = (Samples::default(), Samples::default());
    let mut waiting: HashSet<usize> = (0..fleet.members()).collect();
    let mut look = tokio::time::interval(LOOK);
    let mut seen: Vec<Option<(Duration, Duration)>> = vec![None; fleet.members()];
    loop {
        anyhow::ensure!(from.elapsed() < WITHIN, "{} clusters are not healthy", waiting.len());
        tokio::select! {
            event = fleet.told.recv() => {
                let event = event.context("the agents stopped")?;
                match event.event {
                    AgentEvent::Applied { parts: Parts { poll: _, queue, fetch, render, apply }, .. } => {
                        let arrived = event.at.duration_since(from);
                        let worked = queue + fetch + render + apply;
                        if let Some(seen) = seen.get_mut(event.member) {
                            // The last is the one that counts: it is of what was given last.
                            *seen = Some((arrived.saturating_sub(worked), arrived));
                        }
                        waiting.remove(&event.member);
                    }
                    AgentEvent::Failed { service, message, .. } => {
                        anyhow::bail!("{service} failed: {message}");
                    }
                    _ => {}
                }
            }
            // Also while some are waited for: the loop has to come round for the deadline to be seen.
            _ = look.tick() => {
                if waiting.is_empty() && fleet.all_healthy(id, generation).await? {
                    let healthy = from.elapsed();
                    for (when_told, when_applied) in seen.into_iter().flatten() {
                        told.add(when_told);
                        applied.add(when_applied);
                    }
                    return Ok(Arrival { told, applied, healthy });
                }
            }
        }
    }
}
