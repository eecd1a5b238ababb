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

use http::{Method, Request, Response};
use kube::client::{Body, ClientBuilder};
use plural_sync::Engine;
use plural_testkit::{TestCluster, each_cluster};
use tokio::sync::Notify;
use tower::{Layer, Service};

use crate::fixture::{Fixture, config_map, options, service};

each_cluster!(dying_after_any_write_ends_the_same);

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
        let doomed = Engine::start(client, options(&f.namespace)).await?;
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
