//! What is wrong with a document.

/// Why nothing is generated: a document that is no GraphQL, or asks for what there is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct Fault {
    /// The file, and the line where it is known: `documents/cluster.graphql:12`.
    pub place: String,
    /// What is wrong and what to do.
    pub reason: String,
}

impl Fault {
    pub(crate) fn new(place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { place: place.into(), reason: reason.into() }
    }
}
