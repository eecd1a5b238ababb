//! PostgreSQL and SQLite behind the ports of `app`. The only SQL.
//!
//! # Guarantees
//! - One method of a port is one transaction; what it writes, its audit line and its events commit together.
//! - SQLite: one writer connection (`BEGIN IMMEDIATE`), readers beside it, write-ahead log with
//!   `synchronous=FULL`: what was acknowledged survives a power cut. (`NORMAL` would lose the last commits with
//!   the power, and agents forget reports that we acknowledged; batching, not `NORMAL`, is what makes writes cheap.)
//! - PostgreSQL: the feed is read below the oldest transaction that still runs, so that events that
//!   commit out of order are never skipped.

mod agent;
mod agent_upgrade;
mod api_deprecation;
mod audit;
mod audit_chain;
mod audit_state;
mod bounded;
mod canary_gate;
mod cluster;
mod cluster_audit;
mod cluster_facet;
mod cluster_issuer;
mod component;
mod confirmation;
mod context_import;
mod convert;
mod custom_stack_run;
mod data_key;
mod database;
mod delta;
mod dependency;
mod deploy_token;
mod disk;
mod drift;
mod error;
mod facet;
mod federated_credential;
mod feed;
mod fleet_plan;
mod fleet_plan_follow;
mod fleet_plan_part;
mod fleet_preview;
mod given_membership;
mod global_service;
mod group;
mod health_change;
mod helm_repository;
mod identity;
mod identity_provider;
mod instance;
mod instance_list;
mod invite;
mod job;
mod login;
mod machine_account;
mod managed_namespace;
mod many;
mod migration;
mod mirror;
mod page;
mod passkey;
mod persona;
mod plan;
mod policy;
mod pr_automation;
mod pr_governance;
mod pr_instance;
mod pr_secret;
mod program_login;
mod project;
mod project_limits;
mod project_stack_rules;
mod pull_request;
mod pull_request_key;
mod pull_request_life;
mod pull_request_merge;
mod quota;
mod recording;
mod recording_policy;
mod records;
mod registration_token;
mod replica;
mod repository;
mod repository_webhook;
mod revision;
mod role;
mod saved_view;
mod scm_connection;
mod scm_webhook;
mod seal;
mod second_factor;
mod secret_backend;
#[cfg(feature = "seed")]
mod seed;
mod service;
mod service_context;
mod service_error;
mod service_facet;
mod service_import;
mod service_life;
mod service_metadata;
mod service_repository;
mod service_status;
mod sole_use;
mod sorted;
mod source;
mod stack;
mod stack_definition;
mod stack_dependency;
mod stack_run;
mod stack_settings;
mod stack_state;
mod stack_tag;
mod sync;
mod sync_report;
mod sync_window;
mod token;
mod transaction;
mod user;
mod user_identity;
mod work;

pub use database::{Database, DatabaseOptions, OpenError};
pub use quota::Quotas;
pub use sole_use::SoleUse;
