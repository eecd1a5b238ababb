//! What a cluster holds when it starts. The objects are shared by all clusters of the process.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use crate::cluster::ClusterOptions;
use crate::store::Store;
use crate::verbs::system::system_create;

const RBAC: &str = "rbac.authorization.k8s.io";

type Seeds = Vec<(Arc<str>, Arc<Value>)>;

static SEEDS: LazyLock<Seeds> = LazyLock::new(|| {
    // Made once in a store of their own, so that they look like any other object.
    let mut s = Store::new(0);
    for ns in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        namespace(&mut s, ns);
    }
    for (name, rules) in roles() {
        let o = json!({"metadata": {"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}}, "rules": rules});
        system_create(&mut s, &format!("clusterroles.{RBAC}"), o, "kube-apiserver");
    }
    for (name, role, group) in [
        ("cluster-admin", "cluster-admin", "system:masters"),
        ("system:basic-user", "system:basic-user", "system:authenticated"),
        ("system:discovery", "system:discovery", "system:authenticated"),
        (
            "system:service-account-issuer-discovery",
            "system:service-account-issuer-discovery",
            "system:serviceaccounts",
        ),
        ("system:public-info-viewer", "system:public-info-viewer", "system:authenticated"),
        ("system:public-info-viewer-anonymous", "system:public-info-viewer", "system:unauthenticated"),
    ] {
        let o = json!({"metadata": {"name": name},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": group}]});
        system_create(&mut s, &format!("clusterrolebindings.{RBAC}"), o, "kube-apiserver");
    }
    system_create(
        &mut s,
        "services",
        json!({"metadata": {"name": "kubernetes", "namespace": "default",
                "labels": {"component": "apiserver", "provider": "kubernetes"}},
            "spec": {"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"],
                "ports": [{"name": "https", "port": 443, "targetPort": 6443}]}}),
        "kube-apiserver",
    );
    system_create(
        &mut s,
        "storageclasses.storage.k8s.io",
        json!({"metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "kubesim.plural.sh/memory"}),
        "kubesim",
    );
    for (name, value) in [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)]
    {
        let o =
            json!({"metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority"});
        system_create(&mut s, "priorityclasses.scheduling.k8s.io", o, "kube-apiserver");
    }
    let mut out = Seeds::new();
    for t in s.tables() {
        for o in s.list(&t, None) {
            out.push((t.clone(), o));
        }
    }
    out
});

fn namespace(s: &mut Store, name: &str) {
    let o = json!({"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
    system_create(s, "namespaces", o, "kube-apiserver");
    furnish(s, name);
}

/// What every namespace gets: the default service account and the authority's certificate.
pub(crate) fn furnish(s: &mut Store, ns: &str) {
    let sa = json!({"metadata": {"name": "default", "namespace": ns}});
    system_create(s, "serviceaccounts", sa, "kube-controller-manager");
    let ca = json!({"metadata": {"name": "kube-root-ca.crt", "namespace": ns}, "data": {"ca.crt": ""}});
    system_create(s, "configmaps", ca, "kube-controller-manager");
}

fn roles() -> Vec<(&'static str, Value)> {
    let all = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    let look = ["get", "list", "watch"];
    let workloads = |verbs: &[&str]| {
        json!([
            {"apiGroups": [""], "verbs": verbs, "resources": ["bindings", "configmaps", "endpoints", "events", "limitranges",
                "persistentvolumeclaims", "persistentvolumeclaims/status", "pods", "pods/attach", "pods/eviction", "pods/exec",
                "pods/log", "pods/portforward", "pods/proxy", "pods/status", "replicationcontrollers",
                "replicationcontrollers/scale", "resourcequotas", "secrets", "serviceaccounts", "serviceaccounts/token",
                "services", "services/proxy", "services/status"]},
            {"apiGroups": [""], "verbs": look, "resources": ["namespaces"]},
            {"apiGroups": ["apps", "batch", "autoscaling", "policy", "discovery.k8s.io", "events.k8s.io"],
                "verbs": verbs, "resources": ["*"]},
            {"apiGroups": ["networking.k8s.io"], "verbs": verbs, "resources": ["ingresses", "ingresses/status", "networkpolicies"]}
        ])
    };
    let mut admin = workloads(&all);
    if let Some(l) = admin.as_array_mut() {
        l.push(json!({"apiGroups": [RBAC], "verbs": all, "resources": ["roles", "rolebindings"]}));
    }
    let view = json!([
        {"apiGroups": [""], "verbs": look, "resources": ["bindings", "configmaps", "endpoints", "events", "limitranges",
            "namespaces", "namespaces/status", "persistentvolumeclaims", "persistentvolumeclaims/status", "pods", "pods/log",
            "pods/status", "replicationcontrollers", "replicationcontrollers/scale", "resourcequotas", "serviceaccounts",
            "services", "services/status"]},
        {"apiGroups": ["apps", "batch", "autoscaling", "policy", "discovery.k8s.io"], "verbs": look, "resources": ["*"]},
        {"apiGroups": ["networking.k8s.io"], "verbs": look, "resources": ["ingresses", "ingresses/status", "networkpolicies"]}
    ]);
    vec![
        (
            "cluster-admin",
            json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]}]),
        ),
        ("admin", admin),
        ("edit", workloads(&all)),
        ("view", view),
        (
            "system:basic-user",
            json!([
                {"apiGroups": ["authorization.k8s.io"], "verbs": ["create"], "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]},
                {"apiGroups": ["authentication.k8s.io"], "verbs": ["create"], "resources": ["selfsubjectreviews"]}
            ]),
        ),
        (
            "system:discovery",
            json!([{"verbs": ["get"], "nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez",
                "/openapi", "/openapi/*", "/readyz", "/version", "/version/"]}]),
        ),
        (
            "system:service-account-issuer-discovery",
            json!([{"verbs": ["get"], "nonResourceURLs": ["/.well-known/openid-configuration",
                "/.well-known/openid-configuration/", "/openid/v1/jwks", "/openid/v1/jwks/"]}]),
        ),
        (
            "system:public-info-viewer",
            json!([{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"]}]),
        ),
    ]
}

/// Puts the initial objects into a cluster's store.
pub(crate) fn fill(s: &mut Store, options: &ClusterOptions) {
    for (table, o) in SEEDS.iter() {
        s.seed(table, o.clone());
    }
    for i in 0..options.nodes {
        let name = format!("sim-node-{i}");
        let at = crate::verbs::now();
        let o = json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64"}},
            "spec": {"podCIDR": format!("10.244.{i}.0/24")},
            "status": {
                "capacity": {"cpu": "64", "memory": "256Gi", "pods": "10k"},
                "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "10k"},
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady",
                    "message": "the simulated kubelet is ready", "lastHeartbeatTime": at, "lastTransitionTime": at}],
                "addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": "127.0.0.1"}],
                "nodeInfo": {"kubeletVersion": options.version, "operatingSystem": "linux", "architecture": "amd64",
                    "containerRuntimeVersion": "kubesim://1", "osImage": "none", "kernelVersion": "0", "machineID": "",
                    "systemUUID": "", "bootID": "", "kubeProxyVersion": ""}
            }
        });
        system_create(s, "nodes", o, "kubesim");
    }
}
