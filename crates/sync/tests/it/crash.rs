//! An agent that dies after any write leaves nothing that the next one does not finish.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use futures::{StreamExt, stream};
use http::{Method, Request, Response};
use kube::client::{Body, ClientBuilder};
use plural_render::Object;
use plural_sync::{Engine, ProgressStep, Target};
use plural_testkit::{Backend, TestCluster, each_cluster, exclusive};
use serde_json::json;
use tokio::sync::Notify;
use tower::{Layer, Service};

use crate::{
    fixture::{Fixture, PATIENCE, config_map, deployment, options, service, target},
    waves::{annotated, job},
};

each_cluster!(dying_after_any_write_ends_the_same, dying_within_phases_runs_no_hook_twice);

/// Lets `left` writes through; the next one never ends, and says so.
#[derive(Clone)]
struct Gate {
    left: Arc<AtomicUsize>,
    died: Arc<Notify>,
}

#[derive(Clone)]
struct Gated<S> {
    gate: Gate,
    inner: S,
}

impl<S> Layer<S> for Gate {
    type Service = Gated<S>;
    fn layer(&self, inner: S) -> Gated<S> {
        Gated { gate: self.clone(), inner }
    }
}

impl<S, B> Service<Request<Body>> for Gated<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let write = request.method() != Method::GET;
        let allowed = !write
            || self
                .gate
                .left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
                .is_ok();
        let call = self.inner.call(request);
        let died = Arc::clone(&self.gate.died);
        Box::pin(async move {
            if allowed {
                return call.await;
            }
            died.notify_one();
            std::future::pending().await
        })
    }
}

async fn dying_after_any_write_ends_the_same(cluster: TestCluster) -> anyhow::Result<()> {
    let before = vec![config_map("gone-1", "1"), config_map("stays", "1"), config_map("gone-2", "1")];
    let after =
        vec![config_map("stays", "2"), config_map("new-1", "1"), service("new-2"), config_map("new-3", "1")];
    let config = kube::Config::from_custom_kubeconfig(
        kube::config::Kubeconfig::read_from(cluster.kubeconfig())?,
        &kube::config::KubeConfigOptions::default(),
    )
    .await?;
    let mut f = Fixture::new(cluster).await?;
    let mut finished = false;
    for writes in 0..20 {
        f.target = crate::fixture::target("shop", &f.cluster.namespace().await?);
        f.namespace.clone_from(&f.target.namespace);
        f.restart().await?;
        assert!(f.sync(before.clone()).await.applied);

        let gate = Gate { left: Arc::new(AtomicUsize::new(writes)), died: Arc::new(Notify::new()) };
        let client = ClientBuilder::try_from(config.clone())?.with_layer(&gate).build();
        let doomed = Engine::start(client, options(&f.agent_namespace)).await?;
        tokio::select! {
            outcome = doomed.sync(&f.target, after.clone()) => {
                assert!(outcome.applied, "{outcome:?}");
                finished = true;
            }
            () = gate.died.notified() => {}
        }
        drop(doomed);

        f.restart().await?;
        let outcome = f.sync(after.clone()).await;
        assert!(outcome.applied, "after {writes} writes: {outcome:?}");
        assert_eq!(f.config_map_names().await?, ["new-1", "new-3", "stays"], "after {writes} writes");
        let mut recorded = f.recorded().await?.unwrap();
        recorded.sort();
        assert_eq!(recorded, ["new-1", "new-2", "new-3", "stays"], "after {writes} writes");
        for name in ["new-1", "new-3", "stays"] {
            let live = f.config_maps().get(name).await?;
            let ours = live.metadata.managed_fields.unwrap_or_default();
            assert_eq!(ours.iter().filter(|entry| entry.manager.as_deref() == Some("plural")).count(), 1);
        }
        assert_eq!(f.sync(after.clone()).await.unchanged, 4);
        if finished {
            return Ok(());
        }
    }
    anyhow::bail!("a sync of four objects took more than twenty writes")
}

/// Forty objects in three phases and several waves, four of them hooks.
fn forty() -> Vec<Object> {
    let mut objects = vec![
        annotated(config_map("settings", "1"), json!({"deployment.plural.sh/sync-hook": "pre-sync"})),
        job(
            "migrate",
            "well",
            json!({"argocd.argoproj.io/hook": "PreSync", "argocd.argoproj.io/sync-wave": "5"}),
        ),
        job(
            "seed",
            "well",
            json!({"helm.sh/hook": "pre-install", "helm.sh/hook-weight": "7",
            "helm.sh/hook-delete-policy": "hook-succeeded"}),
        ),
        annotated(deployment("db"), json!({"argocd.argoproj.io/sync-wave": "-1"})),
        deployment("web"),
        service("web"),
        job("announce", "well", json!({"argocd.argoproj.io/hook": "PostSync"})),
        job(
            "report",
            "well",
            json!({"helm.sh/hook": "post-install", "helm.sh/hook-delete-policy": "hook-succeeded"}),
        ),
    ];
    for number in 0..32 {
        let map = config_map(&format!("map-{number:02}"), "1");
        let wave = json!({"argocd.argoproj.io/sync-wave": (number / 11 * 3).to_string()});
        objects.push(annotated(map, wave));
    }
    objects
}

const HOOKS: [&str; 4] = ["migrate", "seed", "announce", "report"];

async fn until_complete(engine: &Engine, target: &Target, objects: &[Object]) {
    loop {
        let outcome = engine.sync(target, objects.to_vec()).await;
        if outcome.progress.step == ProgressStep::Complete && outcome.applied {
            return;
        }
        // News, or something of which no news comes.
        let _ = tokio::time::timeout(std::time::Duration::from_secs(1), engine.changes()).await;
    }
}

async fn dying_within_phases_runs_no_hook_twice(cluster: TestCluster) -> anyhow::Result<()> {
    let _alone = exclusive().await;
    let config = kube::Config::from_custom_kubeconfig(
        kube::config::Kubeconfig::read_from(cluster.kubeconfig())?,
        &kube::config::KubeConfigOptions::default(),
    )
    .await?;
    let client = cluster.client().await?;
    let objects = forty();
    assert_eq!(objects.len(), 40);
    let one = async |writes: usize| -> anyhow::Result<bool> {
        let namespace = cluster.namespace().await?;
        let agent_namespace = cluster.namespace().await?;
        let target = target("shop", &namespace);
        let gate = Gate { left: Arc::new(AtomicUsize::new(writes)), died: Arc::new(Notify::new()) };
        let doomed_client = ClientBuilder::try_from(config.clone())?.with_layer(&gate).build();
        let doomed = Engine::start(doomed_client, options(&agent_namespace)).await?;
        let finished = tokio::select! {
            () = until_complete(&doomed, &target, &objects) => true,
            () = gate.died.notified() => false,
        };
        drop(doomed);

        let engine = Engine::start(client.clone(), options(&agent_namespace)).await?;
        tokio::time::timeout(PATIENCE, until_complete(&engine, &target, &objects)).await.map_err(|_| {
            anyhow::anyhow!("not complete after {writes} writes: {:?}", engine.components(target.id))
        })?;
        let made = cluster.writes(&namespace)?;
        for hook in HOOKS {
            let runs =
                made.iter().filter(|w| w.resource == "jobs" && w.name == hook && w.code == 201).count();
            assert_eq!(runs, 1, "{hook} after {writes} writes");
        }
        let components = engine.components(target.id);
        assert_eq!(components.len(), 40, "after {writes} writes");
        let bad: Vec<_> = components.iter().filter(|found| !found.synced).collect();
        assert!(bad.is_empty(), "after {writes} writes: {bad:?}");
        let again = engine.sync(&target, objects.clone()).await;
        assert_eq!((again.changed, again.unchanged), (0, 40), "after {writes} writes: {again:?}");
        Ok(finished)
    };
    // The simulation dies after every write. On the real API server, which takes longer, it is every fourth: what it does of
    // its own is what it is asked for, not another order of our writes.
    let step = if cluster.backend() == Backend::Real { 4 } else { 1 };
    // Each in a namespace of its own, several at once: the cluster is what takes the time.
    let mut lives = Vec::new();
    for writes in (0..80).step_by(step) {
        lives.push(one(writes));
    }
    let mut results = stream::iter(lives).buffered(8);
    let mut writes = 0;
    while let Some(finished) = results.next().await {
        if finished? {
            assert!(writes >= 40, "only {writes} writes");
            return Ok(());
        }
        writes += step;
    }
    anyhow::bail!("a sync of forty objects took more than eighty writes")
}
