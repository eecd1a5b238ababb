//! From a request to an answer: identity, faults, authorisation, routing.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::accept::Accept;
use super::reply::{self, Body};
use crate::auth::{self, User};
use crate::cluster::Inner;
use crate::exec::{self, Session};
use crate::faults::Fault;
use crate::request::RequestInfo;
use crate::signer::Signer;
use crate::status::ApiError;
use crate::verbs::{Call, delete, read, review, subresource, write};
use crate::{discovery, logs, openapi, watch};

/// Largest request body, as the real server takes it.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// Why a connection ends without an answer.
#[derive(Debug, thiserror::Error)]
#[error("connection dropped on purpose")]
pub(crate) struct Dropped;

/// Answers one request.
///
/// # Errors
/// [`Dropped`] when a fault rule says so.
pub(crate) async fn handle(
    inner: Arc<Inner>,
    mut req: Request<Incoming>,
    sessions: Arc<Sessions>,
) -> Result<Response<Body>, Dropped> {
    let upgrade = req.headers().contains_key(header::UPGRADE).then(|| hyper::upgrade::on(&mut req));
    let (parts, body) = req.into_parts();
    let mut info = RequestInfo::parse(parts.method.as_str(), parts.uri.path(), parts.uri.query());
    let content_type =
        parts.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    content_type.split(';').next().unwrap_or_default().trim().clone_into(&mut info.content_type);

    let mut drop_after = false;
    match inner.faults.pick(&info) {
        None => {}
        Some(Fault::Delay(d)) => tokio::time::sleep(d).await,
        Some(Fault::Hang) => {
            std::future::pending::<()>().await;
        }
        Some(Fault::Drop) => return Err(Dropped),
        Some(Fault::DropAfter) => drop_after = true,
        Some(Fault::TooManyRequests { retry_after }) => {
            let e = ApiError::too_many_requests(
                retry_after,
                "the server is overloaded (injected fault), try again later",
            );
            inner.audit.note(&info, "", e.code);
            return Ok(reply::error(&e));
        }
        Some(Fault::Status { code, message }) => {
            let e = ApiError::new(code, "InternalError", message);
            inner.audit.note(&info, "", e.code);
            return Ok(reply::error(&e));
        }
    }
    let user = identify(&inner, &parts.headers, &info);
    let name = user.as_ref().map_or(String::new(), |u| u.name.clone());
    let answer = match user {
        Err(e) => Err(e),
        Ok(user) => match Limited::new(body, BODY_LIMIT).collect().await {
            Err(_) => Err(ApiError::new(
                413,
                "RequestEntityTooLarge",
                format!("Request entity too large: limit is {BODY_LIMIT}"),
            )),
            Ok(body) => {
                let asked = Asked {
                    method: &parts.method,
                    headers: &parts.headers,
                    query: parts.uri.query().unwrap_or_default(),
                    upgrade,
                    sessions: &sessions,
                };
                route(&inner, asked, &info, &user, body.to_bytes())
            }
        },
    };
    let response = answer.unwrap_or_else(|e| reply::error(&e));
    inner.audit.note(&info, &name, response.status().as_u16());
    if drop_after { Err(Dropped) } else { Ok(response) }
}

fn identify(inner: &Inner, headers: &HeaderMap, info: &RequestInfo) -> Result<User, ApiError> {
    let user = inner.tokens.authenticate(headers)?;
    inner.read(|s| {
        let user = auth::impersonate(s, user, headers)?;
        if is_shell(info) && info.verb == "get" {
            // Whatever the method: who may only look opens no shell.
            auth::authorize(s, &user, &RequestInfo { verb: "create".into(), ..info.clone() })?;
        }
        auth::authorize(s, &user, info)?;
        Ok(user)
    })
}

/// Sessions that begin when the answers of their connection are given.
pub(crate) type Sessions = Mutex<Vec<Session>>;

/// A request besides what it asks for.
struct Asked<'a> {
    method: &'a Method,
    headers: &'a HeaderMap,
    query: &'a str,
    upgrade: Option<OnUpgrade>,
    sessions: &'a Sessions,
}

fn is_shell(info: &RequestInfo) -> bool {
    info.group.is_empty() && info.resource == "pods" && matches!(info.subresource.as_str(), "exec" | "attach")
}

fn route(
    inner: &Arc<Inner>,
    asked: Asked<'_>,
    info: &RequestInfo,
    user: &User,
    body: Bytes,
) -> Result<Response<Body>, ApiError> {
    let Asked { method, headers, .. } = asked;
    let header = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    if !info.is_resource {
        return plain(inner, method, info, header);
    }
    let accept = Accept::parse(header, info);
    let known = inner.read(|s| s.resource(&info.group, &info.resource));
    let version_known =
        || inner.read(|s| s.resources().any(|r| r.group == info.group && r.version(&info.version).is_some()));
    let res = match known {
        Some(r) if r.version(&info.version).is_some() => r,
        _ if version_known() => return Err(ApiError::no_route()),
        _ => return Ok(page_not_found()),
    };
    let Some(version) = res.version(&info.version) else { return Err(ApiError::no_route()) };
    let accept = accept?;
    let agent = headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let call = Call { res: &res, version, info, user, agent };
    let mut response = resource(inner, asked, call, accept, body)?;
    if let Some(w) = &version.deprecation {
        reply::warn(&mut response, std::slice::from_ref(w));
    }
    Ok(response)
}

fn parse_body(call: Call<'_>, body: &Bytes) -> Result<Value, ApiError> {
    match call.info.content_type.as_str() {
        "application/json" | "" => serde_json::from_slice(body).map_err(|e| {
            ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: {e}",
                call.res.kind
            ))
        }),
        "application/yaml" => crate::patch::parse_yaml(body),
        crate::protobuf::MEDIA_TYPE => crate::protobuf::decode(body).map_err(|e| {
            ApiError::bad_request(format!("{} cannot be read from the request body: {e}", call.res.kind))
        }),
        other => Err(ApiError::unsupported_media(format!(
            "the body of the request was in an unknown format ({other}) - accepted media types include: application/json, application/yaml"
        ))),
    }
}

fn resource(
    inner: &Arc<Inner>,
    asked: Asked<'_>,
    call: Call<'_>,
    accept: Accept,
    body: Bytes,
) -> Result<Response<Body>, ApiError> {
    let info = call.info;
    if call.res.namespaced && info.namespace.is_empty() && !matches!(info.verb.as_str(), "list" | "watch") {
        // Without a namespace only lists over all of them make sense.
        return Err(ApiError::method_not_allowed());
    }
    if !call.res.namespaced && !info.namespace.is_empty() && call.res.plural != "namespaces" {
        return Err(ApiError::no_route());
    }
    if !info.subresource.is_empty() {
        let Some(sub) = call.version.subresources.iter().find(|s| s.name == info.subresource) else {
            return Err(ApiError::no_route());
        };
        if !sub.verbs.contains(&info.verb) {
            return Err(ApiError::method_not_allowed());
        }
        if info.subresource == "log" {
            return logs::serve(inner, call);
        }
        if is_shell(info) {
            let Asked { headers, query, upgrade, sessions, .. } = asked;
            let (response, session) = exec::serve(inner, call, headers, query, upgrade)?;
            sessions.lock().push(session);
            return Ok(response);
        }
        let body = match info.verb.as_str() {
            // What comes with these is no object.
            _ if matches!(info.subresource.as_str(), "portforward" | "proxy") => {
                subresource::Input::Bytes(body)
            }
            "create" | "update" => subresource::Input::Object(parse_body(call, &body)?),
            _ => subresource::Input::Bytes(body),
        };
        let out = inner.write(|s| subresource::run(s, &inner.tokens, call, body))?;
        let mut r = reply::object(out.code, accept, call, &out.body);
        reply::warn(&mut r, &out.warnings);
        return Ok(r);
    }
    if review::is_review(call.res) {
        if info.verb != "create" {
            return Err(ApiError::method_not_allowed());
        }
        let body = parse_body(call, &body)?;
        let answer = inner.read(|s| review::run(s, &inner.tokens, call, body))?;
        return Ok(reply::value(201, accept, &answer));
    }
    if !call.res.verbs.contains(&info.verb) {
        return Err(ApiError::method_not_allowed());
    }
    let out = match info.verb.as_str() {
        "get" => {
            let o = inner.read(|s| read::get(s, call))?;
            return Ok(reply::object(200, accept, call, &o));
        }
        "list" => {
            let p = inner.read(|s| read::list(s, call))?;
            return Ok(reply::page(accept, call, &p));
        }
        "watch" => {
            let stream = watch::start(inner, call, accept)?;
            return Ok(reply::respond(200, "application/json", reply::streaming(stream)));
        }
        "create" if !info.name.is_empty() => return Err(ApiError::method_not_allowed()),
        "create" => {
            let body = parse_body(call, &body)?;
            inner.write(|s| write::create(s, call, body))?
        }
        "update" => {
            let body = parse_body(call, &body)?;
            inner.write(|s| write::update(s, call, body))?
        }
        "patch" => inner.write(|s| write::patch(s, call, &body))?,
        "delete" => inner.write(|s| delete::one(s, call, &body))?,
        "deletecollection" => {
            let items = inner.write(|s| delete::collection(s, call, &body))?;
            let revision = inner.read(crate::store::Store::revision);
            let page = read::Page { items, revision, next: None, remaining: None };
            return Ok(reply::page(accept, call, &page));
        }
        _ => return Err(ApiError::method_not_allowed()),
    };
    let mut r = reply::object(out.code, accept, call, &out.body);
    reply::warn(&mut r, &out.warnings);
    Ok(r)
}

fn page_not_found() -> Response<Body> {
    reply::respond(404, "text/plain; charset=utf-8", reply::full("404 page not found\n"))
}

fn plain(
    inner: &Arc<Inner>,
    method: &Method,
    info: &RequestInfo,
    accept: &str,
) -> Result<Response<Body>, ApiError> {
    if method != Method::GET && method != Method::HEAD {
        return Ok(page_not_found());
    }
    let path = info.path.trim_end_matches('/');
    // Probes ask for anything at all; only documents are negotiated.
    let negotiated = Accept::parse(accept, info);
    let json =
        |v: &Value| -> Result<Response<Body>, ApiError> { Ok(reply::value(200, negotiated.clone()?, v)) };
    match path {
        "/healthz" | "/livez" | "/readyz" | "/healthz/ping" | "/livez/ping" | "/readyz/ping" => {
            Ok(reply::respond(200, "text/plain; charset=utf-8", reply::full("ok")))
        }
        "/version" => json(&inner.version()),
        "/.well-known/openid-configuration" => json(&Signer::description(&inner.address())),
        "/openid/v1/jwks" => {
            // It has one form, and no other is made of it.
            let takes = |part: &str| {
                let kind = part.split(';').next().unwrap_or_default().trim();
                matches!(kind, "" | "*/*" | "application/*" | "application/jwk-set+json")
            };
            if !accept.split(',').any(takes) {
                let told = "406: Not Acceptable\n\nAvailable representations: application/jwk-set+json";
                return Err(ApiError::new(406, "NotAcceptable", told));
            }
            let keys = reply::full(inner.tokens.signer.keys()?.to_string());
            Ok(reply::respond(200, "application/jwk-set+json", keys))
        }
        "" => json(
            &json!({"paths": ["/.well-known/openid-configuration", "/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/openid/v1/jwks", "/readyz", "/version"]}),
        ),
        "/api" | "/apis" => {
            let core = path == "/api";
            if negotiated.as_ref().is_ok_and(|a| a.aggregated) {
                let v = inner.read(|s| discovery::aggregated(s, core));
                let body = reply::full(v.to_string());
                let kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
                return Ok(reply::respond(200, kind, body));
            }
            if core {
                json(&discovery::core_versions(&inner.address()))
            } else {
                json(&inner.read(discovery::group_list))
            }
        }
        "/openapi/v3" => json(&inner.read(openapi::index)),
        "/openapi/v2" => {
            let v = inner.read(openapi::v2);
            Ok(reply::respond(200, "application/json", reply::full(v.to_string())))
        }
        p => {
            if let Some(doc) = p.strip_prefix("/openapi/v3/") {
                let Some(v) = inner.read(|s| openapi::document(s, doc)) else { return Ok(page_not_found()) };
                return Ok(reply::respond(200, "application/json", reply::full(v.to_string())));
            }
            let parts: Vec<&str> = p.split('/').filter(|x| !x.is_empty()).collect();
            let found = match parts.as_slice() {
                ["api", v] => inner.read(|s| discovery::resource_list(s, "", v)),
                ["apis", g] => inner.read(|s| discovery::one_group(s, g)),
                ["apis", g, v] => inner.read(|s| discovery::resource_list(s, g, v)),
                _ => None,
            };
            match found {
                Some(v) => json(&v),
                None => Ok(page_not_found()),
            }
        }
    }
}
