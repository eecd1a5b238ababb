//! Cluster API: clusters, machines, and what providers add.

use super::{
    Health, conditions,
    read::{View, number, text, text_or},
};

pub(super) fn health(group: &str, kind: &str, view: &View<'_>) -> Option<Health> {
    // An object of another kind whose group only ends alike.
    if group != "cluster.x-k8s.io" && !group.ends_with(".cluster.x-k8s.io") {
        return None;
    }
    if view.spec["paused"] == true
        || !view.object["metadata"]["annotations"]["cluster.x-k8s.io/paused"].is_null()
    {
        return Some(Health::suspended("its reconciliation is paused"));
    }
    if let Some(failure) = failure(view) {
        return Some(Health::degraded(failure));
    }
    if let Some(behind) = view.behind() {
        return Some(behind);
    }
    Some(match (group, kind) {
        ("cluster.x-k8s.io", "Cluster") => cluster(view),
        ("cluster.x-k8s.io", "Machine") => phases(view, &["Running"], &["Failed"]),
        ("cluster.x-k8s.io", "MachineDeployment" | "MachineSet" | "MachinePool") => replicas(view),
        ("controlplane.cluster.x-k8s.io", _) if view.spec["replicas"].is_i64() => replicas(view),
        ("cluster.x-k8s.io", "MachineHealthCheck") => match view.no("RemediationAllowed") {
            Some(found) => Health::degraded(found.why("too many machines are unhealthy to replace them")),
            None => Health::healthy(),
        },
        _ => provided(view),
    })
}

/// A failure that the controller will not try to mend.
fn failure(view: &View<'_>) -> Option<String> {
    let message = text(&view.status["failureMessage"]);
    let reason = text(&view.status["failureReason"]);
    match (message, reason) {
        ("", "") => None,
        ("", reason) => Some(format!("it failed ({reason})")),
        (message, "") => Some(message.to_owned()),
        (message, reason) => Some(format!("{message} ({reason})")),
    }
}

fn cluster(view: &View<'_>) -> Health {
    match view.phase() {
        "Failed" => return Health::degraded(conditions_say(view, "the cluster failed")),
        "Provisioned" => {}
        "" => return Health::progressing("the cluster has not been reconciled yet"),
        phase => return Health::progressing(conditions_say(view, &format!("its phase is {phase}"))),
    }
    for kind in ["Available", "Ready"] {
        if let Some(found) = view.condition(kind) {
            return conditions::by_condition(view, kind, &found);
        }
    }
    Health::healthy()
}

fn replicas(view: &View<'_>) -> Health {
    if view.phase() == "Failed" {
        return Health::degraded(conditions_say(view, "its phase is Failed"));
    }
    let wanted = number(&view.spec["replicas"], 1);
    let ready = number(&view.status["readyReplicas"], 0);
    let updated = ["updatedReplicas", "upToDateReplicas"]
        .into_iter()
        .find_map(|field| view.status[field].as_i64())
        .unwrap_or(wanted);
    if updated < wanted {
        return Health::progressing(format!("{updated} of {wanted} machines are updated"));
    }
    if ready < wanted {
        return Health::progressing(conditions_say(view, &format!("{ready} of {wanted} machines are ready")));
    }
    match view.condition("Available").or_else(|| view.condition("Ready")) {
        Some(found) if !found.is_true() => conditions::by_condition(view, "Available", &found),
        _ => Health::healthy(),
    }
}

fn phases(view: &View<'_>, good: &[&str], bad: &[&str]) -> Health {
    let phase = view.phase();
    if good.contains(&phase) {
        Health::healthy()
    } else if bad.contains(&phase) {
        Health::degraded(conditions_say(view, &format!("its phase is {phase}")))
    } else {
        let phase = if phase.is_empty() { "not known yet" } else { phase };
        Health::progressing(conditions_say(view, &format!("its phase is {phase}")))
    }
}

/// What providers of infrastructure, bootstrap and control planes promise: conditions, or `ready`.
fn provided(view: &View<'_>) -> Health {
    if view.has_conditions() {
        return conditions::health(view);
    }
    match view.status["ready"].as_bool() {
        Some(true) => Health::healthy(),
        Some(false) => Health::progressing("it is not ready yet"),
        None => conditions::health(view),
    }
}

/// The first thing that the conditions complain about, behind `fallback`.
fn conditions_say(view: &View<'_>, fallback: &str) -> String {
    for kind in ["Available", "Ready", "InfrastructureReady", "ControlPlaneReady", "BootstrapReady"] {
        if let Some(found) = view.no(kind)
            && !found.message.is_empty()
        {
            return format!("{fallback}: {}", found.why(kind));
        }
    }
    text_or(&view.status["message"], fallback).to_owned()
}
