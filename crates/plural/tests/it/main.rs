//! What only the whole product can show: the program itself, and console, agents, git and clusters together.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::format_push_string,
    clippy::format_collect,
    clippy::case_sensitive_file_extension_comparisons,
    reason = "tests"
)]

mod acceptance;
mod agent_tokens;
mod asker;
mod attacks;
mod backup;
mod canaries;
mod canary_inputs;
mod chart_days;
mod charts;
mod cluster_days;
mod coming_from;
mod completion;
mod contexts;
mod database_days;
mod demo;
mod dependencies;
mod descriptions;
mod disk;
mod door;
mod encrypted;
mod files;
mod first_password;
mod fleet_plans;
mod fleet_previews;
mod generated;
mod global_services;
mod health;
mod heavy;
mod keys;
mod killed;
mod kubectl;
mod line;
mod line_days;
mod logs;
mod machines;
mod managed_namespaces;
mod masked;
mod metrics;
mod mirrors;
mod pages;
mod people;
mod plain_ssh;
mod pr_catalogue;
mod pr_secrets;
mod previous_agent;
mod private_files;
mod program;
mod program_login;
mod proxy;
mod proxy_access;
mod proxy_attacks;
mod proxy_world;
mod pull_requests;
mod raw;
mod recordings;
mod reference_kinds;
mod references;
mod remains;
mod rendering;
mod replicas;
mod replicas_killed;
mod route_sweep;
mod rules;
mod sandbox;
mod sandbox_workers;
mod scaffold;
mod secret_backends;
mod secrets;
mod shells;
mod source_days;
mod sso_keycloak;
mod stack_runs;
mod stacks;
mod standing;
mod sync;
mod template;
mod tenancy;
mod tokens;
mod vault;
mod web_console;
mod world;

/// As in the program: renders are held to what they really hold.
#[global_allocator]
static ALLOCATOR: plural_kit::meter::Counting = plural_kit::meter::Counting;
