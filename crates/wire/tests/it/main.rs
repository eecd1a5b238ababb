//! The client against a server that answers what each test says.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod client;
mod server;
mod shapes;
