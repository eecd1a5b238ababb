//! Semver ranges over tags: [`Range`].

use std::cmp::Ordering;
use std::fmt;

use plural_versions::{Constraint, Version};

/// A range of versions, as the ranges of charts' versions: `1.x`, `^1.2`, `~1.2.3`, `>=1.2 <2`, `1.2 - 1.4`, `^1 || ^3`.
///
/// Pre-releases match only where one of the terms joined with them names a pre-release (`>=1.2.0-0`). A leading `v` is
/// tolerated in ranges and in tags; tags may have one to three parts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Range {
    text: String,
    constraint: Constraint,
}

impl Range {
    /// Parses a range; the error says what cannot be read.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err("the semver range is empty; use for example 1.x, ^1.2 or >=1.2 <2".to_owned());
        }
        let constraint =
            Constraint::parse(text).map_err(|why| format!("{text:?} is not a semver range: {why}"))?;
        Ok(Self { text: text.to_owned(), constraint })
    }

    /// The tag of the highest version in the range. Of tags that mean the same version the shortest name, then the
    /// first in byte order, is taken.
    pub fn highest<'a>(&self, tags: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
        let versions = tags.into_iter().filter_map(|tag| Some((tag, Version::parse(tag).ok()?)));
        let inside = versions.filter(|(_, version)| self.constraint.check(version));
        inside
            .max_by(|(tag_a, a), (tag_b, b)| by_age(a, b).then_with(|| by_name(tag_b, tag_a)))
            .map(|(tag, _)| tag)
    }
}

/// By precedence; versions that differ in build metadata alone, by that, so that the choice does not depend on the order.
fn by_age(a: &Version, b: &Version) -> Ordering {
    a.compare(b).then_with(|| a.metadata.cmp(&b.metadata))
}

fn by_name(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_are_those_of_charts() {
        for (range, tags, highest) in [
            ("1.x", ["v1.2.0", "1.10.0", "v1.9.0", "v2.0.0-rc.1", "nightly", "v1.10.0"].as_slice(), "1.10.0"),
            (">=2.0.0-0", &["v1.9.0", "v2.0.0-rc.1"], "v2.0.0-rc.1"),
            (">=1", &["v1.9.0", "v2.0.0-rc.1"], "v1.9.0"),
            (">= 1.2, < 2", &["1.1", "1.2", "2"], "1.2"),
            ("1.2 - 1.4", &["1.1.0", "1.4.9", "1.5.0"], "1.4.9"),
            ("~1", &["1.9.0", "2.0.0"], "1.9.0"),
            ("1.x", &["v1.2.0+2", "v1.2.0+1"], "v1.2.0+2"),
        ] {
            assert_eq!(Range::parse(range).unwrap().highest(tags.iter().copied()), Some(highest), "{range}");
        }
        assert!(Range::parse("^3").unwrap().highest(["v1.2.0", "v3", "main"]).is_some_and(|tag| tag == "v3"));
        assert!(Range::parse("^3").unwrap().highest(["v1.2.0", "v3.x", "v4.0.0"]).is_none());
    }

    #[test]
    fn refuses_nonsense() {
        for bad in ["", "main", "1.2.3.4", "^", ">=", "1..2", "1.2 -", "||", "1 || "] {
            assert!(Range::parse(bad).is_err(), "{bad}");
        }
    }
}
