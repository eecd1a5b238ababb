//! Names of kinds and objects.

use std::{fmt, str::FromStr};

use serde_json::Value;

/// A kind of one API group; versions of a kind are one and the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKind {
    /// "" for the core group.
    pub group: String,
    /// "Deployment".
    pub kind: String,
}

impl GroupKind {
    /// The kind that `apiVersion` and `kind` name, and the version.
    pub fn parse(api_version: &str, kind: &str) -> (Self, String) {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        (Self { group: group.to_owned(), kind: kind.to_owned() }, version.to_owned())
    }

    pub(crate) fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.kind)
        } else {
            write!(f, "{}.{}", self.kind, self.group)
        }
    }
}

/// One object of a cluster. Written as `group/kind/namespace/name`; none of the parts may hold a slash.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Which kind.
    pub kind: GroupKind,
    /// "" for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectKey {
    /// How a person would call it: `Deployment shop/web`.
    pub fn words(&self) -> String {
        if self.namespace.is_empty() {
            format!("{} {}", self.kind, self.name)
        } else {
            format!("{} {}/{}", self.kind, self.namespace, self.name)
        }
    }

    /// The key of a live object of a known kind.
    pub(crate) fn of_live(kind: &GroupKind, object: &Value) -> Option<Self> {
        let metadata = &object["metadata"];
        Some(Self {
            kind: kind.clone(),
            namespace: metadata["namespace"].as_str().unwrap_or_default().to_owned(),
            name: metadata["name"].as_str()?.to_owned(),
        })
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.kind.group, self.kind.kind, self.namespace, self.name)
    }
}

impl FromStr for ObjectKey {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('/').map(str::to_owned);
        let (Some(group), Some(kind), Some(namespace), Some(name), None) =
            (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(());
        };
        if kind.is_empty() || name.is_empty() {
            return Err(());
        }
        Ok(Self { kind: GroupKind { group, kind }, namespace, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_back() {
        for text in ["/ConfigMap/ns/a", "rbac.authorization.k8s.io/ClusterRole//system:x|y"] {
            assert_eq!(text.parse::<ObjectKey>().unwrap().to_string(), text);
        }
        for text in ["", "a/b/c", "a/b/c/d/e", "g//ns/n", "g/K/ns/"] {
            assert!(text.parse::<ObjectKey>().is_err(), "{text}");
        }
    }
}
