//! What the console itself answers, as a Kubernetes client understands it.

use axum::{
    body::Body,
    http::{HeaderValue, Response, StatusCode, header},
};
use plural_core::Error;
use plural_core::ids::RequestId;
use plural_tunnel::proxy::Broken;
use serde_json::json;

use super::connections::Unreachable;

/// A request that got no answer of a cluster.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    message: String,
    /// Worth asking again in a second.
    again: bool,
    /// For the log, when somebody should look.
    cause: Option<String>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), again: false, cause: None }
    }

    pub(super) fn no_cluster() -> Self {
        Self::new(StatusCode::NOT_FOUND, "the path must name a cluster: /k8s/HANDLE/api/…")
    }

    pub(super) fn too_many() -> Self {
        let told = "too many open requests; end some watches or shells, or try again";
        Self { again: true, ..Self::new(StatusCode::TOO_MANY_REQUESTS, told) }
    }

    pub(super) fn door(none: Unreachable) -> Self {
        let (status, told) = match none {
            Unreachable::NotConnected => (
                StatusCode::SERVICE_UNAVAILABLE,
                "the cluster's agent is not connected, or its proxy is disabled; `plural cd clusters \
                 describe` shows its last report",
            ),
            Unreachable::Late => {
                (StatusCode::GATEWAY_TIMEOUT, "the cluster's agent did not answer in time: try again")
            }
            Unreachable::Gone => {
                (StatusCode::SERVICE_UNAVAILABLE, "the cluster's agent is reconnecting: try again")
            }
        };
        Self { again: matches!(none, Unreachable::Gone), ..Self::new(status, told) }
    }

    /// The replica that holds the agent's stream does not answer.
    pub(super) fn replica(status: StatusCode, message: &str) -> Self {
        Self { again: true, ..Self::new(status, message) }
    }

    pub(super) fn broken(broken: &Broken) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, format!("the cluster's agent did not answer: {broken}"))
    }

    pub(super) fn of(error: &Error) -> Self {
        let status = match error {
            Error::Unauthenticated => StatusCode::UNAUTHORIZED,
            Error::NotFound { .. } => StatusCode::NOT_FOUND,
            Error::Forbidden { .. } => StatusCode::FORBIDDEN,
            Error::Unavailable { .. } => StatusCode::TOO_MANY_REQUESTS,
            Error::Invalid { .. } | Error::Answers { .. } | Error::Conflict { .. } => StatusCode::BAD_REQUEST,
            Error::Internal { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut refusal = Self::new(status, error.to_string());
        refusal.again = matches!(error, Error::Unavailable { .. });
        if let Error::Internal { .. } = error {
            "internal error".clone_into(&mut refusal.message);
            refusal.cause = Some(error.log_text());
        }
        if let Error::Unauthenticated = error {
            "Unauthorized".clone_into(&mut refusal.message);
        }
        refusal
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn into_response(self, id: RequestId) -> Response<Body> {
        let Self { status, message, again, cause } = self;
        if let Some(cause) = cause {
            tracing::error!(request.id = %id, error = cause, "a proxied request failed");
        }
        let reason = match status {
            StatusCode::UNAUTHORIZED => "Unauthorized",
            StatusCode::FORBIDDEN => "Forbidden",
            StatusCode::NOT_FOUND => "NotFound",
            StatusCode::BAD_REQUEST => "BadRequest",
            StatusCode::METHOD_NOT_ALLOWED => "MethodNotAllowed",
            StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
            StatusCode::GATEWAY_TIMEOUT => "Timeout",
            StatusCode::INTERNAL_SERVER_ERROR => "InternalError",
            _ => "ServiceUnavailable",
        };
        let mut body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": status.as_u16(),
        });
        if again && let Some(body) = body.as_object_mut() {
            body.insert("details".to_owned(), json!({"retryAfterSeconds": 1}));
        }
        let mut response = Response::new(Body::from(body.to_string()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        if again {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"plural\""));
        }
        response
    }
}
