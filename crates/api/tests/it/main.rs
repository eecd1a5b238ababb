//! What the schema serves, without a console behind it. Behaviour is tested through a real one, in `console`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod documents;
mod generated;
mod limits;
mod schema;
