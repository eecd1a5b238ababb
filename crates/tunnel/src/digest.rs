//! The name of an artifact: what the console stores and the agent verifies.

use std::{fmt, str::FromStr};

/// Lower-case hex SHA-256 of an artifact's uncompressed, canonical tar: 64 characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArtifactDigest(String);

/// The text is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an artifact digest: 64 lower-case hexadecimal characters (SHA-256)")]
pub struct DigestError(String);

impl ArtifactDigest {
    /// The 64 characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ArtifactDigest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = text.len() == 64
            && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        if plain { Ok(Self(text.to_owned())) } else { Err(DigestError(text.chars().take(80).collect())) }
    }
}

impl fmt::Display for ArtifactDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_sha256_is_a_digest() {
        assert!("a".repeat(64).parse::<ArtifactDigest>().is_ok());
        for bad in ["", "abc", &"A".repeat(64), &"g".repeat(64), "../../../../etc/passwd"] {
            assert!(bad.parse::<ArtifactDigest>().is_err(), "{bad}");
        }
    }
}
