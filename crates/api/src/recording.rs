//! `GET /ext/v1/recordings/{id}`: what was recorded of a shell.

use axum::{
    Extension,
    body::Body,
    extract::{Path, Request, State},
    http::{
        HeaderValue,
        header::{
            CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
        },
    },
    response::Response,
};
use futures::StreamExt as _;
use plural_core::access::Actor;
use plural_core::ids::{RecordingId, RequestId};
use plural_core::{Error, ErrorCode};

use crate::{
    auth::{self, Caller},
    http::{Api, actor_name, refuse},
};

/// Answers an asciicast, piece by piece as it is read.
pub(crate) async fn download(
    State(api): State<Api>,
    Extension(request_id): Extension<RequestId>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let caller = match auth::caller(&api, &parts, request_id).await {
        // Whoever asks without a credential learns nothing of what there is.
        Ok(Caller { actor: Actor::Nobody, .. }) => return refuse(&Error::Unauthenticated, request_id),
        Ok(caller) => caller,
        Err(response) => return *response,
    };
    let name = actor_name(&caller.actor);
    let mut response = answer(&api, caller, request_id, &id).await;
    response.extensions_mut().insert(name);
    response
}

async fn answer(api: &Api, caller: Caller, request_id: RequestId, id: &str) -> Response {
    let Caller { actor, address: _, visit: _, places } = caller;
    let Ok(id) = id.parse::<RecordingId>() else {
        return refuse(&Error::not_found("recording"), request_id);
    };
    let op = api.app.ctx(actor).with_request_id(request_id);
    let (recording, events) = match api.app.recording_read(&op, id).await {
        Ok(found) => found,
        Err(error) => {
            if let code @ (ErrorCode::Forbidden | ErrorCode::NotFound) = error.code() {
                api.app.audit_refused(&op, "recording", code);
            }
            return refuse(&error, request_id);
        }
    };
    // A recording takes its place until all of it is sent.
    let events = events.inspect(move |_| _ = &places);
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-asciicast"));
    let file = format!("attachment; filename=\"{}.cast\"", recording.id);
    if let Ok(file) = HeaderValue::from_str(&file) {
        headers.insert(CONTENT_DISPOSITION, file);
    }
    // Whatever was shown in a shell is data, never a page of the console, and nothing to be kept on the way.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    response
}
