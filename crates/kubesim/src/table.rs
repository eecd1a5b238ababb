//! Tables as `kubectl get` prints them.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::resource::Column;
use crate::store::text;
use crate::verbs::Call;

/// What a table row carries besides its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Include {
    /// Only metadata.
    Metadata,
    /// The whole object.
    Object,
    /// Nothing.
    None,
}

type Cell = fn(&Value) -> Value;

/// Name, type, priority, cell.
type Spec = (&'static str, &'static str, i64, Cell);

fn s(o: &Value, p: &str) -> Value {
    text(o, p).into()
}

fn n(o: &Value, p: &str) -> Value {
    o.pointer(p).and_then(Value::as_i64).unwrap_or(0).into()
}

fn count(o: &Value, p: &str) -> usize {
    o.pointer(p)
        .map_or(0, |v| v.as_array().map_or_else(|| v.as_object().map_or(0, serde_json::Map::len), Vec::len))
}

fn or_none(v: &str) -> Value {
    if v.is_empty() { "<none>".into() } else { v.into() }
}

/// Time since a timestamp, the way people read it: `5s`, `3m12s`, `4h`, `12d`.
pub(crate) fn age(since: &str) -> String {
    match chrono::DateTime::parse_from_rfc3339(since) {
        Ok(t) => duration((chrono::Utc::now() - t.with_timezone(&chrono::Utc)).num_seconds()),
        Err(_) => "<unknown>".into(),
    }
}

fn duration(secs: i64) -> String {
    let secs = secs.max(0);
    let two = |a: i64, ua: &str, b: i64, ub: &str| {
        if b == 0 { format!("{a}{ua}") } else { format!("{a}{ua}{b}{ub}") }
    };
    match secs {
        0..120 => format!("{secs}s"),
        120..600 => two(secs / 60, "m", secs % 60, "s"),
        600..10_800 => format!("{}m", secs / 60),
        10_800..28_800 => two(secs / 3600, "h", secs % 3600 / 60, "m"),
        28_800..172_800 => format!("{}h", secs / 3600),
        172_800..691_200 => two(secs / 86_400, "d", secs % 86_400 / 3600, "h"),
        _ => format!("{}d", secs / 86_400),
    }
}

fn created(o: &Value) -> Value {
    age(text(o, "/metadata/creationTimestamp")).into()
}

fn name(o: &Value) -> Value {
    s(o, "/metadata/name")
}

fn containers(o: &Value, base: &str, field: &str) -> Value {
    let list = o.pointer(&format!("{base}/containers")).and_then(Value::as_array);
    list.into_iter().flatten().map(|c| text(c, &format!("/{field}"))).collect::<Vec<_>>().join(",").into()
}

fn selector_text(v: Option<&Value>) -> Value {
    let Some(v) = v else { return "<none>".into() };
    let labels = v.get("matchLabels").unwrap_or(v);
    let parts: Vec<String> = labels
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(k, _)| *k != "matchExpressions")
        .map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()))
        .collect();
    or_none(&parts.join(","))
}

fn ratio(o: &Value, ready: &str, want: &str) -> Value {
    let want = o.pointer(want).and_then(Value::as_i64).unwrap_or(0);
    format!("{}/{want}", o.pointer(ready).and_then(Value::as_i64).unwrap_or(0)).into()
}

fn pod_ready(o: &Value) -> Value {
    let statuses = o.pointer("/status/containerStatuses").and_then(Value::as_array);
    let ready = statuses.map_or(0, |l| l.iter().filter(|c| c["ready"] == Value::Bool(true)).count());
    format!("{ready}/{}", count(o, "/spec/containers")).into()
}

fn pod_status(o: &Value) -> Value {
    if o.pointer("/metadata/deletionTimestamp").is_some() {
        return "Terminating".into();
    }
    let mut status = match text(o, "/status/reason") {
        "" => text(o, "/status/phase").to_owned(),
        r => r.to_owned(),
    };
    for c in o.pointer("/status/containerStatuses").and_then(Value::as_array).into_iter().flatten() {
        let waiting = text(c, "/state/waiting/reason");
        let ended = text(c, "/state/terminated/reason");
        if !waiting.is_empty() {
            waiting.clone_into(&mut status);
        } else if !ended.is_empty() {
            ended.clone_into(&mut status);
        }
    }
    if status == "Succeeded" { "Completed".into() } else { status.into() }
}

fn pod_restarts(o: &Value) -> Value {
    let list = o.pointer("/status/containerStatuses").and_then(Value::as_array);
    let sum: i64 =
        list.into_iter().flatten().filter_map(|c| c.get("restartCount").and_then(Value::as_i64)).sum();
    sum.to_string().into()
}

fn job_status(o: &Value) -> Value {
    let cond = |t: &str| {
        o.pointer("/status/conditions")
            .and_then(Value::as_array)
            .is_some_and(|l| l.iter().any(|c| text(c, "/type") == t && text(c, "/status") == "True"))
    };
    let word = if cond("Complete") {
        "Complete"
    } else if cond("Failed") {
        "Failed"
    } else if o.pointer("/metadata/deletionTimestamp").is_some() {
        "Terminating"
    } else if cond("Suspended") {
        "Suspended"
    } else {
        "Running"
    };
    word.into()
}

fn job_duration(o: &Value) -> Value {
    let parse = |p: &str| chrono::DateTime::parse_from_rfc3339(text(o, p)).ok();
    match (parse("/status/startTime"), parse("/status/completionTime")) {
        (Some(a), Some(b)) => duration((b - a).num_seconds()).into(),
        (Some(_), None) => age(text(o, "/status/startTime")).into(),
        _ => "".into(),
    }
}

fn service_ports(o: &Value) -> Value {
    let list = o.pointer("/spec/ports").and_then(Value::as_array);
    let parts: Vec<String> = list
        .into_iter()
        .flatten()
        .map(|p| {
            let port = p.get("port").and_then(Value::as_i64).unwrap_or(0);
            let proto = text(p, "/protocol");
            match p.get("nodePort").and_then(Value::as_i64) {
                Some(np) if np > 0 => format!("{port}:{np}/{proto}"),
                _ => format!("{port}/{proto}"),
            }
        })
        .collect();
    or_none(&parts.join(","))
}

fn service_external(o: &Value) -> Value {
    match text(o, "/spec/type") {
        "LoadBalancer" => {
            let ip = text(o, "/status/loadBalancer/ingress/0/ip");
            if ip.is_empty() { "<pending>".into() } else { ip.into() }
        }
        "ExternalName" => s(o, "/spec/externalName"),
        _ => "<none>".into(),
    }
}

fn node_status(o: &Value) -> Value {
    let ready = o
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .is_some_and(|l| l.iter().any(|c| text(c, "/type") == "Ready" && text(c, "/status") == "True"));
    if ready { "Ready".into() } else { "NotReady".into() }
}

fn ingress_hosts(o: &Value) -> Value {
    let list = o.pointer("/spec/rules").and_then(Value::as_array);
    let hosts: Vec<&str> =
        list.into_iter().flatten().map(|r| text(r, "/host")).filter(|h| !h.is_empty()).collect();
    if hosts.is_empty() { "*".into() } else { hosts.join(",").into() }
}

fn subjects(o: &Value, kind: &str) -> Value {
    let list = o.get("subjects").and_then(Value::as_array);
    let names: Vec<String> = list
        .into_iter()
        .flatten()
        .filter(|x| text(x, "/kind") == kind)
        .map(|x| match text(x, "/namespace") {
            "" => text(x, "/name").to_owned(),
            ns => format!("{ns}/{}", text(x, "/name")),
        })
        .collect();
    names.join(", ").into()
}

const NAME: Spec = ("Name", "string", 0, name);
const AGE: Spec = ("Age", "string", 0, created);

fn columns(table: &str) -> Vec<Spec> {
    let mut out: Vec<Spec> = vec![NAME];
    let rest: &[Spec] = match table {
        "pods" => &[
            ("Ready", "string", 0, pod_ready),
            ("Status", "string", 0, pod_status),
            ("Restarts", "string", 0, pod_restarts),
            AGE,
            ("IP", "string", 1, |o| or_none(text(o, "/status/podIP"))),
            ("Node", "string", 1, |o| or_none(text(o, "/spec/nodeName"))),
            ("Nominated Node", "string", 1, |o| or_none(text(o, "/status/nominatedNodeName"))),
            ("Readiness Gates", "string", 1, |_| "<none>".into()),
        ],
        "deployments.apps" => &[
            ("Ready", "string", 0, |o| ratio(o, "/status/readyReplicas", "/spec/replicas")),
            ("Up-to-date", "string", 0, |o| n(o, "/status/updatedReplicas")),
            ("Available", "string", 0, |o| n(o, "/status/availableReplicas")),
            AGE,
            ("Containers", "string", 1, |o| containers(o, "/spec/template/spec", "name")),
            ("Images", "string", 1, |o| containers(o, "/spec/template/spec", "image")),
            ("Selector", "string", 1, |o| selector_text(o.pointer("/spec/selector"))),
        ],
        "replicasets.apps" => &[
            ("Desired", "integer", 0, |o| n(o, "/spec/replicas")),
            ("Current", "integer", 0, |o| n(o, "/status/replicas")),
            ("Ready", "integer", 0, |o| n(o, "/status/readyReplicas")),
            AGE,
            ("Containers", "string", 1, |o| containers(o, "/spec/template/spec", "name")),
            ("Images", "string", 1, |o| containers(o, "/spec/template/spec", "image")),
            ("Selector", "string", 1, |o| selector_text(o.pointer("/spec/selector"))),
        ],
        "statefulsets.apps" => &[
            ("Ready", "string", 0, |o| ratio(o, "/status/readyReplicas", "/spec/replicas")),
            AGE,
            ("Containers", "string", 1, |o| containers(o, "/spec/template/spec", "name")),
            ("Images", "string", 1, |o| containers(o, "/spec/template/spec", "image")),
        ],
        "daemonsets.apps" => &[
            ("Desired", "integer", 0, |o| n(o, "/status/desiredNumberScheduled")),
            ("Current", "integer", 0, |o| n(o, "/status/currentNumberScheduled")),
            ("Ready", "integer", 0, |o| n(o, "/status/numberReady")),
            ("Up-to-date", "integer", 0, |o| n(o, "/status/updatedNumberScheduled")),
            ("Available", "integer", 0, |o| n(o, "/status/numberAvailable")),
            ("Node Selector", "string", 0, |o| selector_text(o.pointer("/spec/template/spec/nodeSelector"))),
            AGE,
            ("Containers", "string", 1, |o| containers(o, "/spec/template/spec", "name")),
            ("Images", "string", 1, |o| containers(o, "/spec/template/spec", "image")),
            ("Selector", "string", 1, |o| selector_text(o.pointer("/spec/selector"))),
        ],
        "jobs.batch" => &[
            ("Status", "string", 0, job_status),
            ("Completions", "string", 0, |o| ratio(o, "/status/succeeded", "/spec/completions")),
            ("Duration", "string", 0, job_duration),
            AGE,
            ("Containers", "string", 1, |o| containers(o, "/spec/template/spec", "name")),
            ("Images", "string", 1, |o| containers(o, "/spec/template/spec", "image")),
            ("Selector", "string", 1, |o| selector_text(o.pointer("/spec/selector"))),
        ],
        "cronjobs.batch" => &[
            ("Schedule", "string", 0, |o| s(o, "/spec/schedule")),
            ("Timezone", "string", 0, |o| or_none(text(o, "/spec/timeZone"))),
            ("Suspend", "boolean", 0, |o| {
                if o.pointer("/spec/suspend") == Some(&Value::Bool(true)) {
                    "True".into()
                } else {
                    "False".into()
                }
            }),
            ("Active", "integer", 0, |o| count(o, "/status/active").into()),
            ("Last Schedule", "string", 0, |o| match text(o, "/status/lastScheduleTime") {
                "" => "<none>".into(),
                t => age(t).into(),
            }),
            AGE,
        ],
        "services" => &[
            ("Type", "string", 0, |o| s(o, "/spec/type")),
            ("Cluster-IP", "string", 0, |o| or_none(text(o, "/spec/clusterIP"))),
            ("External-IP", "string", 0, service_external),
            ("Port(s)", "string", 0, service_ports),
            AGE,
            ("Selector", "string", 1, |o| selector_text(o.pointer("/spec/selector"))),
        ],
        "configmaps" => {
            &[("Data", "string", 0, |o| (count(o, "/data") + count(o, "/binaryData")).into()), AGE]
        }
        "secrets" => &[
            ("Type", "string", 0, |o| s(o, "/type")),
            ("Data", "string", 0, |o| count(o, "/data").into()),
            AGE,
        ],
        "namespaces" => &[("Status", "string", 0, |o| s(o, "/status/phase")), AGE],
        "serviceaccounts" => &[("Secrets", "string", 0, |o| count(o, "/secrets").into()), AGE],
        "nodes" => &[
            ("Status", "string", 0, node_status),
            ("Roles", "string", 0, |_| "<none>".into()),
            AGE,
            ("Version", "string", 0, |o| s(o, "/status/nodeInfo/kubeletVersion")),
        ],
        "persistentvolumeclaims" => &[
            ("Status", "string", 0, |o| s(o, "/status/phase")),
            ("Volume", "string", 0, |o| s(o, "/spec/volumeName")),
            ("Capacity", "string", 0, |o| s(o, "/status/capacity/storage")),
            ("Access Modes", "string", 0, |o| {
                let l = o.pointer("/spec/accessModes").and_then(Value::as_array);
                let short: Vec<&str> = l
                    .into_iter()
                    .flatten()
                    .map(|m| match m.as_str().unwrap_or_default() {
                        "ReadWriteOnce" => "RWO",
                        "ReadOnlyMany" => "ROX",
                        "ReadWriteMany" => "RWX",
                        _ => "RWOP",
                    })
                    .collect();
                short.join(",").into()
            }),
            ("StorageClass", "string", 0, |o| s(o, "/spec/storageClassName")),
            ("VolumeAttributesClass", "string", 0, |_| "<unset>".into()),
            AGE,
        ],
        "ingresses.networking.k8s.io" => {
            &[
                ("Class", "string", 0, |o| or_none(text(o, "/spec/ingressClassName"))),
                ("Hosts", "string", 0, ingress_hosts),
                ("Address", "string", 0, |o| s(o, "/status/loadBalancer/ingress/0/ip")),
                ("Ports", "string", 0, |o| {
                    if count(o, "/spec/tls") > 0 { "80, 443".into() } else { "80".into() }
                }),
                AGE,
            ]
        }
        "networkpolicies.networking.k8s.io" => {
            &[("Pod-Selector", "string", 0, |o| selector_text(o.pointer("/spec/podSelector"))), AGE]
        }
        "events" => {
            return vec![
                ("Last Seen", "string", 0, |o| match text(o, "/lastTimestamp") {
                    "" => age(text(o, "/eventTime")).into(),
                    t => age(t).into(),
                }),
                ("Type", "string", 0, |o| s(o, "/type")),
                ("Reason", "string", 0, |o| s(o, "/reason")),
                ("Object", "string", 0, |o| {
                    let k = text(o, "/involvedObject/kind").to_lowercase();
                    format!("{k}/{}", text(o, "/involvedObject/name")).into()
                }),
                ("Message", "string", 0, |o| s(o, "/message")),
            ];
        }
        "customresourcedefinitions.apiextensions.k8s.io" => {
            &[("Created At", "date", 0, |o| s(o, "/metadata/creationTimestamp"))]
        }
        "roles.rbac.authorization.k8s.io" | "clusterroles.rbac.authorization.k8s.io" => {
            &[("Created At", "date", 0, |o| s(o, "/metadata/creationTimestamp"))]
        }
        "rolebindings.rbac.authorization.k8s.io" | "clusterrolebindings.rbac.authorization.k8s.io" => &[
            ("Role", "string", 0, |o| {
                format!("{}/{}", text(o, "/roleRef/kind"), text(o, "/roleRef/name")).into()
            }),
            AGE,
            ("Users", "string", 1, |o| subjects(o, "User")),
            ("Groups", "string", 1, |o| subjects(o, "Group")),
            ("ServiceAccounts", "string", 1, |o| subjects(o, "ServiceAccount")),
        ],
        "leases.coordination.k8s.io" => &[("Holder", "string", 0, |o| s(o, "/spec/holderIdentity")), AGE],
        "poddisruptionbudgets.policy" => &[
            ("Min Available", "string", 0, |o| amount(o.pointer("/spec/minAvailable"))),
            ("Max Unavailable", "string", 0, |o| amount(o.pointer("/spec/maxUnavailable"))),
            ("Allowed Disruptions", "integer", 0, |o| n(o, "/status/disruptionsAllowed")),
            AGE,
        ],
        "horizontalpodautoscalers.autoscaling" => &[
            ("Reference", "string", 0, |o| {
                format!("{}/{}", text(o, "/spec/scaleTargetRef/kind"), text(o, "/spec/scaleTargetRef/name"))
                    .into()
            }),
            ("Targets", "string", 0, |_| "<unknown>".into()),
            ("MinPods", "string", 0, |o| n(o, "/spec/minReplicas")),
            ("MaxPods", "string", 0, |o| n(o, "/spec/maxReplicas")),
            ("Replicas", "string", 0, |o| n(o, "/status/currentReplicas")),
            AGE,
        ],
        "storageclasses.storage.k8s.io" => &[
            ("Provisioner", "string", 0, |o| s(o, "/provisioner")),
            ("ReclaimPolicy", "string", 0, |o| s(o, "/reclaimPolicy")),
            ("VolumeBindingMode", "string", 0, |o| s(o, "/volumeBindingMode")),
            ("AllowVolumeExpansion", "string", 0, |o| {
                o.get("allowVolumeExpansion").and_then(Value::as_bool).unwrap_or(false).to_string().into()
            }),
            AGE,
        ],
        _ => &[AGE],
    };
    out.extend_from_slice(rest);
    out
}

fn amount(v: Option<&Value>) -> Value {
    match v {
        None | Some(Value::Null) => "N/A".into(),
        Some(Value::String(s)) => s.clone().into(),
        Some(other) => other.to_string().into(),
    }
}

/// The value of a custom column, or null.
fn custom_cell(c: &Column, o: &Value) -> Value {
    let mut v = o;
    for step in &c.path {
        v = match step.strip_prefix('[').and_then(|s| s.strip_suffix(']')) {
            None => v.get(step.as_str()).unwrap_or(&Value::Null),
            Some(inner) => bracket(v, inner),
        };
    }
    match (c.ty.as_str(), v) {
        ("date", Value::String(t)) => age(t).into(),
        ("string", Value::Array(_) | Value::Object(_)) => v.to_string().into(),
        ("string", Value::Number(x)) => x.to_string().into(),
        ("string", Value::Bool(b)) => b.to_string().into(),
        _ => v.clone(),
    }
}

fn bracket<'a>(v: &'a Value, inner: &str) -> &'a Value {
    if let Ok(i) = inner.parse::<usize>() {
        return v.get(i).unwrap_or(&Value::Null);
    }
    if let Some(test) = inner.strip_prefix("?(@.").and_then(|s| s.strip_suffix(')'))
        && let Some((field, wanted)) = test.split_once("==")
    {
        let wanted = wanted.trim().trim_matches(['"', '\'']);
        let list = v.as_array().map_or(&[][..], Vec::as_slice);
        return list
            .iter()
            .find(|x| x.get(field.trim()).and_then(Value::as_str) == Some(wanted))
            .unwrap_or(&Value::Null);
    }
    v.get(inner.trim_matches(['"', '\''])).unwrap_or(&Value::Null)
}

/// Column definitions of a resource.
pub(crate) fn definitions(call: Call<'_>) -> Value {
    let column = |name: &str, ty: &str, priority: i64| {
        let format = if name == "Name" { "name" } else { "" };
        json!({"name": name, "type": ty, "format": format, "description": "", "priority": priority})
    };
    if call.res.custom {
        let mut out = vec![column("Name", "string", 0)];
        if call.version.columns.is_empty() {
            out.push(column("Age", "date", 0));
        }
        for c in &call.version.columns {
            out.push(json!({"name": c.name, "type": c.ty, "format": c.format, "description": "", "priority": c.priority}));
        }
        return out.into();
    }
    columns(&call.res.table).iter().map(|(name, ty, p, _)| column(name, ty, *p)).collect()
}

/// One row.
pub(crate) fn row(call: Call<'_>, o: &Arc<Value>, include: Include) -> Value {
    let cells: Vec<Value> = if call.res.custom {
        let mut cells = vec![name(o)];
        if call.version.columns.is_empty() {
            cells.push(created(o));
        }
        cells.extend(call.version.columns.iter().map(|c| custom_cell(c, o)));
        cells
    } else {
        columns(&call.res.table).iter().map(|(_, _, _, f)| f(o)).collect()
    };
    let object = match include {
        Include::None => Value::Null,
        Include::Object => (**o).clone(),
        Include::Metadata => partial(o),
    };
    if object.is_null() { json!({"cells": cells}) } else { json!({"cells": cells, "object": object}) }
}

/// The object reduced to its metadata.
pub(crate) fn partial(o: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": o["metadata"]})
}

/// A table of rows.
pub(crate) fn table(call: Call<'_>, rows: &[Value], meta: &Value, with_columns: bool) -> Value {
    let columns = if with_columns { definitions(call) } else { json!([]) };
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": meta, "columnDefinitions": columns, "rows": rows})
}
