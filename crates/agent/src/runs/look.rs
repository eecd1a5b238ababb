//! The observed state of a Job and its Pod.

use serde_json::Value;

use super::objects::{CONTAINER, INSTALL};

/// Limit of a reported text, in characters.
const MOST: usize = 1000;
/// Normal waiting reasons of a starting container.
const BEGINNING: [&str; 2] = ["ContainerCreating", "PodInitializing"];
/// Termination reasons that come from the runtime, and not from the program.
const NEVER_RAN: [&str; 3] = ["StartError", "ContainerCannotRun", "CreateContainerError"];
/// Exit codes that our program never has: container runtimes and shells use them if a program does not start.
const DID_NOT_START: [i32; 4] = [126, 127, 128, 255];
/// Used without an exit code.
const NO_CODE: i32 = -1;

/// The progress of a Job.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Its Pod starts, or runs.
    Made,
    /// It has no Pod; a warning of Kubernetes may have the reason.
    NoPod,
    /// Its Pod cannot start.
    Waiting(String),
    /// Its container ended, or will never start.
    Ended { code: i32, message: String },
}

/// Whether a Job has ended.
pub(super) fn is_over(job: &Value) -> bool {
    over(job).is_some()
}

/// Whether a Job is being deleted.
pub(super) fn is_leaving(job: &Value) -> bool {
    !job["metadata"]["deletionTimestamp"].is_null()
}

/// Whether a Job is suspended.
pub(super) fn is_suspended(job: &Value) -> bool {
    job["spec"]["suspend"] == true
}

/// Whether the work of a Pod may still go on. A Pod that is being deleted has its grace period.
pub(super) fn is_at_work(pod: &Value) -> bool {
    !matches!(of_pod(pod), Some(Seen::Ended { .. }))
}

/// The progress of a Job, from its own Pods among these.
pub(super) fn seen(job: &Value, pods: &[Value]) -> Seen {
    let uid = &job["metadata"]["uid"];
    let own = pods.iter().filter(|pod| {
        let owners = pod["metadata"]["ownerReferences"].as_array();
        owners.into_iter().flatten().any(|owner| owner["uid"] == *uid)
    });
    // There is one; of several, the newest.
    let newest =
        own.max_by_key(|pod| pod["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned());
    match (newest, over(job)) {
        (Some(pod), over) => of_pod(pod).unwrap_or(match over {
            Some(message) => Seen::Ended { code: NO_CODE, message },
            None => Seen::Made,
        }),
        (None, Some(message)) => Seen::Ended { code: NO_CODE, message },
        (None, None) => Seen::NoPod,
    }
}

/// Why a Job ended, in Kubernetes' words.
fn over(job: &Value) -> Option<String> {
    let conditions = job["status"]["conditions"].as_array();
    let over = conditions.into_iter().flatten().find(|condition| {
        condition["status"] == "True" && (condition["type"] == "Complete" || condition["type"] == "Failed")
    })?;
    Some(words(&over["reason"], &over["message"]))
}

/// `None`: it starts or runs, as far as can be seen.
fn of_pod(pod: &Value) -> Option<Seen> {
    let status = &pod["status"];
    let containers = |list: &str| status[list].as_array().cloned().unwrap_or_default();
    for container in containers("containerStatuses").iter().filter(|status| status["name"] == CONTAINER) {
        let ended = &container["state"]["terminated"];
        if let Some(code) = code(ended) {
            let mut message = end(ended, "");
            if let Some(warning) = brought(status).filter(|_| DID_NOT_START.contains(&code)) {
                message = shortened(format!("{message}: {warning}"));
            }
            return Some(Seen::Ended { code, message });
        }
        if let Some(waiting) = waiting(container) {
            return Some(Seen::Waiting(waiting));
        }
    }
    for container in containers("initContainerStatuses") {
        let ended = &container["state"]["terminated"];
        if let Some(code) = code(ended).filter(|code| *code != 0) {
            let of = "the container that brings the harness: ";
            return Some(Seen::Ended { code, message: end(ended, of) });
        }
        if let Some(waiting) = waiting(&container) {
            return Some(Seen::Waiting(waiting));
        }
    }
    match status["phase"].as_str().unwrap_or_default() {
        "Succeeded" => Some(Seen::Ended { code: 0, message: String::new() }),
        // It was evicted, or its node is gone: no container has a reason.
        "Failed" => {
            Some(Seen::Ended { code: NO_CODE, message: words(&status["reason"], &status["message"]) })
        }
        _ => {
            let conditions = status["conditions"].as_array();
            let unscheduled = conditions
                .into_iter()
                .flatten()
                .find(|condition| condition["type"] == "PodScheduled" && condition["status"] == "False")?;
            Some(Seen::Waiting(words(&unscheduled["reason"], &unscheduled["message"])))
        }
    }
}

fn code(ended: &Value) -> Option<i32> {
    ended["exitCode"].as_i64().and_then(|code| i32::try_from(code).ok())
}

/// The reported reason of an end. The termination message of a program may contain a secret, and is left out.
fn end(ended: &Value, of: &str) -> String {
    let reason = ended["reason"].as_str().unwrap_or_default();
    if NEVER_RAN.contains(&reason) {
        format!("{of}{}", words(&ended["reason"], &ended["message"]))
    } else {
        format!("{of}{reason}")
    }
}

/// The message of our own program if it cannot start, copied for the container of the tool. It knows no secret.
fn brought(status: &Value) -> Option<&str> {
    let containers = status["initContainerStatuses"].as_array()?;
    let install = containers.iter().find(|container| container["name"] == INSTALL)?;
    install["state"]["terminated"]["message"].as_str().map(str::trim).filter(|message| !message.is_empty())
}

fn waiting(container: &Value) -> Option<String> {
    let waiting = &container["state"]["waiting"];
    let reason = waiting["reason"].as_str()?;
    (!BEGINNING.contains(&reason)).then(|| words(&waiting["reason"], &waiting["message"]))
}

fn words(reason: &Value, message: &Value) -> String {
    let words = match (reason.as_str().unwrap_or_default(), message.as_str().unwrap_or_default()) {
        (reason, "") => reason.to_owned(),
        ("", message) => message.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    };
    shortened(words)
}

/// A text within the limit.
pub(super) fn shortened(text: String) -> String {
    match text.char_indices().nth(MOST) {
        None => text,
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(status: &Value) -> Value {
        json!({"metadata": {"uid": "j"}, "spec": {}, "status": status})
    }

    fn pod(status: &Value) -> Value {
        json!({"metadata": {"ownerReferences": [{"uid": "j"}], "creationTimestamp": "2026-01-01T00:00:00Z"}, "status": status})
    }

    fn container(list: &str, name: &str, state: &Value) -> Value {
        json!({list: [{"name": name, "state": state}]})
    }

    #[test]
    fn a_job_is_as_far_as_its_pod() {
        let main = |state: Value| container("containerStatuses", "run", &state);
        let init = |state: Value| container("initContainerStatuses", "install", &state);
        let waits = |text: &str| Seen::Waiting(text.to_owned());
        let ended = |code: i32, message: &str| Seen::Ended { code, message: message.to_owned() };
        for (status, expected) in [
            (json!({"phase": "Pending"}), Seen::Made),
            (main(json!({"waiting": {"reason": "PodInitializing"}})), Seen::Made),
            (main(json!({"running": {}})), Seen::Made),
            (
                main(json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}})),
                waits("ImagePullBackOff: no such image"),
            ),
            (init(json!({"waiting": {"reason": "ErrImagePull", "message": "x"}})), waits("ErrImagePull: x")),
            (
                json!({"phase": "Pending", "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]}),
                waits("Unschedulable: 0/3 nodes"),
            ),
            (main(json!({"terminated": {"exitCode": 0, "reason": "Completed"}})), ended(0, "Completed")),
            // The tool's termination message is left out.
            (
                main(json!({"terminated": {"exitCode": 1, "reason": "Error", "message": "password=x"}})),
                ended(1, "Error"),
            ),
            (
                main(
                    json!({"terminated": {"exitCode": 127, "reason": "StartError", "message": "no \"plural\""}}),
                ),
                ended(127, "StartError: no \"plural\""),
            ),
            (init(json!({"terminated": {"exitCode": 0}})), Seen::Made),
            (
                init(json!({"terminated": {"exitCode": 2, "reason": "Error"}})),
                ended(2, "the container that brings the harness: Error"),
            ),
            (
                json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}),
                ended(-1, "Evicted: low on memory"),
            ),
            (json!({"phase": "Succeeded"}), ended(0, "")),
        ] {
            assert_eq!(seen(&job(&json!({})), &[pod(&status)]), expected, "{status}");
        }
    }

    #[test]
    fn a_program_that_does_not_start_in_the_image_of_the_tool_is_told_as_that() {
        let status = |exit: i32, reason: &str, name: &str, word: &str| {
            json!({
                "containerStatuses": [{"name": "run", "state": {"terminated": {"exitCode": exit, "reason": reason,
                    "message": if reason == "StartError" { "exec /plural/bin/plural: no such file or directory" } else { "" }}}}],
                "initContainerStatuses": [{"name": name, "state": {"terminated": {"exitCode": 0, "message": word}}}],
            })
        };
        for (status, expected) in [
            (status(255, "Error", "install", "it needs a linker\n"), "Error: it needs a linker"),
            (
                status(128, "StartError", "install", "it needs a linker"),
                "StartError: exec /plural/bin/plural: no such file or directory: it needs a linker",
            ),
            (status(127, "Error", "install", ""), "Error"),
            // It started; or the message is from another program.
            (status(1, "Error", "install", "it needs a linker"), "Error"),
            (status(137, "OOMKilled", "install", "it needs a linker"), "OOMKilled"),
            (status(255, "Error", "sidecar", "password=x"), "Error"),
        ] {
            let Seen::Ended { message, .. } = seen(&job(&json!({})), &[pod(&status)]) else {
                panic!("{status}")
            };
            assert_eq!(message, expected, "{status}");
        }
        let long = seen(&job(&json!({})), &[pod(&status(255, "Error", "install", &"x".repeat(2 * MOST)))]);
        assert!(matches!(long, Seen::Ended { message, .. } if message.chars().count() == MOST + 1));
    }

    #[test]
    fn without_a_pod_the_job_itself_says_whether_it_is_over() {
        assert_eq!(seen(&job(&json!({})), &[]), Seen::NoPod);
        let stranger =
            json!({"metadata": {"ownerReferences": [{"uid": "x"}]}, "status": {"phase": "Failed"}});
        assert_eq!(seen(&job(&json!({})), &[stranger]), Seen::NoPod);
        let failed =
            json!({"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]});
        assert!(is_over(&job(&failed)) && !is_over(&job(&json!({}))));
        let over = Seen::Ended { code: -1, message: "BackoffLimitExceeded".to_owned() };
        assert_eq!(seen(&job(&failed), &[]), over);
        // A Pod that is known to have stopped is no reason to wait.
        assert_eq!(seen(&job(&failed), &[pod(&json!({"phase": "Running"}))]), over);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(shortened("ä".repeat(MOST)), "ä".repeat(MOST));
        assert_eq!(shortened("ä".repeat(MOST + 1)), format!("{}…", "ä".repeat(MOST)));
    }
}
