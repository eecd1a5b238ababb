//! The real control plane: ready means ready, and it can be killed.

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, Pod},
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
};
use plural_testkit::{
    eventually,
    real::{Binaries, RealCluster},
};
use serde_json::json;

const SOON: Duration = Duration::from_secs(30);

fn is_missing() -> bool {
    Binaries::find().inspect_err(plural_testkit::Missing::report).is_err()
}

fn object<K: serde::de::DeserializeOwned>(value: serde_json::Value) -> K {
    serde_json::from_value(value).unwrap()
}

async fn namespace(client: &kube::Client) -> String {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let made = namespaces
        .create(&PostParams::default(), &object(json!({"metadata": {"generateName": "testkit-"}})))
        .await
        .unwrap();
    made.name_any()
}

#[tokio::test]
async fn pods_start_log_and_go() {
    if is_missing() {
        return;
    }
    let cluster = RealCluster::shared_async().await.unwrap();
    let client = cluster.client().await.unwrap();
    let namespace = namespace(&client).await;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &namespace);
    deployments
        .create(
            &PostParams::default(),
            &object(json!({
                "metadata": {"name": "web"},
                "spec": {
                    "replicas": 2,
                    "selector": {"matchLabels": {"app": "web"}},
                    "template": {
                        "metadata": {"labels": {"app": "web"}},
                        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
                    },
                },
            })),
        )
        .await
        .unwrap();
    eventually(SOON, || async {
        let status = deployments.get("web").await?.status.unwrap_or_default();
        match status.available_replicas {
            Some(2) => Ok(()),
            _ => Err(anyhow::anyhow!("{status:?}")),
        }
    })
    .await;
    let pods: Api<Pod> = Api::namespaced(client, &namespace);
    let pod = pods.list(&ListParams::default()).await.unwrap().items.remove(0).name_any();
    let log = pods.logs(&pod, &kube::api::LogParams::default()).await.unwrap();
    assert!(log.starts_with("first line\nsecond line\n"), "{log:?}");
    deployments.delete("web", &DeleteParams::background()).await.unwrap();
    eventually(SOON, || async { pods.list(&ListParams::default()).await.unwrap().items.is_empty() }).await;

    let created = cluster
        .audit()
        .unwrap()
        .into_iter()
        .filter(|e| {
            e.object_ref.as_ref().is_some_and(|o| o.namespace == namespace && o.resource == "deployments")
        })
        .filter(|e| e.user.username == "admin" && e.verb == "create")
        .count();
    assert_eq!(created, 1, "the audit log counts writes");
}

#[tokio::test]
async fn jobs_complete_and_annotated_pods_fail() {
    if is_missing() {
        return;
    }
    let client = RealCluster::shared_async().await.unwrap().client().await.unwrap();
    let namespace = namespace(&client).await;
    let jobs: Api<k8s_openapi::api::batch::v1::Job> = Api::namespaced(client.clone(), &namespace);
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "c:1"}]});
    jobs.create(
        &PostParams::default(),
        &object(json!({"metadata": {"name": "once"}, "spec": {"template": {"spec": pod}}})),
    )
    .await
    .unwrap();
    let pods: Api<Pod> = Api::namespaced(client, &namespace);
    pods.create(
        &PostParams::default(),
        &object(json!({
            "metadata": {"name": "bad", "annotations": {"test.plural.sh/pod": "failed"}},
            "spec": pod,
        })),
    )
    .await
    .unwrap();
    eventually(SOON, || async {
        jobs.get("once").await.unwrap().status.and_then(|s| s.succeeded) == Some(1)
    })
    .await;
    eventually(SOON, || async {
        pods.get("bad").await.unwrap().status.and_then(|s| s.phase).as_deref() == Some("Failed")
    })
    .await;
}

#[tokio::test]
async fn an_api_server_of_ones_own_can_be_killed_frozen_and_restarted() {
    if is_missing() {
        return;
    }
    let shared = RealCluster::shared_async().await.unwrap();
    if std::env::var_os(plural_testkit::real::SHARED_ENV).is_some() {
        shared.kill_apiserver().unwrap_err();
    }
    let cluster = RealCluster::start().await.unwrap();
    let client = cluster.client().await.unwrap();
    let namespace = namespace(&client).await;
    cluster.kill_apiserver().unwrap();
    client.apiserver_version().await.unwrap_err();
    cluster.restart_apiserver().await.unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    eventually(SOON, || async { namespaces.get(&namespace).await }).await;

    cluster.freeze_apiserver().unwrap();
    tokio::time::timeout(Duration::from_millis(300), namespaces.get(&namespace)).await.unwrap_err();
    cluster.thaw_apiserver().unwrap();
    eventually(SOON, || async { namespaces.get(&namespace).await }).await;
}
