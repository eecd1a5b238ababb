//! ReplicaSets.

use serde_json::{Value, json};

use super::template::{self, controlled, deleting, number, pod_ready, put_status};
use super::{MANAGER, garbage};
use crate::events;
use crate::kinds::random_suffix;
use crate::store::{Address, Store, key_of, text};
use crate::verbs::system::system_create;

/// Brings one ReplicaSet forward.
pub(super) fn reconcile(s: &mut Store, a: &Address) {
    let Some(rs) = s.at(a).cloned() else { return };
    if deleting(&rs) {
        return;
    }
    let mut pods = controlled(s, "pods", &rs);
    pods.retain(|p| !deleting(p) && !matches!(text(p, "/status/phase"), "Succeeded" | "Failed"));
    let want = number(&rs, "/spec/replicas").max(0) as usize;
    for _ in pods.len()..want {
        let name = format!("{}-{}", a.1.1, random_suffix(5));
        if let Some(p) = system_create(s, "pods", template::pod(&rs, &name, &[]), MANAGER) {
            events::record(
                s,
                &rs,
                false,
                "SuccessfulCreate",
                &format!("Created pod: {name}"),
                "replicaset-controller",
            );
            pods.push(p);
        }
    }
    if pods.len() > want {
        // Those that are not ready go first, then the youngest.
        pods.sort_by_key(|p| pod_ready(p));
        let extra: Vec<_> = pods.drain(..pods.len() - want).collect();
        for p in extra {
            let name = text(&p, "/metadata/name").to_owned();
            garbage::delete(s, &("pods".into(), key_of(&p)), false);
            events::record(
                s,
                &rs,
                false,
                "SuccessfulDelete",
                &format!("Deleted pod: {name}"),
                "replicaset-controller",
            );
        }
    }
    let Some(rs) = s.at(a).cloned() else { return };
    let ready = pods.iter().filter(|p| pod_ready(p)).count();
    let mut status = json!({"replicas": pods.len(), "observedGeneration": rs["metadata"]["generation"]});
    if !pods.is_empty() {
        status["fullyLabeledReplicas"] = pods.len().into();
    }
    if ready > 0 {
        status["readyReplicas"] = ready.into();
        status["availableReplicas"] = ready.into();
    }
    if let Some(c) = rs.pointer("/status/conditions").filter(|c| **c != Value::Null) {
        status["conditions"] = c.clone();
    }
    put_status(s, a, &rs, status);
}
