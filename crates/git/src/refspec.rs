//! What a service follows: [`RefSpec`].

use std::{fmt, str::FromStr};

use crate::{
    error::{Error, Result},
    semver_range::Range,
};

/// A branch, tag, commit, `HEAD`, or semver range of tags.
///
/// The text is looked up in this order; the first that exists is taken:
/// 1. `HEAD`: the default branch of the remote;
/// 2. a full name such as `refs/heads/main` or `refs/tags/v1`;
/// 3. a full commit id (40 hex digits), so that no branch of that name can take the place of a pinned commit;
/// 4. a branch. A branch wins over a tag of the same name, because what follows a name expects it to move;
///    `refs/tags/NAME` asks for the tag;
/// 5. a tag; an annotated tag stands for the commit that it names;
/// 6. an abbreviated commit id (7 to 39 hex digits) that only one commit answers to;
/// 7. a semver range over the tags, when the text reads as one (`1.x`, `^1.2`, `>=1.2 <2`).
///
/// `semver:RANGE` is always a range and skips the other steps. See [`Range`] for its grammar.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RefSpec {
    text: String,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Head,
    FullName,
    Commit,
    /// A short name; `range` holds its reading as a semver range, if it has one.
    Name {
        range: Option<Range>,
    },
    /// Only a range: `semver:`, or text that no reference can be called.
    Range(Range),
}

impl RefSpec {
    /// Parses what a person wrote.
    ///
    /// # Errors
    /// [`Error::BadInput`] for text that begins with `-`, holds control characters, or is neither a possible name of
    /// a reference nor a semver range.
    pub fn parse(text: &str) -> Result<Self> {
        let bad = |why: &str| Error::bad("reference", text, why);
        let text = text.trim();
        if text.is_empty() || text.len() > 512 {
            return Err(bad(
                "it must have 1 to 512 characters; use a branch, a tag, a commit or a semver range",
            ));
        }
        if text.starts_with('-') {
            return Err(bad("it begins with '-'"));
        }
        if text.contains(char::is_control) {
            return Err(bad("it holds a control character"));
        }
        let kind = if let Some(range) = text.strip_prefix("semver:") {
            Kind::Range(Range::parse(range).map_err(|why| bad(&why))?)
        } else if text == "HEAD" {
            Kind::Head
        } else if let Err(why) = check_name(text) {
            // `>=1.2 <2` and `^1.2` can be no reference's name.
            Kind::Range(Range::parse(text).map_err(|_| bad(why))?)
        } else if text.starts_with("refs/") {
            Kind::FullName
        } else if text.len() == 40 && is_hex(text) {
            Kind::Commit
        } else {
            Kind::Name { range: Range::parse(text).ok() }
        };
        Ok(Self { text: text.to_owned(), kind })
    }

    /// The text that was parsed.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Whether the text can be an abbreviated commit id.
    pub(crate) fn is_abbreviation(&self) -> bool {
        (7..40).contains(&self.text.len()) && is_hex(&self.text)
    }
}

impl fmt::Display for RefSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for RefSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Git's own rules for names of references (git-check-ref-format), each with its reason.
fn check_name(name: &str) -> std::result::Result<(), &'static str> {
    if name.contains([' ', '~', '^', ':', '?', '*', '[', '\\']) {
        return Err(
            "it has a space or one of ~^:?*[\\, which no branch or tag can have, and it is not a semver \
             range",
        );
    }
    if name.contains("..") || name.contains("@{") || name == "@" {
        return Err("it holds '..' or '@{', which no branch or tag can have");
    }
    if name.starts_with('/') || name.ends_with('/') || name.contains("//") || name.ends_with('.') {
        return Err("it begins or ends with '/' or ends with '.'");
    }
    let hidden =
        |part: &str| part.starts_with('.') || part.rsplit_once('.').is_some_and(|(_, end)| end == "lock");
    if name.split('/').any(hidden) {
        return Err("a part of it begins with '.' or ends with '.lock'");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_options_and_tricks() {
        for bad in [
            "",
            "  ",
            "-main",
            "--upload-pack=/bin/sh",
            "a\nb",
            "a\0b",
            "a b",
            "main..x",
            "a@{1}",
            "main~1",
            "x:y",
            ".a",
            "a.lock",
            "/a",
            "a/",
            "@",
            "semver:",
            "semver:nonsense",
        ] {
            assert!(matches!(RefSpec::parse(bad), Err(Error::BadInput { .. })), "{bad:?}");
        }
    }

    #[test]
    fn tells_kinds_apart() {
        let kind = |t: &str| RefSpec::parse(t).unwrap().kind.clone();
        assert_eq!(kind("HEAD"), Kind::Head);
        assert_eq!(kind("refs/tags/v1"), Kind::FullName);
        assert_eq!(kind(&"a".repeat(40)), Kind::Commit);
        assert!(matches!(kind("main"), Kind::Name { range: None }));
        assert!(matches!(kind("1.x"), Kind::Name { range: Some(_) }));
        assert!(matches!(kind("^1.2"), Kind::Range(_)));
        assert!(matches!(kind(">=1.2 <2"), Kind::Range(_)));
        assert!(matches!(kind("semver:1.2.3"), Kind::Range(_)));
    }
}
