//! The console's doors for people and programs: GraphQL at `/gql`, webhooks, health.
//!
//! # Guarantees
//! - Nothing here decides or stores: every request becomes a use case of `app`, with the actor that
//!   its credential speaks for.
//! - No log line, error or metric holds a token, a body or a query string.
//! - Every request has limits: body, document, depth, complexity, root fields, time. Who asks is known before a body is read.

// The schema's roots are merged one into another, a level for each noun.
#![recursion_limit = "256"]

mod audit_export;
mod auth;
mod body;
mod client_address;
mod cluster_session;
mod confirmation;
mod document;
mod gate;
mod graphql;
mod harness;
mod health;
mod html;
mod http;
mod invite;
mod log;
mod options;
mod passkey;
mod preparation;
mod program_login;
mod recording;
mod routes;
mod scm_api;
mod sending;
mod sign_in;
mod site;
mod socket;
mod stack_state;
mod tarball;
mod ui;
mod webhook;

use std::sync::Arc;

use axum::middleware::from_fn;
use plural_app::App;

pub use auth::CONNECTIONS_OF_USER;
pub use client_address::{Network, NetworkError, client_address};
pub use cluster_session::ClusterSessions;
pub use options::ApiOptions;
pub use routes::{Route, Routes};
pub use socket::Sockets;

/// Everything that this crate serves. The whole list of routes:
///
/// | method, path | what |
/// |---|---|
/// | `POST /gql` | GraphQL |
/// | `GET /gql` | subscriptions, over a WebSocket |
/// | `POST /ext/v1/webhooks/{type}[/{id}]` | a git host tells that something was pushed |
/// | `GET /ext/v1/recordings/{id}` | a recording of a shell, as an asciicast |
/// | `GET /ext/v1/audit/export[?after=BATCH]` | the audit log with its chain, in lines of JSON |
/// | `GET /v1/git/tarballs?id=ID` | the files that a service is made of, as a `tar.gz` |
/// | `GET /v1/api/scm/{connections,pullrequests,prautomations}` | lists of these, as plain JSON |
/// | `POST /v1/api/scm/prautomations/{id}/invoke` | asks an automation for a pull request |
/// | `GET`, `POST`, `LOCK`, `UNLOCK` `/v1/stacks/{id}/state` | the state of a stack, for Terraform's `http` backend |
/// | `GET`, `POST`, `PUT` `/v1/runs/{id}/…` | what the Job of a run and the console say to each other: `core/src/run_call.rs` |
/// | `POST /ext/v1/gates/{service}/{token}/{hook}` | a canary of Flagger asks whether it may go on |
/// | `GET`, `POST /auth/sign-in` | the page to sign in, and its form |
/// | `POST /auth/link` | signs in by a code that `plural demo` made |
/// | `GET /auth/login/{provider}` | to an identity provider |
/// | `GET /auth/callback/{provider}` | and back |
/// | `GET /auth/account` | who is signed in |
/// | `POST /auth/sign-out` | ends the session |
/// | `GET /auth/providers` | names of the identity providers |
/// | `POST /auth/device/code`, `POST /auth/token` | a program asks for a login, and whether it was allowed (RFC 8628) |
/// | `GET`, `POST /auth/device` | the page on which it is allowed, and its form |
/// | `POST /auth/sign-in/challenge`, `POST /auth/sign-in/passkey` | signs in with a passkey |
/// | `GET`, `POST /auth/passkeys`, `POST /auth/passkeys/challenge`, `POST /auth/passkeys/delete` | one's passkeys |
/// | `GET`, `POST /auth/invite`, `POST /auth/invite/challenge`, `POST /auth/invite/accept` | an invitation is accepted |
/// | `GET`, `POST /auth/confirm` | a code in the place of a password |
/// | `GET /auth/passkeys.js` | asks the browser for passkeys |
/// | `GET /auth/style.css` | what these pages look like |
/// | `GET /` | the web console |
/// | `GET` of anything else | its pages and its files, or 404 |
/// | `GET /health`, `GET /healthz` | the process answers |
/// | `GET /readyz` | the process can do its work |
pub fn routes(app: Arc<App>, options: ApiOptions, sockets: Sockets) -> Routes {
    let state = http::Api::new(app, options, sockets);
    Routes::new()
        .post("/gql", http::gql)
        .get("/gql", socket::open)
        .post("/ext/v1/webhooks/{type}", webhook::receive)
        .post("/ext/v1/webhooks/{type}/{id}", webhook::receive_with_id)
        .get("/ext/v1/recordings/{id}", recording::download)
        .get(audit_export::PATH, audit_export::download)
        .get(tarball::PATH, tarball::download)
        .get(scm_api::CONNECTIONS, scm_api::connections)
        .get(scm_api::PULL_REQUESTS, scm_api::pull_requests)
        .get(scm_api::AUTOMATIONS, scm_api::automations)
        .post(scm_api::INVOKE, scm_api::invoke)
        .any(stack_state::PATH, stack_state::serve)
        .any(harness::PATH, harness::serve)
        .post("/ext/v1/gates/{service}/{token}/{hook}", gate::ask)
        .get("/auth/sign-in", sign_in::form)
        .post("/auth/sign-in", sign_in::with_password)
        .post("/auth/link", sign_in::with_link)
        .get("/auth/login/{provider}", sign_in::begin)
        .get("/auth/callback/{provider}", sign_in::finish)
        .get("/auth/account", sign_in::account)
        .post("/auth/sign-out", sign_in::sign_out)
        .get("/auth/providers", program_login::providers)
        .post("/auth/device/code", program_login::begin)
        .post("/auth/token", program_login::fetch)
        .get("/auth/device", program_login::page)
        .post("/auth/device", program_login::decide)
        .post("/auth/sign-in/challenge", passkey::sign_in_challenge)
        .post("/auth/sign-in/passkey", passkey::sign_in)
        .get("/auth/passkeys", passkey::page)
        .post("/auth/passkeys", passkey::add)
        .post("/auth/passkeys/challenge", passkey::add_challenge)
        .post("/auth/passkeys/delete", passkey::delete)
        .get("/auth/passkeys.js", html::script)
        .get("/auth/invite", invite::page)
        .post("/auth/invite", invite::look)
        .post("/auth/invite/challenge", invite::challenge)
        .post("/auth/invite/accept", invite::accept)
        .get("/auth/confirm", confirmation::page)
        .post("/auth/confirm", confirmation::show)
        .get("/auth/style.css", html::style)
        .get("/health", health::live)
        .get("/healthz", health::live)
        .get("/readyz", health::ready)
        .get("/", ui::home)
        .any("/{*path}", ui::any)
        .layer(from_fn(log::access))
        .with_state(state)
}

/// The GraphQL schema as text.
pub fn sdl() -> String {
    graphql::sdl()
}

/// Whether the schema serves a document: parsed and validated against types and limits, with nothing executed.
///
/// # Errors
/// What is wrong with it, one message each.
pub async fn validate(document: &str) -> Result<(), Vec<String>> {
    graphql::validate(document).await
}

/// How many values an answer to a document is expected to have, and how many are allowed. Variables have their
/// defaults.
///
/// # Errors
/// When the document is refused.
pub fn weigh(document: &str) -> Result<(u64, u64), String> {
    let weight = document::weigh(document, &async_graphql::Variables::default());
    weight.map(|weight| (weight, document::MOST_WEIGHT)).map_err(|rejection| format!("{rejection:?}"))
}

/// Does with the body of a request what comes before its execution: reads it, holds it to its limits, validates it.
///
/// # Errors
/// Why it would not be executed.
pub async fn prepare(body: &[u8], has_credential: bool) -> Result<(), String> {
    let sender = if has_credential { document::Sender::Known } else { document::Sender::Nobody };
    let request = http::read(body, sender).map_err(|rejection| format!("{rejection:?}"))?;
    graphql::validate_request(request).await.map_err(|faults| faults.join("; "))
}
