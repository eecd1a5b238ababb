//! Whether the process answers, and whether it can do its work.

use axum::{extract::State, http::StatusCode};

use crate::http::Api;

/// `GET /healthz`: the process answers. It needs nothing else, so that a database that is away does not
/// get the process restarted.
pub(crate) async fn live() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: the database answers too.
pub(crate) async fn ready(State(api): State<Api>) -> (StatusCode, &'static str) {
    match api.app.ready().await {
        Ok(()) => (StatusCode::OK, "ok\n"),
        Err(error) => {
            tracing::warn!(error = error.log_text(), "not ready");
            (StatusCode::SERVICE_UNAVAILABLE, "the database does not answer\n")
        }
    }
}
