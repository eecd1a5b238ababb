//! Create, get, update: system fields, concurrency, checks and their Status bodies.

use http::Method;
use plural_testkit::{TestCluster, each_cluster};
use serde_json::{Value, json};

use super::support::{api, causes, config_map, deployment};

each_cluster!(
    created_object_has_system_fields,
    missing_object_is_named,
    second_create_already_exists,
    generated_names_differ,
    name_or_generate_name_is_required,
    bad_name_is_refused,
    bad_label_is_refused,
    create_in_missing_namespace,
    body_of_another_namespace,
    body_of_another_version,
    revision_may_not_be_set_on_create,
    stale_update_conflicts,
    update_without_revision_is_unconditional,
    update_of_missing_object,
    update_of_another_uid_conflicts,
    equal_update_keeps_revision,
    generation_counts_spec_changes,
    dry_run_stores_nothing,
    bad_dry_run_value,
    unknown_fields_strict,
    unknown_fields_warn,
    wrong_type_is_named,
    missing_selector_is_named,
    selector_is_immutable,
    cluster_ip_is_immutable,
    immutable_config_map,
    secret_string_data,
    amounts_are_canonical,
    defaults_of_a_deployment,
    defaults_of_a_service,
    oversized_body,
    broken_json,
    unsupported_content_type,
    method_not_allowed,
    namespaces_start_furnished,
);

async fn created_object_has_system_fields(cluster: TestCluster) {
    let a = api(&cluster).await;
    let o = a.config_map("a", json!({"k": "v"})).await;
    let m = &o["metadata"];
    assert_eq!(m["namespace"], a.ns.as_str());
    assert!(m["uid"].as_str().is_some_and(|u| u.len() == 36), "{o}");
    assert!(m["resourceVersion"].as_str().unwrap().parse::<u64>().is_ok());
    assert!(m["creationTimestamp"].as_str().unwrap().ends_with('Z'));
    assert!(m.get("generation").is_none());
    assert_eq!(o, a.get(&a.core("configmaps/a")).await.expect(200));
}

async fn missing_object_is_named(cluster: TestCluster) {
    let a = api(&cluster).await;
    let e = a.get(&a.apps("deployments/none")).await.refused(404, "NotFound");
    assert_eq!(e["message"], "deployments.apps \"none\" not found");
    assert_eq!(e["details"], json!({"name": "none", "group": "apps", "kind": "deployments"}));
}

async fn second_create_already_exists(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.config_map("a", json!({})).await;
    let e = a.post(&a.core("configmaps"), config_map("a", json!({}))).await.refused(409, "AlreadyExists");
    assert_eq!(e["message"], "configmaps \"a\" already exists");
}

async fn generated_names_differ(cluster: TestCluster) {
    let a = api(&cluster).await;
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "run-"}});
    let one = a.post(&a.core("configmaps"), body.clone()).await.expect(201);
    let two = a.post(&a.core("configmaps"), body).await.expect(201);
    for o in [&one, &two] {
        let name = o["metadata"]["name"].as_str().unwrap();
        assert!(name.starts_with("run-") && name.len() == 9, "{name}");
        assert_eq!(o["metadata"]["generateName"], "run-");
    }
    assert_ne!(one["metadata"]["name"], two["metadata"]["name"]);
}

async fn name_or_generate_name_is_required(cluster: TestCluster) {
    let a = api(&cluster).await;
    let e = a.post(&a.core("configmaps"), json!({"metadata": {}})).await.refused(422, "Invalid");
    assert_eq!(causes(&e), [("FieldValueRequired".to_owned(), "metadata.name".to_owned())]);
    let m = e["details"]["causes"][0]["message"].as_str().unwrap();
    assert_eq!(m, "Required value: name or generateName is required");
}

async fn bad_name_is_refused(cluster: TestCluster) {
    let a = api(&cluster).await;
    let e = a.post(&a.core("configmaps"), config_map("Not_Good", json!({}))).await.refused(422, "Invalid");
    assert_eq!(causes(&e), [("FieldValueInvalid".to_owned(), "metadata.name".to_owned())]);
    assert!(e["message"].as_str().unwrap().contains("a lowercase RFC 1123 subdomain must consist of"), "{e}");
    assert_eq!(e["details"]["kind"], "ConfigMap");
}

async fn bad_label_is_refused(cluster: TestCluster) {
    let a = api(&cluster).await;
    let mut c = config_map("a", json!({}));
    c["metadata"]["labels"] = json!({"k": "not a value"});
    let e = a.post(&a.core("configmaps"), c).await.refused(422, "Invalid");
    assert_eq!(causes(&e), [("FieldValueInvalid".to_owned(), "metadata.labels".to_owned())]);
}

async fn create_in_missing_namespace(cluster: TestCluster) {
    let a = api(&cluster).await;
    let e = a.post("/api/v1/namespaces/not-there/configmaps", config_map("a", json!({}))).await;
    let e = e.refused(404, "NotFound");
    assert_eq!(e["message"], "namespaces \"not-there\" not found");
}

async fn body_of_another_namespace(cluster: TestCluster) {
    let a = api(&cluster).await;
    let mut c = config_map("a", json!({}));
    c["metadata"]["namespace"] = "default".into();
    let e = a.post(&a.core("configmaps"), c).await.refused(400, "BadRequest");
    let m = "the namespace of the provided object does not match the namespace sent on the request";
    assert_eq!(e["message"], m);
}

async fn body_of_another_version(cluster: TestCluster) {
    let a = api(&cluster).await;
    let mut d = deployment("d", 0);
    d["apiVersion"] = "apps/v1beta1".into();
    let e = a.post(&a.apps("deployments"), d).await;
    assert_eq!(e.code, 400, "{}", e.text);
}

async fn revision_may_not_be_set_on_create(cluster: TestCluster) {
    let a = api(&cluster).await;
    let mut c = config_map("a", json!({}));
    c["metadata"]["resourceVersion"] = "5".into();
    let e = a.post(&a.core("configmaps"), c).await;
    assert!(e.text.contains("resourceVersion should not be set on objects to be created"), "{}", e.text);
    assert!(a.get(&a.core("configmaps/a")).await.code == 404);
}

async fn stale_update_conflicts(cluster: TestCluster) {
    let a = api(&cluster).await;
    let path = a.core("configmaps/a");
    let mut first = a.config_map("a", json!({"k": "v"})).await;
    a.merge(&path, json!({"data": {"k": "w"}})).await.expect(200);
    first["data"]["k"] = "x".into();
    let e = a.put(&path, first).await.refused(409, "Conflict");
    assert_eq!(
        e["message"],
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again"
    );
    assert_eq!(e["details"], json!({"name": "a", "kind": "configmaps"}));
}

async fn update_without_revision_is_unconditional(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.config_map("a", json!({"k": "v"})).await;
    let now = a.put(&a.core("configmaps/a"), config_map("a", json!({"l": "w"}))).await.expect(200);
    assert_eq!(now["data"], json!({"l": "w"}));
}

async fn update_of_missing_object(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.put(&a.core("configmaps/a"), config_map("a", json!({}))).await.refused(404, "NotFound");
}

async fn update_of_another_uid_conflicts(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.config_map("a", json!({})).await;
    let mut c = config_map("a", json!({}));
    c["metadata"]["uid"] = "5b6ac1a6-1f0d-4c3b-a7ed-6f1d3a8f7a11".into();
    let e = a.put(&a.core("configmaps/a"), c).await.refused(409, "Conflict");
    assert!(e["message"].as_str().unwrap().contains("Precondition failed: UID in precondition"), "{e}");
}

async fn equal_update_keeps_revision(cluster: TestCluster) {
    let a = api(&cluster).await;
    let first = a.config_map("a", json!({"k": "v"})).await;
    let again = a.put(&a.core("configmaps/a"), first.clone()).await.expect(200);
    assert_eq!(first["metadata"]["resourceVersion"], again["metadata"]["resourceVersion"]);
}

async fn generation_counts_spec_changes(cluster: TestCluster) {
    let a = api(&cluster).await;
    let path = a.apps("deployments/d");
    let made = a.post(&a.apps("deployments"), deployment("d", 0)).await.expect(201);
    assert_eq!(made["metadata"]["generation"], 1);
    let now = a.merge(&path, json!({"metadata": {"labels": {"x": "y"}}})).await.expect(200);
    assert_eq!(now["metadata"]["generation"], 1);
    let now = a.merge(&path, json!({"spec": {"minReadySeconds": 5}})).await.expect(200);
    assert_eq!(now["metadata"]["generation"], 2);
}

async fn dry_run_stores_nothing(cluster: TestCluster) {
    let a = api(&cluster).await;
    let made = a
        .post(&format!("{}?dryRun=All", a.core("configmaps")), config_map("a", json!({"k": "v"})))
        .await
        .expect(201);
    assert!(made["metadata"]["uid"].is_string());
    a.get(&a.core("configmaps/a")).await.refused(404, "NotFound");
    a.config_map("b", json!({"k": "v"})).await;
    let path = format!("{}?dryRun=All", a.core("configmaps/b"));
    let now = a.merge(&path, json!({"data": {"k": "w"}})).await.expect(200);
    assert_eq!(now["data"]["k"], "w");
    a.delete(&path, Value::Null).await.expect(200);
    assert_eq!(a.get(&a.core("configmaps/b")).await.expect(200)["data"]["k"], "v");
}

async fn bad_dry_run_value(cluster: TestCluster) {
    let a = api(&cluster).await;
    let e = a.post(&format!("{}?dryRun=yes", a.core("configmaps")), config_map("a", json!({}))).await;
    let e = e.refused(422, "Invalid");
    assert_eq!(causes(&e), [("FieldValueNotSupported".to_owned(), "dryRun".to_owned())]);
}

async fn unknown_fields_strict(cluster: TestCluster) {
    let a = api(&cluster).await;
    let mut d = deployment("d", 0);
    d["spec"]["replica"] = 1.into();
    let e = a
        .post(&format!("{}?fieldValidation=Strict", a.apps("deployments")), d)
        .await
        .refused(400, "BadRequest");
    let m = "Deployment in version \"v1\" cannot be handled as a Deployment: strict decoding error: unknown field \"spec.replica\"";
    assert_eq!(e["message"], m);
}

async fn unknown_fields_warn(cluster: TestCluster) {
    let a = api(&cluster).await;
    let mut d = deployment("d", 0);
    d["spec"]["template"]["spec"]["containers"][0]["nonsense"] = 1.into();
    let made = a.post(&a.apps("deployments"), d).await;
    assert_eq!(made.warnings, ["299 - \"unknown field \\\"spec.template.spec.containers[0].nonsense\\\"\""]);
    let o = made.expect(201);
    assert!(o["spec"]["template"]["spec"]["containers"][0].get("nonsense").is_none());
}

async fn wrong_type_is_named(cluster: TestCluster) {
    let a = api(&cluster).await;
    let mut d = deployment("d", 0);
    d["spec"]["replicas"] = "two".into();
    let e = a.post(&a.apps("deployments"), d).await.refused(400, "BadRequest");
    let m = "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32";
    assert_eq!(e["message"], m);
}

async fn missing_selector_is_named(cluster: TestCluster) {
    let a = api(&cluster).await;
    let mut d = deployment("d", 0);
    d["spec"]["selector"] = json!({});
    d["spec"]["template"]["spec"]["containers"] = json!([]);
    let e = a.post(&a.apps("deployments"), d).await.refused(422, "Invalid");
    assert_eq!(
        causes(&e),
        [
            ("FieldValueInvalid".to_owned(), "spec.selector".to_owned()),
            ("FieldValueRequired".to_owned(), "spec.template.spec.containers".to_owned())
        ]
    );
    assert_eq!(e["details"]["kind"], "Deployment");
    assert!(e["message"].as_str().unwrap().starts_with("Deployment.apps \"d\" is invalid: ["), "{e}");
}

async fn selector_is_immutable(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.post(&a.apps("deployments"), deployment("d", 0)).await.expect(201);
    let other = deployment("e", 0);
    let patch = json!({"spec": {"selector": other["spec"]["selector"], "template": {"metadata": {"labels": {"app": "e"}}}}});
    let e = a.merge(&a.apps("deployments/d"), patch).await.refused(422, "Invalid");
    assert_eq!(causes(&e), [("FieldValueInvalid".to_owned(), "spec.selector".to_owned())]);
    assert!(e["message"].as_str().unwrap().ends_with("field is immutable"), "{e}");
}

async fn cluster_ip_is_immutable(cluster: TestCluster) {
    let a = api(&cluster).await;
    let s = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    a.post(&a.core("services"), s).await.expect(201);
    let e = a
        .merge(
            &a.core("services/s"),
            json!({"spec": {"clusterIP": "10.96.200.200", "clusterIPs": ["10.96.200.200"]}}),
        )
        .await;
    let e = e.refused(422, "Invalid");
    assert!(e["message"].as_str().unwrap().contains("may not change once set"), "{e}");
}

async fn immutable_config_map(cluster: TestCluster) {
    let a = api(&cluster).await;
    let mut c = config_map("a", json!({"k": "v"}));
    c["immutable"] = true.into();
    a.post(&a.core("configmaps"), c).await.expect(201);
    let e = a.merge(&a.core("configmaps/a"), json!({"data": {"k": "w"}})).await.refused(422, "Invalid");
    assert_eq!(causes(&e), [("FieldValueForbidden".to_owned(), "data".to_owned())]);
    a.merge(&a.core("configmaps/a"), json!({"metadata": {"labels": {"l": "m"}}})).await.expect(200);
}

async fn secret_string_data(cluster: TestCluster) {
    let a = api(&cluster).await;
    let s = json!({"metadata": {"name": "s"}, "stringData": {"k": "value"}});
    let made = a.post(&a.core("secrets"), s).await.expect(201);
    assert_eq!(made["data"], json!({"k": "dmFsdWU="}));
    assert_eq!(made["type"], "Opaque");
    assert!(made.get("stringData").is_none());
}

async fn amounts_are_canonical(cluster: TestCluster) {
    let a = api(&cluster).await;
    let mut d = deployment("d", 0);
    d["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "0.5", "memory": "1024Mi"}, "limits": {"cpu": "2000m", "memory": 2_147_483_648_u64}});
    let made = a.post(&a.apps("deployments"), d).await.expect(201);
    let r = &made["spec"]["template"]["spec"]["containers"][0]["resources"];
    assert_eq!(r["requests"], json!({"cpu": "500m", "memory": "1Gi"}));
    assert_eq!(r["limits"], json!({"cpu": "2", "memory": "2147483648"}));
}

async fn defaults_of_a_deployment(cluster: TestCluster) {
    let a = api(&cluster).await;
    let mut d = deployment("d", 0);
    d["spec"].as_object_mut().unwrap().remove("replicas");
    d["spec"]["paused"] = true.into();
    let made = a.post(&a.apps("deployments"), d).await.expect(201);
    let s = &made["spec"];
    assert_eq!(s["replicas"], 1);
    assert_eq!(s["progressDeadlineSeconds"], 600);
    assert_eq!(
        s["strategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}})
    );
    assert_eq!(
        s["template"],
        json!({"metadata": {"labels": {"app": "d"}}, "spec": {
            "containers": [{"name": "main", "image": "example.com/app:1", "imagePullPolicy": "IfNotPresent", "resources": {},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}],
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
            "securityContext": {}, "terminationGracePeriodSeconds": 30}})
    );
}

async fn defaults_of_a_service(cluster: TestCluster) {
    let a = api(&cluster).await;
    let s = json!({"metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}});
    let mut made = a.post(&a.core("services"), s).await.expect(201);
    let ip = made["spec"]["clusterIP"].take();
    assert!(ip.as_str().unwrap().parse::<std::net::Ipv4Addr>().is_ok(), "{ip}");
    assert_eq!(
        made["spec"],
        json!({"selector": {"a": "b"}, "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}], "clusterIP": null,
            "clusterIPs": [ip], "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            "sessionAffinity": "None", "type": "ClusterIP"})
    );
    assert_eq!(made["status"], json!({"loadBalancer": {}}));
}

async fn oversized_body(cluster: TestCluster) {
    let a = api(&cluster).await;
    let big = "x".repeat(3_300_000);
    let e = a.post(&a.core("configmaps"), config_map("a", json!({"k": big}))).await;
    assert_eq!(e.code, 413, "{}", &e.text[..e.text.len().min(300)]);
}

async fn broken_json(cluster: TestCluster) {
    let a = api(&cluster).await;
    let headers = [("content-type", "application/json")];
    let e = a.send(Method::POST, &a.core("configmaps"), &headers, b"{\"a\"".to_vec()).await;
    e.refused(400, "BadRequest");
}

async fn unsupported_content_type(cluster: TestCluster) {
    let a = api(&cluster).await;
    let headers = [("content-type", "text/plain")];
    let e = a.send(Method::POST, &a.core("configmaps"), &headers, b"hello".to_vec()).await;
    e.refused(415, "UnsupportedMediaType");
}

async fn method_not_allowed(cluster: TestCluster) {
    let a = api(&cluster).await;
    let json = [("content-type", "application/json")];
    let e = a.send(Method::DELETE, "/api/v1/namespaces", &json, Vec::new()).await;
    e.refused(405, "MethodNotAllowed");
}

async fn namespaces_start_furnished(cluster: TestCluster) {
    let a = api(&cluster).await;
    let ns = a.get(&format!("/api/v1/namespaces/{}", a.ns)).await.expect(200);
    assert_eq!(ns["status"]["phase"], "Active");
    assert_eq!(ns["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(ns["metadata"]["labels"]["kubernetes.io/metadata.name"], a.ns.as_str());
    a.until(&a.core("serviceaccounts/default"), |x| x.code == 200).await;
    a.until(&a.core("configmaps/kube-root-ca.crt"), |x| x.code == 200).await;
}
