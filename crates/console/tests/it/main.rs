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
mod credentials;
mod federation;
mod field_sweep;
mod invites;
mod original_clients;
mod passkeys;
mod previous_build;
mod reseal;
mod saved_view;
mod second_factor;
mod sso;
mod sso_attacks;
mod sso_browser;
mod sso_programs;
mod sso_real;
mod start;
mod webhooks;
