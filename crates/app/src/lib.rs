//! Use cases by noun, authorisation, jobs. Knows no adapter: databases, git and blobs are ports that
//! `console` fills.
//!
//! # Guarantees
//! - Every use case passes [`plural_core::access::authorize`]: a store's lookup answers with a closed
//!   [`Guarded`], only [`Authorized`] handles open writes, and every such write carries its audit line ([`Audited`]).
//! - A request never waits for git: it validates, writes, and the feed wakes the jobs.
//! - An unchanged agent poll is answered from memory.

pub mod access;
pub mod agent;
pub mod agent_call;
pub mod agent_poll;
pub mod agent_run;
pub mod api_deprecation;
pub mod app;
pub mod audit;
pub mod audit_chain;
mod audit_expiry;
pub mod audit_stream;
pub mod audit_verify;
pub mod canary_gate;
pub mod cluster;
mod cluster_audit;
pub mod cluster_facet;
pub mod confirmation;
pub mod ctx;
pub mod data_key;
pub mod delta;
pub mod dependency;
pub mod deploy_token;
pub mod federated_credential;
mod feed;
mod fingerprints;
pub mod fleet;
pub mod global_service;
pub mod group;
pub mod harness;
mod hashing;
pub mod health_change;
pub mod helm_repository;
pub mod identity;
pub mod identity_provider;
pub mod instance;
pub mod invite;
pub mod job;
pub mod jobs;
pub mod kept;
pub mod keyring;
pub mod lease;
pub mod login;
pub mod machine_account;
pub mod managed_namespace;
pub mod many;
mod masking;
pub mod mirror;
pub mod passkey;
pub mod persona;
mod plan_limiter;
pub mod policy;
pub mod ports;
mod preview;
pub mod program_login;
pub mod project;
mod project_limits;
pub mod proxy;
pub mod question;
pub mod recorder;
pub mod recording;
pub mod records;
pub mod registration_token;
pub mod rendering;
pub mod replica;
pub mod repository;
pub mod repository_reach;
pub mod repository_webhook;
pub mod revision;
pub mod role;
pub mod saved_view;
pub mod seal;
pub mod second_factor;
pub mod secret;
pub mod secret_backend;
mod secret_holding;
pub mod service;
pub mod service_context;
pub mod service_facet;
mod service_file;
pub mod service_life;
pub mod service_metadata;
mod service_reason;
pub mod service_status;
mod shared_counts;
pub mod sign_in_link;
pub mod source;
pub mod stack;
mod stack_exec;
mod stack_inputs;
pub mod stack_run;
mod stack_run_made;
mod stack_run_open;
mod stack_run_plan;
mod stack_run_turns;
pub mod stack_state;
pub mod store;
mod streams;
pub mod sync;
mod sync_report;
pub mod sync_window;
pub mod throttle;
pub mod token;
pub mod user;
pub mod user_identity;
mod webauthn;
pub mod webhook;

pub use app::App;

pub use ctx::OpCtx;

pub use store::Store;
