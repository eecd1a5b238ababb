//! What a build says when it fails.

use std::fmt;

use plural_yaml::governor;

/// Why a build failed, coarsely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The input is wrong; the message reads as the program's.
    Input,
    /// A limit was exceeded.
    Limit,
    /// Something remote is named that the caller did not supply.
    Remote,
    /// A chart is named and no renderer for charts was given, or it failed.
    Helm,
}

/// A failed build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Input, message: message.into() }
    }

    pub(crate) fn of(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    pub(crate) fn limit(name: &str, limit: u64) -> Self {
        Self::of(ErrorKind::Limit, format!("the build exceeds the limit on {name} ({limit})"))
    }

    /// The caller ended the build.
    pub(crate) fn stopped() -> Self {
        Self::of(ErrorKind::Limit, governor::STOPPED)
    }

    /// Puts what was being done in front.
    pub(crate) fn within(mut self, doing: impl fmt::Display) -> Self {
        // A limit says all there is to say; piling up context would only cost memory.
        if self.kind != ErrorKind::Limit {
            self.message = format!("{doing}: {}", self.message);
        }
        self
    }

    /// Replaces the text, keeping the kind.
    pub(crate) fn reworded(self, message: String) -> Self {
        if self.kind == ErrorKind::Limit { self } else { Self { kind: self.kind, message } }
    }

    /// Leaves out what a node holds: it may be a secret.
    pub(crate) fn without_contents(mut self) -> Self {
        if let Some(i) = self.message.find(": node contents:") {
            self.message.truncate(i);
        }
        self
    }

    /// Why, coarsely.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The text without the `Error: ` that the program prints before it.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Shorthand of this module.
pub(crate) type Res<T> = Result<T, Error>;

/// Adds context to a failed result.
pub(crate) trait Within<T> {
    fn within<D: fmt::Display>(self, doing: impl FnOnce() -> D) -> Res<T>;
}

impl<T> Within<T> for Res<T> {
    fn within<D: fmt::Display>(self, doing: impl FnOnce() -> D) -> Res<T> {
        self.map_err(|e| e.within(doing()))
    }
}
