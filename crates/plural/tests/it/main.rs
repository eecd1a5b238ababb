//! What only the whole product can show: the program itself, and console, agents, git and clusters together.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod cluster_days;
mod demo;
mod disk;
mod health;
mod killed;
mod program;
mod rendering;
mod sandbox;
mod secrets;
mod source_days;
mod tokens;
mod world;
