//! One log line and one measurement per request.

use std::time::Instant;

use axum::{
    extract::{MatchedPath, Request},
    http::HeaderValue,
    middleware::Next,
    response::Response,
};
use plural_core::ids::RequestId;

/// Gives the request an id, answers it in `x-request-id`, and writes one line without anything that a
/// caller could hide a secret in: no query, no header, no body, and the path only as its route.
pub(crate) async fn access(mut request: Request, next: Next) -> Response {
    let id = RequestId::new();
    let started = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map_or("-", MatchedPath::as_str).to_owned();
    request.extensions_mut().insert(id);
    let mut response = next.run(request).await;
    let took = started.elapsed();
    let status = response.status().as_u16();
    if let Ok(value) = HeaderValue::from_str(&id.to_string()) {
        response.headers_mut().insert("x-request-id", value);
    }
    // A client chooses method and status: neither may be a label as it came.
    metrics::histogram!(
        "plural_http_request_seconds",
        "method" => plural_kit::method_label(method.as_str()),
        "route" => route.clone(),
        "status" => plural_kit::status_label(status)
    )
    .record(took.as_secs_f64());
    if matches!(route.as_str(), "/health" | "/healthz" | "/readyz") {
        // Probes come every few seconds, for ever.
        return response;
    }
    let actor = response.extensions().get::<ActorName>().map_or("-", |name| name.0.as_str());
    let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    tracing::info!(
        request.id = %id, http.method = %method, http.route = route, http.status = status, duration_ms, actor,
        "{method} {route} {status}"
    );
    response
}

/// Who asked, for the log: put on a response by whoever found out.
#[derive(Clone)]
pub(crate) struct ActorName(pub(crate) String);
