//! The only program of a run's Job: it fetches the code of a stack by its digest, runs the commands that the console names, and reports
//! to the console what they printed, planned and changed. The protocol between both is in [`plural_core::run_call`].
//!
//! # Guarantees
//! - No command starts before the digest of the code, and of the plan that it applies, matches the console's.
//! - No secret value of the environment, no content of a file and no credential is printed or sent as a log, in clear or in base64.
//! - A line of a log is stored once, in order, however often the connection breaks. A command never waits for the console.
//! - A tool that is asked to stop gets its grace period, and nothing that it started outlives the command.
//! - Every wait has a limit, except that for a command within its own time limit.

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
