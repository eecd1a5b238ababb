//! `POST /gql`.

use std::{
    collections::HashSet,
    net::IpAddr,
    sync::{Arc, Weak},
    time::Instant,
};

use async_graphql::{
    Name, Request as GraphQlRequest, Response as GraphQlResponse, ServerError, Variables,
    parser::types::OperationType,
};
use axum::{
    Extension, Json,
    extract::{Request as HttpRequest, State},
    http::{
        HeaderMap, HeaderValue, StatusCode,
        header::{CONTENT_TYPE, RETRY_AFTER},
    },
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use plural_app::App;
use plural_core::access::Actor;
use plural_core::ids::{RequestId, ServiceId};
use plural_core::{Error, ErrorCode};
use plural_kit::{Permits, Visit};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    auth::{self, Caller, Party, RequestPermits},
    body,
    document::{self, Rejection, Sender, scan_json},
    graphql::{self, Budget, MOST_BYTES, MOST_NODES, Pool, Request, RunnerToken, Schema, Shortage},
    log::ActorName,
    options::ApiOptions,
    preparation::{Preparation, Prepared, Unprepared, until_validated},
    sending::{Recipient, Sending, Text},
    site::Site,
    socket::Sockets,
};

/// JSON values of a body: each takes far more memory than its bytes.
pub(crate) const MOST_VALUES: usize = 50_000;
/// The same of somebody who has not said who they are.
const MOST_VALUES_OF_NOBODY: usize = 200;
/// Bytes of an answer that is written beside the other requests, not between them.
const LARGE_ANSWER: u64 = 256 << 10;

/// Bytes of webhooks that are read at once. One sender has as many as it leaves to others.
const WEBHOOKS: usize = 128 << 20;
/// Bytes of states of stacks that are read and written at once, with their copies.
const STATES: usize = 512 << 20;
/// Bytes of plans, logs and reports of runs that are read and sent at once, with their copies.
const RUNS: usize = 512 << 20;
/// Questions at gates that are read at once, 8 KiB each, and those at the gates of one service: many services of one owner
/// that say nothing more leave room for others.
const GATES: (usize, usize) = (8_192, 8);
/// Errors of one answer.
const MOST_ERRORS: usize = 50;

/// What handlers share.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) app: Arc<App>,
    /// Room for the bytes of webhooks: who sends one is known only when all of it is there.
    pub(crate) webhooks: Arc<Permits<Option<IpAddr>>>,
    /// Room for the bytes of stacks' states, by user.
    pub(crate) states: Arc<Permits<u128>>,
    /// Room for the bytes of runs, by run.
    pub(crate) runs: Arc<Permits<u128>>,
    /// Permits for questions at gates, of those who know the token of one.
    pub(crate) gates: Arc<Permits<ServiceId>>,
    /// Permits for requests of people.
    pub(crate) places: RequestPermits,
    pub(crate) options: Arc<ApiOptions>,
    /// The console as browsers know it, if they may sign in.
    pub(crate) site: Option<Site>,
    pub(crate) sockets: Sockets,
    pub(crate) schema: Schema,
    pub(crate) preparation: Arc<Preparation>,
    pub(crate) pool: Pool,
    sending: Sending,
}

impl Api {
    pub(crate) fn new(app: Arc<App>, options: ApiOptions, sockets: Sockets) -> Self {
        Self {
            app,
            webhooks: Permits::leaving_room(WEBHOOKS),
            states: Permits::leaving_room(STATES),
            runs: Permits::leaving_room(RUNS),
            gates: Permits::new(GATES.0, GATES.1),
            places: RequestPermits::default(),
            sockets,
            schema: graphql::schema(),
            preparation: Arc::default(),
            pool: Pool::default(),
            sending: Sending::default(),
            site: Site::of(options.public_url.as_deref()),
            options: Arc::new(options),
        }
    }
}

/// A GraphQL request. Marks of persisted documents (`extensions`, and `documentId` in the URL) may be
/// there and are not needed: the document itself always comes along.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    query: String,
    #[serde(default)]
    operation_name: Option<String>,
    #[serde(default)]
    variables: Option<serde_json::Map<String, Value>>,
}

/// Answers one GraphQL operation.
pub(crate) async fn gql(
    State(api): State<Api>,
    Extension(request_id): Extension<RequestId>,
    request: HttpRequest,
) -> Response {
    let (parts, body) = request.into_parts();
    let runner = auth::runner_token(&parts.headers);
    let caller = match &runner {
        Some(token) => auth::runner(&api, &parts, request_id, token).await,
        None => auth::caller(&api, &parts, request_id).await,
    };
    let caller = match caller {
        Ok(caller) => caller,
        Err(response) => return *response,
    };
    let Caller { actor, address: peer, visit, places: _places } = caller;
    let headers = parts.headers;
    let sender = match &actor {
        Actor::Nobody => Sender::Nobody,
        Actor::User(_) | Actor::Cluster(_) | Actor::Registration(_) | Actor::Run(_) | Actor::System => {
            Sender::Known
        }
    };
    let largest = match sender {
        Sender::Nobody => body::LARGEST_OF_NOBODY,
        Sender::Known => body::LARGEST,
    };
    let body = match body::read(body, largest, body::PATIENCE).await {
        Ok(body) => body,
        Err(response) => return *response,
    };
    let name = actor_name(&actor);
    let mut response = match is_json(&headers) {
        Ok(()) => {
            let party = Party::of(&actor, peer);
            match Recipient::new(&api.sending, party, visit) {
                Some(recipient) => {
                    answer(&api, Asked { sender, actor, runner, peer, request_id, recipient }, body).await
                }
                None => unread(),
            }
        }
        Err(response) => *response,
    };
    response.extensions_mut().insert(name);
    response
}

/// Whether a body says that it is JSON: what no form of another page can say.
///
/// # Errors
/// The answer for one that does not.
pub(crate) fn is_json(headers: &HeaderMap) -> Result<(), Box<Response>> {
    let is_json = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.split(';').next().is_some_and(|kind| kind.trim() == "application/json"));
    if is_json {
        return Ok(());
    }
    let told = "send a JSON body with content-type application/json";
    Err(Box::new(message(StatusCode::UNSUPPORTED_MEDIA_TYPE, told)))
}

/// The request of a body, parsed and within its limits. Takes time that grows with the body's bytes only.
pub(crate) fn read(body: &[u8], sender: Sender) -> Result<GraphQlRequest, Rejection> {
    let most = match sender {
        Sender::Nobody => MOST_VALUES_OF_NOBODY,
        Sender::Known => MOST_VALUES,
    };
    scan_json(body, most)?;
    let Body { query, operation_name, variables } = serde_json::from_slice(body).map_err(|error| {
        Rejection::Limit(format!(
            "the body is not a GraphQL request {{query, variables, operationName}}: {error}"
        ))
    })?;
    let mut variables = Variables::from_json(Value::Object(variables.unwrap_or_default()));
    let document = document::read(&query, &variables, sender)?;
    // What the operation does not declare is of no use to it.
    let operations = document.operations.iter();
    let definitions = operations.flat_map(|(_, operation)| &operation.node.variable_definitions);
    let declared: HashSet<&Name> = definitions.map(|definition| &definition.node.name.node).collect();
    variables.retain(|name, _| declared.contains(name));
    document::refuse_nul(&document, &variables).map_err(Rejection::Invalid)?;
    let mut request = GraphQlRequest::new(query).variables(variables);
    request.operation_name = operation_name;
    request.set_parsed_query(document);
    Ok(request)
}

/// Who asks, and whom the answer is for.
struct Asked {
    sender: Sender,
    actor: Actor,
    /// What it is known by, of a run or an agent.
    runner: Option<SecretString>,
    peer: Option<IpAddr>,
    request_id: RequestId,
    recipient: Recipient,
}

/// Reads, validates and executes a request. The first two need a processor and nothing else, so they are done where
/// they hold up no other request.
async fn answer(api: &Api, asked: Asked, body: Bytes) -> Response {
    let Asked { sender, actor, runner, peer, request_id, recipient } = asked;
    let budget = Arc::new(Budget::new(api.pool.clone(), recipient.party));
    let prepare = {
        let (api, budget) = (api.clone(), Arc::clone(&budget));
        move || {
            let mut request = read(&body, sender)?;
            drop(body);
            if !graphql::opens(&actor, &mut request) {
                let op = api.app.ctx(actor).with_request_id(request_id).with_peer(peer);
                api.app.audit_refused(&op, "token", ErrorCode::Unauthenticated);
                return Err(Rejection::NotForIt);
            }
            let effect = effect(&mut request);
            let deadline = Instant::now() + api.options.timeout;
            let op = api.app.ctx(actor).with_request_id(request_id).with_deadline(deadline).with_peer(peer);
            let data = Request::new(api.app, op, Arc::clone(&api.options), Arc::clone(&budget));
            let request = request.data(data).data(budget).data(RunnerToken(runner));
            let schema = api.schema;
            Ok((until_validated(async move { schema.execute(request).await }), effect))
        }
    };
    let (running, effect) = match api.preparation.run((sender, recipient.party), prepare).await {
        Err(Unprepared::Busy) => return busy("too many requests are being read; retry later"),
        Err(Unprepared::Ended(cause)) => return internal(request_id, "reading a request", cause),
        Ok(Err(rejection)) => return reject(rejection, recipient, request_id),
        Ok(Ok((Prepared::Refused(mut response), _))) => {
            response.errors.truncate(MOST_ERRORS);
            return written(*response, recipient, request_id, Effect::Nothing);
        }
        Ok(Ok((Prepared::Valid(running), effect))) => (running, effect),
    };
    let response = tokio::select! {
        biased;
        shortage = budget.spent() => return fell_short(shortage, recipient, request_id, effect),
        response = tokio::time::timeout(api.options.timeout, running) => response,
    };
    let Ok(mut response) = response else {
        tracing::warn!(request.id = %request_id, "request took too long");
        let told = "the request took too long; request fewer items or retry later";
        return message(StatusCode::SERVICE_UNAVAILABLE, told);
    };
    if let Some((named, all)) = budget.cuts() {
        response.extensions.insert("truncated".to_owned(), named);
        response.extensions.insert("truncatedLists".to_owned(), all.into());
    }
    if budget.bytes() < LARGE_ANSWER {
        return written(response, recipient, request_id, effect);
    }
    let writing = move || {
        let response = written(response, recipient, request_id, effect);
        // Until here the answer is in memory as it was made.
        drop(budget);
        response
    };
    match tokio::task::spawn_blocking(writing).await {
        Ok(response) => response,
        Err(cause) => internal(request_id, "writing an answer", cause),
    }
}

fn reject(rejection: Rejection, recipient: Recipient, request_id: RequestId) -> Response {
    match rejection {
        Rejection::Unauthenticated => unauthenticated(),
        // As for one that is wrong.
        Rejection::NotForIt => refuse(&Error::Unauthenticated, request_id),
        Rejection::TooLong(told) => message(StatusCode::PAYLOAD_TOO_LARGE, &told),
        Rejection::Limit(told) => message(StatusCode::BAD_REQUEST, &told),
        Rejection::Syntax(error) => {
            written(GraphQlResponse::from_errors(vec![error]), recipient, request_id, Effect::Nothing)
        }
        Rejection::Invalid(error) => {
            let error = graphql::server_error(&error, request_id);
            written(GraphQlResponse::from_errors(vec![error]), recipient, request_id, Effect::Nothing)
        }
    }
}

/// What it means to send a request again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Nothing,
    /// What it did would be done twice.
    Mutation,
}

fn effect(request: &mut GraphQlRequest) -> Effect {
    let Ok(document) = request.parsed_query() else { return Effect::Nothing };
    let mutates =
        document.operations.iter().any(|(_, operation)| operation.node.ty == OperationType::Mutation);
    if mutates { Effect::Mutation } else { Effect::Nothing }
}

/// The answer to a request whose own is larger than any may be. What a mutation did stays done, and nobody is asked to
/// send it again.
fn fell_short(shortage: Shortage, recipient: Recipient, request_id: RequestId, effect: Effect) -> Response {
    let told = match shortage {
        Shortage::Nodes => format!(
            "the answer has more than {MOST_NODES} values: ask for smaller pages (`first`) or for fewer nested lists"
        ),
        Shortage::Bytes => format!(
            "the answer is larger than {} MiB: ask for smaller pages (`first`) or for fewer fields",
            MOST_BYTES >> 20
        ),
        Shortage::Pool | Shortage::Unread if effect == Effect::Mutation => {
            "the mutation was executed, but its response cannot be sent now. Do not retry; query the result"
                .to_owned()
        }
        Shortage::Pool => {
            metrics::counter!("plural_answers_refused_total", "cause" => "pool").increment(1);
            return busy("too many large responses in progress; request fewer items or retry later");
        }
        Shortage::Unread => return unread(),
    };
    let response = GraphQlResponse::from_errors(vec![ServerError::new(told, None)]);
    written(response, recipient, request_id, effect)
}

fn unread() -> Response {
    metrics::counter!("plural_answers_refused_total", "cause" => "unread").increment(1);
    busy("earlier responses are still unread; read them, request fewer items, or retry later")
}

/// A response as JSON. Escapes can make it longer than what was counted, so it is counted again.
fn written(
    response: GraphQlResponse,
    recipient: Recipient,
    request_id: RequestId,
    effect: Effect,
) -> Response {
    let again = recipient.clone();
    let short = move |shortage| fell_short(shortage, again, request_id, effect);
    serialized(coded(response, request_id), recipient, request_id, short)
}

/// An answer as JSON, or what `short` makes of it when there is no room for it.
fn serialized(
    answer: impl Serialize,
    recipient: Recipient,
    request_id: RequestId,
    short: impl FnOnce(Shortage) -> Response,
) -> Response {
    let mut text = Text::new(recipient);
    let body = match serde_json::to_writer(&mut text, &answer) {
        Ok(()) => text.into_body(),
        Err(error) if error.is_io() => Err(text.shortage()),
        Err(cause) => return internal(request_id, "writing an answer", cause),
    };
    // What there was no room for is not kept while the shorter answer is made.
    drop(answer);
    match body {
        Ok(body) => {
            let kind = HeaderValue::from_static("application/json");
            ([(CONTENT_TYPE, kind)], body).into_response()
        }
        Err(shortage) => short(shortage),
    }
}

/// A place for an answer that is no GraphQL.
///
/// # Errors
/// The answer for a party that has too many to read.
pub(crate) fn recipient(api: &Api, party: Party, visit: Weak<Visit>) -> Result<Recipient, Box<Response>> {
    Recipient::new(&api.sending, party, visit).ok_or_else(|| Box::new(unread()))
}

/// An answer of JSON that is no GraphQL and changed nothing, counted as those of GraphQL are.
pub(crate) fn written_json(answer: &impl Serialize, recipient: Recipient, request_id: RequestId) -> Response {
    serialized(answer, recipient, request_id, |shortage| match shortage {
        Shortage::Nodes | Shortage::Bytes => {
            let told = format!("is too many: the answer is larger than {} MiB", MOST_BYTES >> 20);
            refuse(&Error::invalid("first", told), request_id)
        }
        Shortage::Pool | Shortage::Unread => unread(),
    })
}

/// The answer, in which every error has a code: those that never came to a use case are the request's fault.
pub(crate) fn coded(mut response: GraphQlResponse, request_id: RequestId) -> GraphQlResponse {
    for error in &mut response.errors {
        let extensions = error.extensions.get_or_insert_default();
        if extensions.get("code").is_none() {
            extensions.set("code", ErrorCode::Invalid.as_str());
            extensions.set("requestId", request_id.to_string());
        }
    }
    response
}

pub(crate) fn actor_name(actor: &Actor) -> ActorName {
    ActorName(match actor {
        Actor::Nobody => "nobody".into(),
        Actor::User(user) => format!("user:{}", user.id),
        Actor::Cluster(id) => format!("cluster:{id}"),
        Actor::Registration(by) => format!("registration:{}", by.token),
        Actor::Run(by) => format!("run:{}", by.run),
        Actor::System => "system".into(),
    })
}

/// An error that keeps the request from being looked at.
pub(crate) fn refuse(error: &Error, request_id: RequestId) -> Response {
    let public = error.public(request_id);
    let status = StatusCode::from_u16(public.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if status.is_server_error() {
        tracing::error!(request.id = %request_id, error = error.log_text(), "request failed");
    }
    (
        status,
        Json(
            json!({"message": public.message, "code": public.code.as_str(), "requestId": public.request_id}),
        ),
    )
        .into_response()
}

fn unauthenticated() -> Response {
    message(StatusCode::UNAUTHORIZED, "unauthenticated")
}

fn internal(
    request_id: RequestId,
    doing: &'static str,
    cause: impl std::error::Error + Send + Sync + 'static,
) -> Response {
    refuse(&Error::internal(doing, cause), request_id)
}

/// The request may succeed a moment later.
fn busy(told: &str) -> Response {
    let mut response = message(StatusCode::SERVICE_UNAVAILABLE, told);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

pub(crate) fn message(status: StatusCode, text: &str) -> Response {
    (status, Json(json!({"message": text}))).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_are_not_declared_are_dropped() {
        let query = "query ($a: Int, $b: Int = 2) { cluster(id: $a) { id } }";
        let body = json!({"query": query, "variables": {"a": 1, "c": vec![1; 1_000], "d": {"a": 1}}});
        let request = read(body.to_string().as_bytes(), Sender::Known).unwrap();
        let names: Vec<_> = request.variables.keys().map(Name::as_str).collect();
        assert_eq!(names, ["a"]);
        let body = json!({"query": query, "variables": {"c": vec![1; MOST_VALUES]}});
        let told = read(body.to_string().as_bytes(), Sender::Known).map(|_| ()).unwrap_err();
        assert!(matches!(&told, Rejection::Limit(told) if told.contains("50000 JSON values")), "{told:?}");
    }
}
