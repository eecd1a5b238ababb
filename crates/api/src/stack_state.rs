//! `/v1/stacks/{id}/state`: the state of a stack, as the `http` backend of Terraform and OpenTofu speaks. `GET` reads it, `POST` with the
//! id of the lock as `?ID=` writes it, `LOCK` and `UNLOCK` are methods of their own.
//!
//! To those tools 404 means that there is no state yet, and then they would make everything once more. So who may not read a state is
//! answered 403, whether there is one or not.
//!
//! Browsers keep the credentials of basic authentication, and send them along with forms of other sites. So they are not asked for any
//! here, and what a page sends is refused.
//!
//! The tool of a run has the credential of its Job for the state in the place of an access token. The credential of the Job itself opens
//! nothing here: no tool has it.

use std::time::Duration;

use axum::{
    Extension, Json,
    body::{Body, HttpBody as _},
    extract::{Path, Query, Request, State},
    http::{
        HeaderMap, HeaderValue, StatusCode,
        header::{
            ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ORIGIN,
            WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
        },
    },
    response::{IntoResponse as _, Response},
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use md5::{Digest as _, Md5};
use plural_app::OpCtx;
use plural_app::stack_state::{StateLocked, StateUnlocked, StateWritten};
use plural_core::access::Actor;
use plural_core::ids::{RequestId, StackId, StateVersionId};
use plural_core::stack_state::{LockRequest, MAX_LOCK_BYTES, MAX_STATE_BYTES, StateLock, StateVersion};
use plural_core::{Error, ErrorCode};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::json;

use crate::{
    auth::{self, Caller, CallerPermits},
    body,
    http::{Api, actor_name, message, refuse},
};

/// Where it is served.
pub(crate) const PATH: &str = "/v1/stacks/{id}/state";
/// How long a body may take to arrive.
const PATIENCE: Duration = Duration::from_mins(1);
/// So many times its own bytes a state takes while it is read or written.
const COPIES: usize = 3;
const METHODS: &str = "GET, POST, LOCK, UNLOCK";

/// What the address says.
#[derive(Debug, Deserialize)]
pub(crate) struct Asked {
    /// The lock that the writer says to hold.
    #[serde(rename = "ID")]
    lock: Option<String>,
    /// Another version than the one that counts, to read.
    version: Option<String>,
}

/// Why what a tool or a harness asks is not done: for a reason that has an answer, or with that answer.
pub(crate) enum Refused {
    Error(Error),
    Response(Box<Response>),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<Box<Response>> for Refused {
    fn from(response: Box<Response>) -> Self {
        Self::Response(response)
    }
}

/// Answers all methods.
pub(crate) async fn serve(
    State(api): State<Api>,
    Extension(request_id): Extension<RequestId>,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    if is_browser(&parts.headers) {
        return message(StatusCode::FORBIDDEN, "states are for tools: a browser reads and writes none");
    }
    let caller = match password(&parts.headers).or_else(|| auth::run_token(&parts.headers)) {
        Some(token) if auth::is_of_run(&token) => auth::run_state(&api, &parts, request_id, &token).await,
        Some(token) => auth::bearer(&api, &parts, request_id, &token).await,
        // A browser's session is no credential here.
        None if !parts.headers.contains_key(AUTHORIZATION) => return challenge(request_id),
        None => auth::caller(&api, &parts, request_id).await,
    };
    let Caller { actor, address, visit: _, places } = match caller {
        Ok(Caller { actor: Actor::Nobody, .. }) => return challenge(request_id),
        Ok(caller) => caller,
        Err(mut response) => {
            if response.status() == StatusCode::UNAUTHORIZED {
                response.headers_mut().insert(WWW_AUTHENTICATE, basic());
            }
            return *response;
        }
    };
    let name = actor_name(&actor);
    let op = api.app.ctx(actor).with_request_id(request_id).with_peer(address);
    let names_version = asked.version.is_some();
    let answered = match parts.method.as_str() {
        "GET" => read(&api, &op, &id, asked, places).await,
        "POST" => write(&api, &op, &id, asked, (&parts.headers, body)).await,
        "LOCK" => lock(&api, &op, &id, body).await,
        "UNLOCK" => unlock(&api, &op, &id, body).await,
        _ => {
            let allowed = [(ALLOW, HeaderValue::from_static(METHODS))];
            Ok((StatusCode::METHOD_NOT_ALLOWED, allowed, format!("use {METHODS}")).into_response())
        }
    };
    let mut response = match answered {
        Ok(response) => response,
        Err(Refused::Response(response)) => *response,
        Err(Refused::Error(error)) => {
            if let code @ (ErrorCode::Forbidden | ErrorCode::NotFound) = error.code() {
                api.app.audit_refused(&op, "stackState", code);
            }
            match error {
                Error::NotFound { .. } if !names_version => message(
                    StatusCode::FORBIDDEN,
                    "there is no such stack, or you have no access to its state",
                ),
                error => refuse(&error, request_id),
            }
        }
    };
    response.extensions_mut().insert(name);
    response
}

/// Whether a browser sent it: a page adds and removes neither of these.
pub(crate) fn is_browser(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN) || headers.contains_key("sec-fetch-site")
}

fn basic() -> HeaderValue {
    HeaderValue::from_static("Basic realm=\"plural\", charset=\"UTF-8\"")
}

fn challenge(request_id: RequestId) -> Response {
    let mut response = refuse(&Error::Unauthenticated, request_id);
    response.headers_mut().insert(WWW_AUTHENTICATE, basic());
    response
}

/// The password of `Authorization: Basic …`, which is an access token; whoever has one need not say who they are.
fn password(headers: &HeaderMap) -> Option<SecretString> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    let (scheme, encoded) = value.to_str().ok()?.trim().split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (_, password) = decoded.split_once(':')?;
    Some(SecretString::from(password))
}

fn stack(id: &str) -> Result<StackId, Error> {
    id.parse().map_err(|_| Error::not_found("stack"))
}

/// A place for so many bytes of a state.
fn room(api: &Api, op: &OpCtx, bytes: usize) -> Result<plural_kit::Permit<u128>, Error> {
    let by = match op.actor() {
        Actor::User(user) => user.id.uuid().as_u128(),
        Actor::Run(by) => by.stack.uuid().as_u128(),
        // None of these comes so far.
        Actor::Nobody | Actor::Cluster(_) | Actor::Registration(_) | Actor::System => 0,
    };
    let room = api.states.take_many(by, bytes.saturating_mul(COPIES));
    room.ok_or_else(|| Error::unavailable("too many states are being read and written; retry"))
}

async fn read(
    api: &Api,
    op: &OpCtx,
    id: &str,
    asked: Asked,
    places: CallerPermits,
) -> Result<Response, Refused> {
    let id = stack(id)?;
    let version = match asked.version {
        Some(version) => {
            Some(version.parse::<StateVersionId>().map_err(|_| Error::not_found("state version"))?)
        }
        None => None,
    };
    let Some(StateVersion { id: version, size, .. }) = api.app.stack_state_head(op, id, version).await?
    else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let room = room(api, op, usize::try_from(size).unwrap_or(usize::MAX))?;
    let state = Bytes::from(api.app.stack_state_read(op, id, version).await?);
    // Its places are taken until all of it is sent.
    let held = (places, room);
    let state = stream::iter([Ok::<_, std::convert::Infallible>(state)]).inspect(move |_| _ = &held);
    Ok(sealed_off(Body::from_stream(state)))
}

/// What is in a state is data, never a page of the console, and nothing to be kept on the way.
pub(crate) fn sealed_off(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    response
}

async fn write(
    api: &Api,
    op: &OpCtx,
    id: &str,
    asked: Asked,
    (headers, body): (&HeaderMap, Body),
) -> Result<Response, Refused> {
    let id = stack(id)?;
    // Before anything of it is read.
    api.app.stack_state_may_write(op, id).await?;
    // As many bytes as it says to have.
    let bytes = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
    let _room = room(api, op, bytes.unwrap_or(MAX_STATE_BYTES).min(MAX_STATE_BYTES))?;
    let state = body::read(body, MAX_STATE_BYTES, PATIENCE).await?;
    check_md5(headers, &state)?;
    Ok(match api.app.stack_state_write(op, id, asked.lock, state).await? {
        StateWritten::Taken(_) | StateWritten::Repeated(_) => StatusCode::OK.into_response(),
        StateWritten::Rejected(version) => {
            let why = version.rejected.unwrap_or_default();
            let told = format!(
                "the state was not taken: {why}. It is kept as rejected version {}: compare it, and restore it if it is what there is",
                version.id
            );
            (StatusCode::CONFLICT, Json(json!({"message": told, "version": version.id.to_string()})))
                .into_response()
        }
        StateWritten::Locked(lock) => held(StatusCode::LOCKED, lock),
    })
}

/// # Errors
/// [`Error::Invalid`] for a body that did not arrive as it was sent.
fn check_md5(headers: &HeaderMap, body: &[u8]) -> Result<(), Error> {
    let Some(given) = headers.get("content-md5") else { return Ok(()) };
    let given = given.to_str().ok().and_then(|text| STANDARD.decode(text.trim()).ok());
    if given.as_deref() == Some(Md5::digest(body).as_slice()) {
        Ok(())
    } else {
        Err(Error::invalid("Content-MD5", "is not that of the body: send it again"))
    }
}

/// The lock that somebody else has, in the words of their tool.
fn held(status: StatusCode, lock: StateLock) -> Response {
    let mut response = sealed_off(Body::from(lock.info));
    *response.status_mut() = status;
    response
}

async fn lock(api: &Api, op: &OpCtx, id: &str, body: Body) -> Result<Response, Refused> {
    let id = stack(id)?;
    api.app.stack_state_may_write(op, id).await?;
    let body = body::read(body, MAX_LOCK_BYTES, body::PATIENCE).await?;
    let request = LockRequest::parse(&body)?;
    Ok(match api.app.stack_state_lock(op, id, &request).await? {
        StateLocked::Taken(_) => StatusCode::OK.into_response(),
        StateLocked::Held(lock) => held(StatusCode::LOCKED, lock),
    })
}

async fn unlock(api: &Api, op: &OpCtx, id: &str, body: Body) -> Result<Response, Refused> {
    let id = stack(id)?;
    api.app.stack_state_may_write(op, id).await?;
    let body = body::read(body, MAX_LOCK_BYTES, body::PATIENCE).await?;
    // `force-unlock` sends nothing: the tool compared the id that the person typed only with what it knows itself.
    let named = if body.is_empty() { None } else { Some(LockRequest::parse(&body)?.id) };
    Ok(match api.app.stack_state_unlock(op, id, named.as_deref()).await? {
        StateUnlocked::Free => StatusCode::OK.into_response(),
        StateUnlocked::Held(lock) => held(StatusCode::CONFLICT, lock),
    })
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;
    use secrecy::ExposeSecret as _;

    use super::*;

    fn of(values: &[&'static str]) -> HeaderMap {
        values.iter().copied().map(|value| (AUTHORIZATION, HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn the_password_is_the_token() {
        let found = |values| password(&of(values)).map(|found| found.expose_secret().to_owned());
        // ada:console-1 and :a:b
        assert_eq!(found(&["Basic YWRhOmNvbnNvbGUtMQ=="]).as_deref(), Some("console-1"));
        assert_eq!(found(&["basic OmE6Yg=="]).as_deref(), Some("a:b"));
        for values in
            [&[][..], &["Bearer a"], &["Basic"], &["Basic !"], &["Basic YQ=="], &["Basic OmE=", "Basic OmE="]]
        {
            assert_eq!(found(values), None, "{values:?}");
        }
    }

    #[test]
    fn a_digest_has_to_fit() {
        let with = |value: &'static str| -> HeaderMap {
            [(HeaderName::from_static("content-md5"), HeaderValue::from_static(value))].into_iter().collect()
        };
        assert!(check_md5(&HeaderMap::new(), b"a").is_ok());
        assert!(check_md5(&with("DMF1ucDxtqgxw5niaXcmYQ=="), b"a").is_ok());
        for value in ["DMF1ucDxtqgxw5niaXcmYQ==", "", "!"] {
            assert!(check_md5(&with(value), b"b").is_err(), "{value}");
        }
    }
}
