//! Builds through the crate's public door.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod cases;
mod corpus;
