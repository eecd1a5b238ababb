//! Scheduler and kubelet in one: a Pod is bound, starts, gets ready, ends, goes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::annotations::{FAIL, READY_AFTER};
use super::template::{deleting, duration, number, put_status, set_condition};
use super::{Later, template};
use crate::cluster::{ClusterOptions, Inner};
use crate::events;
use crate::kubelet::Kubelet;
use crate::store::{Address, Store, text};
use crate::verbs::system::system_update;

fn annotation<'a>(o: &'a Value, name: &str) -> &'a str {
    o["metadata"]["annotations"].get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Time left until `after` has passed since the object was made. Creation times have whole seconds, so the start is
/// noted by the caller's clock instead where that matters.
fn remaining(since: &str, after: Duration) -> Duration {
    let Ok(t) = chrono::DateTime::parse_from_rfc3339(since) else { return Duration::ZERO };
    let passed = (chrono::Utc::now() - t.with_timezone(&chrono::Utc)).to_std().unwrap_or_default();
    after.saturating_sub(passed)
}

/// Between two questions whose a Pod is.
const UNDECIDED: Duration = Duration::from_millis(50);

/// Brings one Pod forward.
pub(super) fn reconcile(s: &mut Store, a: &Address, inner: &Inner, later: &mut Later) {
    let options = &inner.options;
    let Some(pod) = s.at(a).cloned() else { return };
    if !text(&pod, "/spec/nodeName").is_empty() {
        match inner.kubelets.of(&pod) {
            Kubelet::Simulated => {}
            Kubelet::Other => return,
            Kubelet::Undecided => return later.again(UNDECIDED, a),
        }
    }
    if deleting(&pod) {
        return stop(s, a, &pod, options, later);
    }
    let fail = annotation(&pod, FAIL);
    let phase = text(&pod, "/status/phase");
    if text(&pod, "/spec/nodeName").is_empty() {
        return schedule(s, a, &pod, fail);
    }
    if matches!(phase, "Succeeded" | "Failed") {
        return;
    }
    if text(&pod, "/status/startTime").is_empty() {
        return start(s, a, &pod);
    }
    let after = duration(annotation(&pod, READY_AFTER)).unwrap_or(options.pod_ready_after);
    let begun = annotation(&pod, STARTED);
    if phase == "Pending" {
        let wait = remaining(begun, after);
        if !wait.is_zero() {
            return later.again(wait, a);
        }
        return match fail {
            "ImagePullBackOff" => image_pull(s, a, &pod),
            "CrashLoop" => crash(s, a, &pod),
            _ => ready(s, a, &pod),
        };
    }
    // A Pod of a Job runs for a while and ends.
    let restart = text(&pod, "/spec/restartPolicy");
    let of_job = !template::controller_uid(&pod).is_empty()
        && pod["metadata"]["labels"].get("batch.kubernetes.io/job-name").is_some();
    if restart != "Always" && (of_job || fail == "JobFailed") {
        let wait = remaining(begun, after + options.job_runs_for);
        if !wait.is_zero() {
            return later.again(wait, a);
        }
        finish(s, a, &pod, fail != "JobFailed");
    }
}

/// When the simulated kubelet took the Pod, in milliseconds: object times only have seconds.
const STARTED: &str = "kubesim.plural.sh/started";

fn schedule(s: &mut Store, a: &Address, pod: &Arc<Value>, fail: &str) {
    let gated = pod.pointer("/spec/schedulingGates").and_then(Value::as_array).is_some_and(|l| !l.is_empty());
    let nodes: Vec<String> = s
        .iter("nodes", None)
        .filter(|(_, n)| n.pointer("/spec/unschedulable") != Some(&Value::Bool(true)))
        .map(|((_, name), _)| name.to_string())
        .collect();
    if fail == "Unschedulable" || nodes.is_empty() || gated {
        let reason = if gated { "SchedulingGated" } else { "Unschedulable" };
        let message = if gated {
            "Scheduling is blocked due to non-empty scheduling gates".to_owned()
        } else {
            format!("0/{} nodes are available: {} Insufficient cpu.", nodes.len(), nodes.len())
        };
        let mut status = pod["status"].clone();
        let known = text(pod, "/status/conditions/0/message") == message;
        set_condition(&mut status, "PodScheduled", "False", reason, &message, false);
        put_status(s, a, pod, status);
        if !known && !gated {
            events::record(s, pod, true, "FailedScheduling", &message, "default-scheduler");
        }
        return;
    }
    let wanted = text(pod, "/metadata/annotations/kubesim.plural.sh~1node");
    let node =
        if wanted.is_empty() { nodes[s.count("pods") % nodes.len()].clone() } else { wanted.to_owned() };
    let mut new = (**pod).clone();
    new["spec"]["nodeName"] = node.clone().into();
    set_condition(&mut new["status"], "PodScheduled", "True", "", "", false);
    let (ns, name) = (&a.1.0, &a.1.1);
    events::record(
        s,
        pod,
        false,
        "Scheduled",
        &format!("Successfully assigned {ns}/{name} to {node}"),
        "default-scheduler",
    );
    system_update(s, &a.0, pod, new, "kube-scheduler", "binding");
}

fn containers(pod: &Value, list: &str) -> Vec<Value> {
    pod.pointer(&format!("/spec/{list}")).and_then(Value::as_array).cloned().unwrap_or_default()
}

fn statuses(pod: &Value, list: &str, state: &Value, ready: bool, restarts: i64, last: &Value) -> Value {
    containers(pod, list)
        .iter()
        .map(|c| {
            let image = text(c, "/image");
            let running = state.get("waiting").is_none();
            json!({"name": c["name"], "image": image, "imageID": if running { format!("kubesim://{image}") } else { String::new() },
                "ready": ready, "started": ready, "restartCount": restarts, "state": state, "lastState": last,
                "containerID": if running { format!("kubesim://{}", template::hash(c)) } else { String::new() }})
        })
        .collect()
}

fn put_kubelet(s: &mut Store, a: &Address, pod: &Arc<Value>, new: Value) {
    system_update(s, &a.0, pod, new, "kubelet", "status");
}

fn start(s: &mut Store, a: &Address, pod: &Arc<Value>) {
    let mut new = (**pod).clone();
    let now = chrono::Utc::now();
    if !new["metadata"]["annotations"].is_object() {
        new["metadata"]["annotations"] = json!({});
    }
    new["metadata"]["annotations"][STARTED] = now.to_rfc3339_opts(chrono::SecondsFormat::Millis, true).into();
    let st = &mut new["status"];
    st["startTime"] = crate::verbs::now().into();
    st["hostIP"] = "127.0.0.1".into();
    st["hostIPs"] = json!([{"ip": "127.0.0.1"}]);
    for (c, on) in [("PodReadyToStartContainers", "False"), ("Initialized", "True")] {
        set_condition(st, c, on, "", "", false);
    }
    let names: Vec<String> =
        containers(pod, "containers").iter().map(|c| text(c, "/name").to_owned()).collect();
    let unready = format!("containers with unready status: [{}]", names.join(" "));
    for c in ["Ready", "ContainersReady"] {
        set_condition(st, c, "False", "ContainersNotReady", &unready, false);
    }
    let waiting = json!({"waiting": {"reason": "ContainerCreating"}});
    st["containerStatuses"] = statuses(pod, "containers", &waiting, false, 0, &json!({}));
    put_kubelet(s, a, pod, new);
}

fn ip(s: &Store) -> String {
    let n = (s.revision() % 65_000) as u32 + 2;
    format!("10.244.{}.{}", n / 256, n % 256)
}

fn ready(s: &mut Store, a: &Address, pod: &Arc<Value>) {
    let now = crate::verbs::now();
    for c in containers(pod, "containers") {
        let (name, image) = (text(&c, "/name"), text(&c, "/image"));
        events::record(
            s,
            pod,
            false,
            "Pulled",
            &format!("Container image \"{image}\" already present on machine"),
            "kubelet",
        );
        events::record(s, pod, false, "Created", &format!("Created container: {name}"), "kubelet");
        events::record(s, pod, false, "Started", &format!("Started container {name}"), "kubelet");
    }
    let mut new = (**pod).clone();
    let ip = ip(s);
    let st = &mut new["status"];
    st["phase"] = "Running".into();
    st["podIP"] = ip.clone().into();
    st["podIPs"] = json!([{"ip": ip}]);
    for c in ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"] {
        set_condition(st, c, "True", "", "", false);
    }
    if !containers(pod, "initContainers").is_empty() {
        let done = json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}});
        st["initContainerStatuses"] = statuses(pod, "initContainers", &done, true, 0, &json!({}));
    }
    let running = json!({"running": {"startedAt": now}});
    st["containerStatuses"] = statuses(pod, "containers", &running, true, 0, &json!({}));
    st["observedGeneration"] = pod["metadata"]["generation"].clone();
    put_kubelet(s, a, pod, new);
}

fn image_pull(s: &mut Store, a: &Address, pod: &Arc<Value>) {
    if text(pod, "/status/containerStatuses/0/state/waiting/reason") == "ImagePullBackOff" {
        return;
    }
    for c in containers(pod, "containers") {
        let image = text(&c, "/image");
        events::record(s, pod, false, "Pulling", &format!("Pulling image \"{image}\""), "kubelet");
        let why = format!("Failed to pull image \"{image}\": not found");
        events::record(s, pod, true, "Failed", &why, "kubelet");
        events::record(s, pod, false, "BackOff", &format!("Back-off pulling image \"{image}\""), "kubelet");
    }
    let image = text(pod, "/spec/containers/0/image").to_owned();
    let message = format!("Back-off pulling image \"{image}\": ErrImagePull: not found");
    let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": message}});
    let mut new = (**pod).clone();
    new["status"]["containerStatuses"] = statuses(pod, "containers", &waiting, false, 0, &json!({}));
    put_kubelet(s, a, pod, new);
}

fn crash(s: &mut Store, a: &Address, pod: &Arc<Value>) {
    let now = crate::verbs::now();
    for c in containers(pod, "containers") {
        let name = text(&c, "/name");
        events::record(s, pod, false, "Started", &format!("Started container {name}"), "kubelet");
        let (ns, pod_name) = (&a.1.0, &a.1.1);
        let why = format!("Back-off restarting failed container {name} in pod {pod_name}_{ns}");
        events::record(s, pod, true, "BackOff", &why, "kubelet");
    }
    let waiting = json!({"waiting": {"reason": "CrashLoopBackOff",
        "message": "back-off 5m0s restarting failed container"}});
    let last = json!({"terminated": {"exitCode": 1, "reason": "Error", "startedAt": now, "finishedAt": now}});
    let mut new = (**pod).clone();
    let ip = ip(s);
    new["status"]["phase"] = "Running".into();
    new["status"]["podIP"] = ip.clone().into();
    new["status"]["podIPs"] = json!([{"ip": ip}]);
    new["status"]["containerStatuses"] = statuses(pod, "containers", &waiting, false, 3, &last);
    put_kubelet(s, a, pod, new);
}

fn finish(s: &mut Store, a: &Address, pod: &Arc<Value>, well: bool) {
    let now = crate::verbs::now();
    let (code, reason) = if well { (0, "Completed") } else { (1, "Error") };
    let state = json!({"terminated": {"exitCode": code, "reason": reason,
        "startedAt": pod["status"]["startTime"], "finishedAt": now}});
    let mut new = (**pod).clone();
    let st = &mut new["status"];
    st["phase"] = if well { "Succeeded" } else { "Failed" }.into();
    for c in ["Ready", "ContainersReady"] {
        set_condition(st, c, "False", if well { "PodCompleted" } else { "PodFailed" }, "", false);
    }
    st["containerStatuses"] = statuses(pod, "containers", &state, false, 0, &json!({}));
    put_kubelet(s, a, pod, new);
}

/// A Pod that is being deleted goes when its processes have had their time.
fn stop(s: &mut Store, a: &Address, pod: &Arc<Value>, options: &ClusterOptions, later: &mut Later) {
    let uid = text(pod, "/metadata/uid").to_owned();
    if number(pod, "/metadata/deletionGracePeriodSeconds") == 0 {
        if pod.pointer("/metadata/finalizers").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            s.remove(&a.0, &a.1);
        }
        return;
    }
    let marked = annotation(pod, STOPPING).to_owned();
    if marked.is_empty() {
        let mut new = (**pod).clone();
        if !new["metadata"]["annotations"].is_object() {
            new["metadata"]["annotations"] = json!({});
        }
        let now = chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
        new["metadata"]["annotations"][STOPPING] = now.into();
        let names: Vec<String> =
            containers(pod, "containers").iter().map(|c| text(c, "/name").to_owned()).collect();
        for n in names {
            events::record(s, pod, false, "Killing", &format!("Stopping container {n}"), "kubelet");
        }
        put_kubelet(s, a, pod, new);
        return later.again(options.pod_stop_after, a);
    }
    let wait = remaining(&marked, options.pod_stop_after);
    if !wait.is_zero() {
        return later.again(wait, a);
    }
    let mut new = (**pod).clone();
    new["metadata"]["deletionGracePeriodSeconds"] = 0.into();
    let held = pod.pointer("/metadata/finalizers").and_then(Value::as_array).is_some_and(|l| !l.is_empty());
    s.put(&a.0, new);
    if !held && s.by_uid(&uid).is_some() {
        s.remove(&a.0, &a.1);
    }
}

const STOPPING: &str = "kubesim.plural.sh/stopping";
