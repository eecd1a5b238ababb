//! How a live object is, and why, in words.
//!
//! Built-in kinds have a rule each; anything else is judged by its `status.conditions`, as
//! `kstatus` does (Ready, Reconciling, Stalled, observedGeneration).

use plural_core::ComponentState;
use serde_json::Value;

use crate::key::GroupKind;

/// State and reason. The reason never holds a value of a Secret: only kinds with a status have one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// How it is.
    pub state: ComponentState,
    /// Why it is not running; empty when it is.
    pub message: String,
}

impl Health {
    pub(crate) fn running() -> Self {
        Self { state: ComponentState::Running, message: String::new() }
    }

    fn pending(message: impl Into<String>) -> Self {
        Self { state: ComponentState::Pending, message: short(message.into()) }
    }

    fn failed(message: impl Into<String>) -> Self {
        Self { state: ComponentState::Failed, message: short(message.into()) }
    }

    fn paused(message: impl Into<String>) -> Self {
        Self { state: ComponentState::Paused, message: short(message.into()) }
    }
}

fn short(message: String) -> String {
    const LIMIT: usize = 500;
    if message.chars().count() <= LIMIT {
        return message;
    }
    message.chars().take(LIMIT).chain(['…']).collect()
}

/// The health of a live object of this kind.
pub fn health(kind: &GroupKind, object: &Value) -> Health {
    if object["metadata"]["deletionTimestamp"].is_string() {
        let finalizers = strings(&object["metadata"]["finalizers"]);
        return Health::pending(if finalizers.is_empty() {
            "it is being deleted".to_owned()
        } else {
            format!("it is being deleted; its finalizers ({}) are not done", finalizers.join(", "))
        });
    }
    let spec = &object["spec"];
    let status = &object["status"];
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("apps", "Deployment") => deployment(object, spec, status),
        ("apps", "StatefulSet") => stateful_set(object, spec, status),
        ("apps", "DaemonSet") => daemon_set(object, spec, status),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => replica_set(object, spec, status),
        ("batch", "Job") => job(spec, status),
        ("batch", "CronJob") if spec["suspend"] == true => Health::paused("it is suspended"),
        ("", "Pod") => pod(status),
        ("", "PersistentVolumeClaim") => phase(status, "Bound", &["Lost"]),
        ("", "PersistentVolume") => match text(&status["phase"]) {
            "Available" | "Bound" | "Released" => Health::running(),
            "Failed" => Health::failed(or(&status["message"], "the volume failed")),
            other => Health::pending(format!("the volume is {other}")),
        },
        ("", "Namespace") => match text(&status["phase"]) {
            "Terminating" => Health::pending("it is being deleted"),
            _ => Health::running(),
        },
        ("", "Service") => service(spec, status),
        ("networking.k8s.io" | "extensions", "Ingress") => {
            // Many controllers never write an address: only one that is promised is waited for.
            Health::running()
        }
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler(status),
        ("policy", "PodDisruptionBudget") => observed(object, status).unwrap_or_else(Health::running),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(status),
        ("apiregistration.k8s.io", "APIService") => match condition(status, "Available") {
            Some(found) if found.status == "True" => Health::running(),
            Some(found) => Health::failed(found.why("the API is not available")),
            None => Health::pending("the API was not looked at yet"),
        },
        _ => by_conditions(object, status),
    }
}

fn deployment(object: &Value, spec: &Value, status: &Value) -> Health {
    if spec["paused"] == true {
        return Health::paused("its rollout is paused");
    }
    if let Some(pending) = observed(object, status) {
        return pending;
    }
    if let Some(progress) = condition(status, "Progressing")
        && progress.reason == "ProgressDeadlineExceeded"
    {
        return Health::failed(progress.why("its rollout did not finish in time"));
    }
    if let Some(failure) = condition(status, "ReplicaFailure")
        && failure.status == "True"
    {
        return Health::failed(failure.why("its Pods cannot be created"));
    }
    let wanted = number(&spec["replicas"], 1);
    let (updated, total) = (number(&status["updatedReplicas"], 0), number(&status["replicas"], 0));
    let available = number(&status["availableReplicas"], 0);
    if updated < wanted {
        return Health::pending(format!("{updated} of {wanted} replicas are updated"));
    }
    if total > updated {
        return Health::pending(format!("{} old replicas are still there", total - updated));
    }
    if available < wanted {
        return Health::pending(format!("{available} of {wanted} replicas are available"));
    }
    Health::running()
}

fn stateful_set(object: &Value, spec: &Value, status: &Value) -> Health {
    if let Some(pending) = observed(object, status) {
        return pending;
    }
    let wanted = number(&spec["replicas"], 1);
    let ready = number(&status["readyReplicas"], 0);
    if ready < wanted {
        return Health::pending(format!("{ready} of {wanted} replicas are ready"));
    }
    if spec["updateStrategy"]["type"] == "OnDelete" {
        return Health::running();
    }
    let partition = number(&spec["updateStrategy"]["rollingUpdate"]["partition"], 0);
    let updated = number(&status["updatedReplicas"], 0);
    let to_update = (wanted - partition).max(0);
    let (current, update) = (text(&status["currentRevision"]), text(&status["updateRevision"]));
    if current != update && updated < to_update {
        return Health::pending(format!("{updated} of {to_update} replicas are updated"));
    }
    Health::running()
}

fn daemon_set(object: &Value, spec: &Value, status: &Value) -> Health {
    if let Some(pending) = observed(object, status) {
        return pending;
    }
    let wanted = number(&status["desiredNumberScheduled"], 0);
    let updated = number(&status["updatedNumberScheduled"], 0);
    if spec["updateStrategy"]["type"] != "OnDelete" && updated < wanted {
        return Health::pending(format!("{updated} of {wanted} Pods are updated"));
    }
    let available = number(&status["numberAvailable"], 0);
    if available < wanted {
        return Health::pending(format!("{available} of {wanted} Pods are available"));
    }
    Health::running()
}

fn replica_set(object: &Value, spec: &Value, status: &Value) -> Health {
    if let Some(pending) = observed(object, status) {
        return pending;
    }
    if let Some(failure) = condition(status, "ReplicaFailure")
        && failure.status == "True"
    {
        return Health::failed(failure.why("its Pods cannot be created"));
    }
    let (wanted, available) = (number(&spec["replicas"], 1), number(&status["availableReplicas"], 0));
    if available < wanted {
        return Health::pending(format!("{available} of {wanted} replicas are available"));
    }
    Health::running()
}

fn job(spec: &Value, status: &Value) -> Health {
    for (kind, fallback) in [("Failed", "the job failed"), ("FailureTarget", "the job is failing")] {
        if let Some(found) = condition(status, kind)
            && found.status == "True"
        {
            return Health::failed(found.why(fallback));
        }
    }
    if let Some(done) = condition(status, "Complete")
        && done.status == "True"
    {
        return Health::running();
    }
    if spec["suspend"] == true {
        return Health::paused("it is suspended");
    }
    let failed = number(&status["failed"], 0);
    if failed > 0 {
        return Health::pending(format!("the job runs; {failed} of its Pods failed so far"));
    }
    Health::pending("the job has not finished")
}

fn pod(status: &Value) -> Health {
    match text(&status["phase"]) {
        "Succeeded" => return Health::running(),
        "Failed" => {
            let why = container_trouble(status).unwrap_or_default();
            return Health::failed(or(
                &status["message"],
                &or(&status["reason"], &format!("the Pod failed {why}")),
            ));
        }
        _ => {}
    }
    if let Some(trouble) = container_trouble(status) {
        return Health::failed(trouble);
    }
    if let Some(scheduled) = condition(status, "PodScheduled")
        && scheduled.status == "False"
    {
        return Health::pending(scheduled.why("no node takes it"));
    }
    match condition(status, "Ready") {
        Some(ready) if ready.status == "True" => Health::running(),
        Some(ready) => Health::pending(ready.why("it is not ready")),
        None => Health::pending("it was not scheduled yet"),
    }
}

/// A container that cannot start or keeps failing, in words.
fn container_trouble(status: &Value) -> Option<String> {
    for list in ["initContainerStatuses", "containerStatuses"] {
        for container in status[list].as_array().into_iter().flatten() {
            let name = text(&container["name"]);
            let waiting = &container["state"]["waiting"];
            let reason = text(&waiting["reason"]);
            if reason.starts_with("Err")
                || reason.ends_with("Error")
                || reason.ends_with("BackOff")
                || reason == "InvalidImageName"
            {
                let last = &container["lastState"]["terminated"];
                let mut words = format!("container {name}: {reason}");
                if let Some(message) = waiting["message"].as_str() {
                    words = format!("{words}: {message}");
                }
                if let Some(code) = last["exitCode"].as_i64() {
                    words = format!("{words} (last exit code {code} {})", text(&last["reason"]));
                }
                return Some(words);
            }
            let ended = &container["state"]["terminated"];
            if let Some(code) = ended["exitCode"].as_i64().filter(|code| *code != 0) {
                return Some(format!("container {name} ended with code {code} {}", text(&ended["reason"])));
            }
        }
    }
    None
}

fn phase(status: &Value, good: &str, bad: &[&str]) -> Health {
    let phase = text(&status["phase"]);
    if phase == good {
        Health::running()
    } else if bad.contains(&phase) {
        Health::failed(format!("its phase is {phase}"))
    } else {
        Health::pending(format!("its phase is {}", if phase.is_empty() { "not known yet" } else { phase }))
    }
}

fn service(spec: &Value, status: &Value) -> Health {
    let addresses = status["loadBalancer"]["ingress"].as_array().map_or(0, Vec::len);
    let given = spec["externalIPs"].as_array().map_or(0, Vec::len);
    if spec["type"] == "LoadBalancer" && addresses + given == 0 {
        return Health::pending("its load balancer has no address yet");
    }
    Health::running()
}

fn autoscaler(status: &Value) -> Health {
    for (kind, fallback) in
        [("AbleToScale", "it cannot scale"), ("ScalingActive", "it cannot read its metrics")]
    {
        if let Some(found) = condition(status, kind)
            && found.status == "False"
        {
            // A target at zero replicas switches scaling off on purpose.
            return if found.reason == "ScalingDisabled" {
                Health::running()
            } else {
                Health::failed(found.why(fallback))
            };
        }
    }
    if status["conditions"].is_array() {
        Health::running()
    } else {
        Health::pending("it was not looked at yet")
    }
}

fn definition(status: &Value) -> Health {
    if let Some(names) = condition(status, "NamesAccepted")
        && names.status == "False"
    {
        return Health::failed(names.why("its names are taken"));
    }
    match condition(status, "Established") {
        Some(found) if found.status == "True" => Health::running(),
        Some(found) => Health::pending(found.why("it is not established")),
        None => Health::pending("it is not established"),
    }
}

/// Any kind with conditions.
fn by_conditions(object: &Value, status: &Value) -> Health {
    if let Some(pending) = observed(object, status) {
        return pending;
    }
    let is = |kind: &str, value: &str| condition(status, kind).filter(|found| found.status == value);
    if let Some(stalled) = is("Stalled", "True") {
        return Health::failed(stalled.why("it is stalled"));
    }
    if let Some(failed) = is("Failed", "True") {
        return Health::failed(failed.why("it failed"));
    }
    if let Some(busy) = is("Reconciling", "True") {
        return Health::pending(busy.why("it is being reconciled"));
    }
    for kind in ["Ready", "Available", "Healthy", "Accepted"] {
        match condition(status, kind) {
            Some(found) if found.status == "True" => return Health::running(),
            Some(found) => return Health::pending(found.why(&format!("{kind} is {}", found.status))),
            None => {}
        }
    }
    Health::running()
}

/// Pending while the controller has not seen the newest spec.
fn observed(object: &Value, status: &Value) -> Option<Health> {
    let generation = object["metadata"]["generation"].as_i64()?;
    let seen = match &status["observedGeneration"] {
        Value::Null if status["conditions"].is_null() && is_workload(object) => 0,
        seen => seen.as_i64()?,
    };
    (seen < generation).then(|| Health::pending("its controller has not seen the change yet"))
}

fn is_workload(object: &Value) -> bool {
    matches!(text(&object["kind"]), "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
}

struct Condition<'v> {
    status: &'v str,
    reason: &'v str,
    message: &'v str,
}

impl Condition<'_> {
    fn why(&self, fallback: &str) -> String {
        match (self.reason, self.message) {
            ("", "") => fallback.to_owned(),
            (reason, "") => format!("{fallback} ({reason})"),
            (_, message) => message.to_owned(),
        }
    }
}

fn condition<'v>(status: &'v Value, kind: &str) -> Option<Condition<'v>> {
    let found = status["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)?;
    Some(Condition {
        status: text(&found["status"]),
        reason: text(&found["reason"]),
        message: text(&found["message"]),
    })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn or(value: &Value, fallback: &str) -> String {
    value.as_str().filter(|text| !text.is_empty()).unwrap_or(fallback).to_owned()
}

fn number(value: &Value, default: i64) -> i64 {
    value.as_i64().unwrap_or(default)
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "a literal reads best at the call")]
    fn check(kind: &str, object: Value, state: ComponentState, words: &str) {
        let (kind, _) = GroupKind::parse(kind.rsplit_once('/').unwrap().0, kind.rsplit_once('/').unwrap().1);
        let found = health(&kind, &object);
        assert_eq!(found.state, state, "{kind}: {}", found.message);
        assert!(found.message.contains(words), "{kind}: {:?} has no {words:?}", found.message);
    }

    #[test]
    fn workloads() {
        use ComponentState::{Failed, Paused, Pending, Running};
        let deployment = |status: Value| json!({"kind": "Deployment", "metadata": {"generation": 2}, "spec": {"replicas": 2}, "status": status});
        check("apps/v1/Deployment", deployment(json!({})), Pending, "not seen");
        check("apps/v1/Deployment", deployment(json!({"observedGeneration": 1})), Pending, "not seen");
        check(
            "apps/v1/Deployment",
            deployment(json!({"observedGeneration": 2, "updatedReplicas": 1})),
            Pending,
            "1 of 2",
        );
        check(
            "apps/v1/Deployment",
            deployment(
                json!({"observedGeneration": 2, "updatedReplicas": 2, "replicas": 3, "availableReplicas": 2}),
            ),
            Pending,
            "1 old",
        );
        check(
            "apps/v1/Deployment",
            deployment(
                json!({"observedGeneration": 2, "updatedReplicas": 2, "replicas": 2, "availableReplicas": 2}),
            ),
            Running,
            "",
        );
        check(
            "apps/v1/Deployment",
            deployment(
                json!({"observedGeneration": 2, "conditions": [{"type": "Progressing", "status": "False",
                "reason": "ProgressDeadlineExceeded", "message": "took too long"}]}),
            ),
            Failed,
            "took too long",
        );
        check("apps/v1/Deployment", json!({"spec": {"paused": true}}), Paused, "paused");
        check(
            "batch/v1/Job",
            json!({"status": {"conditions": [{"type": "Complete", "status": "True"}]}}),
            Running,
            "",
        );
        check(
            "batch/v1/Job",
            json!({"status": {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}}),
            Failed,
            "BackoffLimitExceeded",
        );
        check(
            "v1/Pod",
            json!({"status": {"phase": "Pending", "containerStatuses": [{"name": "web",
                "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]}}),
            Failed,
            "web: ImagePullBackOff: no such image",
        );
    }

    #[test]
    fn others() {
        use ComponentState::{Failed, Pending, Running};
        check("v1/PersistentVolumeClaim", json!({"status": {"phase": "Pending"}}), Pending, "Pending");
        check("v1/Service", json!({"spec": {"type": "LoadBalancer"}}), Pending, "no address");
        check("v1/ConfigMap", json!({}), Running, "");
        check(
            "v1/ConfigMap",
            json!({"metadata": {"deletionTimestamp": "x", "finalizers": ["a/b"]}}),
            Pending,
            "a/b",
        );
        check("example.org/v1/Thing", json!({"metadata": {}}), Running, "");
        check(
            "example.org/v1/Thing",
            json!({"status": {"conditions": [{"type": "Ready", "status": "False", "message": "no luck"}]}}),
            Pending,
            "no luck",
        );
        check(
            "example.org/v1/Thing",
            json!({"status": {"conditions": [{"type": "Stalled", "status": "True", "message": "stuck"}]}}),
            Failed,
            "stuck",
        );
    }
}
