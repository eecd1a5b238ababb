//! Defaults of built-in kinds, as far as clients see them in what they read back.

use serde_json::{Map, Value, json};

fn or(m: &mut Map<String, Value>, k: &str, v: impl Into<Value>) {
    if m.get(k).is_none_or(Value::is_null) {
        m.insert(k.to_owned(), v.into());
    }
}

fn at<'a>(v: &'a mut Value, pointer: &str) -> Option<&'a mut Map<String, Value>> {
    v.pointer_mut(pointer).and_then(Value::as_object_mut)
}

fn each(m: &mut Map<String, Value>, list: &str, f: impl Fn(&mut Map<String, Value>)) {
    for item in m.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(o) = item.as_object_mut() {
            f(o);
        }
    }
}

/// Fills in the defaults of an object of `table`.
pub(crate) fn apply(table: &str, o: &mut Value) {
    if let Some(t) = spec_keeper(table)
        && let Some(root) = o.as_object_mut()
    {
        for f in t {
            or(root, f, json!({}));
        }
    }
    match table {
        "pods" => {
            if let Some(spec) = at(o, "/spec") {
                pod(spec);
                or(spec, "enableServiceLinks", true);
                or(spec, "preemptionPolicy", "PreemptLowerPriority");
                or(spec, "priority", 0);
                tolerations(spec);
                requests_from_limits(spec);
            }
            quality_of_service(o);
        }
        "podtemplates" => template(o, "/template"),
        "deployments.apps" => {
            template(o, "/spec/template");
            if let Some(s) = at(o, "/spec") {
                or(s, "replicas", 1);
                or(s, "revisionHistoryLimit", 10);
                or(s, "progressDeadlineSeconds", 600);
                or(s, "strategy", json!({}));
                if let Some(st) = s.get_mut("strategy").and_then(Value::as_object_mut) {
                    or(st, "type", "RollingUpdate");
                    if st["type"] == "RollingUpdate" {
                        or(st, "rollingUpdate", json!({}));
                        if let Some(r) = st.get_mut("rollingUpdate").and_then(Value::as_object_mut) {
                            or(r, "maxSurge", "25%");
                            or(r, "maxUnavailable", "25%");
                        }
                    }
                }
            }
        }
        "replicasets.apps" | "replicationcontrollers" => {
            template(o, "/spec/template");
            if let Some(s) = at(o, "/spec") {
                or(s, "replicas", 1);
            }
        }
        "statefulsets.apps" => {
            template(o, "/spec/template");
            if let Some(s) = at(o, "/spec") {
                or(s, "replicas", 1);
                or(s, "revisionHistoryLimit", 10);
                or(s, "podManagementPolicy", "OrderedReady");
                or(s, "updateStrategy", json!({}));
                or(
                    s,
                    "persistentVolumeClaimRetentionPolicy",
                    json!({"whenDeleted": "Retain", "whenScaled": "Retain"}),
                );
                if let Some(st) = s.get_mut("updateStrategy").and_then(Value::as_object_mut) {
                    or(st, "type", "RollingUpdate");
                    if st["type"] == "RollingUpdate" {
                        or(st, "rollingUpdate", json!({"partition": 0}));
                    }
                }
                each(s, "volumeClaimTemplates", |t| {
                    or(t, "apiVersion", "v1");
                    or(t, "kind", "PersistentVolumeClaim");
                    or(t, "status", json!({"phase": "Pending"}));
                    if let Some(sp) = t.get_mut("spec").and_then(Value::as_object_mut) {
                        or(sp, "volumeMode", "Filesystem");
                    }
                });
            }
        }
        "daemonsets.apps" => {
            template(o, "/spec/template");
            if let Some(s) = at(o, "/spec") {
                or(s, "revisionHistoryLimit", 10);
                or(s, "updateStrategy", json!({}));
                if let Some(st) = s.get_mut("updateStrategy").and_then(Value::as_object_mut) {
                    or(st, "type", "RollingUpdate");
                    if st["type"] == "RollingUpdate" {
                        or(st, "rollingUpdate", json!({"maxSurge": 0, "maxUnavailable": 1}));
                    }
                }
            }
        }
        "jobs.batch" => {
            job(o);
        }
        "cronjobs.batch" => {
            template(o, "/spec/jobTemplate/spec/template");
            if let Some(s) = at(o, "/spec") {
                or(s, "concurrencyPolicy", "Allow");
                or(s, "suspend", false);
                or(s, "successfulJobsHistoryLimit", 3);
                or(s, "failedJobsHistoryLimit", 1);
            }
        }
        "services" => service(o),
        "secrets" => {
            if let Some(r) = o.as_object_mut() {
                or(r, "type", "Opaque");
            }
        }
        "persistentvolumeclaims" => {
            if let Some(s) = at(o, "/spec") {
                or(s, "volumeMode", "Filesystem");
            }
        }
        "persistentvolumes" => {
            if let Some(s) = at(o, "/spec") {
                or(s, "volumeMode", "Filesystem");
                or(s, "persistentVolumeReclaimPolicy", "Retain");
            }
        }
        "networkpolicies.networking.k8s.io" => {
            if let Some(s) = at(o, "/spec") {
                let mut types = vec!["Ingress"];
                if s.contains_key("egress") {
                    types.push("Egress");
                }
                or(s, "policyTypes", json!(types));
                or(s, "podSelector", json!({}));
                for dir in ["ingress", "egress"] {
                    each(s, dir, |rule| each(rule, "ports", |p| or(p, "protocol", "TCP")));
                }
            }
        }
        "horizontalpodautoscalers.autoscaling" => {
            if let Some(s) = at(o, "/spec") {
                or(s, "minReplicas", 1);
                if o.get("apiVersion").and_then(Value::as_str) == Some("autoscaling/v2")
                    && let Some(s) = at(o, "/spec")
                {
                    or(
                        s,
                        "metrics",
                        json!([{"type": "Resource", "resource": {"name": "cpu",
                            "target": {"type": "Utilization", "averageUtilization": 80}}}]),
                    );
                }
            }
        }
        "storageclasses.storage.k8s.io" => {
            if let Some(r) = o.as_object_mut() {
                or(r, "reclaimPolicy", "Delete");
                or(r, "volumeBindingMode", "Immediate");
            }
        }
        "customresourcedefinitions.apiextensions.k8s.io" => definition(o),
        "rolebindings.rbac.authorization.k8s.io" | "clusterrolebindings.rbac.authorization.k8s.io" => {
            if let Some(r) = at(o, "/roleRef") {
                or(r, "apiGroup", "rbac.authorization.k8s.io");
            }
            if let Some(r) = o.as_object_mut() {
                each(r, "subjects", |s| {
                    if s.get("kind").and_then(Value::as_str) != Some("ServiceAccount") {
                        or(s, "apiGroup", "rbac.authorization.k8s.io");
                    }
                });
            }
        }
        "validatingwebhookconfigurations.admissionregistration.k8s.io"
        | "mutatingwebhookconfigurations.admissionregistration.k8s.io" => {
            let mutating = table.starts_with("mutating");
            if let Some(r) = o.as_object_mut() {
                each(r, "webhooks", |w| {
                    or(w, "failurePolicy", "Fail");
                    or(w, "matchPolicy", "Equivalent");
                    or(w, "namespaceSelector", json!({}));
                    or(w, "objectSelector", json!({}));
                    or(w, "timeoutSeconds", 10);
                    if mutating {
                        or(w, "reinvocationPolicy", "Never");
                    }
                    each(w, "rules", |r| or(r, "scope", "*"));
                    let service = w.get_mut("clientConfig").and_then(|c| c.get_mut("service"));
                    if let Some(service) = service.and_then(Value::as_object_mut) {
                        or(service, "port", 443);
                    }
                });
            }
        }
        _ => {}
    }
}

/// Struct fields that are always written, even when empty.
fn spec_keeper(table: &str) -> Option<&'static [&'static str]> {
    Some(match table {
        "pods"
        | "deployments.apps"
        | "replicasets.apps"
        | "statefulsets.apps"
        | "daemonsets.apps"
        | "jobs.batch"
        | "cronjobs.batch"
        | "services"
        | "persistentvolumeclaims"
        | "persistentvolumes"
        | "namespaces"
        | "nodes"
        | "ingresses.networking.k8s.io"
        | "poddisruptionbudgets.policy"
        | "horizontalpodautoscalers.autoscaling" => &["spec", "status"],
        "networkpolicies.networking.k8s.io" | "leases.coordination.k8s.io" => &["spec"],
        _ => return None,
    })
}

fn template(o: &mut Value, pointer: &str) {
    if let Some(t) = at(o, pointer) {
        or(t, "metadata", json!({}));
        or(t, "spec", json!({}));
        if let Some(spec) = t.get_mut("spec").and_then(Value::as_object_mut) {
            pod(spec);
        }
    }
}

fn pod(spec: &mut Map<String, Value>) {
    or(spec, "restartPolicy", "Always");
    or(spec, "dnsPolicy", "ClusterFirst");
    or(spec, "schedulerName", "default-scheduler");
    or(spec, "terminationGracePeriodSeconds", 30);
    or(spec, "securityContext", json!({}));
    if let Some(sa) = spec.get("serviceAccountName").cloned() {
        or(spec, "serviceAccount", sa);
    } else if let Some(sa) = spec.get("serviceAccount").cloned() {
        or(spec, "serviceAccountName", sa);
    }
    let host = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        each(spec, list, |c| container(c, host));
    }
    each(spec, "volumes", volume);
}

fn container(c: &mut Map<String, Value>, host: bool) {
    or(c, "terminationMessagePath", "/dev/termination-log");
    or(c, "terminationMessagePolicy", "File");
    or(c, "resources", json!({}));
    let image = c.get("image").and_then(Value::as_str).unwrap_or_default();
    let tag = image.rsplit('/').next().unwrap_or_default();
    let latest = !image.contains('@') && (!tag.contains(':') || tag.ends_with(":latest"));
    or(c, "imagePullPolicy", if latest { "Always" } else { "IfNotPresent" });
    each(c, "ports", |p| {
        or(p, "protocol", "TCP");
        if host && let Some(n) = p.get("containerPort").cloned() {
            or(p, "hostPort", n);
        }
    });
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(p) = c.get_mut(probe).and_then(Value::as_object_mut) {
            or(p, "timeoutSeconds", 1);
            or(p, "periodSeconds", 10);
            or(p, "successThreshold", 1);
            or(p, "failureThreshold", 3);
            http(p);
        }
    }
    if let Some(l) = c.get_mut("lifecycle").and_then(Value::as_object_mut) {
        for hook in ["postStart", "preStop"] {
            if let Some(h) = l.get_mut(hook).and_then(Value::as_object_mut) {
                http(h);
            }
        }
    }
    each(c, "env", |e| {
        if let Some(f) =
            e.get_mut("valueFrom").and_then(|v| v.get_mut("fieldRef")).and_then(Value::as_object_mut)
        {
            or(f, "apiVersion", "v1");
        }
    });
}

fn http(p: &mut Map<String, Value>) {
    if let Some(h) = p.get_mut("httpGet").and_then(Value::as_object_mut) {
        or(h, "path", "/");
        or(h, "scheme", "HTTP");
    }
    if let Some(g) = p.get_mut("grpc").and_then(Value::as_object_mut) {
        or(g, "service", "");
    }
}

fn volume(v: &mut Map<String, Value>) {
    let sources = v.keys().filter(|k| *k != "name").count();
    if sources == 0 {
        v.insert("emptyDir".into(), json!({}));
    }
    for kind in ["configMap", "secret", "downwardAPI", "projected"] {
        if let Some(s) = v.get_mut(kind).and_then(Value::as_object_mut) {
            or(s, "defaultMode", 420);
            each(s, "sources", |src| {
                if let Some(t) = src.get_mut("serviceAccountToken").and_then(Value::as_object_mut) {
                    or(t, "expirationSeconds", 3600);
                }
            });
        }
    }
    if let Some(h) = v.get_mut("hostPath").and_then(Value::as_object_mut) {
        or(h, "type", "");
    }
}

fn tolerations(spec: &mut Map<String, Value>) {
    let list = spec.entry("tolerations").or_insert_with(|| json!([]));
    let Some(list) = list.as_array_mut() else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        if !list.iter().any(|t| t.get("key").and_then(Value::as_str) == Some(key)) {
            list.push(
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}),
            );
        }
    }
}

fn requests_from_limits(spec: &mut Map<String, Value>) {
    for list in ["containers", "initContainers"] {
        each(spec, list, |c| {
            let limits = c.get("resources").and_then(|r| r.get("limits")).and_then(Value::as_object).cloned();
            if let (Some(limits), Some(r)) = (limits, c.get_mut("resources").and_then(Value::as_object_mut)) {
                or(r, "requests", json!({}));
                if let Some(req) = r.get_mut("requests").and_then(Value::as_object_mut) {
                    for (k, v) in limits {
                        or(req, &k, v);
                    }
                }
            }
        });
    }
}

fn quality_of_service(o: &mut Value) {
    let none = Vec::new();
    let containers = o.pointer("/spec/containers").and_then(Value::as_array).unwrap_or(&none);
    let amount = |c: &Value, which: &str, res: &str| {
        c.get("resources").and_then(|r| r.get(which)).and_then(|r| r.get(res)).cloned()
    };
    let any = containers.iter().any(|c| {
        ["requests", "limits"].iter().any(|w| ["cpu", "memory"].iter().any(|r| amount(c, w, r).is_some()))
    });
    let all = !containers.is_empty()
        && containers.iter().all(|c| {
            ["cpu", "memory"].iter().all(|r| {
                let limit = amount(c, "limits", r);
                limit.is_some() && amount(c, "requests", r) == limit
            })
        });
    let class = if all {
        "Guaranteed"
    } else if any {
        "Burstable"
    } else {
        "BestEffort"
    };
    if let Some(s) = at(o, "/status") {
        or(s, "qosClass", class);
    }
}

fn job(o: &mut Value) {
    template(o, "/spec/template");
    let uid = o.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default().to_owned();
    let name = o.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let manual = o.pointer("/spec/manualSelector") == Some(&Value::Bool(true));
    let _ = uid;
    if let Some(s) = at(o, "/spec") {
        or(s, "backoffLimit", 6);
        or(s, "suspend", false);
        or(s, "completionMode", "NonIndexed");
        or(s, "manualSelector", false);
        or(s, "podReplacementPolicy", "TerminatingOrFailed");
        if !s.contains_key("completions") && !s.contains_key("parallelism") {
            s.insert("completions".into(), 1.into());
        }
        or(s, "parallelism", 1);
        if !manual && !s.contains_key("selector") {
            // The real selector is the uid; a uid of its own kind serves the same end here.
            let id = uuid::Uuid::new_v4().to_string();
            s.insert("selector".into(), json!({"matchLabels": {"batch.kubernetes.io/controller-uid": id}}));
            if let Some(t) = s.get_mut("template").and_then(Value::as_object_mut) {
                or(t, "metadata", json!({}));
                let meta = &mut t["metadata"];
                if !meta["labels"].is_object() {
                    meta["labels"] = json!({});
                }
                for (k, v) in [
                    ("batch.kubernetes.io/controller-uid", &id),
                    ("batch.kubernetes.io/job-name", &name),
                    ("controller-uid", &id),
                    ("job-name", &name),
                ] {
                    meta["labels"][k] = v.clone().into();
                }
            }
        }
    }
}

fn service(o: &mut Value) {
    let Some(s) = at(o, "/spec") else { return };
    or(s, "type", "ClusterIP");
    or(s, "sessionAffinity", "None");
    if s["type"] != "ExternalName" {
        or(s, "ipFamilies", json!(["IPv4"]));
        or(s, "ipFamilyPolicy", "SingleStack");
        or(s, "internalTrafficPolicy", "Cluster");
    }
    if matches!(s["type"].as_str(), Some("NodePort" | "LoadBalancer")) {
        or(s, "externalTrafficPolicy", "Cluster");
    }
    if s["type"] == "LoadBalancer" {
        or(s, "allocateLoadBalancerNodePorts", true);
    }
    each(s, "ports", |p| {
        or(p, "protocol", "TCP");
        if let Some(n) = p.get("port").cloned() {
            or(p, "targetPort", n);
        }
    });
}

fn definition(o: &mut Value) {
    let Some(s) = at(o, "/spec") else { return };
    or(s, "conversion", json!({"strategy": "None"}));
    if let Some(names) = s.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        or(names, "singular", kind.to_lowercase());
        or(names, "listKind", format!("{kind}List"));
    }
}
