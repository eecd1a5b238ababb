//! What a service's project may touch, checked on every object that is about to be applied.

use crate::{
    key::{GroupKind, ObjectKey},
    normalize::matches,
};

/// The limits of a project. An empty list of what is allowed allows all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Its name, for messages.
    pub project: String,
    /// Patterns of namespaces that may be written to; `*` stands for any run of characters.
    pub namespaces: Vec<String>,
    /// Patterns of `group/Kind` (`/Secret` for the core group) that may be written.
    pub allowed_kinds: Vec<String>,
    /// Those that may not, whatever else is said.
    pub denied_kinds: Vec<String>,
    /// Objects of no namespace may not be written, unless their kind is allowed by its full name.
    pub no_cluster_scoped: bool,
    /// Patterns of repositories that a service may be read from.
    pub repositories: Vec<String>,
    /// Where this service is read from.
    pub repository_url: String,
}

impl Limits {
    /// Why the service may not be applied at all, if it may not.
    pub(crate) fn source_problem(&self) -> Option<String> {
        if self.repositories.is_empty()
            || self.repositories.iter().any(|pattern| matches(pattern, &self.repository_url))
        {
            return None;
        }
        Some(format!("project {} may not be read from {}", self.project, self.repository_url))
    }

    /// Why the object may not be applied, if it may not.
    pub(crate) fn problem(&self, key: &ObjectKey) -> Option<String> {
        let Self { project, namespaces, allowed_kinds, denied_kinds, no_cluster_scoped, .. } = self;
        let GroupKind { group, kind } = &key.kind;
        let full = format!("{group}/{kind}");
        let words = key.words();
        if denied_kinds.iter().any(|pattern| matches(pattern, &full)) {
            return Some(format!("{words}: project {project} denies the kind {full}"));
        }
        if !allowed_kinds.is_empty() && !allowed_kinds.iter().any(|pattern| matches(pattern, &full)) {
            return Some(format!("{words}: project {project} does not allow the kind {full}"));
        }
        if key.namespace.is_empty() {
            if *no_cluster_scoped && !allowed_kinds.contains(&full) {
                return Some(format!("{words}: project {project} allows no object outside of namespaces"));
            }
            // A Namespace object is that namespace.
            let within =
                namespaces.is_empty() || namespaces.iter().any(|pattern| matches(pattern, &key.name));
            if key.kind.is("", "Namespace") && !within {
                return Some(format!("{words}: project {project} may not write to namespace {}", key.name));
            }
            return None;
        }
        if !namespaces.is_empty() && !namespaces.iter().any(|pattern| matches(pattern, &key.namespace)) {
            return Some(format!("{words}: project {project} may not write to namespace {}", key.namespace));
        }
        None
    }

    /// Why the service's own namespace may not be created or decorated, if it may not.
    pub(crate) fn namespace_problem(&self, namespace: &str) -> Option<String> {
        if self.namespaces.is_empty() || self.namespaces.iter().any(|pattern| matches(pattern, namespace)) {
            return None;
        }
        Some(format!("project {} may not write to namespace {namespace}", self.project))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_name_what_they_refuse() {
        let limits = Limits {
            project: "blue".to_owned(),
            namespaces: vec!["blue-*".to_owned()],
            denied_kinds: vec!["/Secret".to_owned(), "rbac.*/*".to_owned()],
            no_cluster_scoped: true,
            repositories: vec!["https://git.example.org/blue/*".to_owned()],
            repository_url: "https://git.example.org/red/app".to_owned(),
            ..Limits::default()
        };
        for (key, refused) in [
            ("/ConfigMap/blue-1/a", None),
            ("/ConfigMap/red/a", Some("may not write to namespace red")),
            ("/Secret/blue-1/a", Some("denies the kind /Secret")),
            ("rbac.authorization.k8s.io/Role/blue-1/a", Some("denies the kind")),
            ("/Namespace//blue-2", Some("no object outside of namespaces")),
        ] {
            let problem = limits.problem(&key.parse().unwrap());
            match refused {
                None => assert_eq!(problem, None, "{key}"),
                Some(words) => assert!(problem.unwrap().contains(words), "{key}"),
            }
        }
        assert!(limits.source_problem().unwrap().contains("red/app"));
        let named = Limits {
            allowed_kinds: vec!["/Namespace".to_owned(), "*/ConfigMap".to_owned()],
            denied_kinds: Vec::new(),
            ..limits
        };
        assert_eq!(named.problem(&"/Namespace//blue-2".parse().unwrap()), None);
        assert!(named.problem(&"/Namespace//red".parse().unwrap()).is_some());
        assert!(
            named.problem(&"apps/Deployment/blue-1/a".parse().unwrap()).unwrap().contains("does not allow")
        );
    }
}
