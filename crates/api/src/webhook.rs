//! `POST /ext/v1/webhooks/{type}`: a git host says that something was pushed.

use std::time::Duration;

use axum::{
    Extension, Json,
    body::HttpBody as _,
    extract::{Path, Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use plural_app::webhook::{WebhookProvider, WebhookRequest};
use plural_core::Error;
use plural_core::ids::RequestId;
use plural_kit::network_of;
use serde_json::json;

use crate::{
    body,
    client_address::client_address,
    http::{Api, refuse},
};

/// How long a body may take to arrive: git hosts send theirs at once.
const PATIENCE: Duration = Duration::from_secs(5);

/// Without the part that existing set-ups put behind the type.
pub(crate) async fn receive(
    State(api): State<Api>,
    Extension(request_id): Extension<RequestId>,
    Path(provider): Path<String>,
    request: Request,
) -> Response {
    answer(&api, request_id, (provider.as_str(), None), request).await
}

/// With an id behind the type: of the repository that it is about.
pub(crate) async fn receive_with_id(
    State(api): State<Api>,
    Extension(request_id): Extension<RequestId>,
    Path((provider, about)): Path<(String, String)>,
    request: Request,
) -> Response {
    answer(&api, request_id, (provider.as_str(), Some(about.as_str())), request).await
}

async fn answer(
    api: &Api,
    request_id: RequestId,
    (provider, about): (&str, Option<&str>),
    request: Request,
) -> Response {
    let Some(provider) = WebhookProvider::parse(provider) else {
        return refuse(&Error::not_found("webhook"), request_id);
    };
    let (parts, body) = request.into_parts();
    let signature = parts.headers.get(provider.header()).and_then(|value| value.to_str().ok());
    // Nothing that is not even signed is read.
    let Some(signature) = signature else { return refuse(&Error::Unauthenticated, request_id) };
    let sender = client_address(&parts.extensions, &parts.headers, &api.options.trusted_proxies);
    // As many bytes as it says to have.
    let bytes = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
    let bytes = bytes.unwrap_or(body::LARGEST).min(body::LARGEST);
    let Some(_place) = api.webhooks.take_many(sender.map(network_of), bytes) else {
        return refuse(&Error::unavailable("too many webhooks at once; retry"), request_id);
    };
    let body = match body::read(body, body::LARGEST, PATIENCE).await {
        Ok(body) => body,
        Err(response) => return *response,
    };
    let request = WebhookRequest { provider, signature, body: &body, about };
    match api.app.webhook_receive(&request).await {
        Ok(repositories) => {
            (StatusCode::ACCEPTED, Json(json!({"repositories": repositories}))).into_response()
        }
        Err(error) => refuse(&error, request_id),
    }
}
