//! The stable part of an error: what programs branch on.

use std::fmt;

use serde::{Deserialize, Serialize};

/// `extensions.code` of a GraphQL error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// No credential, or one that is not valid (any more).
    Unauthenticated,
    /// The caller may see the thing but not do this to it.
    Forbidden,
    /// Absent, or not visible to the caller.
    NotFound,
    /// The request contradicts what is stored: a name in use, a thing still needed.
    Conflict,
    /// The request is malformed or breaks a rule that the message states.
    Invalid,
    /// Too many requests; wait before the next.
    RateLimited,
    /// The console cannot answer now; trying again later may help.
    Unavailable,
    /// A defect in the console; `extensions.requestId` finds it in its log.
    Internal,
    /// A code that this version does not know.
    #[serde(other)]
    Unknown,
}

impl ErrorCode {
    /// The code as it is written in an answer.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unauthenticated => "UNAUTHENTICATED",
            Self::Forbidden => "FORBIDDEN",
            Self::NotFound => "NOT_FOUND",
            Self::Conflict => "CONFLICT",
            Self::Invalid => "INVALID",
            Self::RateLimited => "RATE_LIMITED",
            Self::Unavailable => "UNAVAILABLE",
            Self::Internal => "INTERNAL",
            Self::Unknown => "UNKNOWN",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_written_form_is_serdes_form_and_unknown_codes_are_survived() {
        for code in [
            ErrorCode::Unauthenticated,
            ErrorCode::Forbidden,
            ErrorCode::NotFound,
            ErrorCode::Conflict,
            ErrorCode::Invalid,
            ErrorCode::RateLimited,
            ErrorCode::Unavailable,
            ErrorCode::Internal,
        ] {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
        assert_eq!(serde_json::from_str::<ErrorCode>("\"TEAPOT\"").unwrap(), ErrorCode::Unknown);
    }
}
