//! The fleet as files: documents of the kinds that a Kubernetes operator will take, applied through the console's API.
//!
//! A document goes through these steps, each in a file of its own:
//!
//! 1. `read`: files become documents. `node` keeps the line of every value, `schema` checks a document against the table of its
//!    kind's fields. All problems of all files are told at once.
//! 2. `resolve`: references become natural keys (an address, a handle, `CLUSTER/NAME`), first among the files, then in the
//!    console; Secrets become values; the order follows from the references.
//! 3. `plan`: what the console has is read as the same fields (`state`), and what the document names is put over it.
//! 4. `apply`, `diff`, `delete`, `get` act on that; `print` writes documents, `set` is the record behind `--prune`.
//!
//! What differs from kind to kind is in a file for each kind: its table of fields, how it is read from the API and written to
//! it. `thing` chooses among them; `rendering` and `template` are shared by the kinds that hold services.
//!
//! Hidden values (credentials, configuration, values of charts) are kept apart from a state, so that nothing that prints a state
//! can show one. Where the console does not tell them, it is sent them and decides itself whether they are other ones: it writes
//! nothing where they are not.

mod apply;
mod args;
mod cluster;
mod console;
mod delete;
mod diff;
mod explain;
mod get;
mod git_repository;
mod global_service;
mod helm_repository;
mod kind;
mod managed_namespace;
mod node;
mod plan;
mod print;
mod project;
mod read;
mod rendering;
mod resolve;
mod schema;
mod service;
mod service_context;
mod set;
mod stack;
mod stack_definition;
mod stack_fields;
mod state;
mod sync_window;
mod template;
mod thing;
mod waiting;

pub(crate) use args::{ApplyArgs, DeleteArgs, DiffArgs, ExplainArgs, GetArgs};
pub(crate) use console::document_names;
pub(crate) use kind::Kind;

use crate::{connect::connect, error::CliError, terminal::Terminal};

pub(crate) async fn apply(args: ApplyArgs, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let connection = connect(&args.connection, terminal)?;
    apply::run(args, &connection.client, terminal).await
}

pub(crate) async fn diff(args: DiffArgs, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let connection = connect(&args.connection, terminal)?;
    diff::run(args, &connection.client, terminal).await
}

pub(crate) async fn delete(args: DeleteArgs, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let connection = connect(&args.connection, terminal)?;
    delete::run(args, &connection.client, terminal).await
}

pub(crate) async fn get(args: GetArgs, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let connection = connect(&args.connection, terminal)?;
    get::run(args, &connection.client, terminal).await
}

pub(crate) fn explain(args: &ExplainArgs, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    explain::run(args, terminal)
}
