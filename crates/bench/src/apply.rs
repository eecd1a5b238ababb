//! Many services arrive in one cluster at once.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use plural_agent::AgentEvent;
use plural_kit::Metrics;
use plural_testkit::{GitRemote, real::RealCluster};
use plural_tunnel::Console;

use crate::{
    fleet::Fleet,
    report::Figure,
    samples::Samples,
    server,
    workload::{OBJECTS, objects},
};

const WITHIN: Duration = Duration::from_mins(10);
const NAMESPACE: &str = "bench";

/// How many.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Services, of four objects each
    #[arg(long, default_value_t = 1000)]
    services: usize,
    /// Connections of the limit's measurement
    #[arg(long, default_value_t = 32)]
    connections: usize,
}

pub(crate) async fn run(options: &Options, metrics: &Metrics) -> anyhow::Result<Vec<Figure>> {
    let Options { services, connections } = *options;
    // Each on a control plane of its own: a full database is slower than an empty one.
    eprintln!("measuring the API server alone: {services} services × {OBJECTS} objects");
    let limit = {
        let cluster = RealCluster::start().await?;
        server::apply_all(&cluster, &server::Options { services, connections }, NAMESPACE).await?.1
    };

    let cluster = RealCluster::start().await?;
    let remote = GitRemote::new()?;
    let mut files = Vec::new();
    for service in 0..services {
        let documents =
            objects(NAMESPACE, service).iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
        files.push((format!("{}/objects.yaml", folder(service)), documents.join("\n---\n") + "\n"));
    }
    remote.push_files(files)?;

    let mut fleet = Fleet::start(Some(metrics.clone())).await?;
    fleet.add_kubeconfig(&cluster.access().kubeconfig).await?;
    let repository = fleet.repository(&remote.path()).await?;
    eprintln!("registering {services} services");
    let registering = Instant::now();
    for service in 0..services {
        fleet.service(0, &repository, &folder(service), NAMESPACE).await?;
    }
    let registered = registering.elapsed();
    wait_for_artifacts(&fleet, services).await?;

    eprintln!("starting the agent");
    fleet.start_agents()?;
    let mut waiting: HashSet<String> = (0..services).map(folder).collect();
    let mut connected = None;
    let (mut fetch, mut render, mut apply) = (Samples::default(), Samples::default(), Samples::default());
    let mut done = Instant::now();
    while !waiting.is_empty() {
        let told = tokio::time::timeout(WITHIN, fleet.told.recv())
            .await
            .with_context(|| format!("{} services did not arrive within {WITHIN:?}", waiting.len()))?
            .context("the agent stopped")?;
        match told.event {
            AgentEvent::Connected => {
                connected.get_or_insert(told.at);
            }
            AgentEvent::Applied { service, parts, .. } => {
                waiting.remove(&service);
                done = told.at;
                fetch.add(parts.fetch);
                render.add(parts.render);
                apply.add(parts.apply);
            }
            AgentEvent::Failed { service, message, .. } => anyhow::bail!("{service} failed: {message}"),
            AgentEvent::Disconnected { message, .. } => eprintln!("the agent lost the console: {message}"),
            AgentEvent::Token(_) | AgentEvent::Destroyed { .. } => {}
        }
    }
    let took = done.duration_since(connected.context("the agent never connected")?).as_secs_f64();
    fleet.stop().await?;

    let objects = (services * OBJECTS) as f64;
    Ok(vec![
        Figure::new("all services applied, from the first answer on", took, "s")
            .at_most(15.0)
            .beside("API server alone", objects / limit)
            .beside("services", services as f64),
        Figure::new("objects applied", objects / took, "/s").beside("API server alone", limit),
        Figure::new("share of the API server's rate", objects / took / limit * 100.0, "%")
            .at_least(50.0)
            .beside("connections of the limit", connections as f64),
        Figure::new("one service, apply p50", apply.percentile(50), "ms")
            .beside("p99", apply.percentile(99))
            .beside("fetch p50", fetch.percentile(50))
            .beside("render p50", render.percentile(50)),
        Figure::new("registering a service", registered.as_secs_f64() * 1000.0 / services as f64, "ms"),
    ])
}

fn folder(service: usize) -> String {
    format!("service-{service:05}")
}

/// Until the console has an artifact of every service: what the agent then finds is all of them.
async fn wait_for_artifacts(fleet: &Fleet, services: usize) -> anyhow::Result<()> {
    let door = Console::new(&fleet.door(0)?)?;
    let started = Instant::now();
    loop {
        let told = door.poll(None, Vec::new()).await?;
        let ready = told.whole_services().filter(|service| !service.artifact_digest.is_empty()).count();
        if ready >= services {
            return Ok(());
        }
        anyhow::ensure!(
            started.elapsed() < WITHIN,
            "the console built {ready} of {services} artifacts within {WITHIN:?}"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
