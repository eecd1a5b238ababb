//! Keys by which the console knows a request that is sent once more.

use std::fmt;
use std::str::FromStr;

use chrono::TimeDelta;

use crate::error::Error;

/// How long a key is known.
pub const KEPT: TimeDelta = TimeDelta::hours(24);
/// Characters at most.
const MAX: usize = 128;

/// What a client calls a request of its own: sent once more with it, the request is done once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for IdempotencyKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        // Bytes first: nobody counts the characters of a long text.
        let is_key = !text.is_empty()
            && text.len() <= 4 * MAX
            && text.chars().count() <= MAX
            && !text.contains(char::is_control)
            && text.trim() == text;
        if is_key {
            return Ok(Self(text.to_owned()));
        }
        Err(Error::invalid(
            "idempotencyKey",
            format!("must be 1 to {MAX} printable characters without spaces around them, such as a UUID"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_short_and_printable() {
        for good in ["a", "0190b8a2-7c11-7def-8000-0123456789ab", "shop, please", &"ü".repeat(MAX)] {
            assert_eq!(good.parse::<IdempotencyKey>().unwrap().as_str(), good);
        }
        for bad in ["", " a", "a ", "a\nb", "a\0", "\u{7f}", &"a".repeat(MAX + 1), &"ü".repeat(MAX + 1)] {
            let refused = bad.parse::<IdempotencyKey>();
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{bad:?}: {refused:?}");
        }
    }
}
