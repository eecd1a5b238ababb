//! A harness between a console that is made up here, and commands that are real.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod code;
mod console;
mod ends;
mod exec;
mod fixture;
mod logs;
mod outputs;
mod tools;
