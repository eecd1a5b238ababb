//! `/v1/runs/{id}/…`: what the Job of a run and the console say to each other, as [`plural_core::run_call`] writes it.
//!
//! The credential of that Job opens this door, and no other credential does: also not the one for the state, which the commands of the
//! run have. Whoever has none learns nothing, not even which calls there are. A browser is refused as at the door of states. Bodies
//! hold secrets: no log line and no error has any of them.

use std::time::Duration;

use axum::{
    Extension, Json,
    body::{Body, HttpBody as _},
    extract::{Path, Query, Request, State},
    http::{HeaderValue, Method, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use plural_app::harness::HarnessHandle;
use plural_app::stack_run::{FindingKind, PlanPart};
use plural_core::access::Actor;
use plural_core::ids::{RequestId, StackRunId};
use plural_core::run_call::{MAX_LOG_CHUNK, MAX_PLAN_PART};
use plural_core::stack_policy_rules::MAX_FINDING;
use plural_core::{Error, ErrorCode};
use plural_kit::Permit;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{
    auth::{self, Caller},
    body,
    document::scan_json,
    http::{Api, actor_name, message, refuse},
    stack_state::{Refused, is_browser, sealed_off},
};

/// Where it is served.
pub(crate) const PATH: &str = "/v1/runs/{id}/{*call}";
/// How long the body of a part of a plan may take to arrive.
const PATIENCE: Duration = Duration::from_mins(1);
/// Bytes of what is said of a step or a plan.
const LARGEST_REPORT: usize = 64 << 10;
/// Bytes of the report at the end, which holds the outputs.
const LARGEST_END: usize = 8 << 20;
/// JSON values of a report: each takes far more memory than its bytes.
const MOST_VALUES: usize = 200_000;
/// Bytes of an artifact that are on their way at once.
const SENT_AT_ONCE: usize = 256 << 10;
/// So many times its own bytes a body takes while it is kept.
const COPIES: usize = 3;

/// What the address says, for pieces of logs.
#[derive(Debug, Deserialize)]
pub(crate) struct Asked {
    step: Option<u32>,
    offset: Option<u64>,
}

/// One of the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Input,
    Artifact,
    PlanFile,
    Heartbeat,
    Step(u32),
    Log,
    PlanPart(PlanPart),
    Finding(FindingKind),
    Planned,
    Done,
}

impl Call {
    /// The call of an address, and the method that it needs.
    fn parse(call: &str) -> Option<(Self, Method)> {
        let (first, second) = call.split_once('/').map_or((call, None), |(first, rest)| (first, Some(rest)));
        Some(match (first, second) {
            ("input", None) => (Self::Input, Method::GET),
            ("artifact", None) => (Self::Artifact, Method::GET),
            ("plan-file", None) => (Self::PlanFile, Method::GET),
            ("heartbeat", None) => (Self::Heartbeat, Method::POST),
            ("steps", Some(index)) => (Self::Step(index.parse().ok()?), Method::POST),
            ("logs", None) => (Self::Log, Method::POST),
            ("plan", Some(part)) => (Self::PlanPart(PlanPart::parse(part)?), Method::PUT),
            ("findings", Some(kind)) => {
                // What policy says, it says itself; and runners of other clients have another door.
                let kind = FindingKind::parse(kind)
                    .filter(|kind| matches!(kind, FindingKind::Trivy | FindingKind::Cost))?;
                (Self::Finding(kind), Method::PUT)
            }
            ("planned", None) => (Self::Planned, Method::POST),
            ("done", None) => (Self::Done, Method::POST),
            _ => return None,
        })
    }
}

/// Answers all calls.
pub(crate) async fn serve(
    State(api): State<Api>,
    Extension(request_id): Extension<RequestId>,
    Path((id, call)): Path<(String, String)>,
    Query(asked): Query<Asked>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    if is_browser(&parts.headers) {
        return message(StatusCode::FORBIDDEN, "runs are for their Jobs: a browser says nothing here");
    }
    let Some(token) = auth::run_token(&parts.headers) else {
        return refused(&api, &parts, request_id).await;
    };
    let caller = match auth::run(&api, &parts, request_id, &token).await {
        Ok(caller) => caller,
        Err(response) => return *response,
    };
    let Caller { actor, address, visit: _, places } = caller;
    let name = actor_name(&actor);
    let op = api.app.ctx(actor).with_request_id(request_id).with_peer(address);
    let answered = match handle(&api, &token, &id).await {
        Ok((run, by)) => match Call::parse(&call) {
            Some((call, method)) if method == parts.method => {
                let answered = answer(&api, (run, &by), call, &asked, body).await;
                answered.map(|(response, room)| match room {
                    // Its places are taken until all of it is sent.
                    Some(room) => held(response, (places, room)),
                    None => response,
                })
            }
            Some((_, method)) => {
                let told = format!("use {method}");
                Ok(message(StatusCode::METHOD_NOT_ALLOWED, &told))
            }
            None => Err(Error::not_found("call").into()),
        },
        Err(error) => Err(error.into()),
    };
    let mut response = match answered {
        Ok(response) => response,
        Err(Refused::Response(response)) => *response,
        Err(Refused::Error(error)) => {
            if let code @ (ErrorCode::Forbidden | ErrorCode::NotFound | ErrorCode::Unauthenticated) =
                error.code()
            {
                api.app.audit_refused(&op, "stackRun", code);
            }
            refuse(&error, request_id)
        }
    };
    response.extensions_mut().insert(name);
    response
}

/// The answer to whoever has another credential, or none: the same, whatever it is.
async fn refused(api: &Api, parts: &axum::http::request::Parts, request_id: RequestId) -> Response {
    // One that is wrong is told in the audit log; one that is good for other doors is no mistake of this one.
    match auth::caller(api, parts, request_id).await {
        Err(response) => *response,
        Ok(Caller { actor, address, visit: _, places: _places }) => {
            if actor != Actor::Nobody {
                let op = api.app.ctx(actor).with_request_id(request_id).with_peer(address);
                api.app.audit_refused(&op, "stackRun", ErrorCode::Unauthenticated);
            }
            refuse(&Error::Unauthenticated, request_id)
        }
    }
}

/// The run, and the proof that the caller is its Job.
async fn handle(api: &Api, token: &SecretString, id: &str) -> Result<(StackRunId, HarnessHandle), Error> {
    // Another run's credential is none here, and whether there is such a run is nothing that it learns.
    let id: StackRunId = id.parse().map_err(|_| Error::Unauthenticated)?;
    Ok((id, api.app.harness_authenticate(token.expose_secret(), id).await?))
}

type Room = Option<Permit<u128>>;

async fn answer(
    api: &Api,
    (run, by): (StackRunId, &HarnessHandle),
    call: Call,
    asked: &Asked,
    body: Body,
) -> Result<(Response, Room), Refused> {
    let app = &api.app;
    Ok(match call {
        Call::Input => (Json(app.harness_input(by).await?).into_response(), None),
        Call::Artifact => {
            let room = room(api, run, SENT_AT_ONCE)?;
            let artifact = app.harness_artifact(by).await?;
            (bytes_of(Body::from_stream(artifact)), Some(room))
        }
        Call::PlanFile => {
            let room = room(api, run, MAX_PLAN_PART)?;
            let file = Bytes::from(app.harness_plan_file(by).await?);
            (bytes_of(Body::from(file)), Some(room))
        }
        Call::Heartbeat => (Json(app.harness_beat(by).await?).into_response(), None),
        Call::Step(index) => {
            let (report, _room) = report(api, run, body, LARGEST_REPORT).await?;
            (Json(app.harness_step(by, index, report).await?).into_response(), None)
        }
        Call::Log => {
            let (Some(step), Some(offset)) = (asked.step, asked.offset) else {
                return Err(Error::invalid("step, offset", "are needed in the address").into());
            };
            let (bytes, _room) = bytes(api, run, body, MAX_LOG_CHUNK).await?;
            (Json(app.harness_log(by, step, offset, bytes).await?).into_response(), None)
        }
        Call::PlanPart(part) => {
            let (bytes, _room) = bytes(api, run, body, MAX_PLAN_PART).await?;
            app.harness_plan_part(by, part, bytes).await?;
            (StatusCode::NO_CONTENT.into_response(), None)
        }
        Call::Finding(kind) => {
            let (bytes, _room) = bytes(api, run, body, MAX_FINDING).await?;
            if scan_json(&bytes, MOST_VALUES).is_err() {
                return Err(Error::invalid("body", format!("has more than {MOST_VALUES} values")).into());
            }
            app.harness_finding(by, kind, bytes).await?;
            (StatusCode::NO_CONTENT.into_response(), None)
        }
        Call::Planned => {
            let (report, _room) = report(api, run, body, LARGEST_REPORT).await?;
            app.harness_planned(by, report).await?;
            (StatusCode::NO_CONTENT.into_response(), None)
        }
        Call::Done => {
            let (report, _room) = report(api, run, body, LARGEST_END).await?;
            app.harness_done(by, report).await?;
            (StatusCode::NO_CONTENT.into_response(), None)
        }
    })
}

/// A place for so many bytes of a run.
fn room(api: &Api, run: StackRunId, bytes: usize) -> Result<Permit<u128>, Error> {
    let room = api.runs.take_many(run.uuid().as_u128(), bytes.saturating_mul(COPIES));
    room.ok_or_else(|| Error::unavailable("too much is being said of runs; retry"))
}

/// All of a body, with the place that it takes.
async fn bytes(
    api: &Api,
    run: StackRunId,
    body: Body,
    largest: usize,
) -> Result<(Bytes, Permit<u128>), Refused> {
    // As many bytes as it says to have.
    let said = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
    let room = room(api, run, said.unwrap_or(largest).min(largest))?;
    Ok((body::read(body, largest, PATIENCE).await?, room))
}

/// The document of a body.
async fn report<T: DeserializeOwned>(
    api: &Api,
    run: StackRunId,
    body: Body,
    largest: usize,
) -> Result<(T, Permit<u128>), Refused> {
    let (bytes, room) = bytes(api, run, body, largest).await?;
    if scan_json(&bytes, MOST_VALUES).is_err() {
        return Err(Error::invalid("body", format!("has more than {MOST_VALUES} values")).into());
    }
    // What is wrong with it is not said: the words would hold parts of it.
    let report = serde_json::from_slice(&bytes)
        .map_err(|_| Error::invalid("body", "is not what this call takes: see core/src/run_call.rs"))?;
    Ok((report, room))
}

/// Files are data, never a page of the console, and nothing to be kept on the way.
fn bytes_of(body: Body) -> Response {
    let mut response = sealed_off(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    response
}

/// The same response, which holds something until all of it is sent.
fn held<T: Send + 'static>(response: Response, held: T) -> Response {
    let (parts, body) = response.into_parts();
    let end = stream::once(async move {
        drop(held);
        Ok::<_, axum::Error>(Bytes::new())
    });
    Response::from_parts(parts, Body::from_stream(body.into_data_stream().chain(end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_one_address_and_one_method() {
        for (call, expected) in [
            ("input", Some((Call::Input, Method::GET))),
            ("artifact", Some((Call::Artifact, Method::GET))),
            ("plan-file", Some((Call::PlanFile, Method::GET))),
            ("heartbeat", Some((Call::Heartbeat, Method::POST))),
            ("steps/7", Some((Call::Step(7), Method::POST))),
            ("logs", Some((Call::Log, Method::POST))),
            ("plan/json", Some((Call::PlanPart(PlanPart::Json), Method::PUT))),
            ("planned", Some((Call::Planned, Method::POST))),
            ("done", Some((Call::Done, Method::POST))),
            ("findings/trivy", Some((Call::Finding(FindingKind::Trivy), Method::PUT))),
            ("findings/cost", Some((Call::Finding(FindingKind::Cost), Method::PUT))),
            ("findings/policy", None),
            ("findings/runner", None),
            ("findings/resources", None),
            ("findings", None),
            ("", None),
            ("done/", None),
            ("steps", None),
            ("steps/-1", None),
            ("steps/4294967296", None),
            ("plan/other", None),
            ("plan/file/x", None),
        ] {
            assert_eq!(Call::parse(call), expected, "{call}");
        }
    }

    #[tokio::test]
    async fn a_place_is_held_until_the_last_byte() {
        let permits = plural_kit::Permits::new(1, 1);
        let place = permits.take(1_u128).unwrap();
        let response = held(Response::new(Body::from("abc")), place);
        assert!(permits.take(1).is_none());
        let all = axum::body::to_bytes(response.into_body(), 10).await.unwrap();
        assert_eq!(&all[..], b"abc");
        assert!(permits.take(1).is_some());
    }
}
