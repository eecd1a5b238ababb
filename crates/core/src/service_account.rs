//! Which ServiceAccount a service may act as.

use plural_specs::ServiceAccount;

use crate::pattern::matches;
use crate::project_limits::ProjectLimits;

/// Which account a service may act as. Console and agent decide by this one rule; only the agent knows its own namespace.
#[derive(Debug, Clone, Copy)]
pub struct AccountRule<'a> {
    /// Namespace of the service.
    pub own_namespace: &'a str,
    /// The agent's, where it is known.
    pub agent_namespace: Option<&'a str>,
    /// The service's project and its limits, where it has any.
    pub limits: Option<(&'a str, &'a ProjectLimits)>,
}

impl AccountRule<'_> {
    /// Why a service may not act as `account` (as itself when absent), if it may not.
    pub fn problem(&self, account: Option<&str>) -> Option<String> {
        let Self { own_namespace, agent_namespace, limits } = *self;
        let Some(text) = account.filter(|account| !account.is_empty()) else {
            return limits.filter(|(_, limits)| limits.require_service_account).map(|(project, _)| {
                format!(
                    "project {project} requires a service account: name one of namespace {own_namespace} in \
                     syncConfig.serviceAccount (limit requireServiceAccount)"
                )
            });
        };
        let Ok(account) = ServiceAccount::parse(text, own_namespace) else {
            return Some(format!("{text:?} is not a service account: write NAME or NAMESPACE/NAME"));
        };
        let ServiceAccount { namespace, name } = &account;
        if account.is_of_kubernetes() {
            return Some(format!(
                "service accounts in namespace {namespace} are reserved for Kubernetes; create one in \
                 namespace {own_namespace} with the permissions the service needs"
            ));
        }
        if agent_namespace == Some(namespace.as_str()) {
            return Some(format!(
                "service accounts in namespace {namespace} are reserved for the agent; create one in \
                 namespace {own_namespace} with the permissions the service needs"
            ));
        }
        let full = format!("{namespace}/{name}");
        let named = limits.is_some_and(|(_, limits)| limits.service_accounts.contains(&full));
        if named {
            return None;
        }
        if namespace != own_namespace {
            let who =
                limits.map_or_else(|| "the project".to_owned(), |(project, _)| format!("project {project}"));
            return Some(format!(
                "the service may not act as service account {full}, which is not of its namespace {own_namespace}: \
                 administrators of {who} can name it in the limit serviceAccounts"
            ));
        }
        let (project, limits) = limits?;
        let within = limits.namespaces.is_empty()
            || limits.namespaces.iter().any(|pattern| matches(pattern, namespace));
        (!within).then(|| {
            format!(
                "the service may not act as service account {full}: project {project} does not reach namespace \
                 {namespace} (limit namespaces)"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(limits: Option<&ProjectLimits>, account: Option<&str>) -> Option<String> {
        let rule = AccountRule {
            own_namespace: "blue",
            agent_namespace: Some("plural-system"),
            limits: limits.map(|limits| ("shop", limits)),
        };
        rule.problem(account)
    }

    #[test]
    fn accounts_are_of_the_own_namespace_unless_named() {
        let limits = ProjectLimits {
            namespaces: vec!["blue".to_owned()],
            service_accounts: vec!["ci/deployer".to_owned(), "plural-system/agent".to_owned()],
            ..ProjectLimits::default()
        };
        for (account, expected) in [
            ("deployer", None),
            ("blue/deployer", None),
            ("ci/deployer", None),
            ("ci/other", Some("serviceAccounts")),
            ("ci/deployer2", Some("serviceAccounts")),
            ("blue-2/deployer", Some("serviceAccounts")),
            ("kube-system/generic-garbage-collector", Some("reserved for Kubernetes")),
            ("kube-public/x", Some("reserved for Kubernetes")),
            ("kube-node-lease/x", Some("reserved for Kubernetes")),
            // Not even where the limits name it.
            ("plural-system/agent", Some("reserved for the agent")),
            ("Kube-System/x", Some("is not a service account")),
            ("blue/", Some("is not a service account")),
            ("/deployer", Some("is not a service account")),
            ("a/b/c", Some("is not a service account")),
            ("blue/../kube-system/x", Some("is not a service account")),
            ("system:admin", Some("is not a service account")),
            ("kube-system:x", Some("is not a service account")),
        ] {
            let found = problem(Some(&limits), Some(account));
            match expected {
                None => assert_eq!(found, None, "{account}"),
                Some(words) => assert!(
                    found.as_deref().is_some_and(|found| found.contains(words)),
                    "{account}: {found:?}"
                ),
            }
        }
        // Without limits the same, and nobody is named.
        for (account, allowed) in
            [("deployer", true), ("ci/deployer", false), ("kube-system/x", false), ("plural-system/x", false)]
        {
            assert_eq!(problem(None, Some(account)).is_none(), allowed, "{account}");
        }
        let elsewhere = ProjectLimits { namespaces: vec!["red".to_owned()], ..ProjectLimits::default() };
        assert!(problem(Some(&elsewhere), Some("deployer")).unwrap().contains("limit namespaces"));
    }

    #[test]
    fn an_account_can_be_required() {
        let limits = ProjectLimits { require_service_account: true, ..ProjectLimits::default() };
        assert!(problem(Some(&limits), None).unwrap().contains("requireServiceAccount"));
        assert!(problem(Some(&limits), Some("")).is_some());
        assert_eq!(problem(Some(&limits), Some("deployer")), None);
        assert_eq!(problem(None, None), None);
        assert_eq!(problem(Some(&ProjectLimits::default()), None), None);
    }
}
