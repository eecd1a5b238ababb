//! Names that come from people: checked before they are part of an address.

use std::fmt;

use crate::error::{Error, Result};

/// Groups in groups: GitLab has at most twenty below the first.
const GROUPS: usize = 21;

/// `OWNER/NAME` of a repository. Where a host has groups in groups, the owner is all of them: `GROUP/SUBGROUP`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Repository {
    owner: String,
    name: String,
}

impl Repository {
    /// Reads `OWNER/NAME`, or `GROUP/SUBGROUP/NAME`.
    ///
    /// # Errors
    /// When it is no such name.
    pub fn parse(text: &str) -> Result<Self> {
        // Projects of Azure DevOps have spaces in their names, and those of people at Bitbucket Data Center begin with a tilde.
        let good = |part: &str| {
            !part.is_empty()
                && part.len() <= 100
                && !matches!(part, "." | "..")
                && !part.starts_with(['-', ' '])
                && !part.ends_with(' ')
                && part
                    .strip_prefix('~')
                    .unwrap_or(part)
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "._- ".contains(c))
        };
        match text.rsplit_once('/') {
            Some((owner, name))
                if good(name) && owner.split('/').all(good) && owner.split('/').count() <= GROUPS =>
            {
                Ok(Self { owner: owner.to_owned(), name: name.to_owned() })
            }
            _ => Err(Error::invalid(format!("{:?} is no repository: give OWNER/NAME", printable(text)))),
        }
    }

    /// Who has it.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Its name there.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

macro_rules! text_name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $good:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            /// Checks it.
            ///
            /// # Errors
            /// When it is none.
            pub fn parse(text: &str) -> Result<Self> {
                let good: fn(&str) -> bool = $good;
                if good(text) {
                    return Ok(Self(text.to_owned()));
                }
                Err(Error::invalid(format!(concat!("{:?} is no ", $what), printable(text))))
            }

            /// Its text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_name!(
    /// A branch, without `refs/heads/`.
    BranchName,
    "branch name",
    |text| {
        !text.is_empty()
            && text.len() <= 200
            && !text.starts_with(['-', '/'])
            && !text.ends_with(['/', '.'])
            && !text.contains("..")
            && !text.contains("@{")
            && text != "@"
            && !text.chars().any(|c| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c))
            && text.split('/').all(|part| !part.is_empty() && !part.starts_with('.') && part.strip_suffix(".lock").is_none())
    }
);

text_name!(
    /// A commit's whole id, in hex.
    CommitId,
    "commit id (40 or 64 hex digits)",
    |text| matches!(text.len(), 40 | 64) && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
);

text_name!(
    /// A file's path in a repository: no leading `/`, no `..`, nothing of `.git`.
    FilePath,
    "path of a file in a repository",
    |text| {
        !text.is_empty()
            && text.len() <= 1024
            && !text.contains('\\')
            && !text.chars().any(char::is_control)
            && text.split('/').all(|part| {
                !part.is_empty() && !matches!(part, "." | "..") && !part.eq_ignore_ascii_case(".git")
            })
    }
);

/// Text of somebody else, short and on one line.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for bad in [
            "", "a", "a//c", "/a/b", "a/../c", "../b", "a/..", "a/b?c", "a/%2e", "-a/b", " a/c", "a/b\n",
            "a/~~b", "a /b",
        ] {
            assert!(Repository::parse(bad).is_err(), "{bad:?}");
        }
        for bad in ["", "-x", "a..b", "a/", "/a", "a b", "a~1", "a.lock", "a//b", "x/.y", "@", "a\nb"] {
            assert!(BranchName::parse(bad).is_err(), "{bad:?}");
        }
        for bad in ["", "/etc", "../x", "a/../b", "a//b", ".git/config", "a/.GIT/x", "a\\b", "a\0"] {
            assert!(FilePath::parse(bad).is_err(), "{bad:?}");
        }
        for bad in ["", "main", "0123", &"g".repeat(40), &"A".repeat(40)] {
            assert!(CommitId::parse(bad).is_err(), "{bad:?}");
        }
        assert!(Repository::parse("a/".repeat(30).trim_end_matches('/')).is_err());
        let nested = Repository::parse("acme/platform/fleet").unwrap();
        assert_eq!((nested.owner(), nested.name()), ("acme/platform", "fleet"));
        for good in ["ada/fleet.infra", "My Project/web", "~ada/dotfiles"] {
            assert_eq!(Repository::parse(good).unwrap().to_string(), good);
        }
        assert!(BranchName::parse("plural/update-1").is_ok());
        assert!(FilePath::parse("apps/x/values.yaml").is_ok());
        assert!(CommitId::parse(&"a".repeat(40)).is_ok());
    }
}
