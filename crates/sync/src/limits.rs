//! What a service may reach on this cluster: what its project's limits leave, and never the agent's own namespace.

use plural_core::pattern::matches;
use plural_core::project_limits::ProjectLimits;
use plural_core::service_account::AccountRule;

use crate::{
    key::{GroupKind, ObjectKey},
    target::Target,
};

/// A project and its limits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// The project's name, for messages.
    pub project: String,
    /// What its services may touch.
    pub rules: ProjectLimits,
    /// Where this service is read from.
    pub repository_url: String,
    /// Where its chart is read from, if that is elsewhere.
    pub chart_url: Option<String>,
}

/// What one service may reach. Every door asks it: apply, plan, hooks, lookups, prune, destroy, promotion.
#[derive(Debug, Clone)]
pub struct Bounds {
    pub(crate) limits: Option<Limits>,
    pub(crate) namespace: String,
    service_account: Option<String>,
    /// The agent's namespace, unless the service is the agent's own upgrade.
    pub(crate) reserved: Option<String>,
    /// The service is its own namespace and nothing else.
    managed_namespace: bool,
}

impl Bounds {
    /// Those of a service on a cluster whose agent lives in `agent_namespace`.
    pub(crate) fn of(target: &Target, agent_namespace: &str) -> Self {
        Self {
            limits: target.limits.clone(),
            namespace: target.namespace.clone(),
            service_account: target.config.service_account.clone().filter(|account| !account.is_empty()),
            reserved: (!target.agent_upgrade).then(|| agent_namespace.to_owned()),
            managed_namespace: target.keeps_found_namespace,
        }
    }

    /// Why nothing of the service may be done, if nothing may.
    pub fn refusal(&self) -> Option<String> {
        self.source_problem().or_else(|| self.account_problem())
    }

    fn source_problem(&self) -> Option<String> {
        let Limits { project, rules, repository_url, chart_url } = self.limits.as_ref()?;
        let urls = chart_url.iter().chain([repository_url]).map(String::as_str);
        let url = rules.refused_source(urls)?;
        Some(format!("project {project} may not be read from {url} (limit repositories)"))
    }

    /// Why the service may not act as the account that it names, or without one.
    pub(crate) fn account_problem(&self) -> Option<String> {
        if self.managed_namespace {
            // The agent makes its objects, not the tenant: they are a namespace and its default account.
            return None;
        }
        let rule = AccountRule {
            own_namespace: &self.namespace,
            agent_namespace: self.reserved.as_deref(),
            limits: self.limits.as_ref().map(|limits| (limits.project.as_str(), &limits.rules)),
        };
        rule.problem(self.service_account.as_deref())
    }

    /// Why the object is out of reach, if it is.
    pub(crate) fn problem(&self, key: &ObjectKey) -> Option<String> {
        let namespaced = !key.namespace.is_empty();
        // A Namespace object is that namespace.
        let namespace = if key.kind.is("", "Namespace") { &key.name } else { &key.namespace };
        let problem =
            self.kind_problem(&key.kind, namespaced).or_else(|| self.namespace_problem(namespace))?;
        Some(format!("{}: {problem}", key.words()))
    }

    /// Why no object of the kind may be touched, if none may.
    pub(crate) fn kind_problem(&self, kind: &GroupKind, namespaced: bool) -> Option<String> {
        let Limits { project, rules, .. } = self.limits.as_ref()?;
        let full = format!("{}/{}", kind.group, kind.kind);
        // No cluster has two kinds that differ by case only, and a limit that is written wrongly must not be none.
        let lower = full.to_ascii_lowercase();
        if rules.denied_kinds.iter().any(|pattern| matches(&pattern.to_ascii_lowercase(), &lower)) {
            return Some(format!("project {project} denies the kind {full} (limit deniedKinds)"));
        }
        let allowed = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, &full));
        if !namespaced {
            let own = self.managed_namespace && kind.is("", "Namespace");
            // Before there were cluster kinds, naming one in full among the allowed kinds said the same.
            if own || allowed(&rules.cluster_kinds) || rules.allowed_kinds.contains(&full) {
                return None;
            }
            let ProjectLimits { namespaces, cluster_kinds, no_cluster_scoped, .. } = rules;
            if *no_cluster_scoped || !namespaces.is_empty() || !cluster_kinds.is_empty() {
                return Some(format!(
                    "project {project} allows no object outside of namespaces, unless its limit clusterKinds names {full}"
                ));
            }
        }
        if !rules.allowed_kinds.is_empty() && !allowed(&rules.allowed_kinds) {
            return Some(format!("project {project} does not allow the kind {full} (limit allowedKinds)"));
        }
        None
    }

    /// Why a namespace is out of reach, if it is.
    pub(crate) fn namespace_problem(&self, namespace: &str) -> Option<String> {
        if namespace.is_empty() {
            return None;
        }
        if self.reserved.as_deref() == Some(namespace) {
            return Some(format!(
                "namespace {namespace} is the agent's own: only a service reaches it that an administrator of the \
                 installation marked as the agent's upgrade"
            ));
        }
        let Limits { project, rules, .. } = self.limits.as_ref()?;
        if rules.namespaces.is_empty() || rules.namespaces.iter().any(|pattern| matches(pattern, namespace)) {
            return None;
        }
        Some(format!("project {project} may not write to namespace {namespace} (limit namespaces)"))
    }

    /// Whether templates may learn of an object. `namespace` is empty for what belongs to none.
    ///
    /// Whoever has no account asks with the agent's rights, which reach everywhere: then only its own namespace is seen.
    pub fn reads(&self, kind: &GroupKind, namespace: &str, name: &str) -> bool {
        let key = ObjectKey { kind: kind.clone(), namespace: namespace.to_owned(), name: name.to_owned() };
        let elsewhere =
            self.service_account.is_none() && !namespace.is_empty() && namespace != self.namespace;
        !elsewhere && self.problem(&key).is_none()
    }

    /// Whether templates may ask for lists of a kind; what is in them is looked at one by one.
    pub fn lists(&self, kind: &GroupKind, namespaced: bool) -> bool {
        // Over all namespaces only with an account: its rights decide.
        self.kind_problem(kind, namespaced).is_none()
    }
}

#[cfg(test)]
mod tests {
    use plural_core::ids::ServiceId;

    use super::*;

    fn bounds(limits: Option<Limits>) -> Bounds {
        let target = Target { limits, ..Target::new(ServiceId::new(), "shop", "blue-1") };
        Bounds::of(&target, "plural-system")
    }

    #[expect(clippy::unnecessary_wraps, reason = "a target has limits or has none")]
    fn rules(change: impl FnOnce(&mut ProjectLimits)) -> Option<Limits> {
        let mut rules = ProjectLimits { namespaces: vec!["blue-*".to_owned()], ..ProjectLimits::default() };
        change(&mut rules);
        Some(Limits { project: "blue".to_owned(), rules, ..Limits::default() })
    }

    #[track_caller]
    fn check(bounds: &Bounds, key: &str, refused: Option<&str>) {
        let problem = bounds.problem(&key.parse().unwrap());
        match refused {
            None => assert_eq!(problem, None, "{key}"),
            Some(words) => {
                assert!(problem.as_ref().is_some_and(|found| found.contains(words)), "{key}: {problem:?}");
            }
        }
    }

    #[test]
    fn limits_name_what_they_refuse() {
        let limited =
            bounds(rules(|rules| rules.denied_kinds = vec!["/secret".to_owned(), "rbac.*/*".to_owned()]));
        for (key, refused) in [
            ("/ConfigMap/blue-1/a", None),
            ("/ConfigMap/red/a", Some("may not write to namespace red")),
            ("/ConfigMap/blue/a", Some("may not write to namespace blue")),
            ("/Secret/blue-1/a", Some("denies the kind /Secret")),
            ("rbac.authorization.k8s.io/Role/blue-1/a", Some("denies the kind")),
            ("/Namespace//blue-2", Some("clusterKinds names /Namespace")),
            ("example.org/Widget//w", Some("clusterKinds names example.org/Widget")),
            ("/ConfigMap/plural-system/a", Some("the agent's own")),
        ] {
            check(&limited, key, refused);
        }
        let named = bounds(rules(|rules| {
            rules.cluster_kinds = vec!["/Namespace".to_owned(), "example.org/*".to_owned()];
            rules.allowed_kinds = vec!["*/ConfigMap".to_owned(), "storage.k8s.io/StorageClass".to_owned()];
        }));
        for (key, refused) in [
            ("/Namespace//blue-2", None),
            ("/Namespace//red", Some("may not write to namespace red")),
            ("/Namespace//plural-system", Some("the agent's own")),
            ("example.org/Widget//w", None),
            ("storage.k8s.io/StorageClass//fast", None),
            ("/Node//n", Some("clusterKinds")),
            ("apps/Deployment/blue-1/a", Some("does not allow")),
        ] {
            check(&named, key, refused);
        }
        // What is denied is denied wherever else it is named.
        let both = bounds(rules(|rules| {
            rules.cluster_kinds = vec!["*".to_owned()];
            rules.denied_kinds = vec!["rbac.authorization.k8s.io/*".to_owned()];
        }));
        check(&both, "rbac.authorization.k8s.io/ClusterRole//admin", Some("denies"));
        check(&both, "/PersistentVolume//v", None);
    }

    #[test]
    fn without_limits_only_the_agents_namespace_is_out_of_reach() {
        let free = bounds(None);
        for (key, refused) in [
            ("/Secret/kube-system/a", None),
            ("rbac.authorization.k8s.io/ClusterRole//admin", None),
            ("/Namespace//red", None),
            ("/Namespace//plural-system", Some("the agent's own")),
            ("/ConfigMap/plural-system/plural-inventory-x", Some("the agent's own")),
            ("/ConfigMap/plural-system-2/a", None),
        ] {
            check(&free, key, refused);
        }
        assert!(free.namespace_problem("plural-system").is_some());
        let target =
            Target { agent_upgrade: true, ..Target::new(ServiceId::new(), "agent", "plural-system") };
        let upgrade = Bounds::of(&target, "plural-system");
        check(&upgrade, "apps/Deployment/plural-system/plural-agent", None);
        check(&upgrade, "/Namespace//plural-system", None);
    }

    #[test]
    fn only_a_managed_namespace_makes_its_namespace_unasked() {
        let limits = rules(|rules| rules.require_service_account = true);
        let target = Target {
            limits: limits.clone(),
            keeps_found_namespace: true,
            ..Target::new(ServiceId::new(), "blue-1", "blue-1")
        };
        let managed = Bounds::of(&target, "plural-system");
        check(&managed, "/Namespace//blue-1", None);
        check(&managed, "/Namespace//red", Some("may not write"));
        assert_eq!(managed.refusal(), None);
        assert!(bounds(limits).refusal().unwrap().contains("requires a service account"));
    }

    #[test]
    fn lookups_stay_within() {
        let kind = |text: &str| text.parse::<ObjectKey>().unwrap().kind;
        let secret = kind("/Secret//x");
        let limited = rules(|rules| rules.denied_kinds = vec!["/Secret".to_owned()]);
        let with_account = |limits: Option<Limits>| {
            let mut target = Target { limits, ..Target::new(ServiceId::new(), "shop", "blue-1") };
            target.config.service_account = Some("deployer".to_owned());
            Bounds::of(&target, "plural-system")
        };
        let account = with_account(limited.clone());
        for (name, bounds, namespace, expected) in [
            ("limited, no account", bounds(limited), "blue-1", [false, true]),
            ("limited", account.clone(), "blue-1", [false, true]),
            ("limited, other namespace within", account.clone(), "blue-2", [false, true]),
            ("limited, other namespace", account, "red", [false, false]),
            ("free, no account", bounds(None), "red", [false, false]),
            ("free, own namespace", bounds(None), "blue-1", [true, true]),
            ("free, account", with_account(None), "red", [true, true]),
            ("free, agent's", with_account(None), "plural-system", [false, false]),
        ] {
            let seen = [&secret, &kind("/ConfigMap//x")].map(|kind| bounds.reads(kind, namespace, "x"));
            assert_eq!(seen, expected, "{name}");
        }
        let node = kind("/Node//x");
        assert!(!with_account(rules(|_| ())).reads(&node, "", "n"));
        assert!(!with_account(rules(|_| ())).lists(&node, false));
        assert!(with_account(None).reads(&node, "", "n"));
    }
}
