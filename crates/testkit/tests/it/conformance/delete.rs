//! Deletes: preconditions, finalizers, namespaces.

use plural_testkit::{TestCluster, each_cluster};
use serde_json::{Value, json};

use super::support::{api, causes, config_map};

each_cluster!(
    delete_answers_with_a_status,
    delete_of_missing_object,
    delete_with_wrong_uid,
    delete_with_old_revision,
    finalizer_holds_the_object,
    no_new_finalizers_on_a_dying_object,
    update_that_drops_the_last_finalizer_deletes,
    bad_finalizer_name,
    bad_propagation_policy,
    default_namespace_cannot_go,
    namespace_takes_its_content_along,
    terminating_namespace_takes_nothing_new,
    namespace_waits_for_finalizers,
);

async fn delete_answers_with_a_status(cluster: TestCluster) {
    let a = api(&cluster).await;
    let made = a.config_map("a", json!({})).await;
    let s = a.delete(&a.core("configmaps/a"), Value::Null).await.expect(200);
    assert_eq!(s["status"], "Success");
    assert_eq!(s["details"], json!({"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}));
    a.get(&a.core("configmaps/a")).await.refused(404, "NotFound");
}

async fn delete_of_missing_object(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.delete(&a.core("configmaps/a"), Value::Null).await.refused(404, "NotFound");
}

async fn delete_with_wrong_uid(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.config_map("a", json!({})).await;
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1",
        "preconditions": {"uid": "5b6ac1a6-1f0d-4c3b-a7ed-6f1d3a8f7a11"}});
    let e = a.delete(&a.core("configmaps/a"), options).await.refused(409, "Conflict");
    assert!(e["message"].as_str().unwrap().contains("does not match the UID in record"), "{e}");
    a.get(&a.core("configmaps/a")).await.expect(200);
}

async fn delete_with_old_revision(cluster: TestCluster) {
    let a = api(&cluster).await;
    let first = a.config_map("a", json!({})).await;
    a.merge(&a.core("configmaps/a"), json!({"data": {"k": "v"}})).await.expect(200);
    let options = json!({"preconditions": {"resourceVersion": first["metadata"]["resourceVersion"]}});
    a.delete(&a.core("configmaps/a"), options).await.refused(409, "Conflict");
}

fn held(name: &str) -> Value {
    let mut c = config_map(name, json!({}));
    c["metadata"]["finalizers"] = json!(["example.com/hold"]);
    c
}

async fn finalizer_holds_the_object(cluster: TestCluster) {
    let a = api(&cluster).await;
    let path = a.core("configmaps/a");
    a.post(&a.core("configmaps"), held("a")).await.expect(201);
    let dying = a.delete(&path, Value::Null).await.expect(200);
    assert!(dying["metadata"]["deletionTimestamp"].is_string(), "{dying}");
    assert_eq!(dying["metadata"]["deletionGracePeriodSeconds"], 0);
    let again = a.delete(&path, Value::Null).await.expect(200);
    assert_eq!(again["metadata"]["deletionTimestamp"], dying["metadata"]["deletionTimestamp"]);
    a.merge(&path, json!({"data": {"k": "v"}})).await.expect(200);
    a.merge(&path, json!({"metadata": {"finalizers": null}})).await.expect(200);
    a.get(&path).await.refused(404, "NotFound");
}

async fn no_new_finalizers_on_a_dying_object(cluster: TestCluster) {
    let a = api(&cluster).await;
    let path = a.core("configmaps/a");
    a.post(&a.core("configmaps"), held("a")).await.expect(201);
    a.delete(&path, Value::Null).await.expect(200);
    let more = json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}});
    let e = a.merge(&path, more).await.refused(422, "Invalid");
    // The real server checks twice for some kinds and then says it twice.
    assert_eq!(causes(&e)[0], ("FieldValueForbidden".to_owned(), "metadata.finalizers".to_owned()));
    a.merge(&path, json!({"metadata": {"finalizers": []}})).await.expect(200);
}

async fn update_that_drops_the_last_finalizer_deletes(cluster: TestCluster) {
    let a = api(&cluster).await;
    let path = a.core("configmaps/a");
    a.post(&a.core("configmaps"), held("a")).await.expect(201);
    let mut dying = a.delete(&path, Value::Null).await.expect(200);
    dying["metadata"]["finalizers"] = json!([]);
    a.put(&path, dying).await.expect(200);
    a.get(&path).await.refused(404, "NotFound");
}

async fn bad_finalizer_name(cluster: TestCluster) {
    let a = api(&cluster).await;
    for (name, field) in
        [("not-qualified", "metadata.finalizers[0]"), ("not qualified/", "metadata.finalizers")]
    {
        let mut c = config_map("a", json!({}));
        c["metadata"]["finalizers"] = json!([name]);
        let e = a.post(&a.core("configmaps"), c).await.refused(422, "Invalid");
        assert_eq!(causes(&e)[0], ("FieldValueInvalid".to_owned(), field.to_owned()), "{name}");
    }
}

async fn bad_propagation_policy(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.config_map("a", json!({})).await;
    let e = a.delete(&a.core("configmaps/a"), json!({"propagationPolicy": "Sideways"})).await;
    e.refused(422, "Invalid");
}

async fn default_namespace_cannot_go(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.delete("/api/v1/namespaces/default", Value::Null).await.refused(403, "Forbidden");
}

async fn namespace_takes_its_content_along(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.config_map("a", json!({})).await;
    let path = format!("/api/v1/namespaces/{}", a.ns);
    let dying = a.delete(&path, Value::Null).await.expect(200);
    assert_eq!(dying["status"]["phase"], "Terminating");
    a.until(&path, |x| x.code == 404).await;
    a.get(&a.core("configmaps/a")).await.refused(404, "NotFound");
}

async fn terminating_namespace_takes_nothing_new(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.post(&a.core("configmaps"), held("hold")).await.expect(201);
    let path = format!("/api/v1/namespaces/{}", a.ns);
    a.delete(&path, Value::Null).await.expect(200);
    let e = a.post(&a.core("configmaps"), config_map("b", json!({}))).await.refused(403, "Forbidden");
    assert_eq!(causes(&e), [("NamespaceTerminating".to_owned(), "metadata.namespace".to_owned())]);
    a.merge(&a.core("configmaps/hold"), json!({"metadata": {"finalizers": null}})).await.expect(200);
    a.until(&path, |x| x.code == 404).await;
}

async fn namespace_waits_for_finalizers(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.post(&a.core("configmaps"), held("hold")).await.expect(201);
    let path = format!("/api/v1/namespaces/{}", a.ns);
    a.delete(&path, Value::Null).await.expect(200);
    let ns = a
        .until(&path, |x| {
            let list = x.body["status"]["conditions"].as_array();
            list.into_iter()
                .flatten()
                .any(|c| c["type"] == "NamespaceFinalizersRemaining" && c["status"] == "True")
        })
        .await;
    assert!(ns.text.contains("example.com/hold"), "{}", ns.text);
    a.merge(&a.core("configmaps/hold"), json!({"metadata": {"finalizers": null}})).await.expect(200);
    a.until(&path, |x| x.code == 404).await;
}
