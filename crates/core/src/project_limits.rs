//! What the services of a project may touch.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

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
    /// Objects of no namespace may not be written, except kinds that `allowed_kinds` names in full.
    pub no_cluster_scoped: bool,
    /// Where services may be read from: URLs of git repositories and of charts; empty: anywhere.
    pub repositories: Vec<String>,
}

impl ProjectLimits {
    /// Checks the lists.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a pattern that can match nothing, or too many of them.
    pub fn check(&self) -> Result<()> {
        let Self { namespaces, allowed_kinds, denied_kinds, no_cluster_scoped: _, repositories } = self;
        for (field, list) in [
            ("limits.namespaces", namespaces),
            ("limits.allowedKinds", allowed_kinds),
            ("limits.deniedKinds", denied_kinds),
            ("limits.repositories", repositories),
        ] {
            if list.len() > MAX_ENTRIES {
                return Err(Error::invalid(field, format!("must not be more than {MAX_ENTRIES}")));
            }
            if list.iter().any(|text| {
                text.is_empty()
                    || text.len() > 1024
                    || text.chars().any(|c| c.is_control() || c.is_whitespace())
            }) {
                return Err(Error::invalid(field, "each must be a name or a pattern such as shop-*"));
            }
        }
        for (field, kinds) in [("limits.allowedKinds", allowed_kinds), ("limits.deniedKinds", denied_kinds)] {
            if let Some(kind) = kinds.iter().find(|kind| !kind.contains('/') && *kind != "*") {
                return Err(Error::invalid(
                    field,
                    format!(
                        "{kind:?} must be GROUP/KIND, or /KIND for the core group: apps/Deployment, /Secret"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// They limit nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The first of these places that a service may not be read from.
    pub fn refused_source<'u>(&self, urls: impl IntoIterator<Item = &'u str>) -> Option<&'u str> {
        if self.repositories.is_empty() {
            return None;
        }
        urls.into_iter().find(|url| !self.repositories.iter().any(|pattern| matches(pattern, url)))
    }
}

/// Whether `text` is what the pattern says; `*` stands for any run of characters.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = rest.get(at + part.len()..).unwrap_or_default();
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("https://git.example.com/shop/*", "https://git.example.com/shop/web", true),
            ("https://git.example.com/shop/*", "https://git.example.com/other/web", false),
            ("*", "", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c2b", false),
            ("a*a", "a", false),
            ("exact", "exact", true),
            ("exact", "exactly", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

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
    }
}
