//! `POST /ext/v1/gates/{service}/{token}/{hook}`: a canary of Flagger asks whether it may go on.

use std::time::Duration;

use axum::{
    Extension, Json,
    extract::{Path, Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use plural_core::Error;
use plural_core::canary_gate::{GateHook, GateQuestion};
use plural_core::ids::{RequestId, ServiceId};
use serde::Deserialize;
use serde_json::json;

use crate::{
    body,
    http::{Api, refuse},
};

/// How long a body may take to arrive: Flagger sends its own at once.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of one.
const LARGEST: usize = 8 << 10;

/// What Flagger sends to every web hook; the rest of it is not looked at.
#[derive(Deserialize)]
struct Payload {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    checksum: String,
}

pub(crate) async fn ask(
    State(api): State<Api>,
    Extension(request_id): Extension<RequestId>,
    Path((service, token, hook)): Path<(String, String, String)>,
    request: Request,
) -> Response {
    match answer(&api, (&service, &token, &hook), request).await {
        Ok(true) => (StatusCode::OK, Json(json!({"open": true}))).into_response(),
        // Flagger shows the text to people: it says what to do.
        Ok(false) => {
            let told = "the gate is closed: `plural cd services canary proceed` opens it for this release";
            (StatusCode::FORBIDDEN, Json(json!({"open": false, "message": told}))).into_response()
        }
        Err(Refusal::Error(error)) => refuse(&error, request_id),
        Err(Refusal::Response(response)) => *response,
    }
}

enum Refusal {
    Error(Error),
    Response(Box<Response>),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

async fn answer(api: &Api, path: (&str, &str, &str), request: Request) -> Result<bool, Refusal> {
    let (service, token, hook) = path;
    let nowhere = || Error::not_found("gate");
    let service: ServiceId = service.parse().map_err(|_| nowhere())?;
    let hook = GateHook::parse(hook).ok_or_else(nowhere)?;
    api.app.canary_gate_check(service, token)?;
    let Some(_place) = api.gates.take(service) else {
        return Err(Error::unavailable("too many gate requests; retry").into());
    };
    let body = body::read(request.into_body(), LARGEST, PATIENCE).await.map_err(Refusal::Response)?;
    let payload: Payload = serde_json::from_slice(&body)
        .map_err(|_| Error::invalid("body", "must be the JSON that Flagger sends to its web hooks"))?;
    let Payload { name, namespace, checksum } = payload;
    let question = GateQuestion { namespace, name, hook, checksum };
    Ok(api.app.canary_gate_ask(service, token, &question).await?)
}
