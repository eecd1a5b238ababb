//! The commands as a person calls them: arguments in, standard output, standard error and exit code out.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod answers;
mod audit;
mod clusters;
mod completion;
mod documents;
mod failures;
mod generated;
mod global_services;
mod help;
mod hostile;
mod jobs;
mod login;
mod managed_namespaces;
mod names;
mod original;
mod output;
mod pr;
mod pr_automations;
mod pr_life;
mod pr_open;
mod pr_plan;
mod proof;
mod repositories;
mod run;
mod scm_connections;
mod server;
mod services;
mod stack_commands;
mod stack_definitions;
mod stack_exec;
mod stack_runs;
mod stacks;
mod sync_windows;
mod tokens;
mod whole;
