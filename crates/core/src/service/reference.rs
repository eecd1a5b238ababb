//! A value of a configuration that is read in the service's cluster, by its agent and by nobody else.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::name::KubeName;
use crate::pattern::matches;
use crate::project_limits::ProjectLimits;

/// Where a value is in the service's cluster. It is no secret; what it leads to may be one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reference {
    /// A key of a Secret.
    SecretKeyRef(KeyRef),
    /// A key of a ConfigMap.
    ConfigMapKeyRef(KeyRef),
}

/// A key of an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRef {
    /// Name of the object.
    pub name: String,
    /// The key in its data.
    pub key: String,
    /// Its namespace, where that is not the service's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

impl Reference {
    /// What it names.
    pub fn key_ref(&self) -> &KeyRef {
        match self {
            Self::SecretKeyRef(key) | Self::ConfigMapKeyRef(key) => key,
        }
    }

    /// The kind of the object.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::SecretKeyRef(_) => "Secret",
            Self::ConfigMapKeyRef(_) => "ConfigMap",
        }
    }

    /// The namespace of the object, for a service of `own`.
    pub fn namespace<'a>(&'a self, own: &'a str) -> &'a str {
        self.key_ref().namespace.as_deref().unwrap_or(own)
    }

    /// Why it can name nothing, if so.
    pub(crate) fn problem(&self) -> Option<String> {
        let KeyRef { name, key, namespace } = self.key_ref();
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
        let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        if name.len() > 253
            || !name.starts_with(is_end)
            || !name.ends_with(is_end)
            || !name.chars().all(is_name)
        {
            return Some(format!("must name a {}: {name:?} cannot be one's name", self.kind()));
        }
        let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if key.is_empty() || key.len() > 253 || !key.chars().all(is_key) || matches!(key.as_str(), "." | "..")
        {
            return Some(format!("must name a key of the {}: {key:?} cannot be one", self.kind()));
        }
        let namespace = namespace.as_ref().filter(|namespace| namespace.parse::<KubeName>().is_err())?;
        Some(format!("must name a namespace: {namespace:?} cannot be one's name"))
    }

    /// Why a service of namespace `own` may not refer to this, if so: console and agent decide by this one rule.
    pub fn refusal(&self, own: &str, limits: Option<(&str, &ProjectLimits)>) -> Option<String> {
        if let Some(problem) = self.problem() {
            return Some(format!("a reference {problem}"));
        }
        let namespace = self.namespace(own);
        if namespace == own {
            return None;
        }
        let named = |(_, limits): &(&str, &ProjectLimits)| {
            limits.reference_namespaces.iter().any(|pattern| matches(pattern, namespace))
        };
        if limits.as_ref().is_some_and(named) {
            return None;
        }
        let who =
            limits.map_or_else(|| "the project".to_owned(), |(project, _)| format!("project {project}"));
        Some(format!(
            "the service may not read {} {namespace}/{}, which is not of its namespace {own}: administrators of {who} can \
             name namespace {namespace} in the limit referenceNamespaces",
            self.kind(),
            self.key_ref().name
        ))
    }
}

/// As the command line writes it, `secret:[NAMESPACE/]NAME#KEY`; also what stands for the value where nobody can read it.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KeyRef { name, key, namespace } = self.key_ref();
        f.write_str(match self {
            Self::SecretKeyRef(_) => "secret:",
            Self::ConfigMapKeyRef(_) => "configmap:",
        })?;
        if let Some(namespace) = namespace {
            write!(f, "{namespace}/")?;
        }
        write!(f, "{name}#{key}")
    }
}

impl FromStr for Reference {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shape =
            || format!("{text:?} must be secret:[NAMESPACE/]NAME#KEY or configmap:[NAMESPACE/]NAME#KEY");
        let (kind, place) = text.split_once(':').ok_or_else(shape)?;
        let (object, key) = place.split_once('#').ok_or_else(shape)?;
        let (namespace, name) = match object.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, object),
        };
        let key = KeyRef { name: name.to_owned(), key: key.to_owned(), namespace };
        let reference = match kind {
            "secret" => Self::SecretKeyRef(key),
            "configmap" => Self::ConfigMapKeyRef(key),
            _ => return Err(shape()),
        };
        match reference.problem() {
            Some(problem) => Err(format!("{text:?} {problem}")),
            None => Ok(reference),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        for text in ["secret:db#password", "secret:shared/db.main#tls.crt", "configmap:site#DOMAIN"] {
            assert_eq!(text.parse::<Reference>().unwrap().to_string(), text);
        }
        for text in [
            "db#password",
            "secret:db",
            "secret:#key",
            "secret:db#",
            "vault:db#key",
            "secret:a/b/c#key",
            "secret:/db#key",
            "secret:DB#key",
            "secret:db#a/b",
            "secret:db#..",
            "secret:..#key",
            "secret:a%2fb#key",
            "secret:A/db#key",
        ] {
            assert!(text.parse::<Reference>().is_err(), "{text}");
        }
    }

    #[test]
    fn another_namespace_needs_the_limit() {
        let limits =
            ProjectLimits { reference_namespaces: vec!["shared-*".to_owned()], ..ProjectLimits::default() };
        let refused = |text: &str, limits| text.parse::<Reference>().unwrap().refusal("blue", limits);
        assert_eq!(refused("secret:db#a", None), None);
        assert_eq!(refused("secret:blue/db#a", None), None);
        assert_eq!(refused("secret:shared-1/db#a", Some(("shop", &limits))), None);
        for limits in [None, Some(("shop", &ProjectLimits::default())), Some(("shop", &limits))] {
            let told = refused("secret:red/db#a", limits).unwrap();
            assert!(told.contains("Secret red/db") && told.contains("referenceNamespaces"), "{told}");
        }
    }
}
