//! `GET /v1/git/tarballs?id=ID`: the files that a service is made of.

use axum::{
    Extension,
    body::Body,
    extract::{Query, Request, State},
    http::{
        HeaderValue,
        header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS},
    },
    response::Response,
};
use plural_app::service::ServiceSelector;
use plural_core::access::Actor;
use plural_core::ids::{RequestId, ServiceId};
use plural_core::{Error, ErrorCode};
use serde::Deserialize;

use crate::{
    auth::{self, Caller},
    http::{Api, actor_name, refuse},
};

/// Where it is served.
pub(crate) const PATH: &str = "/v1/git/tarballs";

/// Which service.
#[derive(Debug, Deserialize)]
pub(crate) struct Asked {
    #[serde(default)]
    id: String,
}

/// Answers a `tar.gz`.
pub(crate) async fn download(
    State(api): State<Api>,
    Extension(request_id): Extension<RequestId>,
    Query(Asked { id }): Query<Asked>,
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
    let Caller { actor, address: _, visit: _, places: _places } = caller;
    let Ok(id) = id.parse::<ServiceId>() else {
        return refuse(&Error::not_found("service"), request_id);
    };
    let op = api.app.ctx(actor).with_request_id(request_id);
    let archive = match api.app.service_archive(&op, &ServiceSelector::Id(id)).await {
        Ok(archive) => archive,
        Err(error) => {
            if let code @ (ErrorCode::Forbidden | ErrorCode::NotFound) = error.code() {
                api.app.audit_refused(&op, "tarball", code);
            }
            return refuse(&error, request_id);
        }
    };
    let mut response = Response::new(Body::from(archive));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/gzip"));
    if let Ok(file) = HeaderValue::from_str(&format!("attachment; filename=\"{id}.tar.gz\"")) {
        headers.insert(CONTENT_DISPOSITION, file);
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
