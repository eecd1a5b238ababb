//! An agent between a console and a cluster.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod assertions;
mod console;
mod credential;
mod fixture;
mod idle;
mod life;
mod pr_secrets;
mod runs;
mod trouble;
mod work;
