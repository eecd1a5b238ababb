//! From a remote to an artifact, through the public API.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod artifact;
mod attacks;
mod authors;
mod blobs;
mod bundle;
mod closure;
mod crash;
mod fetch;
mod merge;
mod monorepo;
mod overlay;
mod quota;
mod reach;
mod refs;
mod secrets;
mod signature;
mod support;
mod watch;
