//! The agent: what runs in every workload cluster. It dials out, takes what its console wants, makes
//! the cluster so, and tells what became of it.
//!
//! A library without globals: one process may hold a thousand agents.
//!
//! # Guarantees
//! - No inbound connection is accepted.
//! - Nothing that the agent keeps on disk is the only copy: what it owns is recorded in the cluster, what it
//!   should do is asked again. Its folder may be deleted at any time. Its deploy token is in a Secret of its own.
//! - Only the holder of the lease acts, so that two replicas never write at once. The lease is the
//!   only write of an idle agent, but for the Secret when its token is replaced.
//! - A Job of a run counts only with a number that the console gave for it.

mod agent;
mod artifacts;
mod candidate;
mod cluster;
mod commands;
mod config;
mod credential;
mod desired;
mod encrypted;
mod facts;
pub mod fuzzing;
mod inbox;
mod inputs;
mod journal;
mod last;
mod lease;
mod link;
mod masking;
mod metadata;
mod pr_secrets;
mod proxy;
mod reconcile;
mod render;
mod renders;
mod report;
mod reports;
mod runs;
mod scheduler;
mod target;
mod vault;

pub use agent::{Agent, AgentError, RunningAgent};
pub use commands::CommandRenderers;
pub use config::{AgentConfig, AgentEvent, Observer, Parts, TokenStep};
pub use proxy::ProxyPolicy;
pub use renders::usual_render_limits;
pub use runs::RunsConfig;
pub use vault::{VaultConfig, VaultConfigError};
