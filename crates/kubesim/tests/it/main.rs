//! The simulated API server, tried through its ports.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod kubectl;
mod server;
