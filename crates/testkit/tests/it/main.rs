//! The testkit itself: what tests stand on must stand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod cluster;
mod conformance;
mod database;
mod fault_proxy;
mod git;
mod leftovers;
mod node;
mod process;
mod real;
mod small_disk;
