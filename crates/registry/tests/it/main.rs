//! The client against a real static web server and a real registry.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::format_push_string,
    clippy::case_sensitive_file_extension_comparisons,
    reason = "tests"
)]

mod attacks;
mod charts;
mod oci;
mod support;
