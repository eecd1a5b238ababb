//! Makes the client's Rust types from its GraphQL documents and the schema.
//!
//! `crates/wire/documents/NOUN.graphql` becomes `crates/wire/src/generated/NOUN.rs`: a struct for each fragment and
//! each operation, and the enumerations and inputs that these need. All documents share one namespace.
//!
//! - An object is selected by a fragment, whose name its struct has: `cluster { ...ClusterRef }`. Of a field that is
//!   not read further, `{ id }` is enough.
//! - A fragment that spreads another has its struct in a field, flattened.
//! - A fragment `Name_more` adds fields to the struct `Name` that only some operations ask for.
//! - The comment above a definition is its documentation; without one, the schema's description is.
//! - `tables.rs` says what is secret, and which types are written by hand.
//!
//! `graphql_client_codegen` makes types per operation: it does not share a fragment's type between operations, and it
//! knows neither secrets, nor unknown words in answers, nor which lists are never null.
//!
//! # Guarantees
//! - The same documents and schema give the same bytes.
//! - A field, argument, fragment or scalar that is not known is an error that names the line of its definition.

mod document;
mod emit;
mod fault;
mod model;
mod resolve;
mod schema;
mod tables;

use std::collections::BTreeMap;

pub use crate::fault::Fault;
use crate::{document::Documents, resolve::Resolver, schema::Schema};

/// Makes the files of the client: their paths below `crates/wire/src`, and their texts. `documents` has the text of
/// each `NOUN.graphql` under its noun.
///
/// # Errors
/// [`Fault`]: a document is no GraphQL, or asks for what the schema does not have.
pub fn client(documents: &BTreeMap<String, String>, schema: &str) -> Result<BTreeMap<String, String>, Fault> {
    let schema = Schema::parse(schema)?;
    let documents = Documents::parse(documents)?;
    let modules = Resolver::new(&schema, &documents).modules()?;
    Ok(emit::files(&modules))
}
