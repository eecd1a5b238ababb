//! Jobs: Pods that end, until enough have ended well.

use std::time::Duration;

use serde_json::{Value, json};

use super::annotations::FAIL;
use super::template::{
    self, condition_is, controlled, deleting, number, pod_ready, put_status, set_condition,
};
use super::{Later, MANAGER, garbage};
use crate::events;
use crate::kinds::random_suffix;
use crate::store::{Address, Store, key_of, text};
use crate::verbs::system::system_create;

/// Brings one Job forward.
pub(super) fn reconcile(s: &mut Store, a: &Address, later: &mut Later) {
    let Some(job) = s.at(a).cloned() else { return };
    if deleting(&job) {
        return;
    }
    if condition_is(&job, "Complete", "True") || condition_is(&job, "Failed", "True") {
        return expire(s, a, &job, later);
    }
    let suspended = job.pointer("/spec/suspend") == Some(&Value::Bool(true));
    let mut pods = controlled(s, "pods", &job);
    let phase = |p: &Value, want: &str| text(p, "/status/phase") == want;
    let succeeded = pods.iter().filter(|p| phase(p, "Succeeded")).count() as i64;
    let failed = pods.iter().filter(|p| phase(p, "Failed")).count() as i64;
    pods.retain(|p| !phase(p, "Succeeded") && !phase(p, "Failed"));
    let all = pods.len();
    pods.retain(|p| !deleting(p));
    let terminating = all - pods.len();
    // Where the Job says so, nothing takes the place of a Pod that has not ended.
    let kept = if text(&job, "/spec/podReplacementPolicy") == "Failed" { terminating } else { 0 };
    let parallelism = number(&job, "/spec/parallelism");
    let completions = job.pointer("/spec/completions").and_then(Value::as_i64).unwrap_or(1);
    let limit = number(&job, "/spec/backoffLimit");
    let told = job["metadata"]["annotations"].get(FAIL).and_then(Value::as_str) == Some("JobFailed")
        || job["spec"]["template"]["metadata"]["annotations"].get(FAIL).and_then(Value::as_str)
            == Some("JobFailed");
    // The real back-off grows to minutes; a Job that was told to fail fails with its first Pod.
    let over = failed > limit || (told && failed > 0);
    let mut status = job["status"].clone();
    let now = crate::verbs::now();
    if suspended {
        for p in pods.drain(..) {
            garbage::delete(s, &("pods".into(), key_of(&p)), false);
        }
        set_condition(&mut status, "Suspended", "True", "JobSuspended", "Job suspended", false);
        if let Some(m) = status.as_object_mut() {
            m.remove("startTime");
        }
    } else if over {
        for p in pods.drain(..) {
            garbage::delete(s, &("pods".into(), key_of(&p)), false);
        }
        let why = "Job has reached the specified backoff limit";
        set_condition(&mut status, "FailureTarget", "True", "BackoffLimitExceeded", why, false);
        set_condition(&mut status, "Failed", "True", "BackoffLimitExceeded", why, false);
        events::record(s, &job, true, "BackoffLimitExceeded", why, "job-controller");
    } else if succeeded >= completions {
        let why = "Reached expected number of succeeded pods";
        set_condition(&mut status, "SuccessCriteriaMet", "True", "CompletionsReached", why, false);
        set_condition(&mut status, "Complete", "True", "CompletionsReached", why, false);
        status["completionTime"] = now.clone().into();
        events::record(s, &job, false, "Completed", "Job completed", "job-controller");
    } else {
        if status.get("startTime").is_none_or(Value::is_null) {
            status["startTime"] = now.into();
        }
        let want = parallelism.min(completions - succeeded);
        for _ in (pods.len() + kept) as i64..want {
            let name = format!("{}-{}", a.1.1, random_suffix(5));
            let pod = template::pod(&job, &name, &[("batch.kubernetes.io/job-name", &a.1.1)]);
            if let Some(p) = system_create(s, "pods", pod, MANAGER) {
                events::record(
                    s,
                    &job,
                    false,
                    "SuccessfulCreate",
                    &format!("Created pod: {name}"),
                    "job-controller",
                );
                pods.push(p);
            }
        }
    }
    let ready = pods.iter().filter(|p| pod_ready(p)).count();
    for (k, v) in [("active", pods.len()), ("succeeded", succeeded as usize), ("failed", failed as usize)] {
        if v > 0 {
            status[k] = v.into();
        } else if let Some(m) = status.as_object_mut() {
            m.remove(k);
        }
    }
    status["ready"] = ready.into();
    status["terminating"] = terminating.into();
    status["uncountedTerminatedPods"] = json!({});
    let Some(job) = s.at(a).cloned() else { return };
    put_status(s, a, &job, status);
}

/// A finished Job goes after its time to live.
fn expire(s: &mut Store, a: &Address, job: &Value, later: &mut Later) {
    let Some(ttl) = job.pointer("/spec/ttlSecondsAfterFinished").and_then(Value::as_i64) else { return };
    let conditions = job.pointer("/status/conditions").and_then(Value::as_array);
    let ended = conditions
        .into_iter()
        .flatten()
        .filter(|c| matches!(text(c, "/type"), "Complete" | "Failed"))
        .find_map(|c| chrono::DateTime::parse_from_rfc3339(text(c, "/lastTransitionTime")).ok());
    let passed = ended.map_or(0, |t| (chrono::Utc::now() - t.with_timezone(&chrono::Utc)).num_seconds());
    if passed >= ttl {
        garbage::delete(s, a, true);
    } else {
        later.again(Duration::from_secs((ttl - passed).max(1) as u64), a);
    }
}
