//! Watches: where they start, what they say, how they end.

use plural_testkit::{TestCluster, each_cluster};
use serde_json::{Value, json};

use super::support::{api, step_of, with};

each_cluster!(
    watch_follows_a_list,
    watch_from_nothing_starts_with_what_is_there,
    watch_resumes_without_loss,
    watch_with_selector_sees_objects_leave,
    watch_of_one_object,
    watch_ends_after_its_time,
    watch_of_the_past_is_gone,
    watch_list_ends_with_a_bookmark,
    watch_of_metadata,
    watch_as_table,
    watch_refuses_bad_revision,
);

fn step(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

fn revision(o: &Value) -> String {
    o["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

async fn watch_follows_a_list(cluster: TestCluster) {
    let a = api(&cluster).await;
    let list = a.get(&a.core("secrets")).await.expect(200);
    let path = format!("{}?resourceVersion={}", a.core("secrets"), revision(&list));
    let mut w = a.watch(&path).await;
    a.post(&a.core("secrets"), json!({"metadata": {"name": "a"}})).await.expect(201);
    a.merge(&a.core("secrets/a"), json!({"stringData": {"k": "v"}})).await.expect(200);
    a.delete(&a.core("secrets/a"), Value::Null).await.expect(200);
    assert_eq!(w.step().await, step("ADDED", "a"));
    assert_eq!(w.step().await, step("MODIFIED", "a"));
    let gone = w.next().await;
    assert_eq!(gone["type"], "DELETED");
    assert_eq!(gone["object"]["data"], json!({"k": "dg=="}));
}

async fn watch_from_nothing_starts_with_what_is_there(cluster: TestCluster) {
    let a = api(&cluster).await;
    for n in ["a", "b"] {
        a.post(&a.core("secrets"), json!({"metadata": {"name": n}})).await.expect(201);
    }
    let mut w = a.watch(&a.core("secrets")).await;
    let mut first = vec![w.step().await, w.step().await];
    first.sort();
    assert_eq!(first, [step("ADDED", "a"), step("ADDED", "b")]);
    a.delete(&a.core("secrets/a"), Value::Null).await.expect(200);
    assert_eq!(w.step().await, step("DELETED", "a"));
}

async fn watch_resumes_without_loss(cluster: TestCluster) {
    let a = api(&cluster).await;
    let list = a.get(&a.core("secrets")).await.expect(200);
    let mut w = a.watch(&format!("{}?resourceVersion={}", a.core("secrets"), revision(&list))).await;
    a.post(&a.core("secrets"), json!({"metadata": {"name": "a"}})).await.expect(201);
    let seen = w.next().await;
    drop(w);
    a.merge(&a.core("secrets/a"), json!({"metadata": {"labels": {"n": "1"}}})).await.expect(200);
    a.post(&a.core("secrets"), json!({"metadata": {"name": "b"}})).await.expect(201);
    let mut w =
        a.watch(&format!("{}?resourceVersion={}", a.core("secrets"), revision(&seen["object"]))).await;
    assert_eq!(w.step().await, step("MODIFIED", "a"));
    assert_eq!(w.step().await, step("ADDED", "b"));
}

async fn watch_with_selector_sees_objects_leave(cluster: TestCluster) {
    let a = api(&cluster).await;
    let list = a.get(&a.core("secrets")).await.expect(200);
    let path = format!("{}?labelSelector=in%3Dyes&resourceVersion={}", a.core("secrets"), revision(&list));
    let mut w = a.watch(&path).await;
    a.post(&a.core("secrets"), json!({"metadata": {"name": "a"}})).await.expect(201);
    a.merge(&a.core("secrets/a"), json!({"metadata": {"labels": {"in": "yes"}}})).await.expect(200);
    let out = a.merge(&a.core("secrets/a"), json!({"metadata": {"labels": {"in": "no"}}})).await.expect(200);
    assert_eq!(w.step().await, step("ADDED", "a"));
    let gone = w.next().await;
    assert_eq!(gone["type"], "DELETED");
    assert_eq!(revision(&gone["object"]), revision(&out));
}

async fn watch_of_one_object(cluster: TestCluster) {
    let a = api(&cluster).await;
    for n in ["a", "b"] {
        a.post(&a.core("secrets"), json!({"metadata": {"name": n}})).await.expect(201);
    }
    let mut w = a.watch(&format!("{}?fieldSelector=metadata.name%3Db", a.core("secrets"))).await;
    assert_eq!(w.step().await, step("ADDED", "b"));
    a.delete(&a.core("secrets/a"), Value::Null).await.expect(200);
    a.delete(&a.core("secrets/b"), Value::Null).await.expect(200);
    assert_eq!(w.step().await, step("DELETED", "b"));
}

async fn watch_ends_after_its_time(cluster: TestCluster) {
    let a = api(&cluster).await;
    let list = a.get(&a.core("secrets")).await.expect(200);
    let path = format!("{}?timeoutSeconds=1&resourceVersion={}", a.core("secrets"), revision(&list));
    let mut w = a.watch(&path).await;
    assert!(w.ended().await);
}

async fn watch_of_the_past_is_gone(cluster: TestCluster) {
    let a = api(&cluster).await;
    let answer = a.get(&with(&a.core("secrets"), "watch=true&resourceVersion=1&timeoutSeconds=1")).await;
    // The answer is 200 with an ERROR event; a server that still remembers its first revision says nothing at all.
    if answer.text.trim().is_empty() {
        return;
    }
    let first: Value = serde_json::from_str(answer.text.lines().next().unwrap()).unwrap();
    if first["type"] == "ERROR" {
        assert_eq!(first["object"]["code"], 410);
        assert_eq!(first["object"]["reason"], "Expired");
        assert_eq!(first["object"]["kind"], "Status");
    }
}

async fn watch_list_ends_with_a_bookmark(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.post(&a.core("secrets"), json!({"metadata": {"name": "a"}})).await.expect(201);
    let (mut w, first) = a.watch_list(&a.core("secrets")).await;
    assert_eq!(step_of(&first), step("ADDED", "a"));
    let mark = w.next().await;
    assert_eq!(mark["type"], "BOOKMARK", "{mark}");
    assert_eq!(mark["object"]["kind"], "Secret");
    assert_eq!(mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true", "{mark}");
    assert!(revision(&mark["object"]).parse::<u64>().unwrap() > 0);
    a.post(&a.core("secrets"), json!({"metadata": {"name": "b"}})).await.expect(201);
    assert_eq!(w.step_after_bookmarks().await, step("ADDED", "b"));
}

async fn watch_of_metadata(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.post(&a.core("secrets"), json!({"metadata": {"name": "a"}, "stringData": {"k": "v"}}))
        .await
        .expect(201);
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let answer = a.get_as(&with(&a.core("secrets"), "watch=true&timeoutSeconds=1"), accept).await;
    let first: Value = serde_json::from_str(answer.text.lines().next().unwrap()).unwrap();
    assert_eq!(first["type"], "ADDED");
    assert_eq!(first["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(first["object"]["metadata"]["name"], "a");
    assert!(first["object"].get("data").is_none());
}

async fn watch_as_table(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.post(&a.core("secrets"), json!({"metadata": {"name": "a"}})).await.expect(201);
    let accept = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let answer = a.get_as(&with(&a.core("secrets"), "watch=true&timeoutSeconds=1"), accept).await;
    let first: Value = serde_json::from_str(answer.text.lines().next().unwrap()).unwrap();
    assert_eq!(first["type"], "ADDED");
    assert_eq!(first["object"]["kind"], "Table");
    assert_eq!(first["object"]["rows"][0]["cells"][0], "a");
    assert_eq!(first["object"]["columnDefinitions"][0]["name"], "Name");
}

async fn watch_refuses_bad_revision(cluster: TestCluster) {
    let a = api(&cluster).await;
    let e = a.get(&with(&a.core("secrets"), "watch=true&resourceVersion=abc&timeoutSeconds=1")).await;
    assert!(e.code >= 400 && e.text.contains("invalid syntax"), "{} {}", e.code, e.text);
}
