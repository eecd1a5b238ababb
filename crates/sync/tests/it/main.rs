//! Syncing against clusters.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod attacks;
mod crash;
mod custom_health;
mod days;
mod fixture;
mod guard;
mod health;
mod life;
mod namespaces;
mod overload;
mod plan;
mod promote;
mod tenancy;
mod tree;
mod trouble;
mod waves;
mod webhooks;
