//! The console's doors for people and programs: GraphQL at `/gql`, webhooks, health.
//!
//! # Guarantees
//! - Nothing here decides or stores: every request becomes a use case of `app`, with the actor that
//!   its credential speaks for.
//! - No log line, error or metric holds a token, a body or a query string.
//! - Every request has limits: body, document, depth, complexity, root fields, time. Who asks is known before a body is read.

mod audit_export;
mod auth;
mod body;
mod client_address;
mod document;
mod gate;
mod graphql;
mod health;
mod http;
mod log;
mod options;
mod preparation;
mod recording;
mod routes;
mod sending;
mod tarball;
mod webhook;

use std::sync::Arc;

use axum::middleware::from_fn;
use plural_app::App;

pub use auth::CONNECTIONS_OF_USER;
pub use client_address::{Network, NetworkError, client_address};
pub use options::ApiOptions;
pub use routes::{Route, Routes};

/// Everything that this crate serves. The whole list of routes:
///
/// | method, path | what |
/// |---|---|
/// | `POST /gql` | GraphQL |
/// | `POST /ext/v1/webhooks/{type}[/{id}]` | a git host tells that something was pushed |
/// | `GET /ext/v1/recordings/{id}` | a recording of a shell, as an asciicast |
/// | `GET /ext/v1/audit/export[?after=BATCH]` | the audit log with its chain, in lines of JSON |
/// | `GET /v1/git/tarballs?id=ID` | the files that a service is made of, as a `tar.gz` |
/// | `POST /ext/v1/gates/{service}/{token}/{hook}` | a canary of Flagger asks whether it may go on |
/// | `GET /health`, `GET /healthz` | the process answers |
/// | `GET /readyz` | the process can do its work |
pub fn routes(app: Arc<App>, options: ApiOptions) -> Routes {
    let state = http::Api::new(app, options);
    Routes::new()
        .post("/gql", http::gql)
        .post("/ext/v1/webhooks/{type}", webhook::receive)
        .post("/ext/v1/webhooks/{type}/{id}", webhook::receive_with_id)
        .get("/ext/v1/recordings/{id}", recording::download)
        .get(audit_export::PATH, audit_export::download)
        .get(tarball::PATH, tarball::download)
        .post("/ext/v1/gates/{service}/{token}/{hook}", gate::ask)
        .get("/health", health::live)
        .get("/healthz", health::live)
        .get("/readyz", health::ready)
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
