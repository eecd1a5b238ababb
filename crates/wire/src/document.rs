//! One GraphQL operation as one type.

use serde::{Serialize, de::DeserializeOwned};

/// Whether an operation reads or writes; decides what may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    /// Reads: repeated after any transport failure.
    Query,
    /// Writes: repeated only when the request cannot have reached the console.
    Mutation,
}

/// A GraphQL operation with one root field. The implementing struct is the set of variables.
pub trait Operation: Serialize + Sync {
    /// What the root field answers.
    type Data: DeserializeOwned;
    /// `operationName`.
    const NAME: &'static str;
    /// Query or mutation.
    const KIND: OperationKind;
    /// The root field whose value is [`Operation::Data`].
    const FIELD: &'static str;
    /// The document's text.
    const DOCUMENT: &'static str;
}
