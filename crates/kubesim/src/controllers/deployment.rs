//! Deployments: one ReplicaSet per template, the newest with all replicas.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::template::{self, controlled, deleting, hash, number, put_status, set_condition};
use super::{Later, MANAGER, garbage};
use crate::events;
use crate::store::{Address, Store, key_of, text};
use crate::verbs::system::{system_create, system_update};

const REVISION: &str = "deployment.kubernetes.io/revision";

fn revision(o: &Value) -> i64 {
    o["metadata"]["annotations"]
        .get(REVISION)
        .and_then(Value::as_str)
        .and_then(|r| r.parse().ok())
        .unwrap_or(0)
}

fn resize(s: &mut Store, d: &Value, rs: &Arc<Value>, to: i64) -> Arc<Value> {
    let from = number(rs, "/spec/replicas");
    if from == to {
        return rs.clone();
    }
    let mut new = (**rs).clone();
    new["spec"]["replicas"] = to.into();
    new["metadata"]["generation"] = (number(rs, "/metadata/generation") + 1).into();
    let name = text(rs, "/metadata/name");
    let way = if to > from { "up" } else { "down" };
    let message = format!("Scaled {way} replica set {name} from {from} to {to}");
    events::record(s, d, false, "ScalingReplicaSet", &message, "deployment-controller");
    system_update(s, &"replicasets.apps".into(), rs, new, MANAGER, "").unwrap_or_else(|| rs.clone())
}

/// Brings one Deployment forward.
pub(super) fn reconcile(s: &mut Store, a: &Address, later: &mut Later) {
    let Some(d) = s.at(a).cloned() else { return };
    if deleting(&d) {
        return;
    }
    let id = hash(&d["spec"]["template"]);
    let all = controlled(s, "replicasets.apps", &d);
    let paused = d.pointer("/spec/paused") == Some(&Value::Bool(true));
    let mut newest = all.iter().find(|r| text(r, "/metadata/labels/pod-template-hash") == id).cloned();
    let want = number(&d, "/spec/replicas").max(0);
    let top = all.iter().map(|r| revision(r)).max().unwrap_or(0);
    let old: Vec<Arc<Value>> =
        all.iter().filter(|r| text(r, "/metadata/labels/pod-template-hash") != id).cloned().collect();
    let recreate = text(&d, "/spec/strategy/type") == "Recreate";
    let old_running: i64 = old.iter().map(|r| number(r, "/status/replicas")).sum();
    if newest.is_none() && !paused {
        newest = create(s, &d, &id, if recreate && old_running > 0 { 0 } else { want }, top + 1);
    }
    if let Some(n) = &newest
        && revision(n) < top
        && !paused
    {
        // An earlier template came back: its ReplicaSet becomes the newest revision.
        let mut new = (**n).clone();
        new["metadata"]["annotations"][REVISION] = (top + 1).to_string().into();
        newest = system_update(s, &"replicasets.apps".into(), n, new, MANAGER, "");
    }
    let ready = newest.as_ref().map_or(0, |n| number(n, "/status/readyReplicas"));
    if let Some(n) = &newest {
        if !(recreate && old_running > 0) {
            resize(s, &d, n, want);
        }
        if !paused {
            for r in &old {
                if recreate || ready >= want {
                    resize(s, &d, r, 0);
                }
            }
        }
    }
    trim(s, &d, &old);
    status(s, a, newest.as_ref(), later);
}

fn create(s: &mut Store, d: &Value, id: &str, replicas: i64, revision: i64) -> Option<Arc<Value>> {
    let mut template = d["spec"]["template"].clone();
    template["metadata"]["labels"]["pod-template-hash"] = id.into();
    let mut selector = d["spec"]["selector"].clone();
    selector["matchLabels"]["pod-template-hash"] = id.into();
    let name = format!("{}-{id}", text(d, "/metadata/name"));
    let mut annotations = d["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    annotations.insert(REVISION.into(), revision.to_string().into());
    annotations
        .insert("deployment.kubernetes.io/desired-replicas".into(), d["spec"]["replicas"].to_string().into());
    let rs = json!({
        "metadata": {"name": name, "namespace": d["metadata"]["namespace"], "labels": template["metadata"]["labels"],
            "annotations": annotations, "ownerReferences": template::owner(d)},
        "spec": {"replicas": replicas, "selector": selector, "template": template},
        "status": {"replicas": 0},
    });
    let made = system_create(s, "replicasets.apps", rs, MANAGER)?;
    let message = format!("Scaled up replica set {name} from 0 to {replicas}");
    events::record(s, d, false, "ScalingReplicaSet", &message, "deployment-controller");
    Some(made)
}

/// Old ReplicaSets beyond the history limit go.
fn trim(s: &mut Store, d: &Value, old: &[Arc<Value>]) {
    let limit = d.pointer("/spec/revisionHistoryLimit").and_then(Value::as_i64).unwrap_or(10).max(0) as usize;
    let mut idle: Vec<&Arc<Value>> = old
        .iter()
        .filter(|r| number(r, "/spec/replicas") == 0 && number(r, "/status/replicas") == 0)
        .collect();
    idle.sort_by_key(|r| revision(r));
    for r in idle.iter().take(idle.len().saturating_sub(limit)) {
        garbage::delete(s, &("replicasets.apps".into(), key_of(r)), false);
    }
}

fn status(s: &mut Store, a: &Address, newest: Option<&Arc<Value>>, later: &mut Later) {
    let Some(d) = s.at(a).cloned() else { return };
    let sets = controlled(s, "replicasets.apps", &d);
    let sum = |p: &str| sets.iter().map(|r| number(r, p)).sum::<i64>();
    let want = number(&d, "/spec/replicas");
    let (replicas, ready) = (sum("/status/replicas"), sum("/status/readyReplicas"));
    let newest = newest.and_then(|n| sets.iter().find(|r| r["metadata"]["uid"] == n["metadata"]["uid"]));
    let updated = newest.map_or(0, |n| number(n, "/status/replicas"));
    let updated_ready = newest.map_or(0, |n| number(n, "/status/readyReplicas"));
    let mut st = json!({"observedGeneration": d["metadata"]["generation"]});
    for (k, v) in [
        ("replicas", replicas),
        ("updatedReplicas", updated),
        ("readyReplicas", ready),
        ("availableReplicas", ready),
        ("unavailableReplicas", (want - ready).max(0)),
    ] {
        if v > 0 {
            st[k] = v.into();
        }
    }
    if let Some(c) = d.pointer("/status/conditions") {
        st["conditions"] = c.clone();
    }
    let floor = want - unavailable_allowed(&d, want);
    if ready >= floor {
        let m = "Deployment has minimum availability.";
        set_condition(&mut st, "Available", "True", "MinimumReplicasAvailable", m, true);
    } else {
        let m = "Deployment does not have minimum availability.";
        set_condition(&mut st, "Available", "False", "MinimumReplicasUnavailable", m, true);
    }
    let name = newest.map_or("", |n| text(n, "/metadata/name"));
    let complete = updated_ready >= want && updated >= want && replicas == updated;
    if d.pointer("/spec/paused") == Some(&Value::Bool(true)) {
        set_condition(&mut st, "Progressing", "Unknown", "DeploymentPaused", "Deployment is paused", true);
    } else if complete {
        let m = format!("ReplicaSet \"{name}\" has successfully progressed.");
        set_condition(&mut st, "Progressing", "True", "NewReplicaSetAvailable", &m, true);
    } else {
        progress(&d, &mut st, name, later, a);
    }
    let rev = newest.map_or(0, |n| revision(n));
    let mut new = (*d).clone();
    if rev > 0 && revision(&d) != rev {
        if !new["metadata"]["annotations"].is_object() {
            new["metadata"]["annotations"] = json!({});
        }
        new["metadata"]["annotations"][REVISION] = rev.to_string().into();
        system_update(s, &a.0, &d, new, MANAGER, "status");
    }
    let Some(d) = s.at(a).cloned() else { return };
    put_status(s, a, &d, st);
}

/// Progress that does not come within the deadline is reported as a failure.
fn progress(d: &Value, st: &mut Value, name: &str, later: &mut Later, a: &Address) {
    let deadline = d.pointer("/spec/progressDeadlineSeconds").and_then(Value::as_i64).unwrap_or(600);
    let numbers = ["updatedReplicas", "readyReplicas", "replicas"];
    let moved = d["status"]["observedGeneration"] != st["observedGeneration"]
        || numbers.iter().any(|n| d["status"].get(n) != st.get(n));
    let none = Vec::new();
    let conditions = d.pointer("/status/conditions").and_then(Value::as_array).unwrap_or(&none);
    let was = conditions.iter().find(|c| text(c, "/type") == "Progressing");
    let since = was
        .and_then(|c| chrono::DateTime::parse_from_rfc3339(text(c, "/lastUpdateTime")).ok())
        .map_or(0, |t| (chrono::Utc::now() - t.with_timezone(&chrono::Utc)).num_seconds());
    let expired = was.is_some_and(|c| text(c, "/reason") == "ProgressDeadlineExceeded");
    if !moved && (since >= deadline || expired) {
        let m = format!("ReplicaSet \"{name}\" has timed out progressing.");
        set_condition(st, "Progressing", "False", "ProgressDeadlineExceeded", &m, true);
        return;
    }
    let m = format!("ReplicaSet \"{name}\" is progressing.");
    set_condition(st, "Progressing", "True", "ReplicaSetUpdated", &m, true);
    if moved
        && let Some(l) = st["conditions"].as_array_mut()
        && let Some(c) = l.iter_mut().find(|c| text(c, "/type") == "Progressing")
    {
        c["lastUpdateTime"] = crate::verbs::now().into();
    }
    later.again(Duration::from_secs((deadline - since).clamp(1, 86_400) as u64), a);
}

fn unavailable_allowed(d: &Value, want: i64) -> i64 {
    match d.pointer("/spec/strategy/rollingUpdate/maxUnavailable") {
        Some(Value::String(p)) => p.trim_end_matches('%').parse::<i64>().unwrap_or(25) * want / 100,
        Some(n) => n.as_i64().unwrap_or(0),
        None => 0,
    }
}
