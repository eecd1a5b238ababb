//! What objects own, and what they say when they fail.
//!
//! One backend is enough: no real cluster has broken images and nodes on order, and none is without controllers.

use plural_core::component::ComponentState;
use plural_kubesim::ClusterOptions;
use plural_render::Object;
use plural_sync::{Child, Component};
use plural_testkit::{TestCluster, each_cluster};
use serde_json::json;

use crate::fixture::{Fixture, PATIENCE, deployment, object};

each_cluster!(pods_hang_below_their_deployment, a_failed_job_says_its_exit_code);

/// Waits until the component is as `good` wants it; syncs nothing.
async fn until(f: &Fixture, name: &str, good: impl Fn(&Component) -> bool) -> anyhow::Result<Component> {
    let wait = async {
        loop {
            if let Some(found) = f.component(name).filter(|found| good(found)) {
                return found;
            }
            f.engine.changes().await;
        }
    };
    // A look comes a moment after a change, and again when nothing got better.
    tokio::time::timeout(PATIENCE * 2, wait)
        .await
        .map_err(|_| anyhow::anyhow!("{name} is not as it should be: {:#?}", f.component(name)))
}

fn of_kind<'c>(component: &'c Component, kind: &str) -> Vec<&'c Child> {
    component.children.iter().filter(|child| child.key.kind.kind == kind).collect()
}

/// A Deployment whose Pods carry an annotation.
fn annotated(name: &str, annotation: &str, value: &str) -> Object {
    let mut made = deployment(name);
    made.value["spec"]["template"]["metadata"]["annotations"] = json!({annotation: value});
    made
}

async fn pods_hang_below_their_deployment(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let outcome = f.sync(vec![deployment("web")]).await;
    assert!(outcome.applied, "{outcome:?}");
    let found = until(&f, "web", |found| {
        found.state == Some(ComponentState::Running)
            && of_kind(found, "Pod").iter().any(|pod| pod.state == Some(ComponentState::Running))
    })
    .await?;
    let (sets, pods) = (of_kind(&found, "ReplicaSet"), of_kind(&found, "Pod"));
    assert_eq!((sets.len(), pods.len()), (1, 1), "{found:#?}");
    assert_eq!(
        (sets[0].parent_uid.as_str(), pods[0].parent_uid.as_str()),
        (found.uid.as_str(), sets[0].uid.as_str())
    );
    assert!(found.children.iter().all(|child| child.message.is_empty()), "{found:#?}");
    assert_eq!(found.message, "");
    Ok(())
}

async fn a_failed_job_says_its_exit_code(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let job = object(
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migrate"}, "spec": {
        "backoffLimit": 0, "template": {
            "metadata": {"annotations": {"test.plural.sh/pod": "failed", "kubesim.plural.sh/fail": "JobFailed"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "run", "image": "example.org/run:1"}]}}}}),
    );
    f.sync(vec![job]).await;
    let found = until(&f, "migrate", |found| {
        found.state == Some(ComponentState::Failed) && found.message.contains("ended with code 1")
    })
    .await?;
    assert!(found.message.contains("BackoffLimitExceeded"), "{}", found.message);
    assert!(found.message.contains("container run ended with code 1"), "{}", found.message);
    Ok(())
}

/// Only a simulated cluster can have these on order.
#[tokio::test]
async fn a_rollout_that_hangs_says_why() -> anyhow::Result<()> {
    for (order, words) in [
        (
            "ImagePullBackOff",
            vec!["container web: ImagePullBackOff", "example.org/web:1", "ErrImagePull: not found"],
        ),
        ("CrashLoop", vec!["container web ended with code 1 again and again", "last warning: BackOff"]),
        ("Unschedulable", vec!["0/1 nodes are available", "last warning: FailedScheduling"]),
    ] {
        let f = Fixture::new(TestCluster::kubesim().await?).await?;
        f.sync(vec![annotated("web", "kubesim.plural.sh/fail", order)]).await;
        let last = *words.last().unwrap();
        let found = until(&f, "web", |found| {
            found.message.contains(words[0])
                && (!last.starts_with("last") || found.message.contains("last warning"))
        })
        .await?;
        assert_eq!(found.state, Some(ComponentState::Pending), "{found:#?}");
        for words in
            words.iter().filter(|words| !words.contains("nodes") && !words.contains("FailedScheduling"))
        {
            assert!(found.message.contains(words), "{order}: {:?} has no {words:?}", found.message);
        }
        let pods = of_kind(&found, "Pod");
        let expected =
            if order == "Unschedulable" { ComponentState::Pending } else { ComponentState::Failed };
        assert_eq!(pods[0].state, Some(expected), "{found:#?}");
    }
    Ok(())
}

/// A load balancer owns nothing; the last warning about it is reported all the same.
#[tokio::test]
async fn the_last_warning_is_told() -> anyhow::Result<()> {
    // Without its controllers, the simulation gives load balancers no address: there is something to warn of.
    let options = ClusterOptions { workloads: false, ..ClusterOptions::named("test") };
    let f = Fixture::new(TestCluster::kubesim_with(options).await?).await?;
    f.sync(vec![object(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "lb"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}}))])
        .await;
    let live = until(&f, "lb", |found| found.state == Some(ComponentState::Pending)).await?;
    let event = |name: &str, kind: &str, reason: &str, at: &str| {
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "type": kind, "reason": reason,
            "message": format!("words of {name}"), "lastTimestamp": at,
            "involvedObject": {"kind": "Service", "name": "lb", "namespace": f.namespace, "uid": live.uid}})
    };
    let events = f.api("v1", "Event", "events");
    for made in [
        event("b", "Warning", "SyncFailed", "2026-11-02T03:00:02Z"),
        event("a", "Warning", "Older", "2026-11-02T03:00:01Z"),
        event("c", "Normal", "Fine", "2026-11-02T03:00:03Z"),
    ] {
        events.create(&kube::api::PostParams::default(), &serde_json::from_value(made)?).await?;
    }
    let found = until(&f, "lb", |found| found.message.contains("last warning")).await?;
    assert!(found.message.ends_with("last warning: SyncFailed: words of b"), "{}", found.message);
    Ok(())
}
