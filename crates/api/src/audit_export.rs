//! `GET /ext/v1/audit/export`: the audit log with its chain, to be checked elsewhere.

use axum::{
    Extension,
    body::Body,
    extract::{Query, Request, State},
    http::{
        HeaderValue,
        header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS},
    },
    response::Response,
};
use futures::StreamExt as _;
use plural_core::access::Actor;
use plural_core::ids::RequestId;
use plural_core::{Error, ErrorCode};
use serde::Deserialize;

use crate::{
    auth::{self, Caller},
    http::{Api, actor_name, refuse},
};

/// Where it is served.
pub(crate) const PATH: &str = "/ext/v1/audit/export";

/// Which part.
#[derive(Debug, Deserialize)]
pub(crate) struct Part {
    /// Behind this batch.
    after: Option<u64>,
}

/// Answers the log in lines of JSON, batch by batch as it is read.
pub(crate) async fn download(
    State(api): State<Api>,
    Extension(request_id): Extension<RequestId>,
    part: Result<Query<Part>, axum::extract::rejection::QueryRejection>,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let caller = match auth::caller(&api, &parts, request_id).await {
        Ok(Caller { actor: Actor::Nobody, .. }) => return refuse(&Error::Unauthenticated, request_id),
        Ok(caller) => caller,
        Err(response) => return *response,
    };
    let name = actor_name(&caller.actor);
    let after = match part {
        Ok(Query(part)) => part.after.unwrap_or_default(),
        Err(_) => return refuse(&Error::invalid("after", "must be the number of a batch"), request_id),
    };
    let mut response = answer(&api, caller, request_id, after).await;
    response.extensions_mut().insert(name);
    response
}

async fn answer(api: &Api, caller: Caller, request_id: RequestId, after: u64) -> Response {
    let Caller { actor, address, visit: _, places } = caller;
    let op = api.app.ctx(actor).with_request_id(request_id).with_peer(address);
    let lines = match api.app.audit_export(&op, after).await {
        Ok(lines) => lines,
        Err(error) => {
            if let code @ (ErrorCode::Forbidden | ErrorCode::NotFound) = error.code() {
                api.app.audit_refused(&op, "audit export", code);
            }
            return refuse(&error, request_id);
        }
    };
    // An export takes its place until all of it is sent. One that fails in the middle ends without its end, which is seen.
    let lines = lines.inspect(move |_| _ = &places).map(|piece| piece.map_err(|error| error.log_text()));
    let mut response = Response::new(Body::from_stream(lines));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    response
}
