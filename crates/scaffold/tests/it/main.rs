//! The crate through its public door.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod automations;
mod catalogue;
mod certificates;
mod conditions;
mod edits;
mod filters;
mod hostile;
mod properties;
mod regexes;
mod stored;
mod upgrades;

use plural_scaffold::{
    Outcome, Request, ScaffoldError,
    files::{Entry, Files},
    run,
};
use serde_json::{Map, Value};

/// A request of an automation in YAML-like JSON, answers, and texts by path.
fn request(automation: Value, answers: Value, tree: &[(&str, &str)], external: &[(&str, &str)]) -> Request {
    let Value::Object(answers) = answers else { panic!("answers are a map") };
    Request {
        automation: serde_json::from_value(automation).unwrap(),
        answers,
        tree: Files::of_texts(tree.iter().copied()).unwrap(),
        external: Files::of_texts(external.iter().copied()).unwrap(),
        seed: "seed".to_owned(),
        ..Request::default()
    }
}

/// A request whose context needs no questions.
fn with_context(automation: Value, context: Value, tree: &[(&str, &str)]) -> Request {
    let Value::Object(context) = context else { panic!("context is a map") };
    Request { context, ..request(automation, Value::Object(Map::new()), tree, &[]) }
}

fn text<'o>(outcome: &'o Outcome, path: &str) -> &'o str {
    match outcome.changes.get(path) {
        Some(Some(Entry::File(file))) => std::str::from_utf8(&file.bytes).unwrap(),
        other => panic!("{path}: {other:?}; {:?}", outcome.changes.keys()),
    }
}

fn refused(request: &Request) -> String {
    match run(request) {
        Err(error @ ScaffoldError::Step { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}
