//! The objects of a run: a Job, the Secret that it owns, and the namespace of both.

use std::collections::BTreeMap;

use plural_core::ids::StackRunId;
use plural_core::stack_job_fit::is_label_text;
use plural_core::stack_run::RunPhase;
use plural_core::stack_spec::JobToleration;
use plural_tunnel::v1;
use serde_json::{Map, Value, json};

use super::{Settings, limits::Place};

/// Label: id of the run.
pub(super) const RUN: &str = "deployments.plural.sh/run";
/// Label: namespace of the agent that created it.
pub(super) const AGENT: &str = "deployments.plural.sh/run-agent";
/// Labels: which Job of the run.
const PHASE: &str = "deployments.plural.sh/run-phase";
const ATTEMPT: &str = "deployments.plural.sh/run-attempt";
/// Label of a note.
const NOTE: &str = "deployments.plural.sh/run-note";
/// Label, if the name is a valid value of one; annotation, always.
const STACK: &str = "deployments.plural.sh/stack";
/// Annotations.
const NUMBER: &str = "deployments.plural.sh/run-number";
const PROJECT: &str = "deployments.plural.sh/project";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const MANAGER: &str = "plural-agent";

/// The container that runs the tool.
pub(super) const CONTAINER: &str = "run";
/// The init container that copies our program.
pub(super) const INSTALL: &str = "install";
/// The user id of a run's containers.
const USER: u32 = 65535;
/// Time between the end of the tool's grace period and that of the Pod: the harness reports the result.
const FAREWELL: u32 = 10;
/// An ended Job is deleted after this time, even if no agent is left to remove it.
const TTL_SECONDS: u32 = 3600;

/// Which Job of a run. Later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At {
    pub(super) phase: RunPhase,
    pub(super) attempt: u32,
}

impl At {
    /// Which Job of its run an object is, or belongs to.
    pub(super) fn of(object: &Value) -> Option<Self> {
        let label = |name: &str| object["metadata"]["labels"][name].as_str().unwrap_or_default();
        Some(Self { phase: RunPhase::parse(label(PHASE))?, attempt: label(ATTEMPT).parse().ok()? })
    }
}

/// The run that an object was created for.
pub(super) fn run_of(object: &Value) -> Option<StackRunId> {
    object["metadata"]["labels"][RUN].as_str()?.parse().ok()
}

/// Name of the Job and its Secret. Ids start with their time: their end tells runs of one minute apart.
pub(super) fn name(id: StackRunId, at: At) -> String {
    let id = id.uuid().simple().to_string();
    format!("plural-run-{}-{}-{}", id.get(20..).unwrap_or_default(), at.phase.as_str(), at.attempt)
}

fn labels(id: StackRunId, at: At, stack: &str, settings: &Settings) -> BTreeMap<String, String> {
    let mut labels: BTreeMap<String, String> = [
        (RUN, id.to_string()),
        (AGENT, settings.agent_namespace.clone()),
        (PHASE, at.phase.as_str().to_owned()),
        (ATTEMPT, at.attempt.to_string()),
        (MANAGED_BY, MANAGER.to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    if is_label_text(stack) {
        labels.insert(STACK.to_owned(), stack.to_owned());
    }
    labels
}

/// The input of a Job.
pub(super) struct Making<'a> {
    pub(super) id: StackRunId,
    pub(super) at: At,
    pub(super) run: &'a v1::StackRunJob,
    pub(super) place: &'a Place,
    pub(super) settings: &'a Settings,
}

/// The Job of a run. It is suspended: it is resumed when its Secret exists.
pub(super) fn job(making: &Making<'_>) -> Value {
    let Making { id, at, run, place, settings } = *making;
    // Our own keys come last, and win.
    let mut all_labels = place.spec.labels.clone();
    all_labels.extend(labels(id, at, &run.stack, settings));
    let mut annotations = place.spec.annotations.clone();
    annotations.extend([
        (STACK.to_owned(), run.stack.clone()),
        (NUMBER.to_owned(), run.number.to_string()),
        (PROJECT.to_owned(), run.project.clone()),
    ]);
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name(id, at), "namespace": place.namespace, "labels": all_labels, "annotations": annotations,
        },
        "spec": {
            "suspend": true,
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 0,
            // A terminating Pod runs until it has ended: a second one beside it would have the same credential.
            "podReplacementPolicy": "Failed",
            "ttlSecondsAfterFinished": TTL_SECONDS,
            "template": {
                "metadata": {"labels": all_labels, "annotations": annotations},
                "spec": pod(making),
            },
        },
    })
}

fn pod(making: &Making<'_>) -> Value {
    let Making { id, at, run, place, settings } = *making;
    let secret = name(id, at);
    let mut volumes: Vec<Value> =
        ["run", "home", "tmp"].iter().map(|name| json!({"name": name, "emptyDir": {}})).collect();
    let mut mounts = vec![
        json!({"name": "run", "mountPath": "/plural/run"}),
        json!({"name": "home", "mountPath": "/plural/home"}),
        json!({"name": "tmp", "mountPath": "/tmp"}),
    ];
    let mut env = vec![
        json!({"name": "PLURAL_RUN_TOKEN", "valueFrom": {"secretKeyRef": {"name": secret, "key": "token"}}}),
        json!({"name": "PLURAL_RUN_DIR", "value": "/plural/run"}),
        json!({"name": "PLURAL_GRACE_SECONDS", "value": run.grace_seconds.to_string()}),
        json!({"name": "HOME", "value": "/plural/home"}),
    ];
    if settings.ca_pem.is_some() {
        env.push(json!({"name": "PLURAL_CONSOLE_CA_FILE", "value": "/plural/tls/ca.pem"}));
        let items = json!([{"key": "ca.pem", "path": "ca.pem"}]);
        volumes.push(json!({"name": "tls", "secret": {"secretName": secret, "items": items}}));
        mounts.push(json!({"name": "tls", "mountPath": "/plural/tls", "readOnly": true}));
    }
    if let Some(proxy) = &settings.proxy {
        env.push(json!({"name": "PLURAL_CONSOLE_PROXY", "valueFrom": {"secretKeyRef": {"name": secret, "key": "proxy"}}}));
        env.push(json!({"name": "PLURAL_CONSOLE_NO_PROXY", "value": proxy.except.join(",")}));
    }
    let mut program = "plural";
    let mut init = Vec::new();
    if let Some(image) = &settings.config.image {
        program = "/plural/bin/plural";
        volumes.push(json!({"name": "bin", "emptyDir": {}}));
        mounts.push(json!({"name": "bin", "mountPath": "/plural/bin", "readOnly": true}));
        init.push(json!({
            "name": INSTALL,
            "image": image,
            "args": ["harness", "--install", "/plural/bin"],
            "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
            "securityContext": confined(),
            "volumeMounts": [{"name": "bin", "mountPath": "/plural/bin"}],
        }));
    }
    let id = id.to_string();
    let mut args = vec!["harness", "--console-url", settings.console_url.as_str(), "--run", id.as_str()];
    if settings.insecure_http {
        args.push("--insecure-http");
    }
    let mut pod = json!({
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": run.grace_seconds.saturating_add(FAREWELL),
        "enableServiceLinks": false,
        "automountServiceAccountToken": place.account.is_some(),
        "serviceAccountName": place.account.as_deref().unwrap_or("default"),
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [{
            "name": CONTAINER,
            "image": place.image,
            "command": [program],
            "args": args,
            "env": env,
            "resources": resources(place),
            "securityContext": confined(),
            "volumeMounts": mounts,
        }],
        "volumes": volumes,
    });
    if !init.is_empty() {
        pod["initContainers"] = init.into();
    }
    if !place.spec.node_selector.is_empty() {
        pod["nodeSelector"] = json!(place.spec.node_selector);
    }
    if !place.spec.tolerations.is_empty() {
        pod["tolerations"] = place.spec.tolerations.iter().map(toleration).collect();
    }
    pod
}

/// The security context of every container of a run: "restricted", with a read-only root filesystem.
fn confined() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"]},
    })
}

fn resources(place: &Place) -> Value {
    let mut requests: BTreeMap<&str, &str> = [("cpu", "100m"), ("memory", "256Mi")].into();
    // A request cannot exceed its limit.
    requests.retain(|name, _| !place.spec.limits.contains_key(*name));
    requests.extend(place.spec.requests.iter().map(|(name, quantity)| (name.as_str(), quantity.as_str())));
    let mut resources = json!({"requests": requests});
    if !place.spec.limits.is_empty() {
        resources["limits"] = json!(place.spec.limits);
    }
    resources
}

fn toleration(toleration: &JobToleration) -> Value {
    let JobToleration { key, operator, value, effect } = toleration;
    let fields = [("key", key), ("operator", operator), ("value", value), ("effect", effect)];
    let said = fields.into_iter().filter_map(|(name, text)| Some((name.to_owned(), json!(text.as_ref()?))));
    Value::Object(said.collect::<Map<String, Value>>())
}

/// The Secret of a Job, which is deleted with it.
pub(super) fn secret(making: &Making<'_>, job: &Value, token: &str) -> Value {
    let Making { id, at, settings, .. } = *making;
    let mut data = json!({"token": token});
    if let Some(pem) = &settings.ca_pem {
        data["ca.pem"] = json!(pem);
    }
    if let Some(proxy) = &settings.proxy {
        data["proxy"] = json!(proxy.url);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name(id, at),
            "namespace": job["metadata"]["namespace"],
            "labels": labels(id, at, "", settings),
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"], "uid": job["metadata"]["uid"],
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "type": "Opaque",
        "immutable": true,
        "stringData": data,
    })
}

/// The note that an apply had a Job, until the console knows that it has stopped. Nothing owns it: if the Job disappears while no
/// agent runs, or the agent is killed before its report, the next one finds it.
pub(super) fn note(making: &Making<'_>) -> Value {
    let Making { id, at, place, settings, .. } = *making;
    let mut labels = labels(id, at, "", settings);
    labels.insert(NOTE.to_owned(), "true".to_owned());
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": format!("{}-note", name(id, at)), "namespace": place.namespace, "labels": labels},
        "type": "Opaque",
        "immutable": true,
    })
}

/// Whether a Secret is a note.
pub(super) fn is_note(secret: &Value) -> bool {
    secret["metadata"]["labels"][NOTE] == "true"
}

/// The namespace for runs.
pub(super) fn namespace(settings: &Settings) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": settings.config.namespace,
            "labels": {
                MANAGED_BY: MANAGER,
                "pod-security.kubernetes.io/enforce": "restricted",
                "pod-security.kubernetes.io/warn": "restricted",
                "pod-security.kubernetes.io/audit": "restricted",
            },
        },
    })
}

/// Whether an agent created a namespace: only there it applies a quota.
pub(super) fn is_ours(namespace: &Value) -> bool {
    namespace["metadata"]["labels"][MANAGED_BY] == MANAGER
}

/// The quota of all runs in it.
pub(super) fn quota(settings: &Settings) -> Option<Value> {
    (!settings.config.quota.is_empty()).then(|| {
        json!({
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {
                "name": "plural-runs",
                "namespace": settings.config.namespace,
                "labels": {MANAGED_BY: MANAGER},
            },
            "spec": {"hard": settings.config.quota},
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::{RunsConfig, limits};

    fn settings() -> Settings {
        Settings {
            config: RunsConfig { image: Some("example.org/plural:1".to_owned()), ..RunsConfig::default() },
            agent_namespace: "plural-system".to_owned(),
            console_url: "https://console.example.org".to_owned(),
            ca_pem: Some("PEM".to_owned()),
            insecure_http: false,
            proxy: None,
        }
    }

    fn run() -> v1::StackRunJob {
        v1::StackRunJob {
            stack: "network of blue".to_owned(),
            number: 7,
            project: "shop".to_owned(),
            phase: "apply".to_owned(),
            image: "example.org/tofu:1.12".to_owned(),
            grace_seconds: 60,
            job_json: json!({
                "labels": {"team": "a", "app.kubernetes.io/managed-by": "somebody"},
                "annotations": {"note": "b"},
                "nodeSelector": {"pool": "runs"},
                "tolerations": [{"key": "runs", "operator": "Exists"}],
                "serviceAccount": "own",
                "limits": {"memory": "1Gi"},
            })
            .to_string(),
            ..v1::StackRunJob::default()
        }
    }

    fn made(settings: &Settings, at: At) -> (StackRunId, Value, Value) {
        let (id, run) = (StackRunId::new(), run());
        let place = limits::place(&run, settings).unwrap();
        let making = Making { id, at, run: &run, place: &place, settings };
        let job = job(&making);
        let secret = secret(&making, &job, "run-secret");
        (id, job, secret)
    }

    const AT: At = At { phase: RunPhase::Apply, attempt: 2 };

    #[test]
    fn a_job_is_confined_and_says_whose_it_is() {
        let (id, job, _) = made(&settings(), AT);
        assert_eq!((run_of(&job), At::of(&job)), (Some(id), Some(AT)));
        assert_eq!(job["metadata"]["name"], name(id, AT).as_str());
        let labels = &job["spec"]["template"]["metadata"]["labels"];
        assert_eq!((&labels["team"], &labels[MANAGED_BY]), (&json!("a"), &json!("plural-agent")));
        assert!(labels.get(STACK).is_none(), "no value of a label");
        let annotations = &job["metadata"]["annotations"];
        assert_eq!((&annotations[STACK], &annotations[NUMBER]), (&json!("network of blue"), &json!("7")));
        assert_eq!((&job["spec"]["suspend"], &job["spec"]["backoffLimit"]), (&json!(true), &json!(0)));
        let pod = &job["spec"]["template"]["spec"];
        for (field, expected) in [
            ("/restartPolicy", json!("Never")),
            ("/terminationGracePeriodSeconds", json!(70)),
            ("/automountServiceAccountToken", json!(true)),
            ("/serviceAccountName", json!("own")),
            ("/securityContext/runAsNonRoot", json!(true)),
            ("/securityContext/seccompProfile/type", json!("RuntimeDefault")),
            ("/nodeSelector", json!({"pool": "runs"})),
            ("/tolerations", json!([{"key": "runs", "operator": "Exists"}])),
            ("/initContainers/0/image", json!("example.org/plural:1")),
            ("/containers/0/image", json!("example.org/tofu:1.12")),
            ("/containers/0/command", json!(["/plural/bin/plural"])),
            ("/containers/0/resources", json!({"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}})),
        ] {
            assert_eq!(pod.pointer(field), Some(&expected), "{field}");
        }
        for container in ["/initContainers/0", "/containers/0"] {
            assert_eq!(pod.pointer(container).unwrap()["securityContext"], confined(), "{container}");
        }
        let volumes = pod["volumes"].as_array().unwrap();
        assert!(
            volumes.iter().all(|volume| volume.get("emptyDir").is_some() || volume.get("secret").is_some())
        );
    }

    #[test]
    fn the_credential_is_in_the_secret_alone_and_goes_with_the_job() {
        let (_, mut job, secret) = made(&settings(), AT);
        assert!(!job.to_string().contains("run-secret"));
        assert_eq!(secret["stringData"], json!({"token": "run-secret", "ca.pem": "PEM"}));
        assert_eq!(secret["metadata"]["name"], job["metadata"]["name"]);
        assert_eq!(secret["metadata"]["ownerReferences"][0]["name"], job["metadata"]["name"]);
        assert_eq!(At::of(&secret), Some(AT));
        let env = job["spec"]["template"]["spec"]["containers"][0]["env"].take();
        let token = env.as_array().unwrap().iter().find(|one| one["name"] == "PLURAL_RUN_TOKEN").unwrap();
        assert_eq!(
            token["valueFrom"]["secretKeyRef"],
            json!({"name": secret["metadata"]["name"], "key": "token"})
        );
    }

    #[test]
    fn a_note_says_which_job_there_was_and_outlives_it() {
        let (settings, run, id) = (settings(), run(), StackRunId::new());
        let place = limits::place(&run, &settings).unwrap();
        let note = note(&Making { id, at: AT, run: &run, place: &place, settings: &settings });
        assert_eq!((run_of(&note), At::of(&note)), (Some(id), Some(AT)));
        assert!(is_note(&note) && note["metadata"].get("ownerReferences").is_none());
        assert!(!is_note(&made(&settings, AT).2));
    }

    #[test]
    fn a_proxy_that_leads_to_the_console_is_told_and_its_password_is_in_the_secret_alone() {
        let mut settings = settings();
        let (url, except) =
            ("http://ada:pa55word@proxy:3128".to_owned(), vec!["10.0.0.1".into(), ".svc".into()]);
        settings.proxy = Some(crate::runs::Detour { url, except });
        let (_, job, secret) = made(&settings, AT);
        assert!(!job.to_string().contains("pa55word") && !format!("{settings:?}").contains("pa55word"));
        assert_eq!(secret["stringData"]["proxy"], "http://ada:pa55word@proxy:3128");
        let env = job["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
        let of = |name: &str| env.iter().find(|one| one["name"] == name).unwrap();
        assert_eq!(of("PLURAL_CONSOLE_NO_PROXY")["value"], "10.0.0.1,.svc");
        assert_eq!(
            of("PLURAL_CONSOLE_PROXY")["valueFrom"]["secretKeyRef"]["name"],
            secret["metadata"]["name"]
        );
    }

    #[test]
    fn without_an_image_of_ours_the_tools_image_has_the_program() {
        let mut settings = settings();
        (settings.config.image, settings.ca_pem, settings.insecure_http) = (None, None, true);
        let (id, job, secret) = made(&settings, AT);
        let pod = &job["spec"]["template"]["spec"];
        assert!(pod.get("initContainers").is_none());
        let container = &pod["containers"][0];
        assert_eq!(container["command"], json!(["plural"]));
        let url = settings.console_url.as_str();
        assert_eq!(
            container["args"],
            json!(["harness", "--console-url", url, "--run", id.to_string(), "--insecure-http"])
        );
        assert_eq!(secret["stringData"], json!({"token": "run-secret"}));
    }

    #[test]
    fn names_tell_runs_of_one_moment_apart_and_are_short_enough() {
        let (a, b) = (StackRunId::new(), StackRunId::new());
        assert_ne!(name(a, AT), name(b, AT));
        assert_ne!(name(a, AT), name(a, At { attempt: 3, ..AT }));
        assert!(name(a, At { attempt: u32::MAX, ..AT }).len() <= 63 - "-abcde".len());
        assert!(AT > At { phase: RunPhase::Plan, attempt: 9 } && AT < At { attempt: 3, ..AT });
    }

    #[test]
    fn the_namespace_is_restricted_and_its_quota_a_setting() {
        let namespace = namespace(&settings());
        assert!(is_ours(&namespace) && !is_ours(&json!({"metadata": {"name": "plural-runs"}})));
        assert_eq!(namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted");
        assert_eq!(quota(&settings()).unwrap()["spec"]["hard"], json!({"pods": "50"}));
        let mut none = settings();
        none.config.quota.clear();
        assert_eq!(quota(&none), None);
    }
}
