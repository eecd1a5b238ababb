//! Status, scale, eviction, logs, tokens.

use plural_testkit::{TestCluster, each_cluster};
use serde_json::{Value, json};

use super::support::{Api, api, deployment};

each_cluster!(
    status_is_written_apart,
    scale_of_a_deployment,
    scale_books_the_subresource,
    negative_scale_is_refused,
    pod_logs,
    logs_of_an_unknown_container,
    eviction_deletes,
    token_of_a_service_account,
    token_for_an_audience,
    namespace_finalize,
    events_of_both_groups,
);

async fn status_is_written_apart(cluster: TestCluster) {
    let a = api(&cluster).await;
    let path = a.apps("deployments/d");
    a.post(&a.apps("deployments"), deployment("d", 0)).await.expect(201);
    let now = a.merge(&path, json!({"status": {"collisionCount": 7}})).await.expect(200);
    assert_ne!(now["status"]["collisionCount"], 7);
    let both = json!({"spec": {"replicas": 4}, "status": {"collisionCount": 7}});
    let now = a.merge(&format!("{path}/status"), both).await.expect(200);
    assert_eq!((&now["spec"]["replicas"], &now["status"]["collisionCount"]), (&json!(0), &json!(7)));
}

async fn scale_of_a_deployment(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.post(&a.apps("deployments"), deployment("d", 0)).await.expect(201);
    let path = a.apps("deployments/d/scale");
    let s = a.get(&path).await.expect(200);
    assert_eq!((&s["kind"], &s["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!(s["status"]["selector"], "app=d");
    // The controller writes to the same object until it is at rest.
    let now = plural_testkit::eventually(super::support::SOON, async || {
        let mut s = a.get(&path).await.expect(200);
        s["spec"]["replicas"] = 1.into();
        let answer = a.put(&path, s).await;
        if answer.code == 409 { Err(answer.text) } else { Ok(answer.expect(200)) }
    })
    .await;
    assert_eq!(now["spec"]["replicas"], 1);
    assert_eq!(a.get(&a.apps("deployments/d")).await.expect(200)["spec"]["replicas"], 1);
}

async fn scale_books_the_subresource(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.apply(&a.apps("deployments/d"), "one", deployment("d", 0)).await.expect(201);
    let path = format!("{}?fieldManager=scaler", a.apps("deployments/d/scale"));
    a.merge(&path, json!({"spec": {"replicas": 1}})).await.expect(200);
    let d = a.get(&a.apps("deployments/d")).await.expect(200);
    let list = d["metadata"]["managedFields"].as_array().unwrap();
    let e = list.iter().find(|e| e["manager"] == "scaler").unwrap();
    assert_eq!(
        (&e["subresource"], &e["fieldsV1"]),
        (&json!("scale"), &json!({"f:spec": {"f:replicas": {}}}))
    );
    let e = a.apply(&a.apps("deployments/d"), "one", deployment("d", 0)).await.refused(409, "Conflict");
    assert!(
        e["message"].as_str().unwrap().contains("\"scaler\" with subresource \"scale\" using apps/v1"),
        "{e}"
    );
}

async fn negative_scale_is_refused(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.post(&a.apps("deployments"), deployment("d", 0)).await.expect(201);
    a.merge(&a.apps("deployments/d/scale"), json!({"spec": {"replicas": -1}})).await.refused(422, "Invalid");
}

async fn running_pod(a: &Api) -> String {
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "example.com/app:1"}]}});
    a.post(&a.core("pods"), pod).await.expect(201);
    a.until(&a.core("pods/p"), |x| x.body["status"]["phase"] == "Running").await;
    a.core("pods/p")
}

async fn pod_logs(cluster: TestCluster) {
    let a = api(&cluster).await;
    let pod = running_pod(&a).await;
    let all = a.until(&format!("{pod}/log"), |x| x.code == 200 && !x.text.is_empty()).await;
    assert!(all.headers["content-type"].to_str().unwrap().starts_with("text/plain"));
    let one = a.get(&format!("{pod}/log?tailLines=1")).await;
    assert_eq!((one.code, one.text.lines().count()), (200, 1));
    let stamped = a.get(&format!("{pod}/log?tailLines=1&timestamps=true")).await;
    let first = stamped.text.split(' ').next().unwrap().to_owned();
    assert!(first.starts_with("20") && first.contains('T'), "{}", stamped.text);
}

async fn logs_of_an_unknown_container(cluster: TestCluster) {
    let a = api(&cluster).await;
    let pod = running_pod(&a).await;
    let e = a.get(&format!("{pod}/log?container=other")).await.refused(400, "BadRequest");
    assert_eq!(e["message"], "container other is not valid for pod p");
}

async fn eviction_deletes(cluster: TestCluster) {
    let a = api(&cluster).await;
    let pod = running_pod(&a).await;
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": a.ns}});
    let answer = a.post(&format!("{pod}/eviction"), eviction).await.expect(201);
    assert_eq!(answer["status"], "Success");
    a.until(&pod, |x| x.code == 404).await;
}

async fn token_of_a_service_account(cluster: TestCluster) {
    let a = api(&cluster).await;
    a.post(&a.core("serviceaccounts"), json!({"metadata": {"name": "robot"}})).await.expect(201);
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}});
    let token = a.post(&a.core("serviceaccounts/robot/token"), request).await.expect(201);
    let secret = token["status"]["token"].as_str().unwrap();
    assert!(token["status"]["expirationTimestamp"].is_string());
    let review =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": secret}});
    let r = a.post("/apis/authentication.k8s.io/v1/tokenreviews", review).await.expect(201);
    assert_eq!(r["status"]["authenticated"], true, "{r}");
    assert_eq!(r["status"]["user"]["username"], format!("system:serviceaccount:{}:robot", a.ns));
    let wrong = json!({"spec": {"expirationSeconds": 5}});
    a.post(&a.core("serviceaccounts/robot/token"), wrong).await.refused(422, "Invalid");
}

/// What a token says, and what is published so that others can verify it.
async fn token_for_an_audience(cluster: TestCluster) {
    let a = api(&cluster).await;
    let made = a.post(&a.core("serviceaccounts"), json!({"metadata": {"name": "robot"}})).await.expect(201);
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": ["elsewhere"], "expirationSeconds": 600},
    });
    let token = a.post(&a.core("serviceaccounts/robot/token"), request).await.expect(201);
    assert_eq!(token["spec"]["audiences"], json!(["elsewhere"]));
    let text = token["status"]["token"].as_str().unwrap().to_owned();
    let part = |number: usize| -> Value {
        let part = text.split('.').nth(number).unwrap();
        let engine = base64::engine::general_purpose::URL_SAFE_NO_PAD;
        serde_json::from_slice(&base64::Engine::decode(&engine, part).unwrap()).unwrap()
    };
    let (head, claims) = (part(0), part(1));
    let described = a.get("/.well-known/openid-configuration").await.expect(200);
    assert_eq!(claims["iss"], described["issuer"]);
    assert_eq!(claims["aud"], json!(["elsewhere"]));
    assert_eq!(claims["sub"], format!("system:serviceaccount:{}:robot", a.ns));
    assert_eq!(claims["kubernetes.io"]["namespace"], a.ns);
    let account = json!({"name": "robot", "uid": made["metadata"]["uid"]});
    assert_eq!(claims["kubernetes.io"]["serviceaccount"], account);
    assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 600);
    assert_eq!(claims["nbf"], claims["iat"]);
    a.get("/openid/v1/jwks").await.refused(406, "NotAcceptable");
    let keys = a.get_as("/openid/v1/jwks", "application/jwk-set+json").await.expect(200);
    let key = keys["keys"].as_array().unwrap().iter().find(|key| key["kid"] == head["kid"]).unwrap().clone();
    assert_eq!((&key["use"], &key["alg"]), (&json!("sig"), &head["alg"]));
    // It opens nothing here.
    let review =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": text}});
    let r = a.post("/apis/authentication.k8s.io/v1/tokenreviews", review).await.expect(201);
    assert_ne!(r["status"]["authenticated"], true, "{r}");
}

async fn namespace_finalize(cluster: TestCluster) {
    let a = api(&cluster).await;
    let path = format!("/api/v1/namespaces/{}", a.ns);
    let mut ns = a.get(&path).await.expect(200);
    ns["spec"]["finalizers"] = json!(["kubernetes", "example.com/hold"]);
    let now = a.put(&path, ns.clone()).await.expect(200);
    assert_eq!(now["spec"]["finalizers"], json!(["kubernetes"]));
    ns["metadata"]["resourceVersion"] = now["metadata"]["resourceVersion"].clone();
    let now = a.put(&format!("{path}/finalize"), ns).await.expect(200);
    assert_eq!(now["spec"]["finalizers"], json!(["kubernetes", "example.com/hold"]));
}

async fn events_of_both_groups(cluster: TestCluster) {
    let a = api(&cluster).await;
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": a.ns}, "note": "words", "reason": "Because", "type": "Normal",
        "action": "Test", "reportingController": "example.com/test", "reportingInstance": "one",
        "eventTime": "2026-01-01T00:00:00.000000Z"});
    let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", a.ns);
    let made = a.post(&path, event).await.expect(201);
    assert_eq!(made["note"], "words");
    let core = a.get(&a.core("events/e")).await.expect(200);
    assert_eq!((&core["message"], &core["involvedObject"]["name"]), (&json!("words"), &json!("p")));
    let by_field = a.get(&a.core("events?fieldSelector=involvedObject.name%3Dp")).await.expect(200);
    assert_eq!(by_field["items"].as_array().map(Vec::len), Some(1));
}
