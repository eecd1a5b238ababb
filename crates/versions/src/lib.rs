//! Versions and constraints by the rules of Masterminds' semver, which Helm uses everywhere: in templates, in a
//! chart's dependencies, and for the version that a service asks for. Ranges of git tags follow them, too.

use std::{cmp::Ordering, fmt};

use regex::Regex;

/// Longest version that is read.
const MAX_VERSION: usize = 256;
/// Longest constraint that is read, and most alternatives in it.
const MAX_CONSTRAINT: usize = 512;
const MAX_ALTERNATIVES: usize = 32;

/// A version; missing minor and patch count as zero.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version {
    /// First part.
    pub major: u64,
    /// Second part.
    pub minor: u64,
    /// Third part.
    pub patch: u64,
    /// What follows `-`; empty for a release.
    pub pre: String,
    /// What follows `+`; says nothing about order.
    pub metadata: String,
    /// As it was written.
    pub original: String,
}

const INVALID: &str = "invalid semantic version";

impl Version {
    /// Reads `1`, `v1.2`, `1.2.3-rc.1+build`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_VERSION {
            return Err("version string is too long (max 256 bytes)".to_owned());
        }
        let rest = text.strip_prefix('v').unwrap_or(text);
        let (rest, metadata) = match rest.split_once('+') {
            Some((rest, metadata)) => (rest, Some(metadata)),
            None => (rest, None),
        };
        let (numbers, pre) = match rest.split_once('-') {
            Some((numbers, pre)) => (numbers, Some(pre)),
            None => (rest, None),
        };
        let mut parts = [0u64; 3];
        for (index, part) in numbers.split('.').enumerate() {
            if index > 2 || part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
                return Err(INVALID.to_owned());
            }
            parts[index] = part.parse().map_err(|_| {
                // Digits only: nothing in it needs escaping.
                format!(
                    "error parsing version segment: strconv.ParseUint: parsing \"{part}\": value out of range"
                )
            })?;
        }
        for suffix in [pre, metadata].into_iter().flatten() {
            let ok = suffix
                .split('.')
                .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'));
            if !ok {
                return Err(INVALID.to_owned());
            }
        }
        let pre = pre.unwrap_or_default();
        if pre
            .split('.')
            .any(|part| part.len() > 1 && part.starts_with('0') && part.bytes().all(|b| b.is_ascii_digit()))
        {
            return Err("version segment starts with 0".to_owned());
        }
        Ok(Self {
            major: parts[0],
            minor: parts[1],
            patch: parts[2],
            pre: pre.to_owned(),
            metadata: metadata.unwrap_or_default().to_owned(),
            original: text.to_owned(),
        })
    }

    /// Its order by the rules of semantic versioning; build metadata does not count.
    pub fn compare(&self, other: &Self) -> Ordering {
        (self.major, self.minor, self.patch).cmp(&(other.major, other.minor, other.patch)).then_with(
            || match (self.pre.is_empty(), other.pre.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => compare_pre(&self.pre, &other.pre),
            },
        )
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.pre.is_empty() {
            write!(f, "-{}", self.pre)?;
        }
        if !self.metadata.is_empty() {
            write!(f, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

fn compare_pre(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.split('.'), b.split('.'));
    loop {
        let order = match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(a), Some(b)) => match (a.parse::<u64>(), b.parse::<u64>()) {
                (Ok(x), Ok(y)) => x.cmp(&y),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                (Err(_), Err(_)) => a.cmp(b),
            },
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterEqual,
    LessEqual,
    Tilde,
    Caret,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Term {
    operator: Operator,
    version: Version,
    dirty: bool,
    minor_dirty: bool,
    patch_dirty: bool,
}

/// Why a constraint cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConstraintError {
    /// More bytes than are read.
    #[error("constraint string is too long (max {MAX_CONSTRAINT} bytes)")]
    TooLong,
    /// More alternatives than are read.
    #[error("too many constraint groups (max {MAX_ALTERNATIVES})")]
    TooMany,
    /// A part that is no constraint, as it was written.
    #[error("improper constraint: {0:?}")]
    Improper(String),
    /// A version in it cannot be read.
    #[error("constraint parser error")]
    Version,
}

/// Alternatives of terms that must all hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Constraint {
    alternatives: Vec<Vec<Term>>,
}

const OPERATORS: &str = r"=||!=|>|<|>=|=>|<=|=<|~|~>|\^";
const VERSION: &str = r"v?([0-9|x|X|\*]+)(\.[0-9|x|X|\*]+)?(\.[0-9|x|X|\*]+)?(-([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?(\+([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?";

struct Patterns {
    term: Regex,
    range: Regex,
    find: Regex,
    valid: Regex,
}

fn patterns() -> Option<&'static Patterns> {
    static PATTERNS: std::sync::OnceLock<Option<Patterns>> = std::sync::OnceLock::new();
    let make = || {
        let space = "[\\t\\n\\x0C\\r ]";
        Some(Patterns {
            term: Regex::new(&format!("^{space}*({OPERATORS}){space}*({VERSION}){space}*$")).ok()?,
            range: Regex::new(&format!("{space}*({VERSION}){space}+-{space}+({VERSION}){space}*")).ok()?,
            find: Regex::new(&format!("({OPERATORS}){space}*({VERSION})")).ok()?,
            valid: Regex::new(&format!(
                "^({space}*({OPERATORS}){space}*({VERSION}){space}*)((?:{space}+|,{space}*)({OPERATORS}){space}*({VERSION}){space}*)*$"
            ))
            .ok()?,
        })
    };
    PATTERNS.get_or_init(make).as_ref()
}

impl Constraint {
    /// Reads `>=1.2 <3 || ^4`, `~1.2.x`, `1.2 - 1.4`.
    pub fn parse(text: &str) -> Result<Self, ConstraintError> {
        if text.len() > MAX_CONSTRAINT {
            return Err(ConstraintError::TooLong);
        }
        let Some(patterns) = patterns() else { return Err(ConstraintError::Version) };
        let text = patterns
            .range
            .replace_all(text, |found: &regex::Captures<'_>| format!(">= {}, <= {} ", &found[1], &found[11]))
            .into_owned();
        let parts: Vec<&str> = text.split("||").collect();
        if parts.len() > MAX_ALTERNATIVES {
            return Err(ConstraintError::TooMany);
        }
        let mut alternatives = Vec::new();
        for part in parts {
            if !patterns.valid.is_match(part) {
                return Err(ConstraintError::Improper(part.to_owned()));
            }
            let terms = patterns
                .find
                .find_iter(part)
                .map(|found| term(patterns, found.as_str()))
                .collect::<Result<Vec<_>, _>>()?;
            alternatives.push(terms);
        }
        Ok(Self { alternatives })
    }

    /// Whether a version satisfies it.
    pub fn check(&self, version: &Version) -> bool {
        self.alternatives.iter().any(|terms| {
            let pre = terms.iter().any(|term| !term.version.pre.is_empty());
            terms.iter().all(|term| (version.pre.is_empty() || pre) && term.check(version))
        })
    }
}

fn term(patterns: &Patterns, text: &str) -> Result<Term, ConstraintError> {
    let Some(found) = patterns.term.captures(text) else {
        return Err(ConstraintError::Improper(text.to_owned()));
    };
    let group = |index: usize| found.get(index).map_or("", |m| m.as_str());
    let wild = |part: &str| part.is_empty() || matches!(part.trim_start_matches('.'), "x" | "X" | "*");
    let (major, minor, patch, pre) = (group(3), group(4), group(5), group(6));
    let (mut dirty, mut minor_dirty, mut patch_dirty) = (true, false, false);
    let version = if wild(major) {
        format!("0.0.0{pre}")
    } else if wild(minor) {
        minor_dirty = true;
        format!("{major}.0.0{pre}")
    } else if wild(patch) {
        patch_dirty = true;
        format!("{major}{minor}.0{pre}")
    } else {
        dirty = false;
        group(2).to_owned()
    };
    let version = Version::parse(&version).map_err(|_| ConstraintError::Version)?;
    let operator = match group(1) {
        "!=" => Operator::NotEqual,
        ">" => Operator::Greater,
        "<" => Operator::Less,
        ">=" | "=>" => Operator::GreaterEqual,
        "<=" | "=<" => Operator::LessEqual,
        "~" | "~>" => Operator::Tilde,
        "^" => Operator::Caret,
        _ => Operator::Equal,
    };
    Ok(Term { operator, version, dirty, minor_dirty, patch_dirty })
}

impl Term {
    fn check(&self, v: &Version) -> bool {
        let c = &self.version;
        let order = v.compare(c);
        match self.operator {
            Operator::Equal if self.dirty => self.tilde(v),
            Operator::Equal => order.is_eq(),
            Operator::Tilde => self.tilde(v),
            Operator::NotEqual => self.not_equal(v),
            Operator::Greater if !self.dirty => order.is_gt(),
            Operator::Greater => {
                if v.major != c.major {
                    v.major > c.major
                } else if self.minor_dirty {
                    false
                } else if self.patch_dirty {
                    v.minor > c.minor
                } else {
                    order.is_gt()
                }
            }
            Operator::Less => order.is_lt(),
            Operator::GreaterEqual => order.is_ge(),
            Operator::LessEqual if !self.dirty => order.is_le(),
            Operator::LessEqual => {
                v.major < c.major || v.major == c.major && (v.minor <= c.minor || self.minor_dirty)
            }
            Operator::Caret => self.caret(v, order),
        }
    }

    fn not_equal(&self, v: &Version) -> bool {
        let c = &self.version;
        if self.dirty {
            if c.major != v.major || c.minor != v.minor && !self.minor_dirty {
                return true;
            }
            if self.minor_dirty {
                return false;
            }
            if c.patch != v.patch && !self.patch_dirty {
                return true;
            }
            if self.patch_dirty {
                let pre = !v.pre.is_empty() || !c.pre.is_empty();
                return pre && compare_pre(&v.pre, &c.pre).is_ne();
            }
        }
        v.compare(c).is_ne()
    }

    fn tilde(&self, v: &Version) -> bool {
        let c = &self.version;
        if v.compare(c).is_lt() {
            return false;
        }
        if (c.major, c.minor, c.patch) == (0, 0, 0) && !self.minor_dirty && !self.patch_dirty {
            return true;
        }
        v.major == c.major && (v.minor == c.minor || self.minor_dirty)
    }

    fn caret(&self, v: &Version, order: Ordering) -> bool {
        let c = &self.version;
        if order.is_lt() {
            return false;
        }
        if c.major > 0 || self.minor_dirty {
            return v.major == c.major;
        }
        if v.major > 0 {
            return false;
        }
        if c.minor > 0 || self.patch_dirty {
            return v.minor == c.minor;
        }
        v.minor == 0 && c.patch == v.patch
    }
}

/// Whether `version` satisfies `constraint`; false also when either cannot be read.
pub fn is_compatible(constraint: &str, version: &str) -> bool {
    match (Version::parse(version), Constraint::parse(constraint)) {
        (Ok(version), Ok(constraint)) => constraint.check(&version),
        _ => false,
    }
}

/// The highest of the versions in the constraint, with what was given beside it.
pub fn highest<'a, T>(
    constraint: &Constraint,
    versions: impl IntoIterator<Item = (&'a Version, T)>,
) -> Option<(&'a Version, T)> {
    versions
        .into_iter()
        .filter(|(version, _)| constraint.check(version))
        .reduce(|best, next| if next.0.compare(best.0).is_gt() { next } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(constraint: &str, inside: &[&str], outside: &[&str]) {
        let parsed = Constraint::parse(constraint).unwrap();
        for text in inside {
            assert!(parsed.check(&Version::parse(text).unwrap()), "{constraint} should hold {text}");
        }
        for text in outside {
            assert!(!parsed.check(&Version::parse(text).unwrap()), "{constraint} should not hold {text}");
        }
    }

    #[test]
    fn the_forms_that_charts_are_asked_for_by() {
        check("4.4.x", &["4.4.0", "v4.4.9"], &["4.5.0", "4.3.9", "4.4.1-rc.1"]);
        check("x.x.x", &["0.0.1", "9.9.9"], &["1.0.0-rc.1"]);
        check("0.x.x", &["0.0.1", "0.9.0"], &["1.0.0"]);
        check("^1.2", &["1.2.0", "1.9.9"], &["2.0.0", "1.1.9"]);
        check("^0.2.3", &["0.2.9"], &["0.3.0"]);
        check("~1.2", &["1.2.9"], &["1.3.0"]);
        check(">=1 <3", &["1.0.0", "2.9.9"], &["3.0.0", "0.9.9"]);
        check(">=1, <3", &["1.0.0"], &["3.0.0"]);
        check("1.2 - 1.5", &["1.2.0", "1.5.9"], &["1.6.0"]);
        check("^1 || ^3", &["1.0.0", "3.1.0"], &["2.0.0"]);
        check(">=1.2.0-0", &["1.3.0-rc.1", "1.2.0"], &["1.1.0"]);
        check("!=1.2.3", &["1.2.4"], &["1.2.3"]);
        for bad in ["", "latest", "1.2.3.4", "^", "1..2", "||"] {
            assert!(Constraint::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_highest_wins_whatever_its_place() {
        let versions: Vec<Version> =
            ["1.2.0", "1.10.0", "1.9.0", "2.0.0"].iter().map(|v| Version::parse(v).unwrap()).collect();
        let range = Constraint::parse("1.x").unwrap();
        assert_eq!(highest(&range, versions.iter().map(|v| (v, ()))).unwrap().0.original, "1.10.0");
    }
}
