//! What a GraphQL document may be, checked before the library that executes it sees it.
//!
//! The library expands fragments while it checks a document: a document of a kilobyte can keep it busy for hours. So
//! the text is scanned before it is parsed, and the parsed document is measured without being expanded. What passes
//! is small once expanded, and everything after it may be as simple as it likes.

mod nul;
mod scan;
mod shape;
mod size;
mod weight;

use async_graphql::{
    ServerError, Variables,
    parser::{
        parse_query,
        types::{DocumentOperations, ExecutableDocument, OperationType, Selection, SelectionSet},
    },
};
use plural_core::Error;

pub(crate) use nul::refuse_nul;
pub(crate) use scan::scan_json;
use scan::{ScanLimits, scan};
pub(crate) use weight::MOST_WEIGHT;

/// Bytes of a document: far more than any real one, far less than what is slow to parse.
const LARGEST: usize = 64 << 10;
/// The same of somebody without a credential, who can sign in and nothing else.
const LARGEST_OF_NOBODY: usize = 4 << 10;
const SCAN: ScanLimits = ScanLimits { depth: 64, tokens: 10_000 };
const SCAN_OF_NOBODY: ScanLimits = ScanLimits { depth: 8, tokens: 300 };
/// Fragments of a document.
const MOST_FRAGMENTS: usize = 32;
/// Fields, inline fragments and spreads, with all fragments expanded.
const MOST_SELECTIONS: u64 = 2_000;
/// Directives, with all fragments expanded.
const MOST_DIRECTIVES: u64 = 200;
/// Values in arguments, with all fragments and variables expanded: each use of a variable copies its value.
const MOST_VALUES: u64 = 100_000;
/// Bytes of these.
const MOST_VALUE_BYTES: u64 = 16 << 20;
/// Nested selection sets, spreads included.
const DEEPEST: u64 = 32;
/// Root fields of one query, aliases counted.
const MOST_QUERY_FIELDS: usize = 50;
/// Root fields of one mutation, aliases counted: each is a write, or a password to try.
const MOST_MUTATION_FIELDS: usize = 10;
/// How deep variables may nest.
const DEEPEST_VALUE: usize = 64;

/// Why a document is not looked at any further, in words for its sender.
#[derive(Debug)]
pub(crate) struct Refusal(String);

impl Refusal {
    fn new(told: impl Into<String>) -> Self {
        Self(told.into())
    }
}

/// Whether the sender has shown a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    /// It has not: it may sign in, and ask for `__typename`.
    Nobody,
    /// It has.
    Known,
}

/// Why a document is not executed.
#[derive(Debug)]
pub(crate) enum Rejection {
    /// It needs a credential.
    Unauthenticated,
    /// Its credential is none for what it asks.
    NotForIt,
    /// It has too many bytes.
    TooLong(String),
    /// It exceeds another limit.
    Limit(String),
    /// It is no GraphQL.
    Syntax(ServerError),
    /// A value in it is at fault.
    Invalid(Error),
}

impl From<Refusal> for Rejection {
    fn from(Refusal(told): Refusal) -> Self {
        Self::Limit(told)
    }
}

/// Parses a document and holds it to its limits.
///
/// # Errors
/// [`Rejection`], in time that grows with the bytes of the document only.
pub(crate) fn read(
    text: &str,
    variables: &Variables,
    sender: Sender,
) -> Result<ExecutableDocument, Rejection> {
    let (largest, limits) = match sender {
        Sender::Nobody => (LARGEST_OF_NOBODY, SCAN_OF_NOBODY),
        Sender::Known => (LARGEST, SCAN),
    };
    if text.len() > largest {
        let credential = if sender == Sender::Nobody { ", the limit without a credential" } else { "" };
        return Err(Rejection::TooLong(format!(
            "the document is longer than {} KiB{credential}",
            largest >> 10
        )));
    }
    match sender {
        Sender::Nobody => {
            scan(text, limits).map_err(|_| Rejection::Unauthenticated)?;
            let document = parse_query(text).map_err(|_| Rejection::Unauthenticated)?;
            if only_signs_in(&document) { Ok(document) } else { Err(Rejection::Unauthenticated) }
        }
        Sender::Known => {
            scan(text, limits)?;
            let document = parse_query(text).map_err(|error| Rejection::Syntax(error.into()))?;
            check(&document, variables)?;
            Ok(document)
        }
    }
}

/// One operation that signs in, once, or asks for nothing but `__typename`. Its fields stand where they are answered:
/// there are no fragments to hide others in.
fn only_signs_in(document: &ExecutableDocument) -> bool {
    let Some((kind, selections)) = single(document) else { return false };
    if kind == OperationType::Subscription {
        return false;
    }
    let (mut sign_ins, mut others) = (0, 0);
    for item in &selections.items {
        match &item.node {
            Selection::Field(field) => match field.node.name.node.as_str() {
                "signIn" if kind == OperationType::Mutation => sign_ins += 1,
                "__typename" => others += 1,
                _ => return false,
            },
            Selection::FragmentSpread(_) | Selection::InlineFragment(_) => return false,
        }
    }
    sign_ins <= 1 && others <= 1 && document.fragments.is_empty() && only_fields(selections)
}

/// Nesting was bounded by the scan.
fn only_fields(set: &SelectionSet) -> bool {
    set.items.iter().all(|item| match &item.node {
        Selection::Field(field) => only_fields(&field.node.selection_set.node),
        Selection::FragmentSpread(_) | Selection::InlineFragment(_) => false,
    })
}

/// Kind and selections of the document's operation, if it has one only.
fn single(document: &ExecutableDocument) -> Option<(OperationType, &SelectionSet)> {
    let operation = match &document.operations {
        DocumentOperations::Single(operation) => operation,
        DocumentOperations::Multiple(operations) if operations.len() == 1 => operations.values().next()?,
        DocumentOperations::Multiple(_) => return None,
    };
    Some((operation.node.ty, &operation.node.selection_set.node))
}

fn check(document: &ExecutableDocument, variables: &Variables) -> Result<(), Refusal> {
    let Some((kind, selections)) = single(document) else {
        return Err(Refusal::new(
            "a document must have one operation; send each operation in its own request",
        ));
    };
    if document.fragments.len() > MOST_FRAGMENTS {
        return Err(Refusal::new(format!("a document may have at most {MOST_FRAGMENTS} fragments")));
    }
    if variables.values().any(|value| deeper_than(value, DEEPEST_VALUE)) {
        return Err(Refusal::new(format!("a variable nests deeper than {DEEPEST_VALUE} lists and objects")));
    }
    let variable_sizes = size::variable_sizes(document, variables);
    let size = size::expanded(document, &variable_sizes)?;
    for (found, most, what) in [
        (size.selections, MOST_SELECTIONS, "fields, aliases and fragments counted"),
        (size.directives, MOST_DIRECTIVES, "directives"),
        (size.values, MOST_VALUES, "values in arguments, variables counted at each use"),
        (size.bytes, MOST_VALUE_BYTES, "bytes of arguments, variables counted at each use"),
        (size.depth, DEEPEST, "nested selections"),
    ] {
        if found > most {
            return Err(Refusal::new(format!(
                "with its fragments expanded, the document has more than {most} {what}"
            )));
        }
    }
    weight::typenames(document, selections, true)?;
    let roots = weight::check(document, selections, kind, variables, &variable_sizes)?;
    let most = match kind {
        OperationType::Query => MOST_QUERY_FIELDS,
        OperationType::Mutation => MOST_MUTATION_FIELDS,
        OperationType::Subscription => 1,
    };
    if roots > most {
        return Err(Refusal::new(format!("a {kind} may have at most {most} root fields, aliases counted")));
    }
    Ok(())
}

fn deeper_than(value: &async_graphql::Value, most: usize) -> bool {
    use async_graphql::Value;
    match value {
        Value::List(items) => most == 0 || items.iter().any(|item| deeper_than(item, most - 1)),
        Value::Object(fields) => most == 0 || fields.values().any(|field| deeper_than(field, most - 1)),
        Value::Null
        | Value::Number(_)
        | Value::String(_)
        | Value::Boolean(_)
        | Value::Binary(_)
        | Value::Enum(_) => false,
    }
}

/// How many nodes an answer to a document of a known sender may be expected to have.
///
/// # Errors
/// As [`read`].
pub(crate) fn weigh(text: &str, variables: &Variables) -> Result<u64, Rejection> {
    let document = read(text, variables, Sender::Known)?;
    let Some((kind, selections)) = single(&document) else { return Ok(0) };
    let sizes = size::variable_sizes(&document, variables);
    Ok(weight::weigh(&document, selections, kind, variables, &sizes)?.0)
}
