//! JSON patch, merge patch, strategic merge patch.

use plural_testkit::{TestCluster, each_cluster};
use serde_json::{Value, json};

use super::support::{api, deployment};

each_cluster!(
    json_patch_adds_and_removes,
    json_patch_test_fails,
    merge_patch_null_removes,
    merge_patch_replaces_lists,
    strategic_merges_lists_by_key,
    strategic_directives,
    strategic_is_not_for_custom_kinds,
    patch_with_stale_revision,
    patch_may_not_rename,
    patch_of_missing_object,
    unknown_patch_type,
);

const JSON: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

async fn json_patch_adds_and_removes(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.config_map("a", json!({"k": "v", "gone": "x"})).await;
    let patch = json!([
        {"op": "test", "path": "/data/k", "value": "v"},
        {"op": "add", "path": "/data/new", "value": "w"},
        {"op": "remove", "path": "/data/gone"},
        {"op": "add", "path": "/metadata/labels", "value": {"example.com/l": "1"}},
        {"op": "replace", "path": "/metadata/labels/example.com~1l", "value": "2"},
    ]);
    let now = a.patch(&a.core("configmaps/a"), JSON, patch).await.expect(200);
    assert_eq!(now["data"], json!({"k": "v", "new": "w"}));
    assert_eq!(now["metadata"]["labels"], json!({"example.com/l": "2"}));
}

async fn json_patch_test_fails(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.config_map("a", json!({"k": "v"})).await;
    let patch =
        json!([{"op": "test", "path": "/data/k", "value": "other"}, {"op": "remove", "path": "/data/k"}]);
    a.patch(&a.core("configmaps/a"), JSON, patch).await.refused(422, "Invalid");
    assert_eq!(a.get(&a.core("configmaps/a")).await.expect(200)["data"], json!({"k": "v"}));
}

async fn merge_patch_null_removes(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.config_map("a", json!({"k": "v", "gone": "x"})).await;
    let now = a.merge(&a.core("configmaps/a"), json!({"data": {"gone": null, "new": "w"}})).await.expect(200);
    assert_eq!(now["data"], json!({"k": "v", "new": "w"}));
}

async fn merge_patch_replaces_lists(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.post(&a.apps("deployments"), deployment("d", 0)).await.expect(201);
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "only", "image": "example.com/x:1"}]}}}});
    let now = a.merge(&a.apps("deployments/d"), patch).await.expect(200);
    let containers = now["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 1);
    assert_eq!(containers[0]["name"], "only");
}

fn containers(o: &Value) -> Vec<(String, String)> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let list = o["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    list.iter().map(|c| (text(&c["name"]), text(&c["image"]))).collect()
}

async fn strategic_merges_lists_by_key(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.post(&a.apps("deployments"), deployment("d", 0)).await.expect(201);
    let patch = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "side", "image": "example.com/side:1"}, {"name": "main", "image": "example.com/app:2"}]}}}});
    let now = a.patch(&a.apps("deployments/d"), STRATEGIC, patch).await.expect(200);
    let mut got = containers(&now);
    got.sort();
    assert_eq!(
        got,
        [
            ("main".to_owned(), "example.com/app:2".to_owned()),
            ("side".to_owned(), "example.com/side:1".to_owned())
        ]
    );
}

async fn strategic_directives(cluster: TestCluster) {
    let a = api(&cluster).await;
    let path = a.apps("deployments/d");
    let mut d = deployment("d", 0);
    let list = d["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap();
    list.push(json!({"name": "side", "image": "example.com/side:1"}));
    a.post(&a.apps("deployments"), d).await.expect(201);
    let gone =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}}});
    let now = a.patch(&path, STRATEGIC, gone).await.expect(200);
    assert_eq!(containers(&now), [("main".to_owned(), "example.com/app:1".to_owned())]);
    let retain = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    let now = a.patch(&path, STRATEGIC, retain).await.expect(200);
    assert_eq!(now["spec"]["strategy"], json!({"type": "Recreate"}));
}

async fn strategic_is_not_for_custom_kinds(cluster: TestCluster) {
    let a = api(&cluster).await;
    let g = super::support::group();
    super::custom::define(&a, &g, json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}))
        .await;
    let path = format!("/apis/{g}/v1/namespaces/{}/things", a.ns);
    let thing = json!({"apiVersion": format!("{g}/v1"), "kind": "Thing", "metadata": {"name": "t"}});
    a.post(&path, thing).await.expect(201);
    let e = a.patch(&format!("{path}/t"), STRATEGIC, json!({"spec": {}})).await;
    e.refused(415, "UnsupportedMediaType");
}

async fn patch_with_stale_revision(cluster: TestCluster) {
    let a = api(&cluster).await;
    let first = a.config_map("a", json!({"k": "v"})).await;
    a.merge(&a.core("configmaps/a"), json!({"data": {"k": "w"}})).await.expect(200);
    let rv = &first["metadata"]["resourceVersion"];
    let patch = json!({"metadata": {"resourceVersion": rv}, "data": {"k": "x"}});
    a.merge(&a.core("configmaps/a"), patch).await.refused(409, "Conflict");
}

async fn patch_may_not_rename(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.config_map("a", json!({})).await;
    let e = a.merge(&a.core("configmaps/a"), json!({"metadata": {"name": "b"}})).await;
    e.refused(400, "BadRequest");
}

async fn patch_of_missing_object(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.merge(&a.core("configmaps/a"), json!({"data": {}})).await.refused(404, "NotFound");
}

async fn unknown_patch_type(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.config_map("a", json!({})).await;
    let e = a.patch(&a.core("configmaps/a"), "application/json", json!({})).await;
    e.refused(415, "UnsupportedMediaType");
}
