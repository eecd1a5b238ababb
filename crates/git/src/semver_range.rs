//! Semver ranges over tags: [`Range`].

use std::fmt;

use semver::{BuildMetadata, Prerelease, Version};

/// A range of versions, by the rules that Helm's users know.
///
/// - Terms: `1.2.3`, `=`, `!=`, `>`, `>=` (`=>`), `<`, `<=` (`=<`), `~` (`~>`), `^`, wildcards (`1.x`, `1.2.*`, `*`), and
///   spans (`1.2 - 1.4`). A comma or space between terms means both, `||` means either.
/// - Parts may be missing: `1.2` alone means `1.2.x`; `>=1.2` means `>=1.2.0`; `>1.2` means from `1.3.0` on; `<=1.2`
///   includes all of `1.2`.
/// - Pre-releases match only where one of the terms joined with them names a pre-release (`>=1.2.0-0`).
/// - A leading `v` is tolerated in ranges and in tags; tags may have one to three parts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Range {
    text: String,
    any: Vec<Vec<Term>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Term {
    op: Op,
    at: Partial,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Op {
    Equal,
    NotEqual,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    Tilde,
    Caret,
}

/// A version of which the last parts may be left open.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Partial {
    /// Open parts are zero here.
    version: Version,
    /// How many of major, minor and patch were given: 0 (a lone wildcard) to 3.
    given: u8,
}

impl Range {
    /// Parses a range; the error says what cannot be read.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err("the semver range is empty; use for example 1.x, ^1.2 or >=1.2 <2".to_owned());
        }
        let any = text.split("||").map(parse_all).collect::<Result<_, _>>()?;
        Ok(Self { text: text.to_owned(), any })
    }

    /// Whether a version lies in the range.
    pub fn matches(&self, version: &Version) -> bool {
        self.any.iter().any(|all| {
            let asked = all.iter().any(|term| !term.at.version.pre.is_empty());
            (asked || version.pre.is_empty()) && all.iter().all(|term| term.matches(version))
        })
    }

    /// The highest version in the range among tag names, with the tag's name. Of tags that mean the same version the
    /// shortest name, then the first in byte order, is taken.
    pub fn highest<'a>(&self, tags: impl IntoIterator<Item = &'a str>) -> Option<(&'a str, Version)> {
        tags.into_iter()
            .filter_map(|tag| Some((tag, parse_version(tag)?)))
            .filter(|(_, version)| self.matches(version))
            .max_by(|(tag_a, a), (tag_b, b)| {
                a.cmp(b).then_with(|| tag_b.len().cmp(&tag_a.len())).then_with(|| tag_b.cmp(tag_a))
            })
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Reads a tag as a version: an optional `v`, one to three numbers, pre-release and build.
pub(crate) fn parse_version(tag: &str) -> Option<Version> {
    let partial = parse_partial(tag).ok()?;
    let wild =
        partial.given == 0 || tag.split(['-', '+']).next().is_some_and(|v| v.contains(['x', 'X', '*']));
    (!wild).then_some(partial.version)
}

fn parse_all(text: &str) -> Result<Vec<Term>, String> {
    let mut words = text.split([',', ' ', '\t']).filter(|w| !w.is_empty()).peekable();
    let mut terms = Vec::new();
    while let Some(word) = words.next() {
        let (op, rest) = split_op(word);
        // `>= 1.2`: the operator stands alone.
        let version = if rest.is_empty() { words.next().unwrap_or("") } else { rest };
        let at = parse_partial(version).map_err(|why| format!("{text:?} is not a semver range: {why}"))?;
        if words.peek() == Some(&"-") {
            words.next();
            let end = parse_partial(words.next().unwrap_or(""))
                .map_err(|why| format!("{text:?} is not a semver range: {why}"))?;
            terms.push(Term { op: Op::GreaterEqual, at });
            terms.push(Term { op: Op::LessEqual, at: end });
        } else {
            terms.push(Term { op, at });
        }
    }
    if terms.is_empty() {
        Err(format!("{text:?} is not a semver range: it has no version"))
    } else {
        Ok(terms)
    }
}

fn split_op(word: &str) -> (Op, &str) {
    const OPS: [(&str, Op); 11] = [
        ("!=", Op::NotEqual),
        (">=", Op::GreaterEqual),
        ("=>", Op::GreaterEqual),
        ("<=", Op::LessEqual),
        ("=<", Op::LessEqual),
        ("~>", Op::Tilde),
        ("~", Op::Tilde),
        ("^", Op::Caret),
        (">", Op::Greater),
        ("<", Op::Less),
        ("=", Op::Equal),
    ];
    OPS.iter()
        .find_map(|(sign, op)| word.strip_prefix(sign).map(|rest| (*op, rest)))
        .unwrap_or((Op::Equal, word))
}

fn parse_partial(text: &str) -> Result<Partial, String> {
    let bad = || format!("{text:?} is not a version");
    let bare = text.strip_prefix(['v', 'V']).unwrap_or(text);
    let (bare, build) = bare.split_once('+').map_or((bare, None), |(v, b)| (v, Some(b)));
    let (numbers, pre) = bare.split_once('-').map_or((bare, None), |(v, p)| (v, Some(p)));
    let mut parts = [0_u64; 3];
    let mut given = 0_u8;
    let mut open = false;
    for (index, part) in numbers.split('.').enumerate() {
        let slot = parts.get_mut(index).ok_or_else(bad)?;
        if matches!(part, "x" | "X" | "*") {
            open = true;
        } else if open || part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        } else {
            *slot = part.parse().map_err(|_| bad())?;
            given += 1;
        }
    }
    let version = Version {
        major: parts[0],
        minor: parts[1],
        patch: parts[2],
        pre: pre.map_or(Ok(Prerelease::EMPTY), Prerelease::new).map_err(|_| bad())?,
        build: build.map_or(Ok(BuildMetadata::EMPTY), BuildMetadata::new).map_err(|_| bad())?,
    };
    Ok(Partial { version, given })
}

impl Term {
    fn matches(&self, version: &Version) -> bool {
        use std::cmp::Ordering::{Equal, Greater, Less};
        let at = &self.at.version;
        let given = self.at.given;
        // Build metadata says nothing about order.
        let order = version.cmp_precedence(at);
        // Where the version lies towards the whole span that a partial version stands for.
        let span = match given {
            0 => Equal,
            1 => version.major.cmp(&at.major),
            2 => (version.major, version.minor).cmp(&(at.major, at.minor)),
            _ => order,
        };
        // A partial pre-release (`1.2-0`) has no span to speak of below its zero version.
        match self.op {
            Op::Equal => span == Equal && (given == 3 || order != Less || at.pre.is_empty()),
            Op::NotEqual => span != Equal,
            Op::Greater => span == Greater,
            Op::GreaterEqual => order != Less,
            Op::Less => order == Less,
            Op::LessEqual => span != Greater,
            Op::Tilde => {
                order != Less
                    && match given {
                        0 => true,
                        1 => version.major == at.major,
                        _ => (version.major, version.minor) == (at.major, at.minor),
                    }
            }
            Op::Caret => order != Less && self.caret_holds(version),
        }
    }

    /// `^` lets everything move that is right of the first part that is not zero.
    fn caret_holds(&self, version: &Version) -> bool {
        let at = &self.at.version;
        match self.at.given {
            0 => true,
            _ if at.major > 0 => version.major == at.major,
            1 => version.major == 0,
            _ if at.minor > 0 => version.major == 0 && version.minor == at.minor,
            2 => version.major == 0 && version.minor == 0,
            _ => version.major == 0 && version.minor == 0 && version.patch == at.patch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(range: &str, inside: &[&str], outside: &[&str]) {
        let parsed = Range::parse(range).unwrap();
        for v in inside {
            assert!(parsed.matches(&parse_version(v).unwrap()), "{range} should match {v}");
        }
        for v in outside {
            assert!(!parsed.matches(&parse_version(v).unwrap()), "{range} should not match {v}");
        }
    }

    #[test]
    fn terms() {
        check("1.2.3", &["1.2.3", "v1.2.3", "1.2.3+b"], &["1.2.4", "1.2.3-rc.1"]);
        check("1.2", &["1.2.0", "1.2.9"], &["1.3.0", "1.1.9", "1.2.0-rc"]);
        check("v1.x", &["1.0.0", "v1.9.9", "v1"], &["2.0.0", "0.9.0"]);
        check("1.2.*", &["1.2.0"], &["1.3.0"]);
        check("*", &["0.0.0", "9.9.9"], &["1.0.0-rc"]);
        check("!=1.2", &["1.3.0", "2.0.0"], &["1.2.0", "1.2.5"]);
        check("!=1.2.3", &["1.2.4"], &["1.2.3"]);
        check(">1.2", &["1.3.0", "2.0.0"], &["1.2.0", "1.2.9"]);
        check(">11", &["12.0.0"], &["11.1.0"]);
        check(">=1.2", &["1.2.0", "2.0.0"], &["1.1.9"]);
        check("<1.2", &["1.1.9"], &["1.2.0"]);
        check("<=1.2", &["1.2.9", "1.0.0"], &["1.3.0"]);
        check("<=1", &["1.9.9"], &["2.0.0"]);
        check("=>1.2.3 =<1.4.0", &["1.2.3", "1.4.0"], &["1.4.1"]);
        check(">= 1.2, < 2", &["1.2.0", "1.9.0"], &["2.0.0", "1.1.0"]);
        check("1.2 - 1.4", &["1.2.0", "1.4.9"], &["1.5.0", "1.1.0"]);
        check("^1.2 || ^3", &["1.3.0", "3.9.0"], &["2.0.0", "4.0.0"]);
    }

    #[test]
    fn tilde_and_caret() {
        check("~1.2.3", &["1.2.3", "1.2.9"], &["1.3.0", "1.2.2"]);
        check("~1", &["1.0.0", "1.9.0"], &["2.0.0"]);
        check("~>1.2", &["1.2.0"], &["1.3.0"]);
        check("^1.2.3", &["1.2.3", "1.9.9"], &["2.0.0", "1.2.2"]);
        check("^0.2.3", &["0.2.3", "0.2.9"], &["0.3.0"]);
        check("^0.0.3", &["0.0.3"], &["0.0.4"]);
        check("^0.0", &["0.0.9"], &["0.1.0"]);
        check("^0", &["0.9.0"], &["1.0.0"]);
    }

    #[test]
    fn pre_releases_only_when_asked() {
        check(">=1.2.0", &["1.2.0"], &["1.3.0-rc.1"]);
        check(">=1.2.0-0", &["1.2.0-rc.1", "1.3.0-rc.1", "1.3.0"], &["1.1.0"]);
        check(">=1.2.0-0 <2", &["1.9.0-alpha"], &["2.0.0"]);
        check("^1.2.0-beta.2", &["1.2.0-beta.3", "1.3.0"], &["1.2.0-beta.1", "2.0.0"]);
        check("1.2.3-rc.1", &["1.2.3-rc.1"], &["1.2.3"]);
    }

    #[test]
    fn refuses_nonsense() {
        for bad in ["", "main", "1.2.3.4", "^", ">=", "1..2", "x.1", "1.2 -", "||", "1 || "] {
            assert!(Range::parse(bad).is_err(), "{bad}");
        }
        for bad in ["main", "v", "1.x", "release-1", "v1.2.3.4", ""] {
            assert!(parse_version(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn takes_the_highest() {
        let tags = ["v1.2.0", "1.10.0", "v1.9.0", "v2.0.0-rc.1", "nightly", "v1.10.0"];
        let found = Range::parse("1.x").unwrap().highest(tags).unwrap();
        assert_eq!((found.0, found.1.to_string().as_str()), ("1.10.0", "1.10.0"));
        assert_eq!(Range::parse(">=2.0.0-0").unwrap().highest(tags).unwrap().0, "v2.0.0-rc.1");
        assert!(Range::parse("^3").unwrap().highest(tags).is_none());
    }
}
