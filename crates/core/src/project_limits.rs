//! What the services of a project may touch.

use plural_specs::ServiceAccount;
use serde::{Deserialize, Serialize};

use crate::address_pattern::{AddressPattern, address_allowed};
use crate::error::{Error, Result};
use crate::name::KubeName;
use crate::run_limits::RunLimits;

/// Entries of one list at most.
const MAX_ENTRIES: usize = 200;

/// What the services of a project may touch. In all patterns `*` stands for any run of characters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProjectLimits {
    /// Namespaces that may be written to; empty: all.
    pub namespaces: Vec<String>,
    /// `group/Kind`, `/Kind` of the core group; empty: all that is not denied.
    pub allowed_kinds: Vec<String>,
    /// Kinds that may not be written, whatever else is said.
    pub denied_kinds: Vec<String>,
    /// Objects of no namespace may not be written, except kinds that `cluster_kinds` names. So it is wherever
    /// `namespaces` or `cluster_kinds` says something.
    pub no_cluster_scoped: bool,
    /// Kinds of objects of no namespace that may be written all the same.
    pub cluster_kinds: Vec<String>,
    /// Where services may be read from: URLs of git repositories and of charts; empty: anywhere.
    pub repositories: Vec<String>,
    /// `NAMESPACE/NAME` of the ServiceAccounts that services may act as, besides those of their own namespaces.
    pub service_accounts: Vec<String>,
    /// Every service acts as a ServiceAccount: none has the agent's rights.
    pub require_service_account: bool,
    /// Name of the ServiceAccount that a service acts as which names none: the one in the service's own namespace.
    pub default_service_account: Option<String>,
    /// Namespaces whose Secrets and ConfigMaps the configuration of services may refer to, besides each service's own.
    pub reference_namespaces: Vec<String>,
    /// What the runs of its stacks may be.
    pub runs: RunLimits,
}

impl ProjectLimits {
    /// Checks the lists.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a pattern that can match nothing, or too many of them.
    pub fn check(&self) -> Result<()> {
        let Self {
            namespaces,
            allowed_kinds,
            denied_kinds,
            no_cluster_scoped: _,
            cluster_kinds,
            repositories,
            service_accounts,
            require_service_account: _,
            default_service_account,
            reference_namespaces,
            runs,
        } = self;
        runs.check()?;
        for (field, list) in [
            ("limits.namespaces", namespaces),
            ("limits.allowedKinds", allowed_kinds),
            ("limits.deniedKinds", denied_kinds),
            ("limits.clusterKinds", cluster_kinds),
            ("limits.repositories", repositories),
            ("limits.serviceAccounts", service_accounts),
            ("limits.referenceNamespaces", reference_namespaces),
        ] {
            if list.len() > MAX_ENTRIES {
                return Err(Error::invalid(field, format!("at most {MAX_ENTRIES} are allowed")));
            }
            if list.iter().any(|text| {
                text.is_empty()
                    || text.len() > 1024
                    || text.chars().any(|c| c.is_control() || c.is_whitespace())
            }) {
                return Err(Error::invalid(field, "each must be a name or a pattern such as shop-*"));
            }
        }
        let odd = |c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || "-*".contains(c));
        for (field, list) in
            [("limits.namespaces", namespaces), ("limits.referenceNamespaces", reference_namespaces)]
        {
            if let Some(namespace) = list.iter().find(|namespace| namespace.contains(odd)) {
                return Err(Error::invalid(
                    field,
                    format!(
                        "{namespace:?} cannot match a namespace: use lower-case letters, digits, \"-\" and \"*\""
                    ),
                ));
            }
        }
        for (field, kinds) in [
            ("limits.allowedKinds", allowed_kinds),
            ("limits.deniedKinds", denied_kinds),
            ("limits.clusterKinds", cluster_kinds),
        ] {
            if let Some(kind) = kinds.iter().find(|kind| !kind.contains('/') && *kind != "*") {
                return Err(Error::invalid(
                    field,
                    format!(
                        "{kind:?} must be GROUP/KIND, or /KIND for the core group: apps/Deployment, /Secret"
                    ),
                ));
            }
        }
        for pattern in repositories {
            if let Err(error) = pattern.parse::<AddressPattern>() {
                return Err(Error::invalid("limits.repositories", format!("{pattern:?} {error}")));
            }
        }
        for account in service_accounts {
            let parsed = account.contains('/').then(|| ServiceAccount::parse(account, ""));
            match parsed {
                Some(Ok(account)) if account.is_of_kubernetes() => {
                    return Err(Error::invalid(
                        "limits.serviceAccounts",
                        format!(
                            "accounts of namespace {} are reserved for Kubernetes: services cannot act as \
                             one",
                            account.namespace
                        ),
                    ));
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => {
                    return Err(Error::invalid(
                        "limits.serviceAccounts",
                        format!("{account:?} must be NAMESPACE/NAME of one ServiceAccount, without patterns"),
                    ));
                }
            }
        }
        if default_service_account.as_ref().is_some_and(|name| name.parse::<KubeName>().is_err()) {
            return Err(Error::invalid(
                "limits.defaultServiceAccount",
                "must be the name of a ServiceAccount in each service's own namespace",
            ));
        }
        Ok(())
    }

    /// What its runs may be: in the namespaces of its services, where nothing else is said of theirs.
    pub fn of_runs(&self) -> RunLimits {
        let mut runs = self.runs.clone();
        if runs.namespaces.is_empty() {
            runs.namespaces.clone_from(&self.namespaces);
        }
        runs
    }

    /// They limit nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The account that a service acts as which asks for `account`.
    pub fn account_of(&self, account: Option<String>) -> Option<String> {
        account.or_else(|| self.default_service_account.clone())
    }

    /// The first of these places that a service may not be read from.
    pub fn refused_source<'u>(&self, urls: impl IntoIterator<Item = &'u str>) -> Option<&'u str> {
        urls.into_iter().find(|url| !Self::source_allowed(&self.repositories, url))
    }

    /// Whether something may be read from an address where these patterns say from where; all may where none say it.
    pub fn source_allowed(repositories: &[String], address: &str) -> bool {
        address_allowed(repositories, address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_checked() {
        let kinds =
            |kind: &str| ProjectLimits { denied_kinds: vec![kind.to_owned()], ..ProjectLimits::default() };
        kinds("/Secret").check().unwrap();
        kinds("rbac.authorization.k8s.io/*").check().unwrap();
        assert!(kinds("Secret").check().is_err());
        assert!(kinds("").check().is_err());
        let limits =
            ProjectLimits { repositories: vec!["https://a/*".to_owned()], ..ProjectLimits::default() };
        assert_eq!(limits.refused_source(["https://a/b", "https://c"]), Some("https://c"));
        assert_eq!(ProjectLimits::default().refused_source(["x"]), None);
        assert!(ProjectLimits::default().is_empty());
        for (account, good) in [
            ("ci/deployer", true),
            ("deployer", false),
            ("ci/*", false),
            ("*/deployer", false),
            ("ci/", false),
            ("kube-system/default", false),
        ] {
            let limits =
                ProjectLimits { service_accounts: vec![account.to_owned()], ..ProjectLimits::default() };
            assert_eq!(limits.check().is_ok(), good, "{account}");
        }
        for (namespace, good) in [
            ("shop-*", true),
            ("*", true),
            ("Shop", false),
            ("shop/x", false),
            ("shop.x", false),
            ("", false),
        ] {
            let limits = ProjectLimits { namespaces: vec![namespace.to_owned()], ..ProjectLimits::default() };
            assert_eq!(limits.check().is_ok(), good, "{namespace}");
        }
        for (pattern, good) in [
            ("https://git.example.com/shop/*", true),
            ("oci://registry.example.com/charts/*", true),
            ("*", true),
            ("https://git.example.com/shop/../*", false),
            ("git.example.com", false),
        ] {
            let limits = ProjectLimits { repositories: vec![pattern.to_owned()], ..ProjectLimits::default() };
            assert_eq!(limits.check().is_ok(), good, "{pattern}");
        }
        let default = |name: &str| ProjectLimits {
            default_service_account: Some(name.to_owned()),
            ..ProjectLimits::default()
        };
        default("deployer").check().unwrap();
        assert!(default("ci/deployer").check().is_err());
        assert!(default("").check().is_err());
    }
}
