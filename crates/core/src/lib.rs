//! Nouns, ids, states and pure decisions. No IO, no async, no clock: whoever calls brings the time.
//!
//! Every other room may use this one; it uses only `specs`, the settings documents. A rule that can be said without a database,
//! a network or a cluster lives here, beside the noun it is about.

pub mod access;
pub mod address;
pub mod address_pattern;
pub mod api_deprecation;
pub mod asciicast;
pub mod audit;
pub mod audit_chain;
pub mod audit_expiry;
pub mod audit_verify;
pub mod canary_gate;
pub mod cluster;
pub mod cluster_audit;
pub mod cluster_issuer;
pub mod cluster_tags;
pub mod component;
pub mod cron;
pub mod data_key;
pub mod dependency;
pub mod destination;
pub mod error;
pub mod federated_credential;
pub mod global_service;
pub mod group;
pub mod helm_repository;
pub mod identity_provider;
pub mod ids;
pub mod invite;
pub mod job;
pub mod machine_account;
pub mod managed_namespace;
pub mod mask;
pub mod page;
pub mod passkey;
pub mod pattern;
pub mod persona;
pub mod policy;
pub mod project;
pub mod project_limits;
pub mod promotion;
pub mod question;
pub mod recording;
pub mod recording_policy;
pub mod registration_token;
pub mod repository;
pub mod revision;
pub mod role;
pub mod rollout;
pub mod saved_view;
pub mod second_factor;
pub mod secret_backend;
pub mod secret_holding;
pub mod service;
pub mod service_account;
pub mod service_context;
pub mod service_error;
pub mod service_file;
pub mod service_metadata;
pub mod service_reason;
pub mod sort;
pub mod status;
pub mod sync;
pub mod sync_window;
pub mod target;
pub mod token;
pub mod user;
pub mod user_identity;
pub mod web_address;
pub mod work;

pub use {error::Error, error::ErrorCode, error::Result};

pub use plural_specs as specs;
use plural_specs::name;
pub use {page::Page, page::PageArgs, page::PageRequest};
