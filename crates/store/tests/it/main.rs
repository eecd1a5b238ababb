//! The use cases on both databases: every test here runs once on SQLite and, where there is one, once on
//! PostgreSQL.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod access;
mod agent;
mod cluster;
mod crash;
mod door;
mod feed;
mod git;
mod identity;
mod jobs;
mod secrets;
mod service;
