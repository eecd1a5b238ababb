//! Rendering through the crate's public door.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod attacks;
mod charts;
mod differential;
mod helm_corpus;
mod lua;
mod raw;
mod renderers;
mod scaling;
mod services;
