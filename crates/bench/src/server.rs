//! How fast the real API server is with nothing of ours in front of it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use anyhow::Context as _;
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::{GroupVersionKind, TypeMeta},
    discovery::ApiResource,
};
use plural_testkit::real::RealCluster;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::{
    report::Figure,
    samples::Samples,
    workload::{OBJECTS, objects},
};

/// What to apply.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Services, of four objects each
    #[arg(long, default_value_t = 1000)]
    pub(crate) services: usize,
    /// Connections that apply at the same time
    #[arg(long, default_value_t = 32)]
    pub(crate) connections: usize,
}

pub(crate) async fn run(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let cluster = RealCluster::start().await?;
    eprintln!("a control plane is up; applying {} services × {OBJECTS} objects", options.services);
    let (created, create_rate) = apply_all(&cluster, options, "bench").await?;
    let (unchanged, unchanged_rate) = apply_all(&cluster, options, "bench").await?;
    Ok(vec![
        Figure::new("creating applies", create_rate, "/s")
            .beside("connections", options.connections as f64)
            .beside("objects", created.len() as f64),
        Figure::new("creating apply p50", created.percentile(50), "ms").beside("p99", created.percentile(99)),
        Figure::new("unchanged applies", unchanged_rate, "/s").beside("objects", unchanged.len() as f64),
    ])
}

/// Apply every object once, from so many connections; returns each apply's time and the rate of all.
pub(crate) async fn apply_all(
    cluster: &RealCluster,
    options: &Options,
    namespace: &str,
) -> anyhow::Result<(Samples, f64)> {
    make_namespace(cluster, namespace).await?;
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    let started = Instant::now();
    for _ in 0..options.connections {
        // A client of its own is a connection of its own.
        let client = cluster.client().await?;
        let (next, services, namespace) = (Arc::clone(&next), options.services, namespace.to_owned());
        tasks.spawn(async move {
            let mut samples = Samples::default();
            loop {
                let service = next.fetch_add(1, Ordering::Relaxed);
                if service >= services {
                    return anyhow::Ok(samples);
                }
                for object in objects(&namespace, service) {
                    let from = Instant::now();
                    apply(&client, &object).await?;
                    samples.add(from.elapsed());
                }
            }
        });
    }
    let mut samples = Samples::default();
    while let Some(done) = tasks.join_next().await {
        samples.merge(done??);
    }
    let rate = samples.len() as f64 / started.elapsed().as_secs_f64();
    Ok((samples, rate))
}

async fn make_namespace(cluster: &RealCluster, name: &str) -> anyhow::Result<()> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Namespace"));
    let namespaces: Api<DynamicObject> = Api::all_with(cluster.client().await?, &resource);
    match namespaces.create(&PostParams::default(), &DynamicObject::new(name, &resource)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(e) => Err(e.into()),
    }
}

pub(crate) async fn apply(client: &kube::Client, object: &Value) -> anyhow::Result<()> {
    let types: TypeMeta = serde_json::from_value(object.clone())?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(types)?);
    let text = |field: &str| object.pointer(field).and_then(Value::as_str).unwrap_or_default();
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), text("/metadata/namespace"), &resource);
    let name = text("/metadata/name");
    api.patch(name, &PatchParams::apply("plural-bench").force(), &Patch::Apply(object))
        .await
        .with_context(|| format!("cannot apply {} {name}", resource.kind))?;
    Ok(())
}
