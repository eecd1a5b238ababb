//! A whole console, through its doors.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod api_access;
mod api_attacks;
mod api_behaviour;
mod api_globals;
mod api_http;
mod api_lists;
mod api_nul;
mod api_secrets;
mod api_server;
mod api_settings;
mod api_tokens;
mod audit_otlp;
mod cluster_issuer;
mod credentials;
mod deltas;
mod federation;
mod field_sweep;
mod invites;
mod original_clients;
mod passkeys;
mod previous_build;
mod registration;
mod reseal;
mod saved_view;
mod second_factor;
mod socket;
mod sso;
mod sso_attacks;
mod sso_browser;
mod sso_groups;
mod sso_loopback;
mod sso_programs;
mod sso_real;
mod start;
mod webhooks;
