//! Garbage collection by owner references.

use plural_testkit::{TestCluster, each_cluster};
use serde_json::{Value, json};

use super::support::{Api, api, config_map, deployment};

each_cluster!(
    background_takes_dependents,
    foreground_waits_for_dependents,
    orphans_stay,
    one_of_two_owners_is_enough,
    dependents_of_nobody_go,
    deployment_makes_pods_and_takes_them_along,
);

async fn dependent(a: &Api, name: &str, owners: &[&Value]) -> Value {
    let refs: Vec<Value> = owners
        .iter()
        .map(|o| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": o["metadata"]["name"], "uid": o["metadata"]["uid"],
                "blockOwnerDeletion": true})
        })
        .collect();
    let mut c = config_map(name, json!({}));
    c["metadata"]["ownerReferences"] = refs.into();
    a.post(&a.core("configmaps"), c).await.expect(201)
}

async fn background_takes_dependents(cluster: TestCluster) {
    let a = api(&cluster).await;
    let owner = a.config_map("owner", json!({})).await;
    dependent(&a, "child", &[&owner]).await;
    a.delete(&a.core("configmaps/owner"), json!({"propagationPolicy": "Background"})).await.expect(200);
    a.get(&a.core("configmaps/owner")).await.refused(404, "NotFound");
    a.until(&a.core("configmaps/child"), |x| x.code == 404).await;
}

async fn foreground_waits_for_dependents(cluster: TestCluster) {
    let a = api(&cluster).await;
    let owner = a.config_map("owner", json!({})).await;
    let child = dependent(&a, "child", &[&owner]).await;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    a.merge(&a.core("configmaps/child"), hold).await.expect(200);
    let dying =
        a.delete(&a.core("configmaps/owner"), json!({"propagationPolicy": "Foreground"})).await.expect(200);
    assert_eq!(dying["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    a.until(&a.core("configmaps/child"), |x| x.body["metadata"]["deletionTimestamp"].is_string()).await;
    a.get(&a.core("configmaps/owner")).await.expect(200);
    assert!(child["metadata"]["uid"].is_string());
    a.merge(&a.core("configmaps/child"), json!({"metadata": {"finalizers": null}})).await.expect(200);
    a.until(&a.core("configmaps/child"), |x| x.code == 404).await;
    a.until(&a.core("configmaps/owner"), |x| x.code == 404).await;
}

async fn orphans_stay(cluster: TestCluster) {
    let a = api(&cluster).await;
    let owner = a.config_map("owner", json!({})).await;
    dependent(&a, "child", &[&owner]).await;
    a.delete(&a.core("configmaps/owner"), json!({"propagationPolicy": "Orphan"})).await.expect(200);
    a.until(&a.core("configmaps/owner"), |x| x.code == 404).await;
    let child = a.get(&a.core("configmaps/child")).await.expect(200);
    assert!(child["metadata"].get("ownerReferences").is_none(), "{child}");
}

async fn one_of_two_owners_is_enough(cluster: TestCluster) {
    let a = api(&cluster).await;
    let one = a.config_map("one", json!({})).await;
    let two = a.config_map("two", json!({})).await;
    dependent(&a, "child", &[&one, &two]).await;
    a.delete(&a.core("configmaps/one"), Value::Null).await.expect(200);
    let child = a
        .until(&a.core("configmaps/child"), |x| {
            x.body["metadata"]["ownerReferences"].as_array().is_some_and(|l| l.len() == 1)
        })
        .await;
    assert_eq!(child.body["metadata"]["ownerReferences"][0]["name"], "two");
    a.delete(&a.core("configmaps/two"), Value::Null).await.expect(200);
    a.until(&a.core("configmaps/child"), |x| x.code == 404).await;
}

async fn dependents_of_nobody_go(cluster: TestCluster) {
    let a = api(&cluster).await;
    let ghost = json!({"metadata": {"name": "ghost", "uid": "5b6ac1a6-1f0d-4c3b-a7ed-6f1d3a8f7a11"}});
    dependent(&a, "child", &[&ghost]).await;
    a.until(&a.core("configmaps/child"), |x| x.code == 404).await;
}

async fn deployment_makes_pods_and_takes_them_along(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.post(&a.apps("deployments"), deployment("d", 2)).await.expect(201);
    let ready = a.until(&a.apps("deployments/d"), |x| x.body["status"]["readyReplicas"] == 2).await.body;
    assert_eq!(ready["status"]["observedGeneration"], 1);
    let conditions = ready["status"]["conditions"].as_array().unwrap();
    let available = conditions.iter().find(|c| c["type"] == "Available").unwrap();
    assert_eq!(
        (&available["status"], &available["reason"]),
        (&json!("True"), &json!("MinimumReplicasAvailable"))
    );
    assert_eq!(ready["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    let sets = a.get(&a.apps("replicasets")).await.expect(200);
    let set = &sets["items"][0];
    assert_eq!(set["metadata"]["ownerReferences"][0]["uid"], ready["metadata"]["uid"]);
    let pods = a.get(&a.core("pods?labelSelector=app%3Dd")).await.expect(200);
    for p in pods["items"].as_array().unwrap() {
        assert_eq!(p["metadata"]["ownerReferences"][0]["kind"], "ReplicaSet");
        assert_eq!(p["status"]["phase"], "Running");
        assert!(p["spec"]["nodeName"].is_string());
    }
    a.delete(&a.apps("deployments/d"), json!({"propagationPolicy": "Background"})).await.expect(200);
    a.until(&a.core("pods"), |x| x.body["items"].as_array().is_some_and(Vec::is_empty)).await;
    a.until(&a.apps("replicasets"), |x| x.body["items"].as_array().is_some_and(Vec::is_empty)).await;
}
