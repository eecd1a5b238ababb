//! Discovery, versions, OpenAPI, health.

use plural_testkit::{TestCluster, each_cluster};
use serde_json::{Value, json};

use super::support::api;

each_cluster!(
    version_is_told,
    health_is_told,
    core_resources,
    groups_are_listed,
    aggregated_discovery,
    openapi_of_a_group,
    not_acceptable,
);

async fn version_is_told(cluster: TestCluster) {
    let a = api(&cluster).await;
    let v = a.get("/version").await.expect(200);
    assert_eq!((&v["major"], &v["minor"]), (&json!("1"), &json!("36")));
    assert!(v["gitVersion"].as_str().unwrap().starts_with("v1.36."));
}

async fn health_is_told(cluster: TestCluster) {
    let a = api(&cluster).await;
    for p in ["/healthz", "/livez", "/readyz"] {
        let h = a.get(p).await;
        assert_eq!((h.code, h.text.as_str()), (200, "ok"), "{p}");
    }
}

fn find<'a>(list: &'a Value, field: &str, name: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|r| r[field] == name).unwrap_or(&Value::Null)
}

async fn core_resources(cluster: TestCluster) {
    let a = api(&cluster).await;
    assert_eq!(a.get("/api").await.expect(200)["versions"], json!(["v1"]));
    let l = a.get("/api/v1").await.expect(200);
    let pods = find(&l["resources"], "name", "pods");
    assert_eq!(pods["shortNames"], json!(["po"]));
    assert_eq!(pods["categories"], json!(["all"]));
    assert_eq!(
        pods["verbs"],
        json!(["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"])
    );
    assert_eq!(find(&l["resources"], "name", "pods/log")["verbs"], json!(["get"]));
}

async fn groups_are_listed(cluster: TestCluster) {
    let a = api(&cluster).await;
    let l = a.get("/apis").await.expect(200);
    let autoscaling = find(&l["groups"], "name", "autoscaling");
    assert_eq!(autoscaling["preferredVersion"], json!({"groupVersion": "autoscaling/v2", "version": "v2"}));
    for g in
        ["apps", "batch", "networking.k8s.io", "rbac.authorization.k8s.io", "policy", "apiextensions.k8s.io"]
    {
        assert!(find(&l["groups"], "name", g).is_object(), "{g}");
    }
    a.get("/apis/not.there").await.code.eq(&404).then_some(()).unwrap();
}

async fn aggregated_discovery(cluster: TestCluster) {
    let a = api(&cluster).await;
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let answer = a.get_as("/apis", accept).await;
    assert!(answer.headers["content-type"].to_str().unwrap().contains("as=APIGroupDiscoveryList"));
    let l = answer.expect(200);
    let items = l["items"].as_array().unwrap();
    let apps = items.iter().find(|g| g["metadata"]["name"] == "apps").unwrap();
    let d = find(&apps["versions"][0]["resources"], "resource", "deployments");
    assert_eq!(d["scope"], "Namespaced");
    assert_eq!(d["responseKind"]["kind"], "Deployment");
    assert!(d["subresources"].as_array().unwrap().iter().any(|s| s["subresource"] == "scale"));
}

async fn openapi_of_a_group(cluster: TestCluster) {
    let a = api(&cluster).await;
    let index = a.get("/openapi/v3").await.expect(200);
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    let doc = a.get(&url).await.expect(200);
    let spec = &doc["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(spec["x-kubernetes-list-map-keys"], json!(["name"]));
    assert_eq!(spec["x-kubernetes-patch-merge-key"], "name");
    let patch = &doc["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    let names: Vec<&str> =
        patch["parameters"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"fieldValidation") && names.contains(&"dryRun"), "{names:?}");
}

async fn not_acceptable(cluster: TestCluster) {
    let a = api(&cluster).await;
    let e = a.get_as(&a.core("configmaps"), "application/x-nonsense").await;
    assert_eq!(e.code, 406, "{}", e.text);
}
