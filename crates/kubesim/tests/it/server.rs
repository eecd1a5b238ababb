//! What only the simulation has: outages, faults, audit, many clusters.

use plural_kubesim::{ClusterOptions, Sim};

#[tokio::test]
async fn answers_after_start() {
    let sim = Sim::new().unwrap();
    let c = sim.cluster(ClusterOptions::named("a")).await.unwrap();
    assert!(c.url().starts_with("https://127.0.0.1:"));
    c.stop().await;
}
