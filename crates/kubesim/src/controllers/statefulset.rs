//! StatefulSets: numbered Pods with claims of their own, one after the other.

use std::sync::Arc;

use serde_json::{Value, json};

use super::template::{self, controlled, deleting, hash, number, pod_ready, put_status};
use super::{MANAGER, garbage};
use crate::events;
use crate::store::{Address, Store, key_of, text};
use crate::verbs::system::system_create;

fn ordinal(p: &Value) -> i64 {
    text(p, "/metadata/name").rsplit('-').next().and_then(|n| n.parse().ok()).unwrap_or(-1)
}

/// Brings one StatefulSet forward.
pub(super) fn reconcile(s: &mut Store, a: &Address) {
    let Some(set) = s.at(a).cloned() else { return };
    if deleting(&set) {
        return;
    }
    let name = a.1.1.to_string();
    let revision = format!("{name}-{}", hash(&set["spec"]["template"]));
    let mut pods = controlled(s, "pods", &set);
    pods.sort_by_key(|p| ordinal(p));
    let first = number(&set, "/spec/ordinals/start");
    let want = number(&set, "/spec/replicas").max(0);
    let parallel = text(&set, "/spec/podManagementPolicy") == "Parallel";
    for i in first..first + want {
        let at = pods.iter().find(|p| ordinal(p) == i);
        match at {
            None => {
                make(s, &set, &format!("{name}-{i}"), i, &revision);
                if !parallel {
                    break;
                }
            }
            Some(p) if !parallel && !pod_ready(p) => break,
            Some(_) => {}
        }
    }
    // From the top: Pods beyond the wanted number, then Pods of an older revision, one at a time.
    let extra = pods.iter().rev().find(|p| ordinal(p) >= first + want && !deleting(p));
    let partition = number(&set, "/spec/updateStrategy/rollingUpdate/partition");
    let rolling = text(&set, "/spec/updateStrategy/type") != "OnDelete";
    let settled =
        pods.iter().all(|p| pod_ready(p) || text(p, "/metadata/labels/controller-revision-hash") != revision);
    let stale = pods.iter().rev().find(|p| {
        ordinal(p) >= partition
            && text(p, "/metadata/labels/controller-revision-hash") != revision
            && !deleting(p)
            && rolling
            && settled
    });
    if let Some(p) = extra.or(stale) {
        let pod = text(p, "/metadata/name").to_owned();
        garbage::delete(s, &("pods".into(), key_of(p)), false);
        let message = format!("delete Pod {pod} in StatefulSet {name} successful");
        events::record(s, &set, false, "SuccessfulDelete", &message, "statefulset-controller");
    }
    let Some(set) = s.at(a).cloned() else { return };
    let pods = controlled(s, "pods", &set);
    let count = |f: &dyn Fn(&Arc<Value>) -> bool| pods.iter().filter(|p| f(p)).count() as i64;
    let ready = count(&|p| pod_ready(p));
    let updated = count(&|p| text(p, "/metadata/labels/controller-revision-hash") == revision);
    let before = text(&set, "/status/currentRevision");
    let complete = updated >= want && ready >= want && pods.len() as i64 == want;
    let current = if before.is_empty() || complete { revision.clone() } else { before.to_owned() };
    let mut status = json!({
        "observedGeneration": set["metadata"]["generation"], "replicas": pods.len(), "collisionCount": 0,
        "availableReplicas": ready, "currentRevision": current, "updateRevision": revision,
    });
    if ready > 0 {
        status["readyReplicas"] = ready.into();
    }
    if updated > 0 {
        status["updatedReplicas"] = updated.into();
    }
    let on_current = count(&|p| text(p, "/metadata/labels/controller-revision-hash") == current);
    if on_current > 0 {
        status["currentReplicas"] = on_current.into();
    }
    put_status(s, a, &set, status);
}

fn make(s: &mut Store, set: &Value, pod_name: &str, index: i64, revision: &str) {
    let mut pod = template::pod(
        set,
        pod_name,
        &[
            ("statefulset.kubernetes.io/pod-name", pod_name),
            ("controller-revision-hash", revision),
            ("apps.kubernetes.io/pod-index", &index.to_string()),
        ],
    );
    pod["spec"]["hostname"] = pod_name.into();
    pod["spec"]["subdomain"] = set["spec"]["serviceName"].clone();
    for t in set.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array).into_iter().flatten() {
        let volume = text(t, "/metadata/name");
        let claim = format!("{volume}-{pod_name}");
        let mut meta = t["metadata"].clone();
        meta["name"] = claim.clone().into();
        meta["namespace"] = set["metadata"]["namespace"].clone();
        meta["labels"] = set["spec"]["selector"]["matchLabels"].clone();
        let pvc = json!({"metadata": meta, "spec": t["spec"], "status": {"phase": "Pending"}});
        system_create(s, "persistentvolumeclaims", pvc, MANAGER);
        if !pod["spec"]["volumes"].is_array() {
            pod["spec"]["volumes"] = json!([]);
        }
        if let Some(v) = pod["spec"]["volumes"].as_array_mut() {
            v.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": claim}}));
        }
    }
    if pod["spec"]["subdomain"].is_null()
        && let Some(m) = pod["spec"].as_object_mut()
    {
        m.remove("subdomain");
    }
    if system_create(s, "pods", pod, MANAGER).is_some() {
        let message =
            format!("create Pod {pod_name} in StatefulSet {} successful", text(set, "/metadata/name"));
        events::record(s, set, false, "SuccessfulCreate", &message, "statefulset-controller");
    }
}
