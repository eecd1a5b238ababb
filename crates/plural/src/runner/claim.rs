//! Which Pods are run: those of Jobs that an agent made for a run of our console, and no others.

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Container, EnvVar, Pod, Secret},
};

/// Label of the Jobs of runs, and of their Pods.
pub(super) const RUN: &str = "deployments.plural.sh/run";
/// Marks what agents make.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Name of the container that runs the harness.
pub(super) const CONTAINER: &str = "run";
/// What the credential of a run begins with, and the digits that follow.
const TOKEN: (&str, usize) = (plural_core::run_call::RUN_TOKEN_PREFIX, 64);

/// A Pod of a run: all that its process is given.
#[derive(Clone)]
pub(super) struct Claim {
    /// Arguments of this very program.
    pub(super) args: Vec<String>,
    /// The run's credential.
    pub(super) token: String,
    /// Seconds that the tool has between SIGTERM and SIGKILL, as the agent says.
    pub(super) grace_seconds: Option<String>,
    /// Authority of the console's certificate.
    pub(super) ca_pem: Option<Vec<u8>>,
}

/// Whether `pod` is of a run of the console at `console`; if not, why.
///
/// Anybody who may make Jobs may copy what an agent makes. What they cannot copy is a credential that the console knows: so the
/// only program is our own harness, the only console the one that this process was started for, and the only commands are those
/// which that console gives for the credential.
pub(super) fn claim(
    console: &str,
    pod: &Pod,
    job: &Job,
    secret: impl FnOnce(&str) -> Option<Secret>,
) -> Result<Claim, String> {
    let labels = pod.metadata.labels.as_ref();
    let run = labels.and_then(|labels| labels.get(RUN)).ok_or("it has no run")?;
    let job_labels = job.metadata.labels.as_ref().ok_or("its Job has no labels")?;
    is(job_labels.get(RUN) == Some(run), "its Job is of another run")?;
    is(job_labels.get(MANAGED_BY).is_some_and(|by| by == "plural-agent"), "no agent made its Job")?;
    let owned = pod.metadata.owner_references.iter().flatten().any(|owner| {
        owner.controller == Some(true)
            && owner.kind == "Job"
            && Some(&owner.uid) == job.metadata.uid.as_ref()
            && Some(&owner.name) == job.metadata.name.as_ref()
    });
    is(owned, "no Job of a run controls it")?;
    is(job.spec.as_ref().is_some_and(|spec| spec.backoff_limit == Some(0)), "its Job tries more than once")?;
    let template = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref()).ok_or("no template")?;
    let spec = pod.spec.as_ref().ok_or("it has no containers")?;
    let [container] = spec.containers.as_slice() else { return Err("it has several containers".to_owned()) };
    let [planned] = template.containers.as_slice() else { return Err("several containers".to_owned()) };
    let same = planned.args == container.args
        && planned.command == container.command
        && planned.env == container.env
        && planned.env_from == container.env_from;
    is(same, "it is not as its Job says")?;
    let args = harness_args(container, console, run)?;
    is(container.env_from.as_ref().is_none_or(Vec::is_empty), "it takes whole Secrets into its environment")?;
    let environment = container.env.as_deref().unwrap_or_default();
    let secret_name = job.metadata.name.clone().unwrap_or_default();
    let (mut token_key, mut grace_seconds, mut wants_ca) = (None, None, false);
    for variable in environment {
        match variable.name.as_str() {
            "PLURAL_RUN_TOKEN" => token_key = Some(key_of(variable, &secret_name)?),
            "PLURAL_GRACE_SECONDS" => {
                let value = variable.value.clone().unwrap_or_default();
                is(value.parse::<u32>().is_ok(), "its grace is no number of seconds")?;
                grace_seconds = Some(value);
            }
            "PLURAL_CONSOLE_CA_FILE" => wants_ca = true,
            // Its own folder takes the place of the first three; for the other two, the console is on this machine.
            "HOME" | "TMPDIR" | "PLURAL_RUN_DIR" | "PLURAL_CONSOLE_PROXY" | "PLURAL_CONSOLE_NO_PROXY" => {}
            other => return Err(format!("no agent gives a harness the variable {other}")),
        }
    }
    let token_key = token_key.ok_or("it has no credential")?;
    let mut data = secret(&secret_name).and_then(|secret| secret.data).ok_or("its Secret is not there")?;
    let token = data.remove(&token_key).and_then(|value| String::from_utf8(value.0).ok());
    let token = token.filter(|token| is_credential(token)).ok_or("its credential is not one of a run")?;
    let ca_pem = if wants_ca { data.remove("ca.pem").map(|value| value.0) } else { None };
    Ok(Claim { args, token, grace_seconds, ca_pem })
}

/// The arguments of a harness of this run and this console; nothing else is started.
fn harness_args(container: &Container, console: &str, run: &str) -> Result<Vec<String>, String> {
    is(container.name == CONTAINER, "its container has another name")?;
    let command = container.command.as_deref().unwrap_or_default();
    let [program] = command else { return Err("its command has arguments".to_owned()) };
    is(matches!(program.as_str(), "plural" | "/plural/bin/plural"), "its command is another program")?;
    let args = container.args.clone().unwrap_or_default();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let (url, id) = match words.as_slice() {
        ["harness", "--console-url", url, "--run", id]
        | ["harness", "--console-url", url, "--run", id, "--insecure-http"] => (*url, *id),
        _ => return Err("its arguments are not those of a harness".to_owned()),
    };
    is(url.trim_end_matches('/') == console.trim_end_matches('/'), "it is of another console")?;
    is(id == run, "its harness is of another run")?;
    Ok(args)
}

/// The key of the Job's own Secret that a variable comes from.
fn key_of(variable: &EnvVar, secret: &str) -> Result<String, String> {
    let from = variable.value_from.as_ref().and_then(|from| from.secret_key_ref.as_ref());
    let from = from.ok_or_else(|| format!("{} does not come from a Secret", variable.name))?;
    is(from.name == secret, "its credential is in a Secret of another name")?;
    Ok(from.key.clone())
}

fn is_credential(token: &str) -> bool {
    let (prefix, digits) = TOKEN;
    token.strip_prefix(prefix).is_some_and(|rest| {
        rest.len() == digits && rest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

fn is(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const CONSOLE: &str = "http://127.0.0.1:8080";

    /// Pod, Job and Secret as an agent's Job gives them.
    fn made() -> (Value, Value, Value) {
        let template = json!({
            "restartPolicy": "Never",
            "containers": [{
                "name": "run", "image": "tofu:1", "command": ["/plural/bin/plural"],
                "args": ["harness", "--console-url", CONSOLE, "--run", "7"],
                "env": [
                    {"name": "PLURAL_RUN_TOKEN", "valueFrom": {"secretKeyRef": {"name": "plural-run-7-plan-1", "key": "token"}}},
                    {"name": "HOME", "value": "/plural/home"},
                    {"name": "PLURAL_GRACE_SECONDS", "value": "30"},
                ],
            }],
        });
        let labels = json!({RUN: "7", MANAGED_BY: "plural-agent"});
        let pod = json!({
            "metadata": {"name": "p", "namespace": "plural-runs", "labels": labels, "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "Job", "name": "plural-run-7-plan-1", "uid": "u", "controller": true}]},
            "spec": template,
        });
        let job = json!({
            "metadata": {"name": "plural-run-7-plan-1", "uid": "u", "labels": labels},
            "spec": {"backoffLimit": 0, "template": {"spec": template}},
        });
        // "run-" and 64 times "a".
        let secret = json!({"data": {"token": encoded()}});
        (pod, job, secret)
    }

    /// `run-aaaa…` in base64: "run-" and 16 quads of four letters.
    fn encoded() -> String {
        // "run-aa" is eight characters; the other 62 letters are 20 triples and two letters.
        format!("cnVuLWFh{}YWE=", "YWFh".repeat(20))
    }

    fn judged(change: impl FnOnce(&mut Value, &mut Value, &mut Value)) -> Result<Claim, String> {
        let (mut pod, mut job, mut secret) = made();
        change(&mut pod, &mut job, &mut secret);
        let (pod, job): (Pod, Job) =
            (serde_json::from_value(pod).unwrap(), serde_json::from_value(job).unwrap());
        let secret: Secret = serde_json::from_value(secret).unwrap();
        claim(CONSOLE, &pod, &job, |name| (name == "plural-run-7-plan-1").then_some(secret))
    }

    #[test]
    fn what_an_agent_makes_is_run() {
        let claim = judged(|_, _, _| {}).unwrap();
        assert_eq!(claim.token, format!("run-{}", "a".repeat(64)));
        assert_eq!(claim.args, ["harness", "--console-url", CONSOLE, "--run", "7"]);
        assert_eq!(claim.grace_seconds.as_deref(), Some("30"));
    }

    #[test]
    fn nothing_else_is_run() {
        type Change = fn(&mut Value, &mut Value, &mut Value);
        /// In the Pod and its Job alike.
        fn both(pod: &mut Value, job: &mut Value, pointer: &str, value: Value) {
            *pod["spec"].pointer_mut(pointer).unwrap() = value.clone();
            *job["spec"]["template"]["spec"].pointer_mut(pointer).unwrap() = value;
        }
        let cases: &[(&str, Change)] = &[
            ("no run", |pod, _, _| pod["metadata"]["labels"] = json!({})),
            ("another run", |_, job, _| job["metadata"]["labels"][RUN] = "8".into()),
            ("no agent made", |_, job, _| job["metadata"]["labels"][MANAGED_BY] = "helm".into()),
            ("no Job of a run", |pod, _, _| pod["metadata"]["ownerReferences"] = json!([])),
            ("no Job of a run", |_, job, _| job["metadata"]["uid"] = "other".into()),
            ("more than once", |_, job, _| job["spec"]["backoffLimit"] = 6.into()),
            ("not as its Job says", |pod, _, _| pod["spec"]["containers"][0]["args"][4] = "8".into()),
            ("another program", |pod, job, _| both(pod, job, "/containers/0/command/0", "/bin/sh".into())),
            ("not those of a harness", |pod, job, _| {
                both(pod, job, "/containers/0/args/0", "console".into());
            }),
            ("another console", |pod, job, _| both(pod, job, "/containers/0/args/2", "http://evil".into())),
            ("harness is of another run", |pod, job, _| both(pod, job, "/containers/0/args/4", "9".into())),
            ("LD_PRELOAD", |pod, job, _| both(pod, job, "/containers/0/env/1/name", "LD_PRELOAD".into())),
            ("another name", |pod, job, _| {
                both(pod, job, "/containers/0/env/0/valueFrom/secretKeyRef/name", "admin".into());
            }),
            ("not one of a run", |_, _, secret| secret["data"]["token"] = "ZGVwbG95LTE=".into()),
            // The one for the state: "run-state-" and 64 times "a".
            ("not one of a run", |_, _, secret| {
                secret["data"]["token"] = format!("cnVuLXN0YXRlLWFh{}YWE=", "YWFh".repeat(20)).into();
            }),
            ("Secret is not there", |_, _, secret| *secret = json!({})),
        ];
        for (why, change) in cases {
            let told = judged(*change).err().unwrap_or_default();
            assert!(told.contains(why), "{why}: {told}");
        }
    }
}
