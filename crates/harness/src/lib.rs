//! The only program of a run's Job: it fetches the code of a stack by its digest, runs the commands that the console names, and tells
//! the console what they printed, planned and changed. What both say to each other is in [`plural_core::run_call`].
//!
//! # Guarantees
//! - No command begins before the digest of the code, and of the plan that it applies, is that of the console.
//! - No secret value of the environment, no content of a file and no credential is printed or sent as a log, in clear or in base64.
//! - A line of a log is kept once, in order, however often the connection breaks. A command never waits for the console.
//! - A tool that is asked to stop has its grace, and nothing that it started outlives the command.
//! - No wait is without an end, but that for a command within its own time.

mod artifact;
mod beat;
mod child;
mod clip;
mod console;
mod end;
mod environment;
mod findings;
mod log;
mod mask;
mod outputs;
mod plan;
mod pulumi;
mod rescue;
mod run;
mod summary;
mod workspace;

pub use run::{ConsoleProxy, Echo, HarnessConfig, Outcome, PROXY_VARIABLE, Pace, TOKEN_VARIABLE, run};
