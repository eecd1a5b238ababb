//! Names, parsed once where they enter.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Why a text is not a name of the kind asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct NameError {
    reason: String,
}

impl NameError {
    /// One with this reason, which follows the name of a field.
    pub fn of(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

macro_rules! text {
    ($(#[$doc:meta])* $name:ident, $check:path) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                $check(text).map(Self)
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

text!(
    /// A name for people: 1 to 120 characters, no control characters, no space at either end, and
    /// never beginning with `system:` (Kubernetes gives such names power).
    Name,
    check_name
);
text!(
    /// A cluster's short name, unique in the installation and part of URLs: lower-case letters, digits
    /// and `-`, beginning and ending with a letter or digit, at most 63.
    Handle,
    check_label
);
text!(
    /// A name that Kubernetes accepts for a namespace: the same alphabet as [`Handle`].
    KubeName,
    check_label
);
text!(
    /// An e-mail address in lower case. Only its shape is checked: one `@`, something on both sides.
    Email,
    check_email
);

impl Handle {
    /// The handle that a name suggests: lower case, every run of other characters one `-`.
    ///
    /// # Errors
    /// When nothing usable is left of the name.
    pub fn suggest(name: &str) -> Result<Self, NameError> {
        let mut text = String::with_capacity(name.len());
        for c in name.chars() {
            if c.is_ascii_alphanumeric() {
                text.push(c.to_ascii_lowercase());
            } else if !text.ends_with('-') {
                text.push('-');
            }
        }
        text.truncate(63);
        text.trim_matches('-').parse()
    }
}

fn check_name(text: &str) -> Result<String, NameError> {
    if text.is_empty() {
        return Err(NameError::of("must not be empty"));
    }
    if text.chars().count() > 120 {
        return Err(NameError::of("must not be longer than 120 characters"));
    }
    if text.chars().any(char::is_control) {
        return Err(NameError::of("must not contain control characters"));
    }
    if text.trim() != text {
        return Err(NameError::of("must not begin or end with a space"));
    }
    if text.to_ascii_lowercase().starts_with("system:") {
        return Err(NameError::of("must not begin with \"system:\", which Kubernetes reserves"));
    }
    Ok(text.to_owned())
}

fn check_label(text: &str) -> Result<String, NameError> {
    if text.is_empty() {
        return Err(NameError::of("must not be empty"));
    }
    if text.len() > 63 {
        return Err(NameError::of("must not be longer than 63 characters"));
    }
    if !text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        return Err(NameError::of(format!("{text:?} may hold only lower-case letters, digits and \"-\"")));
    }
    if text.starts_with('-') || text.ends_with('-') {
        return Err(NameError::of(format!("{text:?} must begin and end with a letter or digit")));
    }
    Ok(text.to_owned())
}

fn check_email(text: &str) -> Result<String, NameError> {
    let text = text.trim().to_lowercase();
    let shaped = text.len() <= 254
        && !text.chars().any(|c| c.is_control() || c.is_whitespace())
        && text
            .split_once('@')
            .is_some_and(|(user, host)| !user.is_empty() && !host.is_empty() && !host.contains('@'));
    if !shaped {
        return Err(NameError::of("must be an e-mail address such as ada@example.com"));
    }
    if text.starts_with("system:") {
        return Err(NameError::of("must not begin with \"system:\", which Kubernetes reserves"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles() {
        assert!("blue-1".parse::<Handle>().is_ok());
        for bad in ["", "-a", "a-", "A", "a_b", "a.b", &"a".repeat(64)] {
            assert!(bad.parse::<Handle>().is_err(), "{bad:?}");
        }
        assert_eq!(Handle::suggest("My  Cluster (EU)").unwrap().as_str(), "my-cluster-eu");
        assert!(Handle::suggest("--").is_err());
    }

    #[test]
    fn nobody_is_named_like_kubernetes_own() {
        assert!("system:masters".parse::<Name>().is_err());
        assert!("System:masters".parse::<Name>().is_err());
        assert!("system:admin@x".parse::<Email>().is_err());
        assert_eq!("Ada@Example.com".parse::<Email>().unwrap().as_str(), "ada@example.com");
        assert!("ada".parse::<Email>().is_err());
    }
}
