//! Identity and rights.

use plural_testkit::{TestCluster, each_cluster};
use serde_json::json;

use super::support::{Api, api};

each_cluster!(
    stranger_is_forbidden,
    role_opens_what_it_names,
    wrong_token_is_unauthorized,
    own_rights_can_be_asked,
    impersonation_takes_the_rights_of_the_other,
    everybody_may_discover,
);

async fn plain(cluster: &TestCluster, a: &Api) -> Api {
    Api { client: cluster.plain_client().await.unwrap(), ns: a.ns.clone() }
}

async fn stranger_is_forbidden(cluster: TestCluster) {
    let a = api(&cluster).await;
    let p = plain(&cluster, &a).await;
    let e = p.get(&p.apps("deployments/d")).await.refused(403, "Forbidden");
    assert_eq!(
        e["message"],
        format!(
            "deployments.apps \"d\" is forbidden: User \"plain\" cannot get resource \"deployments\" in API group \"apps\" in the namespace \"{}\"",
            a.ns
        )
    );
    assert_eq!(e["details"], json!({"name": "d", "group": "apps", "kind": "deployments"}));
    let e = p.get("/api/v1/nodes").await.refused(403, "Forbidden");
    assert_eq!(
        e["message"],
        "nodes is forbidden: User \"plain\" cannot list resource \"nodes\" in API group \"\" at the cluster scope"
    );
}

async fn role_opens_what_it_names(cluster: TestCluster) {
    let a = api(&cluster).await;
    let p = plain(&cluster, &a).await;
    let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}", a.ns);
    let role = json!({"metadata": {"name": "r"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["a"]},
        {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}]});
    a.post(&format!("{rbac}/roles"), role).await.expect(201);
    let binding = json!({"metadata": {"name": "b"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "plain"}]});
    a.post(&format!("{rbac}/rolebindings"), binding).await.expect(201);
    a.config_map("a", json!({})).await;
    p.until(&p.core("configmaps/a"), |x| x.code == 200).await;
    p.get(&p.core("configmaps/b")).await.refused(403, "Forbidden");
    p.get(&p.core("configmaps")).await.refused(403, "Forbidden");
    p.get(&p.core("pods/x/log")).await.refused(404, "NotFound");
    p.get(&p.core("pods/x")).await.refused(403, "Forbidden");
}

async fn wrong_token_is_unauthorized(cluster: TestCluster) {
    let a = api(&cluster).await;
    let headers = [("authorization", "Bearer nobody")];
    // The client adds its own token; a second header of the same name would be ambiguous, so ask as it is.
    let mut config = kube::Config::from_custom_kubeconfig(
        kube::config::Kubeconfig::read_from(cluster.kubeconfig()).unwrap(),
        &kube::config::KubeConfigOptions::default(),
    )
    .await
    .unwrap();
    config.auth_info = kube::config::AuthInfo::default();
    let client = kube::Client::try_from(config).unwrap();
    let nobody = Api { client, ns: a.ns.clone() };
    let e = nobody.send(http::Method::GET, &a.core("configmaps"), &headers, Vec::new()).await;
    let e = e.refused(401, "Unauthorized");
    assert_eq!(e["message"], "Unauthorized");
    let e = nobody.get(&a.core("configmaps")).await.refused(403, "Forbidden");
    assert!(e["message"].as_str().unwrap().contains("User \"system:anonymous\""), "{e}");
}

async fn own_rights_can_be_asked(cluster: TestCluster) {
    let a = api(&cluster).await;
    let p = plain(&cluster, &a).await;
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec":
        {"resourceAttributes": {"namespace": a.ns, "verb": "list", "resource": "pods"}}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(a.post(path, review.clone()).await.expect(201)["status"]["allowed"], true);
    assert_eq!(p.post(path, review).await.expect(201)["status"]["allowed"], false);
    let who = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let me = p.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", who).await.expect(201);
    assert_eq!(me["status"]["userInfo"]["username"], "plain");
}

async fn impersonation_takes_the_rights_of_the_other(cluster: TestCluster) {
    let a = api(&cluster).await;
    let p = plain(&cluster, &a).await;
    let as_jane = [("impersonate-user", "jane"), ("impersonate-group", "readers")];
    let e = a
        .send(http::Method::GET, &a.core("configmaps"), &as_jane, Vec::new())
        .await
        .refused(403, "Forbidden");
    assert!(e["message"].as_str().unwrap().contains("User \"jane\" cannot list"), "{e}");
    let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}", a.ns);
    let binding = json!({"metadata": {"name": "b"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "readers"}]});
    a.post(&format!("{rbac}/rolebindings"), binding).await.expect(201);
    plural_testkit::eventually(super::support::SOON, async || {
        let x = a.send(http::Method::GET, &a.core("configmaps"), &as_jane, Vec::new()).await;
        if x.code == 200 { Ok(()) } else { Err(x.text) }
    })
    .await;
    let x = p.send(http::Method::GET, &a.core("configmaps"), &as_jane, Vec::new()).await;
    let e = x.refused(403, "Forbidden");
    assert!(e["message"].as_str().unwrap().contains("User \"plain\" cannot impersonate"), "{e}");
}

async fn everybody_may_discover(cluster: TestCluster) {
    let a = api(&cluster).await;
    let p = plain(&cluster, &a).await;
    for path in ["/api", "/apis", "/apis/apps/v1", "/version", "/openapi/v3", "/readyz"] {
        p.get(path).await.expect_code(200, path);
    }
}
