//! API servers that refuse, fail, hang and forget. Only the simulated one does so on demand.
//!
//! One backend is enough: no real API server refuses, hangs and forgets when told to.

use std::time::Duration;

use plural_kubesim::{Cluster, Fault, RequestInfo};
use plural_sync::{Engine, MANAGED_BY_LABEL, Retry};
use plural_testkit::{TestCluster, eventually, run_case};
use serde_json::json;

use crate::fixture::{Fixture, PATIENCE, config_map, object, options};

fn patches(info: &RequestInfo) -> bool {
    info.verb == "patch" && info.resource == "configmaps" && !info.name.starts_with("plural-inventory-")
}

fn simulated(f: &Fixture) -> &Cluster {
    f.cluster.as_kubesim().expect("a simulated cluster")
}

async fn fixture() -> anyhow::Result<Fixture> {
    Fixture::new(TestCluster::kubesim().await?).await
}

/// How often each object of the test was written, in name order.
fn writes(f: &Fixture) -> anyhow::Result<Vec<usize>> {
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    for write in f.cluster.writes(&f.namespace)? {
        if write.resource == "configmaps" && !write.name.starts_with("plural-inventory-") && write.code < 300
        {
            *counts.entry(write.name).or_default() += 1;
        }
    }
    Ok(counts.into_values().collect())
}

#[test]
fn refusals_for_load_are_waited_for() {
    run_case(async {
        let f = fixture().await?;
        simulated(&f).faults().inject(Fault::TooManyRequests { retry_after: 1 }, Some(2), patches);
        let started = tokio::time::Instant::now();
        let outcome = f.sync(vec![config_map("a", "1"), config_map("b", "1"), config_map("c", "1")]).await;
        assert!(outcome.applied && outcome.problems.is_empty(), "{outcome:?}");
        assert!(started.elapsed() >= Duration::from_secs(1), "Retry-After was honoured");
        assert_eq!(writes(&f)?, [1, 1, 1]);
        anyhow::Ok(())
    });
}

#[test]
fn a_failure_that_passes_is_outlived_and_one_that_stays_is_told() {
    run_case(async {
        let f = fixture().await?;
        let broken = || Fault::Status { code: 500, message: "etcd is on fire".to_owned() };
        simulated(&f).faults().inject(broken(), Some(2), patches);
        let outcome = f.sync(vec![config_map("a", "1")]).await;
        assert!(outcome.applied, "{outcome:?}");

        simulated(&f).faults().inject(broken(), None, |info| patches(info) && info.name == "b");
        let objects = vec![config_map("a", "1"), config_map("b", "1"), config_map("c", "1")];
        let outcome = f.sync(objects.clone()).await;
        assert!(!outcome.applied && outcome.retry == Retry::Soon, "{outcome:?}");
        assert!(
            outcome.problems[0].message.contains("ConfigMap")
                && outcome.problems[0].message.contains("on fire")
        );
        assert_eq!(f.config_map_names().await?, ["a", "c"]);
        simulated(&f).faults().clear();
        let outcome = f.sync(objects).await;
        assert!(outcome.applied && outcome.changed == 1 && outcome.unchanged == 2, "{outcome:?}");
        assert_eq!(writes(&f)?, [1, 1, 1]);
        anyhow::Ok(())
    });
}

#[test]
fn a_hanging_server_ends_at_the_deadline() {
    run_case(async {
        let mut f = fixture().await?;
        let options = plural_sync::EngineOptions {
            request_deadline: Duration::from_millis(300),
            ..options(&f.agent_namespace)
        };
        f.engine = Engine::start(f.client.clone(), options).await?;
        simulated(&f).faults().inject(Fault::Hang, None, |info| patches(info) && info.name == "b");
        let objects = vec![config_map("a", "1"), config_map("b", "1")];
        let outcome = f.sync(objects.clone()).await;
        assert!(!outcome.applied && outcome.retry == Retry::Soon, "{outcome:?}");
        assert!(outcome.problems[0].message.contains("no answer within"), "{outcome:?}");
        simulated(&f).faults().clear();
        assert!(f.sync(objects).await.applied);
        anyhow::Ok(())
    });
}

#[test]
fn a_write_whose_answer_is_lost_is_not_made_twice() {
    run_case(async {
        let f = fixture().await?;
        f.sync(vec![config_map("other", "1")]).await;
        simulated(&f).faults().inject(Fault::DropAfter, Some(1), |info| patches(info) && info.name == "a");
        let objects = vec![config_map("other", "1"), config_map("a", "1")];
        let outcome = f.sync(objects.clone()).await;
        assert!(outcome.applied || outcome.retry == Retry::Soon, "{outcome:?}");
        // The watch brings what the answer would have said.
        eventually(PATIENCE, async || f.component("a").is_some_and(|component| !component.uid.is_empty()))
            .await;
        let outcome = f.sync(objects).await;
        assert!(outcome.applied && outcome.changed == 0, "{outcome:?}");
        assert_eq!(writes(&f)?, [1, 1]);
        anyhow::Ok(())
    });
}

#[test]
fn watches_outlive_compaction_and_outages() {
    run_case(async {
        let f = fixture().await?;
        let objects = vec![config_map("a", "1")];
        f.sync(objects.clone()).await;
        simulated(&f).set_available(false);
        simulated(&f).set_available(true);
        f.meddle(&f.config_maps(), "a", json!({"data": {"key": "evil"}})).await?;
        simulated(&f).compact();
        f.settle(&objects, |outcome| outcome.changed == 1).await?;
        assert_eq!(f.config_maps().get("a").await?.data["data"]["key"], "1");
        anyhow::Ok(())
    });
}

#[test]
fn a_full_check_reads_and_never_writes() {
    run_case(async {
        let mut f = fixture().await?;
        let options = plural_sync::EngineOptions {
            full_check_every: Duration::from_millis(200),
            ..options(&f.agent_namespace)
        };
        f.engine = Engine::start(f.client.clone(), options).await?;
        f.sync(vec![config_map("a", "1"), config_map("b", "1")]).await;
        let before = simulated(&f).audit().writes();
        let lists = || simulated(&f).audit().count(|key| key.verb == "list" && key.resource == "configmaps");
        let seen = lists();
        eventually(PATIENCE, async || lists() >= seen + 4).await;
        assert_eq!(simulated(&f).audit().writes(), before);
        anyhow::Ok(())
    });
}

#[test]
fn what_a_watch_hides_is_not_deleted_unapproved() {
    run_case(async {
        let mut f = fixture().await?;
        let claim = object(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}));
        f.sync(vec![claim, config_map("a", "1")]).await;
        // A new engine lists the claim while its label is off, and its watch does not show that the label is back.
        let claims = f.api("v1", "PersistentVolumeClaim", "persistentvolumeclaims");
        let label = |value| json!({"metadata": {"labels": {MANAGED_BY_LABEL: value}}});
        f.meddle(&claims, "data", label(json!(null))).await?;
        simulated(&f).faults().inject(Fault::Hang, None, |info| {
            info.verb == "watch" && info.resource == "persistentvolumeclaims"
        });
        f.restart().await?;
        let left = vec![config_map("a", "1")];
        f.engine.plan(&f.target, left.clone()).await;
        f.meddle(&claims, "data", label(json!("agent"))).await?;

        let outcome = f.sync(left.clone()).await;
        assert_eq!((outcome.deleted, outcome.leaving), (0, 1), "{outcome:?}");
        let outcome = f.sync(left.clone()).await;
        let pending = outcome.pending.expect("the loss of data waits for a person");
        assert!(pending.reason.contains("loses data"), "{pending:?}");
        assert!(claims.get_opt("data").await?.is_some());
        f.target.approved_prune = Some(pending.digest);
        let outcome = f.sync(left).await;
        assert_eq!((outcome.deleted, outcome.pending), (1, None));
        assert!(claims.get_opt("data").await?.is_none());
        anyhow::Ok(())
    });
}
