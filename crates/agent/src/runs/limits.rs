//! The limits of a run's Job in this cluster: enforced here, whatever the console says.

use plural_core::pattern::matches;
use plural_core::stack_run::RunPhase;
use plural_core::stack_spec::JobSpec;
use plural_tunnel::v1;

use super::Settings;

/// Prefix of Kubernetes' own namespaces.
const KUBERNETES: &str = "kube-";
/// The service account that every namespace has, and that has no meaning.
const NOBODY: &str = "default";

/// A permitted Job.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) phase: RunPhase,
    pub(super) namespace: String,
    /// `None`: no account was named, and the Pod gets no token.
    pub(super) account: Option<String>,
    pub(super) image: String,
    pub(super) spec: JobSpec,
}

/// Checks the Job of a run against its limits.
///
/// # Errors
/// Why the Job is refused, in words for people.
pub(super) fn place(run: &v1::StackRunJob, settings: &Settings) -> Result<Place, String> {
    let phase = RunPhase::parse(&run.phase)
        .ok_or_else(|| format!("the agent does not know the phase {:?}: update the agent", run.phase))?;
    let spec: JobSpec = if run.job_json.is_empty() {
        JobSpec::default()
    } else {
        serde_json::from_str(&run.job_json)
            .map_err(|error| format!("the agent cannot read jobSpec: {error}; update the agent"))?
    };
    let namespace = namespace(&spec, run.limits.as_ref(), settings)?;
    let account = account(&spec, phase, run.limits.as_ref())?;
    // The agent's own account is there, and may do all that services need.
    if let Some(account) = account.as_ref().filter(|_| namespace == settings.agent_namespace) {
        return Err(format!(
            "jobSpec.serviceAccount: a run in {namespace}, the agent's own namespace, acts as nobody, and not as {account}: start the \
             agent with another namespace for runs (--runs-namespace)"
        ));
    }
    let image = image(run, settings)?;
    if let Some((field, problem)) = spec.unfit() {
        return Err(format!("jobSpec.{field}: {problem}"));
    }
    Ok(Place { phase, namespace, account, image, spec })
}

fn namespace(spec: &JobSpec, limits: Option<&v1::RunLimits>, settings: &Settings) -> Result<String, String> {
    let of_runs = &settings.config.namespace;
    let wanted = spec.namespace.as_ref().filter(|name| !name.is_empty()).unwrap_or(of_runs);
    if !is_name(wanted, 63, false) {
        return Err(format!("jobSpec.namespace: {wanted:?} is no name of a namespace"));
    }
    if wanted.starts_with(KUBERNETES) {
        return Err(format!("jobSpec.namespace: {wanted} is reserved for Kubernetes"));
    }
    if *wanted == settings.agent_namespace && wanted != of_runs {
        return Err(format!("jobSpec.namespace: {wanted} is the agent's own: no run reaches it"));
    }
    let patterns = limits.map(|limits| limits.namespaces.as_slice()).unwrap_or_default();
    if patterns.is_empty() {
        return if wanted == of_runs {
            Ok(wanted.clone())
        } else {
            Err(format!(
                "jobSpec.namespace: runs of this project run in {of_runs}; {wanted} has to be among the namespaces of its \
                 limits for runs"
            ))
        };
    }
    if patterns.iter().any(|pattern| matches(pattern, wanted)) {
        return Ok(wanted.clone());
    }
    Err(format!(
        "jobSpec.namespace: {wanted} is not among the namespaces that the project allows for runs: {}",
        patterns.join(", ")
    ))
}

fn account(
    spec: &JobSpec,
    phase: RunPhase,
    limits: Option<&v1::RunLimits>,
) -> Result<Option<String>, String> {
    let wanted = spec.service_account.clone().filter(|name| !name.is_empty());
    let account = match limits {
        None => wanted,
        Some(limits) => {
            let named = match phase {
                RunPhase::Plan => &limits.plan_account,
                RunPhase::Apply => &limits.apply_account,
            };
            // An administrator of the project named both: the stack's own settings do not count.
            match (named.is_empty(), wanted) {
                (false, _) => Some(named.clone()),
                (true, Some(wanted)) if wanted != NOBODY => {
                    return Err(format!(
                        "jobSpec.serviceAccount: the project's limits name no account for the phase {}, so that it runs as \
                         {NOBODY}, not as {wanted}",
                        phase.as_str()
                    ));
                }
                (true, _) => None,
            }
        }
    };
    match account {
        Some(name) if !is_name(&name, 253, true) => {
            Err(format!("jobSpec.serviceAccount: {name:?} is no name of a ServiceAccount"))
        }
        Some(name) if name == NOBODY => Ok(None),
        account => Ok(account),
    }
}

fn image(run: &v1::StackRunJob, settings: &Settings) -> Result<String, String> {
    if run.image.is_empty() {
        // The operator's own settings: limits apply to what stacks choose.
        return settings.config.image.clone().ok_or_else(|| {
            "the run names no image, and the agent has none of its own: start it with --run-image".to_owned()
        });
    }
    let image = &run.image;
    if image.len() > 1024 || image.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("configuration.image: it is no reference of an image".to_owned());
    }
    let patterns = run.limits.as_ref().map(|limits| limits.images.as_slice()).unwrap_or_default();
    if patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, image)) {
        return Ok(image.clone());
    }
    Err(format!(
        "configuration.image: {image} is not among the images that the project allows for runs: {}",
        patterns.join(", ")
    ))
}

/// Whether it is a valid name of Kubernetes, with dots where those are allowed.
fn is_name(name: &str, longest: usize, dots: bool) -> bool {
    let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    name.len() <= longest
        && is_end(name.chars().next())
        && is_end(name.chars().next_back())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || (dots && c == '.'))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::runs::RunsConfig;

    fn settings() -> Settings {
        Settings {
            config: RunsConfig { image: Some("example.org/plural:1".to_owned()), ..RunsConfig::default() },
            agent_namespace: "plural-system".to_owned(),
            console_url: "https://console.example.org".to_owned(),
            ca_pem: None,
            insecure_http: false,
            proxy: None,
        }
    }

    fn run(spec: &Value) -> v1::StackRunJob {
        v1::StackRunJob {
            phase: "plan".to_owned(),
            image: "example.org/tofu:1.12".to_owned(),
            job_json: spec.to_string(),
            ..v1::StackRunJob::default()
        }
    }

    fn limits() -> v1::RunLimits {
        v1::RunLimits {
            namespaces: vec!["team-*".to_owned()],
            images: vec!["example.org/*".to_owned()],
            plan_account: "reader".to_owned(),
            apply_account: "writer".to_owned(),
        }
    }

    fn refused(run: &v1::StackRunJob, why: &str) {
        let told = place(run, &settings()).unwrap_err();
        assert!(told.contains(why), "{told}, not {why}");
    }

    #[test]
    fn what_says_nothing_runs_in_the_namespace_for_runs_as_nobody() {
        for bare in [run(&json!({})), v1::StackRunJob { job_json: String::new(), ..run(&json!({})) }] {
            let place = place(&bare, &settings()).unwrap();
            assert_eq!((place.namespace.as_str(), place.account), ("plural-runs", None));
            assert_eq!(place.image, "example.org/tofu:1.12");
        }
        let own = place(&v1::StackRunJob { image: String::new(), ..run(&json!({})) }, &settings()).unwrap();
        assert_eq!(own.image, "example.org/plural:1");
    }

    #[test]
    fn namespaces_are_those_of_the_limits_and_never_kubernetes_or_the_agents() {
        let named = |namespace: &str| run(&json!({"namespace": namespace}));
        let limited = |namespace: &str, pattern: &str| {
            let limits = v1::RunLimits { namespaces: vec![pattern.to_owned()], ..limits() };
            v1::StackRunJob { limits: Some(limits), ..named(namespace) }
        };
        assert_eq!(place(&limited("team-a", "team-*"), &settings()).unwrap().namespace, "team-a");
        refused(&named("team-a"), "run in plural-runs");
        refused(&limited("other", "team-*"), "not among the namespaces");
        refused(&limited("", "team-*"), "plural-runs is not among");
        for (namespace, why) in [
            ("kube-system", "reserved for Kubernetes"),
            ("plural-system", "the agent's own"),
            ("../kube-system", "no name"),
            ("Team", "no name"),
            ("-a", "no name"),
        ] {
            refused(&limited(namespace, "*"), why);
            refused(&named(namespace), why);
        }
        // An operator may have both in one.
        let together = Settings { agent_namespace: "plural-runs".to_owned(), ..settings() };
        assert_eq!(place(&named("plural-runs"), &together).unwrap().namespace, "plural-runs");
        // But no run acts as the agent, whoever names its account.
        let acting = run(&json!({"serviceAccount": "plural-agent"}));
        let limits =
            v1::RunLimits { namespaces: Vec::new(), plan_account: "plural-agent".to_owned(), ..limits() };
        for run in [v1::StackRunJob { limits: Some(limits), ..acting.clone() }, acting] {
            let told = place(&run, &together).unwrap_err();
            assert!(told.contains("acts as nobody, and not as plural-agent"), "{told}");
            assert_eq!(place(&run, &settings()).unwrap().account.as_deref(), Some("plural-agent"));
        }
    }

    #[test]
    fn accounts_are_those_of_the_phase() {
        let with = |phase: &str, account: &str, limits: Option<v1::RunLimits>| v1::StackRunJob {
            phase: phase.to_owned(),
            limits: limits.map(|limits| v1::RunLimits { namespaces: Vec::new(), ..limits }),
            ..run(&json!({"serviceAccount": account}))
        };
        let account = |run: &v1::StackRunJob| place(run, &settings()).unwrap().account;
        assert_eq!(account(&with("plan", "", Some(limits()))).as_deref(), Some("reader"));
        assert_eq!(account(&with("apply", "other", Some(limits()))).as_deref(), Some("writer"));
        assert_eq!(account(&with("apply", "own", None)).as_deref(), Some("own"));
        assert_eq!(account(&with("apply", "default", None)), None);
        let none = v1::RunLimits { plan_account: String::new(), ..limits() };
        assert_eq!(account(&with("plan", "default", Some(none.clone()))), None);
        refused(&with("plan", "own", Some(none)), "name no account for the phase plan");
        refused(&with("plan", "a/b", None), "no name of a ServiceAccount");
    }

    #[test]
    fn images_are_those_of_the_limits() {
        let with = |image: &str, limits: Option<v1::RunLimits>| v1::StackRunJob {
            image: image.to_owned(),
            limits: limits.map(|limits| v1::RunLimits { namespaces: Vec::new(), ..limits }),
            ..run(&json!({}))
        };
        assert!(place(&with("docker.io/any:1", None), &settings()).is_ok());
        assert!(place(&with("example.org/a:1", Some(limits())), &settings()).is_ok());
        refused(&with("docker.io/any:1", Some(limits())), "not among the images");
        refused(&with("example.org/a b", None), "no reference");
        let mut without = settings();
        without.config.image = None;
        let told = place(&with("", None), &without).unwrap_err();
        assert!(told.contains("--run-image"), "{told}");
    }

    #[test]
    fn nothing_privileged_can_be_said() {
        for (spec, why) in [
            (json!({"requests": {"nvidia.com/gpu": "1"}}), "not for nvidia.com/gpu"),
            (json!({"limits": {"hugepages-2Mi": "1Gi"}}), "not for hugepages-2Mi"),
            (json!({"labels": {"deployments.plural.sh/run": "x"}}), "not the stack's"),
            (json!({"labels": {"plural.sh/managed-by": "agent"}}), "not the stack's"),
            (
                json!({"annotations": {"container.apparmor.security.beta.kubernetes.io/run": "unconfined"}}),
                "not the stack's",
            ),
            (json!({"annotations": {"deployments.plural.sh/service-id": "x"}}), "not the stack's"),
            (json!({"annotations": {"iam.amazonaws.com/role": "admin"}}), "not the stack's"),
            (json!({"annotations": {"io.katacontainers.config.hypervisor.path": "/x"}}), "not the stack's"),
            (json!({"labels": {"aadpodidbinding": "admin"}}), "not the stack's"),
            (json!({"labels": ["a"]}), "cannot read jobSpec"),
        ] {
            refused(&run(&spec), why);
        }
        refused(&v1::StackRunJob { phase: "guess".to_owned(), ..run(&json!({})) }, "does not know the phase");
        let fine = json!({
            "labels": {"team": "a", "app.kubernetes.io/name": "x"},
            "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
            "requests": {"cpu": "1", "memory": "1Gi"},
            // Unknown fields are ignored.
            "hostNetwork": true, "privileged": true,
        });
        assert!(place(&run(&fine), &settings()).is_ok());
    }
}
