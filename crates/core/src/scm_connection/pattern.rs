//! Which repositories a connection may touch: [`RepositoryPattern`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::pattern::matches;
use crate::specs::NameError;

/// Bytes of a pattern, or of the slug of a repository.
const LONGEST_SLUG: usize = 512;

/// Repositories of a git host: a slug in which `*` stands for any run of characters within one of its segments, and a last segment of
/// `**` for everything below. Case does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RepositoryPattern(String);

impl RepositoryPattern {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a repository with this slug is one of these.
    pub(super) fn matches(&self, slug: &str) -> bool {
        let slug = slug.to_ascii_lowercase();
        let Ok(slug) = segments(&slug) else { return false };
        let pattern = self.0.to_ascii_lowercase();
        let mut parts: Vec<&str> = pattern.split('/').collect();
        let below = parts.last() == Some(&"**");
        if below {
            parts.pop();
        }
        let fits = if below { slug.len() > parts.len() } else { slug.len() == parts.len() };
        fits && parts.iter().zip(&slug).all(|(part, segment)| matches(part, segment))
    }

    /// Whether all repositories of this owner are some of these.
    pub(super) fn covers(&self, owner: &str, below: bool) -> bool {
        let owner = owner.to_ascii_lowercase();
        let Ok(owner) = segments(&owner) else { return false };
        let pattern = self.0.to_ascii_lowercase();
        let mut parts: Vec<&str> = pattern.split('/').collect();
        let fits = match parts.pop() {
            Some("**") => owner.len() >= parts.len(),
            Some("*") => !below && owner.len() == parts.len(),
            _ => false,
        };
        fits && parts.iter().zip(&owner).all(|(part, segment)| matches(part, segment))
    }
}

/// The segments of a slug.
pub(crate) fn segments(slug: &str) -> Result<Vec<&str>, NameError> {
    if slug.len() > LONGEST_SLUG {
        return Err(NameError::of(format!("must be at most {LONGEST_SLUG} bytes")));
    }
    let all: Vec<&str> = slug.split('/').collect();
    let odd = |segment: &&str| {
        segment.is_empty()
            || *segment == "."
            || *segment == ".."
            || segment.starts_with('-')
            || segment.trim() != *segment
            // Projects of Azure DevOps have spaces in their names.
            || segment.contains(|c: char| {
                c.is_control() || (c.is_whitespace() && c != ' ') || "\\?#%:@".contains(c)
            })
    };
    if all.iter().any(odd) {
        return Err(NameError::of("must be a slug such as acme/shop, without a host"));
    }
    Ok(all)
}

impl FromStr for RepositoryPattern {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let all = segments(text)?;
        let (last, before) = all.split_last().ok_or_else(|| NameError::of("must not be empty"))?;
        if before.iter().any(|segment| segment.contains("**")) || (last.contains("**") && *last != "**") {
            return Err(NameError::of("must have ** as its whole last segment only, as in acme/**"));
        }
        if all.len() == 1 && *last != "**" {
            return Err(NameError::of(
                "must name an owner and a repository, such as acme/shop or acme/*; ** is every repository",
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for RepositoryPattern {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<RepositoryPattern> for String {
    fn from(pattern: RepositoryPattern) -> Self {
        pattern.0
    }
}

impl fmt::Display for RepositoryPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scm_connection::ScmSpec;

    fn allows(patterns: &str, slug: &str) -> bool {
        let repositories = patterns.split_whitespace().map(|text| text.parse().unwrap()).collect();
        ScmSpec { repositories, ..ScmSpec::default() }.allows(slug)
    }

    #[test]
    fn a_connection_touches_what_its_patterns_name() {
        assert!(!allows("", "acme/shop"), "without patterns, nothing");
        for (patterns, slug, expected) in [
            ("acme/shop", "acme/shop", true),
            ("acme/shop", "Acme/Shop", true),
            ("acme/shop", "acme/shop2", false),
            ("acme/*", "acme/shop", true),
            ("acme/*", "acme/group/shop", false),
            ("acme/*", "acme-evil/shop", false),
            ("acme/**", "acme/group/shop", true),
            ("acme/**", "acme", false),
            ("*/infra-*", "acme/infra-net", true),
            ("other/a acme/b", "acme/b", true),
            ("**", "acme/shop", true),
            ("**", "acme/../other", false),
            ("acme/*", "acme/", false),
            ("acme/*", "acme/%2e%2e", false),
            ("acme/**", "https://evil.example/acme/shop", false),
            ("**", "My Project/web", true),
        ] {
            assert_eq!(allows(patterns, slug), expected, "{patterns} {slug}");
        }
    }

    #[test]
    fn a_connection_touches_all_of_an_owner_where_a_pattern_says_so() {
        for (patterns, owner, flat, below) in [
            ("", "acme", false, false),
            ("acme/shop", "acme", false, false),
            ("acme/infra-*", "acme", false, false),
            ("acme/*", "Acme", true, false),
            ("acme/*", "acme/team", false, false),
            ("acme/**", "acme", true, true),
            ("acme/**", "acme/team", true, true),
            ("acme/**", "acme-evil", false, false),
            ("acme/team/**", "acme", false, false),
            ("*/*", "acme", true, false),
            ("**", "acme", true, true),
            ("**", "../acme", false, false),
        ] {
            let repositories = patterns.split_whitespace().map(|text| text.parse().unwrap()).collect();
            let spec = ScmSpec { repositories, ..ScmSpec::default() };
            let told = (spec.allows_all(owner, false), spec.allows_all(owner, true));
            assert_eq!(told, (flat, below), "{patterns} {owner}");
        }
    }

    #[test]
    fn patterns_are_slugs() {
        for bad in [
            "",
            "/",
            "acme",
            "*",
            "acme/",
            "/shop",
            "acme/../x",
            "a/**/b",
            "a/x**",
            " a/c",
            "a\u{a0}b/c",
            "-a/b",
            "a/b?c",
        ] {
            assert!(bad.parse::<RepositoryPattern>().is_err(), "{bad:?}");
        }
        let long = format!("acme/{}", "a".repeat(LONGEST_SLUG));
        assert!(long.parse::<RepositoryPattern>().is_err());
    }
}
