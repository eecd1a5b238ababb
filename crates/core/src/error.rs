//! What a caller may be told when something fails, and what only the log may know.

use std::borrow::Cow;

use crate::form::{FieldErrors, told};
use crate::ids::RequestId;

/// Result of a use case.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a use case. `Display` is fit for the caller; what is not (the cause of
/// [`Error::Internal`] and [`Error::Unavailable`]) is reachable only through `source` and is
/// logged once, where the error stops.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It does not exist, or the caller may not know that it does. The text is compared by clients.
    #[error("could not find resource")]
    NotFound {
        /// What was looked for: "cluster".
        noun: &'static str,
        /// The argument that named it, where it is another than what the request is about: "attributes.repositoryId".
        field: Option<&'static str>,
    },
    /// The caller may see it but not do this.
    #[error("forbidden: {reason}")]
    Forbidden {
        /// What is missing, in words.
        reason: Cow<'static, str>,
    },
    /// No credential, or one that is wrong, expired or revoked (never told apart).
    #[error("unauthenticated")]
    Unauthenticated,
    /// A value that cannot be accepted.
    #[error("{field}: {reason}")]
    Invalid {
        /// The argument, as the caller named it: "attributes.name".
        field: Cow<'static, str>,
        /// What is wrong with it and what would be right.
        reason: Cow<'static, str>,
    },
    /// Answers to the questions of a form that cannot be accepted.
    #[error("{field}: {}", told(.answers))]
    Answers {
        /// The argument that has the answers: "context".
        field: &'static str,
        /// Of each question what is wrong with its answer, and never the answer.
        answers: FieldErrors,
    },
    /// It clashes with what is there.
    #[error("{reason}")]
    Conflict {
        /// With what, and the next step.
        reason: Cow<'static, str>,
    },
    /// It may work later.
    #[error("{reason}")]
    Unavailable {
        /// What the caller should wait for.
        reason: Cow<'static, str>,
        /// For the log only.
        #[source]
        cause: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// Our fault. The caller gets a request id, the log gets the cause.
    #[error("internal error")]
    Internal {
        /// For the log only: what we were doing.
        doing: Cow<'static, str>,
        /// For the log only.
        #[source]
        cause: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

/// The kind of an [`Error`], for status codes and for `extensions.code`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// HTTP 404.
    NotFound,
    /// HTTP 403.
    Forbidden,
    /// HTTP 401.
    Unauthenticated,
    /// HTTP 422.
    Invalid,
    /// HTTP 409.
    Conflict,
    /// HTTP 503.
    Unavailable,
    /// HTTP 500.
    Internal,
}

impl ErrorCode {
    /// The HTTP status.
    pub const fn http_status(self) -> u16 {
        match self {
            Self::NotFound => 404,
            Self::Forbidden => 403,
            Self::Unauthenticated => 401,
            Self::Invalid => 422,
            Self::Conflict => 409,
            Self::Unavailable => 503,
            Self::Internal => 500,
        }
    }

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "NOT_FOUND",
            Self::Forbidden => "FORBIDDEN",
            Self::Unauthenticated => "UNAUTHENTICATED",
            Self::Invalid => "INVALID",
            Self::Conflict => "CONFLICT",
            Self::Unavailable => "UNAVAILABLE",
            Self::Internal => "INTERNAL",
        }
    }
}

/// What leaves the building.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicError {
    /// Kind.
    pub code: ErrorCode,
    /// Text for the caller.
    pub message: String,
    /// The argument at fault, for [`ErrorCode::Invalid`]; for [`ErrorCode::NotFound`] the one that names nothing.
    pub field: Option<String>,
    /// What is wrong with which answer, where the argument has answers to the questions of a form.
    pub answers: FieldErrors,
    /// By which the log line is found.
    pub request_id: RequestId,
}

impl Error {
    /// It does not exist, or must seem so.
    pub const fn not_found(noun: &'static str) -> Self {
        Self::NotFound { noun, field: None }
    }

    /// The same error; when something was not found, `field` is the argument that named it.
    #[must_use]
    pub fn named_in(self, field: &'static str) -> Self {
        match self {
            Self::NotFound { noun, field: None } => Self::NotFound { noun, field: Some(field) },
            other => other,
        }
    }

    /// The caller may see it but not do this.
    pub fn forbidden(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Forbidden { reason: reason.into() }
    }

    /// A value that cannot be accepted.
    pub fn invalid(field: impl Into<Cow<'static, str>>, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Invalid { field: field.into(), reason: reason.into() }
    }

    /// It clashes with what is there.
    pub fn conflict(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Conflict { reason: reason.into() }
    }

    /// It may work later.
    pub fn unavailable(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Unavailable { reason: reason.into(), cause: None }
    }

    /// Our fault; `doing` says what we were at, for the log.
    pub fn internal(
        doing: impl Into<Cow<'static, str>>,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Internal { doing: doing.into(), cause: Some(cause.into()) }
    }

    /// The kind of this error.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::NotFound { .. } => ErrorCode::NotFound,
            Self::Forbidden { .. } => ErrorCode::Forbidden,
            Self::Unauthenticated => ErrorCode::Unauthenticated,
            Self::Invalid { .. } | Self::Answers { .. } => ErrorCode::Invalid,
            Self::Conflict { .. } => ErrorCode::Conflict,
            Self::Unavailable { .. } => ErrorCode::Unavailable,
            Self::Internal { .. } => ErrorCode::Internal,
        }
    }

    /// What the caller of this request is told. Internal errors carry the request's id in their text.
    pub fn public(&self, request_id: RequestId) -> PublicError {
        let message = match self {
            Self::Internal { .. } => format!("internal error (request {request_id})"),
            other => other.to_string(),
        };
        let field = match self {
            Self::Invalid { field, .. } => Some(field.to_string()),
            Self::NotFound { field, .. } => field.map(str::to_owned),
            Self::Answers { field, .. } => Some((*field).to_owned()),
            _ => None,
        };
        let answers = match self {
            Self::Answers { answers, .. } => answers.clone(),
            _ => FieldErrors::new(),
        };
        PublicError { code: self.code(), message, field, answers, request_id }
    }

    /// The whole chain for the log, one line.
    pub fn log_text(&self) -> String {
        let mut text = match self {
            Self::Internal { doing, .. } => format!("internal error: {doing}"),
            other => other.to_string(),
        };
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            source = cause.source();
        }
        text
    }
}

impl From<plural_specs::Fault> for Error {
    fn from(fault: plural_specs::Fault) -> Self {
        let plural_specs::Fault { path, reason } = fault;
        Self::invalid(path, reason)
    }
}

impl From<crate::ids::IdError> for Error {
    /// An id that is none names nothing that exists.
    fn from(error: crate::ids::IdError) -> Self {
        Self::NotFound { noun: error.noun, field: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_stays_inside() {
        let error = Error::internal("reading a cluster", std::io::Error::other("password=hunter2"));
        let id = RequestId::new();
        let public = error.public(id);
        assert_eq!(public.message, format!("internal error (request {id})"));
        assert_eq!(error.log_text(), "internal error: reading a cluster: password=hunter2");
    }

    #[test]
    fn answers_are_told_in_one_line_and_by_their_questions() {
        let answers = [("a", "needs an answer"), ("b", "must be JSON")];
        let answers = answers.map(|(name, why)| (name.to_owned(), why.to_owned()));
        let error = Error::Answers { field: "context", answers: answers.clone().into() };
        assert_eq!(error.code(), ErrorCode::Invalid);
        assert_eq!(error.to_string(), "context: a needs an answer; b must be JSON");
        let public = error.public(RequestId::new());
        assert_eq!((public.field.as_deref(), public.answers), (Some("context"), answers.into()));
    }

    #[test]
    fn clients_compare_this_text() {
        assert_eq!(Error::not_found("cluster").to_string(), "could not find resource");
        assert_eq!(Error::Unauthenticated.to_string(), "unauthenticated");
    }
}
