//! Why a repository could not be read: [`Error`].

/// What a function here gives.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a repository could not be read. Its text is for the owner of the service or repository: it names the address and
/// the next step, and never holds a credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// What kind of trouble it is.
    pub cause: Cause,
    /// For the owner.
    pub message: String,
}

/// What kind of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// What was asked for cannot be meant: an address, name or version that is none.
    Invalid,
    /// The address is one that is not talked to.
    Refused,
    /// The repository wants other credentials.
    Unauthorized,
    /// The repository has no such thing.
    NotFound,
    /// It is not what it should be: another digest, no signature, an older version.
    Untrusted,
    /// It is larger than is read.
    TooLarge,
    /// It cannot be read as what it claims to be.
    Malformed,
    /// It did not answer, or not now.
    Unavailable,
}

impl Error {
    /// An error of this kind.
    pub fn new(cause: Cause, message: impl Into<String>) -> Self {
        Self { cause, message: message.into() }
    }

    /// Whether trying again without a change may help.
    pub fn is_transient(&self) -> bool {
        self.cause == Cause::Unavailable
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Cause::Invalid, message)
    }

    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::new(Cause::Malformed, message)
    }

    pub(crate) fn untrusted(message: impl Into<String>) -> Self {
        Self::new(Cause::Untrusted, message)
    }
}
