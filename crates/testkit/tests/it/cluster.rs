//! What a test may expect of every kind of cluster.

use std::time::Duration;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use plural_testkit::{Backend, TestCluster, each_cluster, eventually};
use serde_json::json;

each_cluster!(
    deployments_become_available,
    writes_are_counted,
    a_plain_user_has_no_rights,
    kubectl_reaches_it
);

async fn deployments_become_available(cluster: TestCluster) -> anyhow::Result<()> {
    let namespace = cluster.namespace().await?;
    let deployments: Api<Deployment> = Api::namespaced(cluster.client().await?, &namespace);
    let deployment = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    }))?;
    deployments.create(&PostParams::default(), &deployment).await?;
    eventually(Duration::from_secs(30), || async {
        let status = deployments.get("web").await?.status.unwrap_or_default();
        if status.available_replicas == Some(2) { Ok(()) } else { Err(anyhow::anyhow!("{status:?}")) }
    })
    .await;
    Ok(())
}

async fn writes_are_counted(cluster: TestCluster) -> anyhow::Result<()> {
    let namespace = cluster.namespace().await?;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client().await?, &namespace);
    let map = serde_json::from_value(json!({"metadata": {"name": "settings"}}))?;
    maps.create(&PostParams::default(), &map).await?;
    maps.create(&PostParams::default(), &map).await.unwrap_err();
    maps.list(&ListParams::default()).await?;
    let ours = || {
        let writes = cluster.writes(&namespace).unwrap();
        writes.into_iter().filter(|w| w.user == "admin").collect::<Vec<_>>()
    };
    // The real one writes its log after the answer.
    eventually(Duration::from_secs(30), || async { ours().len() == 2 }).await;
    let writes = ours();
    assert_eq!(writes.iter().map(|w| w.code).collect::<Vec<_>>(), [201, 409]);
    assert_eq!((writes[0].verb.as_str(), writes[0].resource.as_str()), ("create", "configmaps"));
    Ok(())
}

async fn a_plain_user_has_no_rights(cluster: TestCluster) -> anyhow::Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(cluster.plain_client().await?, "default");
    let error = maps.list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 403), "{error}");
    Ok(())
}

async fn kubectl_reaches_it(cluster: TestCluster) -> anyhow::Result<()> {
    let Some(mut kubectl) = cluster.kubectl_or_report() else { return Ok(()) };
    let output =
        tokio::task::spawn_blocking(move || kubectl.args(["version", "--output=json"]).output()).await??;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let version: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let expected = format!("v{}", plural_testkit::real::KUBERNETES_VERSION);
    for side in ["clientVersion", "serverVersion"] {
        assert_eq!(version[side]["gitVersion"], expected.as_str(), "{side} of {:?}", cluster.backend());
    }
    assert_eq!(cluster.as_kubesim().is_some(), cluster.backend() == Backend::Kubesim);
    Ok(())
}
