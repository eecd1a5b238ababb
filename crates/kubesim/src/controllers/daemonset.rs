//! DaemonSets: one Pod per node.

use std::sync::Arc;

use serde_json::{Value, json};

use super::template::{self, controlled, deleting, hash, pod_ready, put_status};
use super::{MANAGER, garbage};
use crate::events;
use crate::kinds::random_suffix;
use crate::store::{Address, Store, key_of, text};
use crate::verbs::system::system_create;

/// Brings one DaemonSet forward.
pub(super) fn reconcile(s: &mut Store, a: &Address) {
    let Some(ds) = s.at(a).cloned() else { return };
    if deleting(&ds) {
        return;
    }
    let nodes: Vec<String> = s.iter("nodes", None).map(|((_, n), _)| n.to_string()).collect();
    let revision = hash(&ds["spec"]["template"]);
    let mut pods: Vec<Arc<Value>> = controlled(s, "pods", &ds);
    pods.retain(|p| !deleting(p));
    let node_of = |p: &Value| text(p, "/metadata/annotations/kubesim.plural.sh~1node").to_owned();
    for node in &nodes {
        if pods.iter().any(|p| node_of(p) == *node) {
            continue;
        }
        let name = format!("{}-{}", a.1.1, random_suffix(5));
        let mut pod = template::pod(&ds, &name, &[("controller-revision-hash", &revision)]);
        pod["metadata"]["annotations"]["kubesim.plural.sh/node"] = node.clone().into();
        if let Some(p) = system_create(s, "pods", pod, MANAGER) {
            events::record(
                s,
                &ds,
                false,
                "SuccessfulCreate",
                &format!("Created pod: {name}"),
                "daemonset-controller",
            );
            pods.push(p);
        }
    }
    let of_revision = |p: &Value| text(p, "/metadata/labels/controller-revision-hash") == revision;
    let all_ready = pods.iter().all(|p| pod_ready(p) || !of_revision(p));
    let on_delete = text(&ds, "/spec/updateStrategy/type") == "OnDelete";
    if let Some(p) = pods.iter().find(|p| !of_revision(p)).filter(|_| all_ready && !on_delete) {
        garbage::delete(s, &("pods".into(), key_of(p)), false);
    }
    let Some(ds) = s.at(a).cloned() else { return };
    let ready = pods.iter().filter(|p| pod_ready(p)).count();
    let updated = pods.iter().filter(|p| of_revision(p)).count();
    let want = nodes.len();
    let mut status = json!({
        "observedGeneration": ds["metadata"]["generation"], "desiredNumberScheduled": want,
        "currentNumberScheduled": pods.len(), "numberMisscheduled": 0, "numberReady": ready,
    });
    for (k, v) in [
        ("updatedNumberScheduled", updated),
        ("numberAvailable", ready),
        ("numberUnavailable", want.saturating_sub(ready)),
    ] {
        if v > 0 {
            status[k] = v.into();
        }
    }
    put_status(s, a, &ds, status);
}
