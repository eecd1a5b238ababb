//! The use cases on both databases: cases are `each_database!`, and run as `sqlite::…` and, where there is one,
//! as `postgres::…`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod access;
mod agent;
mod agent_report;
mod audit_chain;
mod background_job;
mod binding;
mod canary_gate;
mod clock;
mod cluster;
mod cluster_audit;
mod crash;
mod dependency;
mod deploy_token;
mod descriptions;
mod door;
mod feed;
mod fleet;
mod git;
mod global_service;
mod identity;
mod instance_pages;
mod jobs;
mod kinds_of_jobs;
mod machine_account;
mod managed_namespace;
mod monorepo;
mod moves;
mod nul;
mod policy;
mod quota;
mod recording;
mod replicas;
mod role;
mod rollout;
mod saved_view;
mod secrets;
mod service;
mod service_context;
mod service_life;
mod settings;
mod sync;
mod tenancy;
mod token;
mod worker;
