//! Server-side apply: owners, conflicts, removal.

use http::Method;
use plural_testkit::{TestCluster, each_cluster};
use serde_json::{Value, json};

use super::support::{api, causes, config_map, deployment, owned};

each_cluster!(
    apply_creates_and_owns,
    apply_again_changes_nothing,
    update_after_apply_takes_the_field,
    conflict_names_field_and_manager,
    force_takes_over,
    same_value_is_shared,
    field_not_applied_any_more_is_removed,
    shared_field_survives_one_owner,
    keyed_items_have_owners,
    set_items_have_owners,
    list_keys_have_defaults,
    defaults_belong_to_nobody,
    manager_is_required,
    unknown_field_is_refused,
    wrong_type_is_refused,
    name_must_agree_with_path,
    broken_yaml_is_refused,
    yaml_is_taken,
    untracked_object_conflicts_with_before_first_apply,
    managed_fields_can_be_reset,
    managed_fields_may_not_be_applied,
    apply_with_old_revision_conflicts,
    apply_of_uid_on_missing_object_conflicts,
    status_has_its_own_entry,
    atomic_map_has_one_owner,
    empty_configuration_gives_up_everything,
    create_books_an_update,
    delete_and_apply_again_starts_anew,
);

async fn apply_creates_and_owns(cluster: TestCluster) {
    let a = api(&cluster).await;
    let made = a.apply(&a.core("configmaps/a"), "one", config_map("a", json!({"k": "v"}))).await.expect(201);
    assert_eq!(made["data"], json!({"k": "v"}));
    assert_eq!(owned(&made, "one", "Apply"), json!({"f:data": {"f:k": {}}}));
    let entry = &made["metadata"]["managedFields"][0];
    assert_eq!(entry["apiVersion"], "v1");
    assert_eq!(entry["fieldsType"], "FieldsV1");
    assert!(entry["time"].is_string());
}

async fn apply_again_changes_nothing(cluster: TestCluster) {
    let a = api(&cluster).await;
    let path = a.core("configmaps/a");
    let first = a.apply(&path, "one", config_map("a", json!({"k": "v"}))).await.expect(201);
    let again = a.apply(&path, "one", config_map("a", json!({"k": "v"}))).await.expect(200);
    assert_eq!(first["metadata"]["resourceVersion"], again["metadata"]["resourceVersion"]);
    assert_eq!(first["metadata"]["managedFields"], again["metadata"]["managedFields"]);
}

async fn update_after_apply_takes_the_field(cluster: TestCluster) {
    let a = api(&cluster).await;
    let path = a.core("configmaps/a");
    a.apply(&path, "one", config_map("a", json!({"k": "v", "l": "w"}))).await.expect(201);
    let now = a.merge(&format!("{path}?fieldManager=editor"), json!({"data": {"k": "x"}})).await.expect(200);
    assert_eq!(owned(&now, "one", "Apply"), json!({"f:data": {"f:l": {}}}));
    assert_eq!(owned(&now, "editor", "Update"), json!({"f:data": {"f:k": {}}}));
}

async fn conflict_names_field_and_manager(cluster: TestCluster) {
    let a = api(&cluster).await;
    let path = a.core("configmaps/a");
    a.apply(&path, "one", config_map("a", json!({"k": "v"}))).await.expect(201);
    let e = a.apply(&path, "two", config_map("a", json!({"k": "x"}))).await.refused(409, "Conflict");
    assert_eq!(e["message"], "Apply failed with 1 conflict: conflict with \"one\": .data.k");
    assert_eq!(causes(&e), [("FieldManagerConflict".to_owned(), ".data.k".to_owned())]);
    assert_eq!(e["details"]["causes"][0]["message"], "conflict with \"one\"");
}

async fn force_takes_over(cluster: TestCluster) {
    let a = api(&cluster).await;
    let path = a.core("configmaps/a");
    a.apply(&path, "one", config_map("a", json!({"k": "v"}))).await.expect(201);
    let now = a.force(&path, "two", config_map("a", json!({"k": "x"}))).await.expect(200);
    assert_eq!(now["data"]["k"], "x");
    assert_eq!(owned(&now, "one", "Apply"), Value::Null);
    assert_eq!(owned(&now, "two", "Apply"), json!({"f:data": {"f:k": {}}}));
}

async fn same_value_is_shared(cluster: TestCluster) {
    let a = api(&cluster).await;
    let path = a.core("configmaps/a");
    a.apply(&path, "one", config_map("a", json!({"k": "v"}))).await.expect(201);
    let now = a.apply(&path, "two", config_map("a", json!({"k": "v"}))).await.expect(200);
    assert_eq!(owned(&now, "one", "Apply"), owned(&now, "two", "Apply"));
}

async fn field_not_applied_any_more_is_removed(cluster: TestCluster) {
    let a = api(&cluster).await;
    let path = a.core("configmaps/a");
    let mut config = config_map("a", json!({"k": "v", "gone": "x"}));
    config["metadata"]["labels"] = json!({"l": "1"});
    a.apply(&path, "one", config).await.expect(201);
    a.merge(&path, json!({"data": {"hand": "made"}})).await.expect(200);
    let now = a.apply(&path, "one", config_map("a", json!({"k": "v"}))).await.expect(200);
    assert_eq!(now["data"], json!({"k": "v", "hand": "made"}));
    assert!(now["metadata"].get("labels").is_none(), "{now}");
}

async fn shared_field_survives_one_owner(cluster: TestCluster) {
    let a = api(&cluster).await;
    let path = a.core("configmaps/a");
    a.apply(&path, "one", config_map("a", json!({"k": "v"}))).await.expect(201);
    a.apply(&path, "two", config_map("a", json!({"k": "v", "l": "w"}))).await.expect(200);
    let now = a.apply(&path, "two", config_map("a", json!({"l": "w"}))).await.expect(200);
    assert_eq!(now["data"], json!({"k": "v", "l": "w"}));
    let now = a.apply(&path, "one", config_map("a", json!({}))).await.expect(200);
    assert_eq!(now["data"], json!({"l": "w"}));
}

async fn keyed_items_have_owners(cluster: TestCluster) {
    let a = api(&cluster).await;
    let path = a.apps("deployments/d");
    a.apply(&path, "one", deployment("d", 0)).await.expect(201);
    let side = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"template": {"spec": {"containers": [{"name": "side", "image": "example.com/side:1"}]}}}});
    let now = a.apply(&path, "two", side).await.expect(200);
    let containers = now["spec"]["template"]["spec"]["containers"].as_array().unwrap().clone();
    let names: Vec<&Value> = containers.iter().map(|c| &c["name"]).collect();
    assert_eq!(names, ["main", "side"]);
    assert_eq!(
        owned(&now, "two", "Apply"),
        json!({"f:spec": {"f:template": {"f:spec": {"f:containers":
            {"k:{\"name\":\"side\"}": {".": {}, "f:name": {}, "f:image": {}}}}}}})
    );
    let none = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}});
    let now = a.apply(&path, "two", none).await.expect(200);
    assert_eq!(now["spec"]["template"]["spec"]["containers"].as_array().unwrap().len(), 1);
}

async fn set_items_have_owners(cluster: TestCluster) {
    let a = api(&cluster).await;
    let path = a.core("configmaps/a");
    let with = |f: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "finalizers": [f]}});
    a.apply(&path, "one", with("example.com/one")).await.expect(201);
    let now = a.apply(&path, "two", with("example.com/two")).await.expect(200);
    assert_eq!(now["metadata"]["finalizers"], json!(["example.com/one", "example.com/two"]));
    assert_eq!(
        owned(&now, "two", "Apply"),
        json!({"f:metadata": {"f:finalizers": {"v:\"example.com/two\"": {}}}})
    );
    let none = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let now = a.apply(&path, "one", none).await.expect(200);
    assert_eq!(now["metadata"]["finalizers"], json!(["example.com/two"]));
}

async fn list_keys_have_defaults(cluster: TestCluster) {
    let a = api(&cluster).await;
    let service = |port: i64| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
            "spec": {"selector": {"a": "b"}, "ports": [{"port": port}]}})
    };
    let made = a.apply(&a.core("services/s"), "one", service(80)).await.expect(201);
    let own = owned(&made, "one", "Apply");
    assert_eq!(
        own["f:spec"]["f:ports"],
        json!({"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}})
    );
    let now = a.apply(&a.core("services/s"), "one", service(81)).await.expect(200);
    assert_eq!(now["spec"]["ports"].as_array().unwrap().len(), 1);
    assert_eq!(now["spec"]["ports"][0]["port"], 81);
}

async fn defaults_belong_to_nobody(cluster: TestCluster) {
    let a = api(&cluster).await;
    let made = a.apply(&a.apps("deployments/d"), "one", deployment("d", 0)).await.expect(201);
    assert_eq!(made["spec"]["strategy"]["type"], "RollingUpdate");
    assert_eq!(made["spec"]["revisionHistoryLimit"], 10);
    let own = owned(&made, "one", "Apply");
    assert!(own["f:spec"].get("f:strategy").is_none() && own["f:spec"].get("f:replicas").is_some(), "{own}");
    // So that somebody else may set them without a conflict.
    let other = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"revisionHistoryLimit": 3}});
    let now = a.apply(&a.apps("deployments/d"), "two", other).await.expect(200);
    assert_eq!(now["spec"]["revisionHistoryLimit"], 3);
    assert_eq!(now["metadata"]["generation"], 2);
}

async fn manager_is_required(cluster: TestCluster) {
    let a = api(&cluster).await;
    let e =
        a.patch(&a.core("configmaps/a"), "application/apply-patch+yaml", config_map("a", json!({}))).await;
    let e = e.refused(422, "Invalid");
    assert_eq!(causes(&e), [("FieldValueRequired".to_owned(), "fieldManager".to_owned())]);
}

async fn unknown_field_is_refused(cluster: TestCluster) {
    let a = api(&cluster).await;
    let mut d = deployment("d", 0);
    d["spec"]["nonsense"] = 1.into();
    let e = a.apply(&a.apps("deployments/d"), "one", d).await;
    assert_eq!(e.code, 500, "{}", e.text);
    assert!(e.text.contains(".spec.nonsense: field not declared in schema"), "{}", e.text);
}

async fn wrong_type_is_refused(cluster: TestCluster) {
    let a = api(&cluster).await;
    let mut d = deployment("d", 0);
    d["spec"]["replicas"] = "many".into();
    let e = a.apply(&a.apps("deployments/d"), "one", d).await;
    assert_eq!(e.code, 500, "{}", e.text);
    assert!(e.text.contains(".spec.replicas: expected numeric (int or float), got string"), "{}", e.text);
}

async fn name_must_agree_with_path(cluster: TestCluster) {
    let a = api(&cluster).await;
    let e =
        a.apply(&a.core("configmaps/b"), "one", config_map("a", json!({}))).await.refused(400, "BadRequest");
    assert_eq!(e["message"], "the name of the object (a) does not match the name on the URL (b)");
}

async fn broken_yaml_is_refused(cluster: TestCluster) {
    let a = api(&cluster).await;
    let path = format!("{}?fieldManager=one", a.core("configmaps/a"));
    let headers = [("content-type", "application/apply-patch+yaml")];
    let e = a.send(Method::PATCH, &path, &headers, b"a: [b".to_vec()).await.refused(400, "BadRequest");
    assert!(e["message"].as_str().unwrap().starts_with("error decoding YAML"), "{e}");
}

async fn yaml_is_taken(cluster: TestCluster) {
    let a = api(&cluster).await;
    let path = format!("{}?fieldManager=one", a.core("configmaps/a"));
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  text: |\n    two\n    lines\n  \"no\": \"yes\"\n";
    let headers = [("content-type", "application/apply-patch+yaml")];
    let made = a.send(Method::PATCH, &path, &headers, yaml.into()).await.expect(201);
    assert_eq!(made["data"], json!({"text": "two\nlines\n", "no": "yes"}));
}

async fn untracked_object_conflicts_with_before_first_apply(cluster: TestCluster) {
    let a = api(&cluster).await;
    let path = a.core("configmaps/a");
    a.config_map("a", json!({"k": "v"})).await;
    a.merge(&path, json!({"metadata": {"managedFields": [{}]}})).await.expect(200);
    let e = a.apply(&path, "one", config_map("a", json!({"k": "x"}))).await.refused(409, "Conflict");
    assert!(e["message"].as_str().unwrap().contains("before-first-apply"), "{e}");
}

async fn managed_fields_can_be_reset(cluster: TestCluster) {
    let a = api(&cluster).await;
    let path = a.core("configmaps/a");
    a.apply(&path, "one", config_map("a", json!({"k": "v"}))).await.expect(201);
    let now = a.merge(&path, json!({"metadata": {"managedFields": [{}]}})).await.expect(200);
    assert!(now["metadata"].get("managedFields").is_none(), "{now}");
}

async fn managed_fields_may_not_be_applied(cluster: TestCluster) {
    let a = api(&cluster).await;
    let made = a.config_map("a", json!({"k": "v"})).await;
    let e = a.apply(&a.core("configmaps/a"), "one", made).await.refused(400, "BadRequest");
    assert_eq!(e["message"], "metadata.managedFields must be nil");
}

async fn apply_with_old_revision_conflicts(cluster: TestCluster) {
    let a = api(&cluster).await;
    let path = a.core("configmaps/a");
    let first = a.apply(&path, "one", config_map("a", json!({"k": "v"}))).await.expect(201);
    a.merge(&path, json!({"data": {"l": "w"}})).await.expect(200);
    let mut c = config_map("a", json!({"k": "x"}));
    c["metadata"]["resourceVersion"] = first["metadata"]["resourceVersion"].clone();
    a.apply(&path, "one", c).await.refused(409, "Conflict");
}

async fn apply_of_uid_on_missing_object_conflicts(cluster: TestCluster) {
    let a = api(&cluster).await;
    let mut c = config_map("a", json!({}));
    c["metadata"]["uid"] = "5b6ac1a6-1f0d-4c3b-a7ed-6f1d3a8f7a11".into();
    a.apply(&a.core("configmaps/a"), "one", c).await.refused(409, "Conflict");
}

async fn status_has_its_own_entry(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.post(&a.core("services"), json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}))
        .await
        .expect(201);
    let status = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "status": {"conditions": [{"type": "Tried", "status": "True", "reason": "Test", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    let now = a.apply(&a.core("services/s/status"), "one", status).await.expect(200);
    let entry =
        now["metadata"]["managedFields"].as_array().unwrap().iter().find(|e| e["manager"] == "one").unwrap();
    assert_eq!(entry["subresource"], "status");
    let condition = &entry["fieldsV1"]["f:status"]["f:conditions"]["k:{\"type\":\"Tried\"}"];
    assert_eq!(condition["f:status"], json!({}), "{entry}");
}

async fn atomic_map_has_one_owner(cluster: TestCluster) {
    let a = api(&cluster).await;
    let path = a.apps("deployments/d");
    let made = a.apply(&path, "one", deployment("d", 0)).await.expect(201);
    assert_eq!(owned(&made, "one", "Apply")["f:spec"]["f:selector"], json!({}));
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}});
    a.apply(&a.core("services/s"), "one", service).await.expect(201);
    let other = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"selector": {"c": "d"}}});
    let e = a.apply(&a.core("services/s"), "two", other.clone()).await.refused(409, "Conflict");
    assert_eq!(causes(&e), [("FieldManagerConflict".to_owned(), ".spec.selector".to_owned())]);
    let now = a.force(&a.core("services/s"), "two", other).await.expect(200);
    assert_eq!(now["spec"]["selector"], json!({"c": "d"}));
}

async fn empty_configuration_gives_up_everything(cluster: TestCluster) {
    let a = api(&cluster).await;
    let path = a.core("configmaps/a");
    a.apply(&path, "one", config_map("a", json!({"k": "v"}))).await.expect(201);
    let empty = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let now = a.apply(&path, "one", empty).await.expect(200);
    assert!(now.get("data").is_none(), "{now}");
    assert_eq!(owned(&now, "one", "Apply"), Value::Null);
}

async fn create_books_an_update(cluster: TestCluster) {
    let a = api(&cluster).await;
    let made = a
        .post(&format!("{}?fieldManager=maker", a.apps("deployments")), deployment("d", 0))
        .await
        .expect(201);
    let own = owned(&made, "maker", "Update");
    assert_eq!(own["f:spec"]["f:template"]["f:metadata"], json!({"f:labels": {".": {}, "f:app": {}}}));
    assert_eq!(own["f:spec"]["f:strategy"]["f:rollingUpdate"][".".to_owned()], json!({}));
    assert!(own["f:spec"].get(".").is_none() && own.get("f:status").is_none(), "{own}");
}

async fn delete_and_apply_again_starts_anew(cluster: TestCluster) {
    let a = api(&cluster).await;
    let path = a.core("configmaps/a");
    let first = a.apply(&path, "one", config_map("a", json!({"k": "v"}))).await.expect(201);
    a.delete(&path, Value::Null).await.expect(200);
    let second = a.apply(&path, "two", config_map("a", json!({"l": "w"}))).await.expect(201);
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    assert_eq!(second["data"], json!({"l": "w"}));
}
