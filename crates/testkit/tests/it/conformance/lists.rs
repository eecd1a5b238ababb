//! Lists: selectors, pages, revisions, tables.

use plural_testkit::{TestCluster, each_cluster};
use serde_json::{Value, json};

use super::support::{Api, api, causes, names, with};

each_cluster!(
    list_has_a_revision,
    label_selectors,
    bad_label_selector,
    field_selectors,
    unsupported_field_selector,
    pages_are_one_snapshot,
    continue_token_with_revision_is_refused,
    bad_continue_token,
    bad_revision_is_refused,
    list_of_old_revision,
    list_over_all_namespaces,
    list_as_table,
    list_of_metadata,
    delete_collection_by_selector,
    list_of_unknown_resource,
);

async fn fill(a: &Api, n: usize) {
    for i in 0..n {
        let labels = json!({"n": i.to_string(), "even": (i % 2 == 0).to_string()});
        let s = json!({"metadata": {"name": format!("s{i}"), "labels": labels}});
        a.post(&a.core("secrets"), s).await.expect(201);
    }
}

async fn list_has_a_revision(cluster: TestCluster) {
    let a = api(&cluster).await;
    fill(&a, 2).await;
    let l = a.get(&a.core("secrets")).await.expect(200);
    assert_eq!(l["kind"], "SecretList");
    assert_eq!(l["apiVersion"], "v1");
    assert_eq!(names(&l), ["s0", "s1"]);
    assert!(l["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap() > 0);
    assert!(l["items"][0].get("kind").is_none());
}

async fn label_selectors(cluster: TestCluster) {
    let a = api(&cluster).await;
    fill(&a, 4).await;
    for (selector, wanted) in [
        ("even=true", vec!["s0", "s2"]),
        ("even!=true", vec!["s1", "s3"]),
        ("n in (1,2)", vec!["s1", "s2"]),
        ("n notin (1,2)", vec!["s0", "s3"]),
        ("n,even=false", vec!["s1", "s3"]),
        ("!n", vec![]),
        ("n>1", vec!["s2", "s3"]),
        ("n<1", vec!["s0"]),
    ] {
        let encoded =
            selector.replace(' ', "%20").replace('>', "%3E").replace('<', "%3C").replace('!', "%21");
        let l = a.get(&with(&a.core("secrets"), &format!("labelSelector={encoded}"))).await.expect(200);
        assert_eq!(names(&l), wanted, "{selector}");
    }
}

async fn bad_label_selector(cluster: TestCluster) {
    let a = api(&cluster).await;
    let e = a.get(&with(&a.core("secrets"), "labelSelector=a%20b%20c")).await;
    e.refused(400, "BadRequest");
}

async fn field_selectors(cluster: TestCluster) {
    let a = api(&cluster).await;
    fill(&a, 3).await;
    for (selector, wanted) in [
        ("metadata.name=s1", vec!["s1"]),
        ("metadata.name!=s1", vec!["s0", "s2"]),
        ("type=Opaque,metadata.name=s2", vec!["s2"]),
        ("type=other", vec![]),
    ] {
        let encoded = selector.replace('=', "%3D").replace('!', "%21");
        let l = a.get(&with(&a.core("secrets"), &format!("fieldSelector={encoded}"))).await.expect(200);
        assert_eq!(names(&l), wanted, "{selector}");
    }
}

async fn unsupported_field_selector(cluster: TestCluster) {
    let a = api(&cluster).await;
    let e = a.get(&with(&a.core("secrets"), "fieldSelector=data.k%3Dv")).await.refused(400, "BadRequest");
    assert!(e["message"].as_str().unwrap().contains("field label not supported"), "{e}");
}

async fn pages_are_one_snapshot(cluster: TestCluster) {
    let a = api(&cluster).await;
    fill(&a, 5).await;
    let first = a.get(&with(&a.core("secrets"), "limit=2")).await.expect(200);
    assert_eq!(names(&first), ["s0", "s1"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    // What happens between two pages does not show.
    a.delete(&a.core("secrets/s3"), Value::Null).await.expect(200);
    a.post(&a.core("secrets"), json!({"metadata": {"name": "s9"}})).await.expect(201);
    let mut got = Vec::new();
    let mut token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    loop {
        let page = a.get(&with(&a.core("secrets"), &format!("limit=2&continue={token}"))).await.expect(200);
        assert_eq!(page["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
        got.extend(names(&page));
        match page["metadata"]["continue"].as_str().filter(|t| !t.is_empty()) {
            Some(t) => t.clone_into(&mut token),
            None => break,
        }
    }
    assert_eq!(got, ["s2", "s3", "s4"]);
}

async fn continue_token_with_revision_is_refused(cluster: TestCluster) {
    let a = api(&cluster).await;
    fill(&a, 2).await;
    let first = a.get(&with(&a.core("secrets"), "limit=1")).await.expect(200);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let rv = first["metadata"]["resourceVersion"].as_str().unwrap();
    let e = a.get(&with(&a.core("secrets"), &format!("limit=1&continue={token}&resourceVersion={rv}"))).await;
    e.refused(400, "BadRequest");
}

async fn bad_continue_token(cluster: TestCluster) {
    let a = api(&cluster).await;
    let e = a.get(&with(&a.core("secrets"), "limit=1&continue=nonsense")).await.refused(400, "BadRequest");
    assert!(e["message"].as_str().unwrap().contains("continue key is not valid"), "{e}");
}

async fn bad_revision_is_refused(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.get(&with(&a.core("secrets"), "resourceVersion=abc")).await.refused(400, "BadRequest");
    let e = a.get(&with(&a.core("secrets"), "resourceVersionMatch=Exact")).await.refused(422, "Invalid");
    assert_eq!(causes(&e), [("FieldValueForbidden".to_owned(), "resourceVersionMatch".to_owned())]);
}

async fn list_of_old_revision(cluster: TestCluster) {
    let a = api(&cluster).await;
    fill(&a, 2).await;
    let then = a.get(&a.core("secrets")).await.expect(200);
    let rv = then["metadata"]["resourceVersion"].as_str().unwrap();
    a.delete(&a.core("secrets/s0"), Value::Null).await.expect(200);
    let query = format!("resourceVersion={rv}&resourceVersionMatch=Exact");
    let l = a.get(&with(&a.core("secrets"), &query)).await.expect(200);
    assert_eq!(names(&l), ["s0", "s1"]);
    let query = format!("resourceVersion={rv}&resourceVersionMatch=NotOlderThan");
    let l = a.get(&with(&a.core("secrets"), &query)).await.expect(200);
    assert!(names(&l).contains(&"s1".to_owned()));
}

async fn list_over_all_namespaces(cluster: TestCluster) {
    let a = api(&cluster).await;
    let label = format!("test-{:x}", rand::random::<u32>());
    let s = json!({"metadata": {"name": "x", "labels": {"case": label}}});
    a.post(&a.core("secrets"), s.clone()).await.expect(201);
    let b = api(&cluster).await;
    b.post(&b.core("secrets"), s).await.expect(201);
    let l = a.get(&format!("/api/v1/secrets?labelSelector=case%3D{label}")).await.expect(200);
    assert_eq!(l["items"].as_array().unwrap().len(), 2);
}

async fn list_as_table(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.config_map("a", json!({"k": "v", "l": "w"})).await;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let t =
        a.get_as(&with(&a.core("configmaps"), "fieldSelector=metadata.name%3Da"), accept).await.expect(200);
    assert_eq!(t["kind"], "Table");
    assert_eq!(t["apiVersion"], "meta.k8s.io/v1");
    let headings: Vec<&str> =
        t["columnDefinitions"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(headings, ["Name", "Data", "Age"]);
    let row = &t["rows"][0];
    assert_eq!((&row["cells"][0], &row["cells"][1]), (&json!("a"), &json!(2)));
    assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
}

async fn list_of_metadata(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.config_map("a", json!({"k": "v"})).await;
    let accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let l =
        a.get_as(&with(&a.core("configmaps"), "fieldSelector=metadata.name%3Da"), accept).await.expect(200);
    assert_eq!(l["kind"], "PartialObjectMetadataList");
    assert_eq!(l["items"][0]["metadata"]["name"], "a");
    assert!(l["items"][0].get("data").is_none());
}

async fn delete_collection_by_selector(cluster: TestCluster) {
    let a = api(&cluster).await;
    fill(&a, 4).await;
    a.delete(&with(&a.core("secrets"), "labelSelector=even%3Dtrue"), Value::Null).await.expect(200);
    assert_eq!(names(&a.get(&a.core("secrets")).await.expect(200)), ["s1", "s3"]);
}

async fn list_of_unknown_resource(cluster: TestCluster) {
    let a = api(&cluster).await;
    let e = a.get("/apis/apps/v1/nonsenses").await.refused(404, "NotFound");
    assert_eq!(e["message"], "the server could not find the requested resource");
    let e = a.get("/apis/nonsense.example.com/v1/things").await;
    assert_eq!((e.code, e.text.trim()), (404, "404 page not found"));
}
