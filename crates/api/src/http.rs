//! `POST /gql`.

use std::{net::IpAddr, sync::Arc, time::Instant};

use async_graphql::{
    Request as GraphQlRequest, Response as GraphQlResponse, Variables,
    parser::types::{DocumentOperations, ExecutableDocument, OperationType, Selection},
};
use axum::{
    Extension, Json,
    extract::{Request as HttpRequest, State},
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use plural_app::App;
use plural_core::{Error, RequestId, access::Actor};
use plural_kit::Places;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    auth::{self, Caller, RequestPlaces},
    body,
    graphql::{self, Request, Schema},
    log::ActorName,
    options::ApiOptions,
};

/// Bytes of a document: far more than any real one, far less than what is slow to parse.
const LARGEST_DOCUMENT: usize = 64 << 10;
/// Root fields of one query, aliases counted.
const MOST_QUERY_FIELDS: usize = 50;
/// Root fields of one mutation, aliases counted: each is a write, or a password to try.
const MOST_MUTATION_FIELDS: usize = 10;
/// The root fields that need no credential.
const OPEN_FIELDS: [&str; 4] = ["signIn", "__schema", "__type", "__typename"];

/// Bodies of webhooks that are read at once.
const WEBHOOKS: usize = 32;
/// Those of one sender.
const WEBHOOKS_OF_ONE: usize = 4;

/// What handlers share.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) app: Arc<App>,
    /// Places for bodies of webhooks: who sends one is known only when all of it is there.
    pub(crate) webhooks: Arc<Places<Option<IpAddr>>>,
    /// Places for requests of people.
    pub(crate) places: RequestPlaces,
    pub(crate) options: ApiOptions,
    schema: Schema,
}

impl Api {
    pub(crate) fn new(app: Arc<App>, options: ApiOptions) -> Self {
        let (webhooks, places) = (Places::new(WEBHOOKS, WEBHOOKS_OF_ONE), RequestPlaces::default());
        Self { app, webhooks, places, schema: graphql::schema(), options }
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
    let Caller { actor, address: peer, places: _places } = match auth::caller(&api, &parts, request_id).await
    {
        Ok(caller) => caller,
        Err(response) => return *response,
    };
    let headers = parts.headers;
    let largest = match &actor {
        Actor::Nobody => body::LARGEST_OF_NOBODY,
        Actor::User(_) | Actor::Cluster(_) | Actor::System => body::LARGEST,
    };
    let body = match body::read(body, largest, body::PATIENCE).await {
        Ok(body) => body,
        Err(response) => return *response,
    };
    let name = actor_name(&actor);
    let mut response = match prepare(&headers, &body, &actor) {
        Ok(request) => execute(&api, request, (actor, peer), request_id).await,
        Err(response) => *response,
    };
    response.extensions_mut().insert(name);
    response
}

/// The request, parsed and within its limits.
fn prepare(headers: &HeaderMap, body: &[u8], actor: &Actor) -> Result<GraphQlRequest, Box<Response>> {
    let is_json = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.split(';').next().is_some_and(|kind| kind.trim() == "application/json"));
    if !is_json {
        let told = "send a JSON body with content-type application/json";
        return Err(Box::new(message(StatusCode::UNSUPPORTED_MEDIA_TYPE, told)));
    }
    let Body { query, operation_name, variables } = serde_json::from_slice(body).map_err(|error| {
        let told = format!("the body is not a GraphQL request {{query, variables, operationName}}: {error}");
        Box::new(message(StatusCode::BAD_REQUEST, &told))
    })?;
    if query.len() > LARGEST_DOCUMENT {
        let told = format!("the document is longer than {} KiB", LARGEST_DOCUMENT >> 10);
        return Err(Box::new(message(StatusCode::PAYLOAD_TOO_LARGE, &told)));
    }
    let mut request = GraphQlRequest::new(query)
        .variables(Variables::from_json(Value::Object(variables.unwrap_or_default())));
    request.operation_name = operation_name;
    let fields = match request.parsed_query() {
        Ok(document) => root_fields(document),
        // Executing it tells the same error in the form that clients expect.
        Err(_) if matches!(actor, Actor::Nobody) => return Err(Box::new(unauthenticated())),
        Err(_) => return Ok(request),
    };
    // Checked over all operations of the document: which one runs is the caller's choice.
    if matches!(actor, Actor::Nobody) && fields.iter().any(|(_, name)| !OPEN_FIELDS.contains(&name.as_str()))
    {
        return Err(Box::new(unauthenticated()));
    }
    for (operation, most) in
        [(OperationType::Query, MOST_QUERY_FIELDS), (OperationType::Mutation, MOST_MUTATION_FIELDS)]
    {
        if fields.iter().filter(|(kind, _)| *kind == operation).count() > most {
            let told = format!("a {operation} may have at most {most} root fields, aliases counted");
            return Err(Box::new(message(StatusCode::BAD_REQUEST, &told)));
        }
    }
    Ok(request)
}

async fn execute(
    api: &Api,
    request: GraphQlRequest,
    (actor, peer): (Actor, Option<IpAddr>),
    request_id: RequestId,
) -> Response {
    let deadline = Instant::now() + api.options.timeout;
    let op = api.app.ctx(actor).with_request_id(request_id).with_deadline(deadline).with_peer(peer);
    let request = request.data(Request::new(Arc::clone(&api.app), op, api.options.public_url.clone()));
    let Ok(response) = tokio::time::timeout(api.options.timeout, api.schema.execute(request)).await else {
        tracing::warn!(request.id = %request_id, "request took too long");
        let told = "the request took too long; ask for less, or again later";
        return message(StatusCode::SERVICE_UNAVAILABLE, told);
    };
    Json(coded(response, request_id)).into_response()
}

/// The answer, in which every error has a code: those that never came to a use case are the request's fault.
fn coded(mut response: GraphQlResponse, request_id: RequestId) -> GraphQlResponse {
    for error in &mut response.errors {
        let extensions = error.extensions.get_or_insert_default();
        if extensions.get("code").is_none() {
            extensions.set("code", "INVALID");
            extensions.set("requestId", request_id.to_string());
        }
    }
    response
}

/// Kind and name of every field that stands at the root of an operation, through fragments.
fn root_fields(document: &ExecutableDocument) -> Vec<(OperationType, String)> {
    let mut fields = Vec::new();
    let operations: Vec<_> = match &document.operations {
        DocumentOperations::Single(operation) => vec![&operation.node],
        DocumentOperations::Multiple(operations) => {
            operations.values().map(|operation| &operation.node).collect()
        }
    };
    for operation in operations {
        let mut open: Vec<&Selection> =
            operation.selection_set.node.items.iter().map(|item| &item.node).collect();
        // A fragment that spreads itself is refused by validation, which comes later.
        let mut spread = 0;
        while let Some(selection) = open.pop() {
            match selection {
                Selection::Field(field) => fields.push((operation.ty, field.node.name.node.to_string())),
                Selection::InlineFragment(fragment) => {
                    open.extend(fragment.node.selection_set.node.items.iter().map(|item| &item.node));
                }
                Selection::FragmentSpread(name) => {
                    spread += 1;
                    let fragment = document.fragments.get(&name.node.fragment_name.node);
                    if let Some(fragment) = fragment.filter(|_| spread <= MOST_QUERY_FIELDS) {
                        open.extend(fragment.node.selection_set.node.items.iter().map(|item| &item.node));
                    } else {
                        // Unknown or too many: counted as a field that nobody has and everybody pays for.
                        fields.push((operation.ty, String::new()));
                    }
                }
            }
        }
    }
    fields
}

pub(crate) fn actor_name(actor: &Actor) -> ActorName {
    ActorName(match actor {
        Actor::Nobody => "nobody".into(),
        Actor::User(user) => format!("user:{}", user.id),
        Actor::Cluster(id) => format!("cluster:{id}"),
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

fn message(status: StatusCode, text: &str) -> Response {
    (status, Json(json!({"message": text}))).into_response()
}
