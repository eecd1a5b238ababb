//! A value of a configuration that is read in the service's cluster, by its agent and by nobody else.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::name::KubeName;
use crate::pattern::matches;
use crate::project_limits::ProjectLimits;

/// Bytes of a path, and of a key in it, at most.
const LONGEST: usize = 512;

/// Where the agent of the service's cluster finds a value. It is no secret; what it leads to may be one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reference {
    /// A key of a Secret.
    SecretKeyRef(KeyRef),
    /// A key of a ConfigMap.
    ConfigMapKeyRef(KeyRef),
    /// A key of a secret in the Vault that the agent's operator names.
    VaultKeyRef(VaultKeyRef),
    /// A value of a file of the service that SOPS encrypted.
    SopsKeyRef(FileKeyRef),
    /// A file of the service that age encrypted, or a value of it.
    AgeKeyRef(FileKeyRef),
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

/// A key of a secret in Vault.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VaultKeyRef {
    /// The secret as `vault kv get` names it, with its mount first: `secret/shop/db`.
    pub path: String,
    /// The key in it.
    pub key: String,
}

/// A value in a file of the service's source.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileKeyRef {
    /// The file, from the service's folder.
    pub file: String,
    /// The value in it, as keys with dots between them; the whole file when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl Reference {
    /// The kind and key of the object of the cluster that it names; nothing where the value is elsewhere.
    pub const fn object(&self) -> Option<(&'static str, &KeyRef)> {
        match self {
            Self::SecretKeyRef(key) => Some(("Secret", key)),
            Self::ConfigMapKeyRef(key) => Some(("ConfigMap", key)),
            Self::VaultKeyRef(_) | Self::SopsKeyRef(_) | Self::AgeKeyRef(_) => None,
        }
    }

    /// What it leads to is to be hidden.
    pub const fn is_secret(&self) -> bool {
        !matches!(self, Self::ConfigMapKeyRef(_))
    }

    /// Why it can name nothing, if so.
    pub(crate) fn problem(&self) -> Option<String> {
        match self {
            Self::SecretKeyRef(key) => key.problem("Secret"),
            Self::ConfigMapKeyRef(key) => key.problem("ConfigMap"),
            Self::VaultKeyRef(key) => key.problem(),
            Self::SopsKeyRef(key) | Self::AgeKeyRef(key) => key.problem(),
        }
    }

    /// Why a service of namespace `own` may not refer to this, if so: console and agent decide by this one rule.
    pub fn refusal(&self, own: &str, limits: Option<(&str, &ProjectLimits)>) -> Option<String> {
        if let Some(problem) = self.problem() {
            return Some(format!("a reference {problem}"));
        }
        // Vault decides by the service's account, and a file is of the service itself.
        let (kind, key) = self.object()?;
        let namespace = key.namespace(own);
        let named = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, namespace));
        if limits.is_some_and(|(_, limits)| named(&limits.reference_namespaces)) {
            return None;
        }
        if namespace == own {
            // A service says itself which namespace is its own: where its project may not write, it does not read either.
            let outside =
                |limits: &ProjectLimits| !limits.namespaces.is_empty() && !named(&limits.namespaces);
            return limits.filter(|(_, limits)| outside(limits)).map(|(project, _)| {
                format!(
                    "the service may not read {kind} {namespace}/{}: the limit namespaces of project {project} has no namespace \
                     {namespace}",
                    key.name
                )
            });
        }
        let who =
            limits.map_or_else(|| "the project".to_owned(), |(project, _)| format!("project {project}"));
        Some(format!(
            "the service may not read {kind} {namespace}/{}, which is not of its namespace {own}: administrators of {who} can \
             name namespace {namespace} in the limit referenceNamespaces",
            key.name
        ))
    }
}

impl KeyRef {
    /// The namespace of the object, for a service of `own`.
    pub fn namespace<'a>(&'a self, own: &'a str) -> &'a str {
        self.namespace.as_deref().unwrap_or(own)
    }

    fn problem(&self, kind: &str) -> Option<String> {
        let Self { name, key, namespace } = self;
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
        let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        if name.len() > 253
            || !name.starts_with(is_end)
            || !name.ends_with(is_end)
            || !name.chars().all(is_name)
        {
            return Some(format!("must name a {kind}: {name:?} cannot be one's name"));
        }
        let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if key.is_empty() || key.len() > 253 || !key.chars().all(is_key) || matches!(key.as_str(), "." | "..")
        {
            return Some(format!("must name a key of the {kind}: {key:?} cannot be one"));
        }
        let namespace = namespace.as_ref().filter(|namespace| namespace.parse::<KubeName>().is_err())?;
        Some(format!("must name a namespace: {namespace:?} cannot be one's name"))
    }
}

impl VaultKeyRef {
    fn problem(&self) -> Option<String> {
        let Self { path, key } = self;
        if path.len() > LONGEST || !path.contains('/') || !path.split('/').all(is_segment) {
            return Some(format!(
                "must name a secret of Vault with its mount, such as secret/shop/db: {path:?} cannot be one"
            ));
        }
        (!is_text(key)).then(|| format!("must name a key of the secret: {key:?} cannot be one"))
    }
}

impl FileKeyRef {
    fn problem(&self) -> Option<String> {
        let Self { file, key } = self;
        if file.len() > LONGEST || !file.split('/').all(is_segment) {
            return Some(format!("must name a file of the service's folder: {file:?} cannot be one"));
        }
        let key = key.as_ref().filter(|key| !is_text(key))?;
        Some(format!("must name a value of the file: {key:?} cannot be one"))
    }
}

/// Part of a path that leads neither back nor to a query.
fn is_segment(part: &str) -> bool {
    is_text(part) && !matches!(part, "." | "..") && !part.contains(['#', '?', '%', '\\'])
}

fn is_text(text: &str) -> bool {
    !text.is_empty() && text.len() <= LONGEST && !text.chars().any(char::is_control)
}

/// As the command line writes it, `secret:[NAMESPACE/]NAME#KEY`; also what stands for the value where nobody can read it.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = |f: &mut fmt::Formatter<'_>, word: &str, key: &KeyRef| {
            let KeyRef { name, key, namespace } = key;
            f.write_str(word)?;
            if let Some(namespace) = namespace {
                write!(f, "{namespace}/")?;
            }
            write!(f, "{name}#{key}")
        };
        let file = |f: &mut fmt::Formatter<'_>, word: &str, key: &FileKeyRef| {
            write!(f, "{word}{}", key.file)?;
            key.key.as_ref().map_or(Ok(()), |key| write!(f, "#{key}"))
        };
        match self {
            Self::SecretKeyRef(key) => object(f, "secret:", key),
            Self::ConfigMapKeyRef(key) => object(f, "configmap:", key),
            Self::VaultKeyRef(VaultKeyRef { path, key }) => write!(f, "vault:{path}#{key}"),
            Self::SopsKeyRef(key) => file(f, "sops:", key),
            Self::AgeKeyRef(key) => file(f, "age:", key),
        }
    }
}

impl FromStr for Reference {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shape = || {
            format!(
                "{text:?} must be secret:[NAMESPACE/]NAME#KEY, configmap:[NAMESPACE/]NAME#KEY, vault:PATH#KEY, \
                 sops:FILE[#KEY] or age:FILE[#KEY]"
            )
        };
        let (kind, place) = text.split_once(':').ok_or_else(shape)?;
        let (object, key) = match place.split_once('#') {
            Some((object, key)) => (object, Some(key.to_owned())),
            None => (place, None),
        };
        let of_object = |key: Option<String>| {
            let (namespace, name) = match object.split_once('/') {
                Some((namespace, name)) => (Some(namespace.to_owned()), name),
                None => (None, object),
            };
            Some(KeyRef { name: name.to_owned(), key: key?, namespace })
        };
        let file = |key| FileKeyRef { file: object.to_owned(), key };
        let reference = match kind {
            "secret" => of_object(key).map(Self::SecretKeyRef),
            "configmap" => of_object(key).map(Self::ConfigMapKeyRef),
            "vault" => key.map(|key| Self::VaultKeyRef(VaultKeyRef { path: object.to_owned(), key })),
            "sops" => Some(Self::SopsKeyRef(file(key))),
            "age" => Some(Self::AgeKeyRef(file(key))),
            _ => None,
        };
        let reference = reference.ok_or_else(shape)?;
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
        for text in [
            "secret:db#password",
            "secret:shared/db.main#tls.crt",
            "configmap:site#DOMAIN",
            "vault:secret/shop/db#pass word#1",
            "sops:keys/db.enc.yaml#data.tls.crt",
            "sops:licence.bin",
            "age:token.age",
            "age:keys.env.age#TOKEN",
        ] {
            assert_eq!(text.parse::<Reference>().unwrap().to_string(), text);
        }
        for text in [
            "db#password",
            "secret:db",
            "secret:#key",
            "secret:db#",
            "gopher:db#key",
            "vault:db#key",
            "vault:secret/db",
            "vault:/secret/db#key",
            "vault:secret/db/#key",
            "vault:secret/../sys/raw#key",
            "vault:secret/db?version=1#key",
            "vault:secret/%2e%2e/db#key",
            "sops:",
            "sops:/etc/passwd#a",
            "sops:../other/db.yaml#a",
            "age:a//b",
            "age:key.age#",
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

    #[test]
    fn a_namespace_that_the_project_may_not_write_to_is_not_read_by_its_own_services() {
        let refused = |own: &str, reads: &[&str]| {
            let limits = ProjectLimits {
                namespaces: vec!["blue-*".to_owned()],
                reference_namespaces: reads.iter().map(|&name| name.to_owned()).collect(),
                ..ProjectLimits::default()
            };
            "secret:db#a".parse::<Reference>().unwrap().refusal(own, Some(("shop", &limits)))
        };
        assert_eq!(refused("blue-1", &[]), None);
        assert_eq!(refused("red", &["red"]), None);
        let told = refused("kube-system", &["red"]).unwrap();
        assert!(told.contains("Secret kube-system/db") && told.contains("limit namespaces"), "{told}");
    }
}
