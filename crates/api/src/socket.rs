//! `GET /gql`: subscriptions over a WebSocket, by the protocol `graphql-transport-ws`.
//!
//! # Guarantees
//! - A browser's cookie counts only where our own page opened the socket: the origin is compared as a whole.
//! - Whoever may not be here any more is gone within five seconds and a moment: [`CHECK`], and what sockets of one token share.
//! - Nothing waits without a limit: messages, subscriptions, events and what a client does not read.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Weak},
    task::{Context, Poll, Waker},
    time::Duration,
};

use async_graphql::{
    Request as GraphQlRequest, Response as GraphQlResponse, ServerError, parser::types::OperationType,
};
use axum::{
    Extension,
    extract::{
        FromRequestParts as _, Request as HttpRequest, State,
        ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code},
    },
    http::StatusCode,
    response::Response,
};
use futures::{
    StreamExt as _,
    stream::{AbortHandle, BoxStream, SelectAll, abortable, once},
};
use parking_lot::Mutex;
use plural_core::ids::RequestId;
use plural_core::{Error, ErrorCode};
use plural_kit::{Permit, Permits, ShutdownSignal, Visit};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep_until, timeout},
};

use crate::{
    auth::{self, Caller, Party, Presented},
    document::{Rejection, Sender},
    graphql::{self, Budget, Request},
    http::{Api, actor_name, coded, message, read, refuse},
    preparation::Unprepared,
};

/// The protocol, as a browser names it.
const PROTOCOL: &str = "graphql-transport-ws";
/// Sockets at once, and those of one user.
const SOCKETS: (usize, usize) = (20_000, 1_000);
/// Subscriptions at once, and those of one user on all of their sockets: each may ask for rights once a second.
const SUBSCRIPTIONS: (usize, usize) = (100_000, 300);
/// Subscriptions of one socket.
const MOST_SUBSCRIPTIONS: usize = 100;
/// Bytes of a message from a client: a document with its variables.
const LARGEST: usize = 128 << 10;
/// Bytes of the id of a subscription.
const LONGEST_ID: usize = 128;
/// How long a client may take to begin.
const BEGINS: Duration = Duration::from_secs(10);
/// How often it is looked whether the credential still is one.
const CHECK: Duration = Duration::from_secs(4);
/// How often a client is asked for a sign of life.
const PING: Duration = Duration::from_secs(20);
/// How long one may be silent.
const SILENCE: Duration = Duration::from_mins(1);
/// How long a client may take to read a message.
const PATIENCE: Duration = Duration::from_secs(5);

// Codes of the protocol's own.
const BAD: u16 = 4400;
const UNAUTHORIZED: u16 = 4401;
const FORBIDDEN: u16 = 4403;
const TOO_LATE: u16 = 4408;
const TAKEN: u16 = 4409;
const TOO_MANY: u16 = 4429;

/// Sockets that are open.
#[derive(Clone)]
pub struct Sockets {
    places: Arc<Permits<u128>>,
    subscriptions: Arc<Permits<u128>>,
    open: Arc<Mutex<JoinSet<()>>>,
    known: auth::KnownActors,
    stop: ShutdownSignal,
}

impl std::fmt::Debug for Sockets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sockets").finish_non_exhaustive()
    }
}

impl Sockets {
    /// They end when `stop` is requested.
    pub fn new(stop: ShutdownSignal) -> Self {
        Self {
            places: Permits::new(SOCKETS.0, SOCKETS.1),
            subscriptions: Permits::new(SUBSCRIPTIONS.0, SUBSCRIPTIONS.1),
            open: Arc::default(),
            known: auth::KnownActors::default(),
            stop,
        }
    }

    /// Waits until each was told that the console stops. For when nothing is served any more.
    pub async fn finish(&self) {
        let mut open = std::mem::take(&mut *self.open.lock());
        let ended = async { while open.join_next().await.is_some() {} };
        if timeout(PATIENCE, ended).await.is_err() {
            tracing::debug!("some browsers did not hear that the console stops");
        }
    }
}

/// What a client says.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Said {
    ConnectionInit {
        #[serde(default)]
        payload: Option<Value>,
    },
    Subscribe {
        id: String,
        payload: Value,
    },
    Complete {
        id: String,
    },
    Ping {},
    Pong {},
}

/// Why a socket is closed.
type Close = (u16, &'static str);

/// Opens a socket.
pub(crate) async fn open(
    State(api): State<Api>,
    Extension(request_id): Extension<RequestId>,
    request: HttpRequest,
) -> Response {
    let (mut parts, _) = request.into_parts();
    let Ok(upgrade) = WebSocketUpgrade::from_request_parts(&mut parts, &api).await else {
        return message(
            StatusCode::UPGRADE_REQUIRED,
            "subscriptions are served over a WebSocket; POST other requests",
        );
    };
    let upgrade = upgrade.protocols([PROTOCOL]).max_message_size(LARGEST).max_frame_size(LARGEST);
    if upgrade.selected_protocol().is_none() {
        return message(
            StatusCode::BAD_REQUEST,
            "subscriptions are served by the protocol graphql-transport-ws",
        );
    }
    let token = match auth::socket_token(&api, &parts.headers) {
        Ok(token) => token,
        Err(error) => return refuse(&error, request_id),
    };
    let parts = Arc::new(parts);
    let (open, stop) = (Arc::clone(&api.sockets.open), api.sockets.stop.clone());
    let mut api = api;
    // A set of tasks that hold it would never be dropped.
    api.sockets.open = Arc::default();
    let mut socket = Socket {
        request_id,
        parts,
        stop,
        api,
        listener: None,
        begun: false,
        running: HashMap::new(),
        events: SelectAll::new(),
    };
    let mut name = None;
    if let Some(token) = token {
        match socket.identify(token).await {
            Ok(actor) => name = Some(actor),
            Err(response) => return *response,
        }
    }
    let mut response = upgrade.on_upgrade(move |stream| async move {
        let mut open = open.lock();
        while open.try_join_next().is_some() {}
        open.spawn(socket.run(stream));
    });
    if let Some(name) = name {
        response.extensions_mut().insert(name);
    }
    response
}

/// Who listens.
struct Listener {
    presented: Arc<Presented>,
    user: u128,
    party: Party,
    address: Option<IpAddr>,
    _place: Permit<u128>,
    /// The connection keeps its place for as long as the socket is open.
    _visit: Option<Arc<Visit>>,
}

type Events = BoxStream<'static, (String, Option<GraphQlResponse>)>;

struct Socket {
    api: Api,
    request_id: RequestId,
    parts: Arc<axum::http::request::Parts>,
    stop: ShutdownSignal,
    listener: Option<Listener>,
    begun: bool,
    running: HashMap<String, (AbortHandle, Permit<u128>)>,
    events: SelectAll<Events>,
}

impl Socket {
    /// Whose a token is, with a place for their socket.
    async fn identify(&mut self, token: SecretString) -> Result<crate::log::ActorName, Box<Response>> {
        let Caller { actor, address, visit, places: _ } =
            auth::bearer(&self.api, &self.parts, self.request_id, &token).await?;
        let party = Party::of(&actor, address);
        let Party::User(user) = party else {
            return Err(Box::new(refuse(&Error::Unauthenticated, self.request_id)));
        };
        let Some(place) = self.api.sockets.places.take(user) else {
            return Err(Box::new(message(StatusCode::TOO_MANY_REQUESTS, "too many sockets of this user")));
        };
        let known = self.api.sockets.known.clone();
        let presented = Presented::new(Arc::clone(&self.api.app), token, self.request_id, address, known);
        self.listener = Some(Listener {
            presented: Arc::new(presented),
            user,
            party,
            address,
            _place: place,
            _visit: Weak::upgrade(&visit),
        });
        Ok(actor_name(&actor))
    }

    async fn run(mut self, mut stream: WebSocket) {
        if let Err((code, reason)) = self.serve(&mut stream).await {
            let close = CloseFrame { code, reason: reason.into() };
            let _ = timeout(PATIENCE, stream.send(Message::Close(Some(close)))).await;
        }
    }

    /// Until the client is gone, or has to go.
    async fn serve(&mut self, stream: &mut WebSocket) -> Result<(), Close> {
        let begins = Instant::now() + BEGINS;
        let mut heard = Instant::now();
        let [mut check, mut ping] = [CHECK, PING].map(interval);
        for ticks in [&mut check, &mut ping] {
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks.reset();
        }
        let stop = self.stop.clone();
        loop {
            tokio::select! {
                () = stop.requested() => return Err((close_code::AWAY, "the console stops: connect again")),
                () = sleep_until(begins), if !self.begun => return Err((TOO_LATE, "Connection initialisation timeout")),
                _ = check.tick(), if self.begun => check_still(self.presented()).await?,
                _ = ping.tick(), if self.begun => {
                    if heard.elapsed() > SILENCE {
                        return Err((close_code::AWAY, "no sign of life"));
                    }
                    send(stream, &json!({"type": "ping"})).await?;
                }
                Some((id, event)) = self.events.next(), if !self.events.is_empty() => self.tell(stream, id, event).await?,
                said = stream.recv() => {
                    heard = Instant::now();
                    match said {
                        None | Some(Err(_) | Ok(Message::Close(_))) => return Ok(()),
                        Some(Ok(Message::Text(text))) => self.hear(stream, text.as_str()).await?,
                        Some(Ok(Message::Binary(_))) => return Err((BAD, "messages are text")),
                        Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    }
                }
            }
        }
    }

    fn presented(&self) -> Option<Arc<Presented>> {
        self.listener.as_ref().map(|listener| Arc::clone(&listener.presented))
    }

    async fn hear(&mut self, stream: &mut WebSocket, text: &str) -> Result<(), Close> {
        let Ok(said) = serde_json::from_str::<Said>(text) else {
            return Err((BAD, "not a message of graphql-transport-ws"));
        };
        match said {
            Said::ConnectionInit { .. } if self.begun => Err((TOO_MANY, "Too many initialisation requests")),
            Said::ConnectionInit { payload } => {
                if self.listener.is_none() {
                    let token = payload.as_ref().and_then(token_in).ok_or((UNAUTHORIZED, "Unauthorized"))?;
                    self.identify(token).await.map_err(|response| match response.status() {
                        StatusCode::FORBIDDEN => (FORBIDDEN, "Forbidden"),
                        StatusCode::UNAUTHORIZED => (UNAUTHORIZED, "Unauthorized"),
                        _ => (close_code::AGAIN, "too many requests; try again later"),
                    })?;
                }
                self.begun = true;
                send(stream, &json!({"type": "connection_ack"})).await
            }
            Said::Ping {} => send(stream, &json!({"type": "pong"})).await,
            Said::Pong {} => Ok(()),
            Said::Complete { id } => {
                if let Some((running, _)) = self.running.remove(&id) {
                    running.abort();
                }
                Ok(())
            }
            Said::Subscribe { .. } if !self.begun => Err((UNAUTHORIZED, "Unauthorized")),
            Said::Subscribe { id, .. } if self.running.contains_key(&id) => {
                Err((TAKEN, "a subscription with this id runs already"))
            }
            Said::Subscribe { id, .. } if id.len() > LONGEST_ID => Err((BAD, "the id is too long")),
            Said::Subscribe { id, payload } => {
                let begun = if self.running.len() < MOST_SUBSCRIPTIONS {
                    self.begin(&id, &payload).await?
                } else {
                    let told = format!("a connection may have at most {MOST_SUBSCRIPTIONS} subscriptions");
                    Err(vec![ServerError::new(told, None)])
                };
                match begun {
                    Ok(()) => Ok(()),
                    Err(errors) => refuse_subscription(stream, &id, errors, self.request_id).await,
                }
            }
        }
    }

    /// Begins a subscription, or says what is wrong with it.
    async fn begin(&mut self, id: &str, payload: &Value) -> Result<Result<(), Vec<ServerError>>, Close> {
        let Some(listener) = &self.listener else { return Err((UNAUTHORIZED, "Unauthorized")) };
        let (presented, party, address) = (Arc::clone(&listener.presented), listener.party, listener.address);
        let Some(place) = self.api.sockets.subscriptions.take(listener.user) else {
            let told = format!("you may have at most {} subscriptions on all connections", SUBSCRIPTIONS.1);
            return Ok(Err(vec![ServerError::new(told, None)]));
        };
        let op = match presented.op().await {
            Ok(op) => op,
            Err(Error::Unauthenticated) => return Err((UNAUTHORIZED, "Unauthorized")),
            Err(Error::Forbidden { .. }) => return Err((FORBIDDEN, "Forbidden")),
            Err(error) => return Ok(Err(vec![graphql::server_error(&error, self.request_id)])),
        };
        let prepare = {
            let (api, body, op) = (self.api.clone(), payload.to_string(), op.with_peer(address));
            move || {
                let mut request = read(body.as_bytes(), Sender::Known)?;
                if !subscribes(&mut request) {
                    return Err(Rejection::Limit("queries and mutations are sent by POST".to_owned()));
                }
                // A subscription has no budget that it would spend in time; an event is small.
                let budget = Arc::new(Budget::new(api.pool.clone(), party));
                let data = Request::new(api.app, op, Arc::clone(&api.options), budget);
                let mut events = api.schema.execute_stream(request.data(data).data(presented));
                // Up to here it needs a processor and nothing else: it stops once after it was validated.
                match events.poll_next_unpin(&mut Context::from_waker(Waker::noop())) {
                    Poll::Pending => Ok(Ok(events)),
                    Poll::Ready(refused) => {
                        Ok(Err(refused.map(|refused| refused.errors).unwrap_or_default()))
                    }
                }
            }
        };
        let events = match self.api.preparation.run((Sender::Known, party), prepare).await {
            Ok(Ok(Ok(events))) => events,
            Ok(Ok(Err(errors))) => return Ok(Err(errors)),
            Ok(Err(rejection)) => return Ok(Err(vec![told(rejection, self.request_id)])),
            Err(Unprepared::Busy) => {
                let told = "too many requests are being read; retry later".to_owned();
                return Ok(Err(vec![ServerError::new(told, None)]));
            }
            Err(Unprepared::Ended(cause)) => {
                let error = Error::internal("reading a subscription", cause);
                tracing::error!(error = error.log_text(), "a subscription failed");
                return Ok(Err(vec![graphql::server_error(&error, self.request_id)]));
            }
        };
        let (of_event, of_end) = (id.to_owned(), id.to_owned());
        let events = events
            .map(move |event| (of_event.clone(), Some(event)))
            .chain(once(std::future::ready((of_end, None))));
        let (events, running) = abortable(events);
        self.events.push(events.boxed());
        self.running.insert(id.to_owned(), (running, place));
        Ok(Ok(()))
    }

    /// Sends what a subscription has to say; nothing is its end.
    async fn tell(
        &mut self,
        stream: &mut WebSocket,
        id: String,
        event: Option<GraphQlResponse>,
    ) -> Result<(), Close> {
        let Some(event) = event else {
            self.running.remove(&id);
            return send(stream, &json!({"type": "complete", "id": id})).await;
        };
        // It was refused, or whoever listens may not any more.
        if !event.errors.is_empty() {
            if event.errors.iter().any(|error| code(error) == Some(ErrorCode::Unauthenticated.as_str())) {
                return Err((UNAUTHORIZED, "Unauthorized"));
            }
            if let Some((running, _)) = self.running.remove(&id) {
                running.abort();
            }
            return refuse_subscription(stream, &id, event.errors, self.request_id).await;
        }
        send(stream, &json!({"type": "next", "id": id, "payload": coded(event, self.request_id)})).await
    }
}

/// Whether whoever listens still may.
async fn check_still(presented: Option<Arc<Presented>>) -> Result<(), Close> {
    let Some(presented) = presented else { return Ok(()) };
    match presented.op().await {
        Err(Error::Unauthenticated) => Err((UNAUTHORIZED, "Unauthorized")),
        Err(Error::Forbidden { .. }) => Err((FORBIDDEN, "Forbidden")),
        // With a database that does not answer nothing is told either.
        Ok(_) | Err(_) => Ok(()),
    }
}

async fn refuse_subscription(
    stream: &mut WebSocket,
    id: &str,
    errors: Vec<ServerError>,
    request_id: RequestId,
) -> Result<(), Close> {
    let errors = coded(GraphQlResponse::from_errors(errors), request_id).errors;
    send(stream, &json!({"type": "error", "id": id, "payload": errors})).await
}

/// The code of an error, for clients.
fn code(error: &ServerError) -> Option<&str> {
    match error.extensions.as_ref()?.get("code")? {
        async_graphql::Value::String(code) => Some(code.as_str()),
        _ => None,
    }
}

async fn send(stream: &mut WebSocket, value: &Value) -> Result<(), Close> {
    match timeout(PATIENCE, stream.send(Message::text(value.to_string()))).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err((close_code::POLICY, "messages are not read")),
    }
}

/// The token of a client that could send no header: `{"Authorization": "Bearer …"}`, or `{"token": "…"}`.
fn token_in(payload: &Value) -> Option<SecretString> {
    let text = |name: &str| payload.get(name).and_then(Value::as_str);
    let given = text("Authorization").or_else(|| text("authorization")).or_else(|| text("token"))?.trim();
    let (scheme, token) = given.split_once(' ').unwrap_or(("bearer", given));
    let is_known = scheme.eq_ignore_ascii_case("bearer") || scheme.eq_ignore_ascii_case("token");
    is_known.then(|| SecretString::from(token.trim()))
}

fn subscribes(request: &mut GraphQlRequest) -> bool {
    request.parsed_query().is_ok_and(|document| {
        document.operations.iter().all(|(_, operation)| operation.node.ty == OperationType::Subscription)
    })
}

fn told(rejection: Rejection, request_id: RequestId) -> ServerError {
    match rejection {
        Rejection::Unauthenticated | Rejection::NotForIt => {
            graphql::server_error(&Error::Unauthenticated, request_id)
        }
        Rejection::TooLong(told) | Rejection::Limit(told) => ServerError::new(told, None),
        Rejection::Syntax(error) => error,
        Rejection::Invalid(error) => graphql::server_error(&error, request_id),
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    #[test]
    fn a_token_comes_in_the_first_message() {
        let found = |payload: Value| token_in(&payload).map(|token| token.expose_secret().to_owned());
        for payload in [
            json!({"Authorization": "Bearer console-1"}),
            json!({"authorization": "Token console-1"}),
            json!({"token": "console-1"}),
            json!({"token": "Bearer console-1"}),
        ] {
            assert_eq!(found(payload.clone()).as_deref(), Some("console-1"), "{payload}");
        }
        for none in [json!({}), json!(null), json!({"token": 1}), json!({"Authorization": "Basic YTpi"})] {
            assert_eq!(found(none.clone()), None, "{none}");
        }
    }
}
