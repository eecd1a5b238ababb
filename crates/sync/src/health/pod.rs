//! Pods and their containers: what keeps them from running.

use serde_json::Value;

use super::{
    Health,
    read::{View, items, number, text, text_or},
};

/// Restarts of a container that is fine now and deserves a remark.
const MANY_RESTARTS: i64 = 3;

pub(super) fn health(view: &View<'_>) -> Health {
    let status = view.status;
    match view.phase() {
        "Succeeded" => return Health::healthy(),
        "Failed" => return Health::degraded(failed(status)),
        "Unknown" => return Health::unknown("its node does not say how it is"),
        _ => {}
    }
    if let Some(trouble) = waiting_trouble(status) {
        return Health::degraded(trouble);
    }
    if let Some(scheduled) = view.no("PodScheduled") {
        return match scheduled.reason {
            "SchedulingGated" => Health::suspended(scheduled.why("it is held back by a scheduling gate")),
            _ => Health::progressing(scheduled.why("no node takes it")),
        };
    }
    let runs_for_ever = matches!(text_or(&view.spec["restartPolicy"], "Always"), "Always");
    match view.condition("Ready") {
        Some(ready) if ready.is_true() && runs_for_ever => match restarts(status) {
            Some(remark) => Health::remark(remark),
            None => Health::healthy(),
        },
        Some(ready) if ready.is_true() => Health::progressing("it runs until its containers end"),
        Some(ready) => Health::progressing(
            ended_badly(status)
                .or_else(|| unready(status))
                .unwrap_or_else(|| ready.why("its containers are not ready")),
        ),
        None if view.phase() == "Running" => Health::progressing("its containers are not ready"),
        None => Health::progressing("it was not scheduled yet"),
    }
}

/// Since when, in RFC 3339, the Pod is not ready or not scheduled.
pub(crate) fn not_ready_since(pod: &Value) -> Option<&str> {
    ["PodScheduled", "Ready"].into_iter().find_map(|kind| {
        items(&pod["status"]["conditions"])
            .find(|condition| condition["type"] == kind && condition["status"] == "False")
            .and_then(|condition| condition["lastTransitionTime"].as_str())
    })
}

fn containers(status: &Value) -> impl Iterator<Item = &Value> {
    items(&status["initContainerStatuses"]).chain(items(&status["containerStatuses"]))
}

/// Why a Pod ended badly: what the node says, or what its containers say.
fn failed(status: &Value) -> String {
    let said = text(&status["message"]);
    let reason = text(&status["reason"]);
    match (said, reason) {
        ("", "") => ended_badly(status).unwrap_or_else(|| "the Pod failed".to_owned()),
        ("", reason) => format!("the Pod failed ({reason})"),
        (said, "") => said.to_owned(),
        (said, reason) => format!("{said} ({reason})"),
    }
}

/// A container that waits for something which does not come by itself.
fn waiting_trouble(status: &Value) -> Option<String> {
    containers(status).find_map(|container| {
        let waiting = &container["state"]["waiting"];
        let reason = text(&waiting["reason"]);
        let bad = reason.starts_with("Err")
            || reason.ends_with("Error")
            || reason.ends_with("BackOff")
            || reason == "InvalidImageName";
        if !bad {
            return None;
        }
        let name = text(&container["name"]);
        let last = termination(&container["lastState"]["terminated"]);
        // Of a crash loop the kubelet's own message only says for how long it waits.
        if let (true, Some(last)) = (reason == "CrashLoopBackOff", &last) {
            return Some(format!("container {name} {last} again and again ({reason})"));
        }
        let mut words = format!("container {name}: {reason}");
        if let Some(message) = waiting["message"].as_str() {
            words = format!("{words}: {message}");
        }
        if let Some(last) = last {
            words = format!("{words}; before, it {last}");
        }
        Some(words)
    })
}

/// A container that ended with an error and is not running again.
fn ended_badly(status: &Value) -> Option<String> {
    containers(status).find_map(|container| {
        let ended = &container["state"]["terminated"];
        if number(&ended["exitCode"], 0) == 0 {
            return None;
        }
        Some(format!("container {} {}", text(&container["name"]), termination(ended)?))
    })
}

/// "ended with code 137 (OOMKilled): the last words".
fn termination(ended: &Value) -> Option<String> {
    let code = ended["exitCode"].as_i64()?;
    let mut words = match ended["signal"].as_i64() {
        Some(signal) if signal != 0 => format!("was ended by signal {signal}"),
        _ => format!("ended with code {code}"),
    };
    let reason = text(&ended["reason"]);
    if !matches!(reason, "" | "Error" | "Completed") {
        words = format!("{words} ({reason})");
    }
    let said = text(&ended["message"]).trim();
    if !said.is_empty() {
        words = format!("{words}: {said}");
    }
    Some(words)
}

/// A container that runs and is not ready: a probe says no.
fn unready(status: &Value) -> Option<String> {
    items(&status["containerStatuses"]).find_map(|container| {
        if container["ready"] == true || container["state"]["running"].is_null() {
            return None;
        }
        let name = text(&container["name"]);
        let probe = if container["started"] == false { "startup" } else { "readiness" };
        let mut words = format!("container {name} runs, but its {probe} probe has not succeeded");
        if let Some(last) = termination(&container["lastState"]["terminated"]) {
            words = format!("{words}; before, it {last}");
        }
        Some(words)
    })
}

fn restarts(status: &Value) -> Option<String> {
    let container = items(&status["containerStatuses"])
        .max_by_key(|container| number(&container["restartCount"], 0))
        .filter(|container| number(&container["restartCount"], 0) >= MANY_RESTARTS)?;
    let last = termination(&container["lastState"]["terminated"])
        .map_or_else(String::new, |last| format!("; the last time it {last}"));
    Some(format!(
        "container {} was restarted {} times{last}",
        text(&container["name"]),
        number(&container["restartCount"], 0)
    ))
}
