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

/// Resources without a namespace that come with Kubernetes, by group: lists of them tell nothing of a namespace's objects.
/// Of another group, a resource of the same name may have namespaces.
const CLUSTER_WIDE: [(&str, &str); 35] = [
    ("", "componentstatuses"),
    ("", "namespaces"),
    ("", "nodes"),
    ("", "persistentvolumes"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("apiregistration.k8s.io", "apiservices"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("certificates.k8s.io", "certificatesigningrequests"),
    ("certificates.k8s.io", "clustertrustbundles"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("networking.k8s.io", "ingressclasses"),
    ("networking.k8s.io", "ipaddresses"),
    ("networking.k8s.io", "servicecidrs"),
    ("node.k8s.io", "runtimeclasses"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("resource.k8s.io", "deviceclasses"),
    ("resource.k8s.io", "resourceslices"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "storageclasses"),
    ("storage.k8s.io", "volumeattachments"),
    ("storage.k8s.io", "volumeattributesclasses"),
];

impl ProxyPolicy {
    /// Who may ask this, with what of their groups; else why not, for the person who asked.
    pub(crate) fn judge(&self, asserted: Asserted, question: &Question) -> Result<Asserted, String> {
        let Self { off, read_only, groups, denied_namespaces, no_secrets } = self;
        if *off {
            return Err(refusal("the proxy is disabled"));
        }
        let mut asserted = asserted;
        if let Some(allowed) = groups {
            asserted.groups.retain(|group| allowed.contains(group));
            if asserted.groups.is_empty() {
                return Err(refusal(&format!(
                    "only members of these groups may use the proxy: {}",
                    allowed.join(", ")
                )));
            }
        }
        if *read_only && !question.is_read() {
            return Err(refusal("the proxy is read-only"));
        }
        if *no_secrets {
            let mints = question.resource == "serviceaccounts" && question.subresource == "token";
            if question.group.is_empty() && (question.resource == "secrets" || mints) {
                return Err(refusal("Secrets are not served"));
            }
        }
        if !denied_namespaces.is_empty() {
            if denied_namespaces.contains(&question.namespace) {
                return Err(refusal(&format!("namespace {:?} is denied", question.namespace)));
            }
            // The kubelet tells of all Pods on the node, and reaches into them, whatever their namespaces.
            let is_node = question.group.is_empty() && question.resource == "nodes";
            if is_node && question.subresource == "proxy" {
                return Err(refusal(
                    "some namespaces are denied, and a node's proxy reaches Pods of all namespaces",
                ));
            }
            // Every namespace's objects at once would include theirs.
            let resource = (question.group.as_str(), question.resource.as_str());
            if question.is_everywhere() && !CLUSTER_WIDE.contains(&resource) {
                return Err(refusal(
                    "some namespaces are denied, and this request covers all of them; name a namespace",
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
            // Namespaced resources of others that are called as those of Kubernetes.
            "/apis/example.com/v1/nodes",
            "/apis/example.com/v1/namespaces",
            "/apis/rbac.example.com/v1/clusterroles?watch=1",
            "/apis/example.com/v1/watch/storageclasses",
            "/api/v1/storageclasses",
            "/api/v1/nodes/n/proxy/pods",
            "/api/v1/nodes/n/proxy",
            "/api/v1/nodes/n/pr%6Fxy/containerLogs/kube-system/p/c",
            "/api/v1/watch/nodes/n/proxy/",
        ] {
            assert!(judge(&policy, "GET", target).is_err(), "{target}");
        }
        for target in [
            "/api/v1/namespaces/a/pods",
            "/api/v1/namespaces/a/services/s/proxy/",
            "/api/v1/nodes",
            "/api/v1/nodes/n",
            "/api/v1/nodes/n/status",
            "/api/v1/namespaces",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            "/apis/storage.k8s.io/v1/storageclasses?watch=1",
            "/apis/apps/v1",
            "/version",
        ] {
            assert!(judge(&policy, "GET", target).is_ok(), "{target}");
        }
    }

    #[test]
    fn the_proxy_of_nodes_is_kubernetes_matter_where_all_namespaces_are_in_reach() {
        assert!(judge(&ProxyPolicy::default(), "GET", "/api/v1/nodes/n/proxy/pods").is_ok());
    }

    #[test]
    fn cluster_wide_resources_are_in_order() {
        assert!(CLUSTER_WIDE.is_sorted());
    }
}
