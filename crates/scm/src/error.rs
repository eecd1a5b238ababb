//! Why a git host did not do what it was asked for: [`Error`].

use std::time::Duration;

/// What a function here gives.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a git host did not do it. The text is for the owner of the connection and never holds a credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// What kind of trouble it is.
    pub cause: Cause,
    /// For the owner.
    pub message: String,
    /// What the host itself said, short and on one line: adapters tell cases apart by it.
    pub(crate) said: String,
    /// The status of the answer.
    pub(crate) status: Option<u16>,
}

/// What kind of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// What was asked for cannot be meant.
    Invalid,
    /// The host takes no more requests for so long.
    RateLimited {
        /// The time to wait.
        wait: Duration,
    },
    /// There is no such thing, or the credential does not see it.
    NotFound,
    /// The credential is not accepted, or may not do it.
    Refused,
    /// It is there already, or cannot be done in this state.
    Conflict,
    /// A branch, or a pull request's head, is not where it was expected.
    Moved,
    /// The answer ended before its end. Whether a write was done is not known: read it back.
    HalfAnswer,
    /// The host cannot answer now. Whether a write was done is not known either: read it back.
    Temporary,
    /// The answer is larger than is read.
    TooLarge,
    /// The answer is none of this kind of host.
    Malformed,
    /// This kind of host cannot do it.
    Unsupported,
}

impl Error {
    /// An error of this kind.
    pub fn new(cause: Cause, message: impl Into<String>) -> Self {
        Self { cause, message: message.into(), said: String::new(), status: None }
    }

    /// Whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self.cause, Cause::RateLimited { .. } | Cause::HalfAnswer | Cause::Temporary)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Cause::Invalid, message)
    }

    /// The same, known to be of this kind.
    pub(crate) fn with_cause(mut self, cause: Cause) -> Self {
        self.cause = cause;
        self
    }
}
