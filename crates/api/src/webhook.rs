//! `POST /ext/v1/webhooks/{type}`: a git host says that something was pushed.

use axum::{
    Extension, Json,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use plural_app::{WebhookProvider, WebhookRequest};
use plural_core::{Error, RequestId};
use serde_json::json;

use crate::http::{Api, refuse};

/// Without the part that existing set-ups put behind the type.
pub(crate) async fn receive(
    State(api): State<Api>,
    Extension(request_id): Extension<RequestId>,
    Path(provider): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    answer(&api, request_id, &provider, &headers, &body).await
}

/// With an id behind the type. It decides nothing: the signature says who calls, the body about what.
pub(crate) async fn receive_with_id(
    State(api): State<Api>,
    Extension(request_id): Extension<RequestId>,
    Path((provider, _)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    answer(&api, request_id, &provider, &headers, &body).await
}

async fn answer(
    api: &Api,
    request_id: RequestId,
    provider: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Response {
    let Some(provider) = WebhookProvider::parse(provider) else {
        return refuse(&Error::not_found("webhook"), request_id);
    };
    let signature = headers.get(provider.header()).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let request = WebhookRequest { provider, signature, body };
    match api.app.webhook_receive(&request).await {
        Ok(repositories) => {
            (StatusCode::ACCEPTED, Json(json!({"repositories": repositories}))).into_response()
        }
        Err(error) => refuse(&error, request_id),
    }
}
