//! The engine alone on a real API server: many objects arrive, stay, and are put right.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use futures::{StreamExt as _, stream};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use plural_core::ids::ServiceId;
use plural_render::{Object, Origin};
use plural_sync::{Engine, EngineOptions, Target};
use plural_testkit::real::RealCluster;
use serde_json::json;

use crate::{
    report::Figure,
    samples::Samples,
    server,
    usage::Usage,
    workload::{OBJECTS, objects},
};

const NAMESPACE: &str = "bench";
/// Objects that one foreign write changes, one after the other.
const DRIFTS: usize = 50;
/// How long one foreign write may stay.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Objects in the cluster
    #[arg(long, default_value_t = 5000)]
    objects: usize,
    /// Services that they belong to
    #[arg(long, default_value_t = 50)]
    services: usize,
    /// Services synced at the same time, as an agent does
    #[arg(long, default_value_t = 16)]
    at_once: usize,
    /// Simulated clusters of the global service; 0 leaves it out
    #[arg(long, default_value_t = 500)]
    clusters: usize,
    /// The global service alone
    #[arg(long)]
    global_only: bool,
}

struct Service {
    target: Target,
    objects: Vec<Object>,
}

pub(crate) async fn run(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let mut figures = if options.global_only { Vec::new() } else { engine(options).await? };
    if options.clusters > 0 {
        figures.extend(crate::spread::run(options.clusters).await?);
    }
    Ok(figures)
}

/// The engine alone.
async fn engine(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let Options { objects, services, at_once, clusters: _, global_only: _ } = *options;
    let limit = {
        eprintln!("measuring the API server alone: {objects} objects");
        let cluster = RealCluster::start().await?;
        let options = server::Options { services: objects / OBJECTS, connections: 32 };
        server::apply_all(&cluster, &options, NAMESPACE).await?.1
    };
    let cluster = RealCluster::start().await?;
    let client = cluster.client().await?;
    let services = make(objects, services);
    let total: usize = services.iter().map(|service| service.objects.len()).sum();
    let engine = Arc::new(Engine::start(client.clone(), EngineOptions::new("plural")).await?);

    eprintln!("first sync of {total} objects in {} services", services.len());
    let started = Instant::now();
    let changed = sync_all(&engine, &services, at_once).await?;
    let first = started.elapsed();
    anyhow::ensure!(changed == total, "{changed} of {total} objects were written");
    engine.changes().await;

    let (writes, before, started) = (writes(&cluster)?, Usage::of(std::process::id())?, Instant::now());
    let changed = sync_all(&engine, &services, at_once).await?;
    let again = started.elapsed();
    let after = Usage::of(std::process::id())?;
    anyhow::ensure!(changed == 0, "{changed} objects were written again");
    let written = self::writes(&cluster)? - writes;

    eprintln!("{DRIFTS} foreign writes");
    let drift = drifts(&engine, &client, &services).await?;
    Ok(vec![
        Figure::new("first sync", first.as_secs_f64(), "s")
            .at_most(15.0)
            .beside("objects", total as f64)
            .beside("API server alone", total as f64 / limit),
        Figure::new(
            "sync with nothing to do, CPU",
            after.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e3,
            "ms",
        )
        .at_most(200.0)
        .beside("elapsed", again.as_secs_f64() * 1e3),
        Figure::new("sync with nothing to do, writes", written as f64, "").at_most(0.0),
        Figure::new("memory, with the rendered objects", after.mebibytes(), "MiB").at_most(64.0),
        Figure::new("drift put right p50", drift.percentile(50), "ms")
            .at_most(300.0)
            .beside("p99", drift.percentile(99)),
    ])
}

fn make(objects_wanted: usize, services: usize) -> Vec<Service> {
    let units = objects_wanted / OBJECTS / services.max(1);
    (0..services)
        .map(|number| {
            let values = (0..units).flat_map(|unit| objects(NAMESPACE, number * units + unit));
            let origin = Origin { path: "objects.yaml".to_owned(), line: 1 };
            Service {
                target: Target::new(ServiceId::new(), format!("service-{number}"), NAMESPACE),
                objects: values.map(|value| Object { value, origin: origin.clone() }).collect(),
            }
        })
        .collect()
}

/// Syncs all services; tells how many objects were written.
async fn sync_all(engine: &Arc<Engine>, services: &[Service], at_once: usize) -> anyhow::Result<usize> {
    let mut results = stream::iter(services.iter().map(|service| {
        let engine = Arc::clone(engine);
        async move { engine.sync(&service.target, service.objects.clone()).await }
    }))
    .buffer_unordered(at_once);
    let mut changed = 0;
    while let Some(outcome) = results.next().await {
        anyhow::ensure!(outcome.applied, "a sync failed: {:?}", outcome.problems);
        changed += outcome.changed;
    }
    Ok(changed)
}

/// Changes one object after the other as somebody else would, and waits until each is put right.
async fn drifts(
    engine: &Arc<Engine>,
    client: &kube::Client,
    services: &[Service],
) -> anyhow::Result<Samples> {
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let mut samples = Samples::default();
    let somebody = PatchParams { field_manager: Some("somebody".to_owned()), ..PatchParams::default() };
    for number in 0..DRIFTS {
        let service = services.get(number % services.len()).context("no service")?;
        let map =
            service.objects.iter().filter(|object| object.kind() == "ConfigMap").nth(number / services.len());
        let name = map.context("no ConfigMap")?.name().to_owned();
        let patch = json!({"data": {"LOG_LEVEL": "debug"}});
        let started = Instant::now();
        maps.patch(&name, &somebody, &Patch::Merge(patch)).await?;
        let repaired = async {
            loop {
                let changes = engine.changes().await;
                if changes.get(&service.target.id).is_some_and(|change| change.resync) {
                    let outcome = engine.sync(&service.target, service.objects.clone()).await;
                    if outcome.changed > 0 {
                        return;
                    }
                }
            }
        };
        tokio::time::timeout(PATIENCE, repaired).await.context("a foreign write was not put right")?;
        samples.add(started.elapsed());
        let live = maps.get(&name).await?;
        let value = live.data.unwrap_or_default().remove("LOG_LEVEL");
        anyhow::ensure!(value.as_deref() == Some("info"), "{name} was not put right");
    }
    Ok(samples)
}

/// Writes in the API server's audit log that were not its own controllers'.
fn writes(cluster: &RealCluster) -> anyhow::Result<usize> {
    let is_write = |verb: &str| matches!(verb, "create" | "update" | "patch" | "delete" | "deletecollection");
    let events = cluster.audit()?;
    Ok(events
        .iter()
        .filter(|event| is_write(&event.verb) && !event.user.username.starts_with("system:"))
        .count())
}
