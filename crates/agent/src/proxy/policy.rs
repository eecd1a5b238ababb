//! What this agent lets people do, whatever the console asserts. Set where the agent runs; no console can widen it.

use plural_tunnel::proxy::Asserted;

use super::question::Question;

/// The agent's own rules for requests that come through the console. The default lets everything through: then
/// Kubernetes' RBAC alone decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProxyPolicy {
    /// Nothing comes through at all.
    pub off: bool,
    /// Nothing that changes, and nothing that leads into a container or to a service.
    pub read_only: bool,
    /// Only these groups are asserted, and only their members come through. `None`: all groups.
    pub groups: Option<Vec<String>>,
    /// Namespaces that nobody reaches.
    pub denied_namespaces: Vec<String>,
    /// No Secret is read or written, and no token of a service account is made.
    pub no_secrets: bool,
}

/// Resources without a namespace that come with Kubernetes: lists of them tell nothing of a namespace's objects.
const CLUSTER_WIDE: [&str; 35] = [
    "apiservices",
    "certificatesigningrequests",
    "clusterrolebindings",
    "clusterroles",
    "clustertrustbundles",
    "componentstatuses",
    "csidrivers",
    "csinodes",
    "customresourcedefinitions",
    "deviceclasses",
    "flowschemas",
    "ingressclasses",
    "ipaddresses",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "namespaces",
    "nodes",
    "persistentvolumes",
    "priorityclasses",
    "prioritylevelconfigurations",
    "resourceslices",
    "runtimeclasses",
    "selfsubjectaccessreviews",
    "selfsubjectreviews",
    "selfsubjectrulesreviews",
    "servicecidrs",
    "storageclasses",
    "subjectaccessreviews",
    "tokenreviews",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
    "volumeattachments",
    "volumeattributesclasses",
];

impl ProxyPolicy {
    /// Who may ask this, with what of their groups; else why not, for the person who asked.
    pub(crate) fn judge(&self, asserted: Asserted, question: &Question) -> Result<Asserted, String> {
        let Self { off, read_only, groups, denied_namespaces, no_secrets } = self;
        if *off {
            return Err(refusal("it lets nobody through"));
        }
        let mut asserted = asserted;
        if let Some(allowed) = groups {
            asserted.groups.retain(|group| allowed.contains(group));
            if asserted.groups.is_empty() {
                return Err(refusal(&format!(
                    "only members of these groups come through: {}",
                    allowed.join(", ")
                )));
            }
        }
        if *read_only && !question.is_read() {
            return Err(refusal("it is read-only"));
        }
        if *no_secrets {
            let mints = question.resource == "serviceaccounts" && question.subresource == "token";
            if question.group.is_empty() && (question.resource == "secrets" || mints) {
                return Err(refusal("no Secret passes through it"));
            }
        }
        if !denied_namespaces.is_empty() {
            if denied_namespaces.contains(&question.namespace) {
                return Err(refusal(&format!("namespace {:?} is out of reach", question.namespace)));
            }
            // Every namespace's objects at once would include theirs.
            if question.is_everywhere() && !CLUSTER_WIDE.contains(&question.resource.as_str()) {
                return Err(refusal(
                    "some namespaces are out of reach, and this concerns all of them: name a namespace",
                ));
            }
        }
        Ok(asserted)
    }
}

fn refusal(why: &str) -> String {
    format!("this cluster's agent refuses it by its own policy: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ada() -> Asserted {
        Asserted {
            user: "ada@example.com".into(),
            groups: vec!["ops".into(), "dev".into()],
            ..Asserted::default()
        }
    }

    fn judge(policy: &ProxyPolicy, method: &str, target: &str) -> Result<Asserted, String> {
        policy.judge(ada(), &Question::parse(method, target, false))
    }

    #[test]
    fn without_rules_kubernetes_decides() {
        let policy = ProxyPolicy::default();
        assert_eq!(judge(&policy, "DELETE", "/api/v1/namespaces/kube-system/secrets/a"), Ok(ada()));
    }

    #[test]
    fn only_some_groups() {
        let policy = ProxyPolicy { groups: Some(vec!["ops".into(), "sre".into()]), ..ProxyPolicy::default() };
        assert_eq!(judge(&policy, "GET", "/api/v1/pods").unwrap().groups, ["ops"]);
        let policy = ProxyPolicy { groups: Some(vec!["sre".into()]), ..ProxyPolicy::default() };
        assert!(judge(&policy, "GET", "/version").unwrap_err().contains("sre"));
    }

    #[test]
    fn read_only() {
        let policy = ProxyPolicy { read_only: true, ..ProxyPolicy::default() };
        assert!(judge(&policy, "GET", "/api/v1/pods?watch=true").is_ok());
        for (method, target) in [
            ("POST", "/api/v1/namespaces/a/pods"),
            ("PATCH", "/api/v1/namespaces/a/pods/p?dryRun=All"),
            ("GET", "/api/v1/namespaces/a/pods/p/exec?command=sh"),
            ("DELETE", "/api/v1/namespaces/a"),
        ] {
            assert!(judge(&policy, method, target).is_err(), "{method} {target}");
        }
    }

    #[test]
    fn no_secrets_however_they_are_named() {
        let policy = ProxyPolicy { no_secrets: true, ..ProxyPolicy::default() };
        for target in [
            "/api/v1/secrets",
            "/api/v1/namespaces/a/secrets/s",
            "/api/v1/namespaces/a/%73%65crets",
            "/api/v1/watch/namespaces/a/secrets",
            "/api/v1/namespaces/a/serviceaccounts/x/token",
        ] {
            assert!(judge(&policy, "GET", target).is_err(), "{target}");
        }
        assert!(judge(&policy, "GET", "/api/v1/namespaces/a/configmaps").is_ok());
        assert!(judge(&policy, "GET", "/apis/example.com/v1/secrets").is_ok());
    }

    #[test]
    fn some_namespaces_are_out_of_reach() {
        let policy = ProxyPolicy { denied_namespaces: vec!["kube-system".into()], ..ProxyPolicy::default() };
        for target in [
            "/api/v1/namespaces/kube-system/pods",
            "/api/v1/namespaces/kube%2Dsystem/pods",
            "/api/v1/namespaces/kube-system",
            "/api/v1/pods",
            "/apis/apps/v1/deployments?watch=1",
            "/apis/example.com/v1/things",
        ] {
            assert!(judge(&policy, "GET", target).is_err(), "{target}");
        }
        for target in
            ["/api/v1/namespaces/a/pods", "/api/v1/nodes", "/api/v1/namespaces", "/apis/apps/v1", "/version"]
        {
            assert!(judge(&policy, "GET", target).is_ok(), "{target}");
        }
    }

    #[test]
    fn cluster_wide_resources_are_in_order() {
        assert!(CLUSTER_WIDE.is_sorted());
    }
}
