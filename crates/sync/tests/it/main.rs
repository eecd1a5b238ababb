//! Syncing against clusters.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod crash;
mod fixture;
mod life;
mod overload;
mod trouble;
