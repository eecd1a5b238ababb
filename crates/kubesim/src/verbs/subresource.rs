//! Subresources: status, scale, binding, eviction, finalize, tokens.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Call, Outcome, delete, read, system, write};
use crate::auth::{Tokens, User};
use crate::patch::PatchKind;
use crate::request::RequestInfo;
use crate::resource::ScalePaths;
use crate::signer::{ISSUER, Subject};
use crate::status::{ApiError, Cause};
use crate::store::{Store, text};

/// What came with the request.
#[derive(Debug)]
pub(crate) enum Input {
    /// A parsed object (create and update).
    Object(Value),
    /// A patch, or nothing.
    Bytes(Bytes),
}

/// Serves a subresource other than logs, exec and attach.
///
/// # Errors
/// As the verbs on objects; 400 for those that need a real node (portforward, proxy).
pub(crate) fn run(s: &mut Store, tokens: &Tokens, call: Call<'_>, input: Input) -> Result<Outcome, ApiError> {
    match (call.info.subresource.as_str(), input) {
        ("status" | "finalize" | "resize" | "ephemeralcontainers", input) => {
            match (call.info.verb.as_str(), input) {
                ("get", _) => Ok(Outcome::ok(read::get(s, call)?)),
                ("update", Input::Object(o)) => write::update(s, call, o),
                ("patch", Input::Bytes(b)) => write::patch(s, call, &b),
                _ => Err(ApiError::method_not_allowed()),
            }
        }
        ("scale", input) => scale(s, call, input),
        ("binding", Input::Object(o)) => bind(s, call, &o),
        ("eviction", Input::Object(o)) => evict(s, call, &o),
        ("token", Input::Object(o)) => token(s, tokens, call, o),
        (other, _) => Err(ApiError::bad_request(format!(
            "{other} of {} \"{}\" needs a node to run on; this API server has none",
            call.res.plural, call.info.name
        ))),
    }
}

fn scale_of(call: Call<'_>, o: &Value, paths: &ScalePaths) -> Value {
    let n = |p: &str| o.pointer(p).and_then(Value::as_i64).unwrap_or(0);
    let selector = match &paths.selector {
        Some(p) => text(o, p).to_owned(),
        None => o
            .pointer("/spec/selector/matchLabels")
            .or_else(|| o.pointer("/spec/selector").filter(|_| call.res.plural == "replicationcontrollers"))
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()))
            .collect::<Vec<_>>()
            .join(","),
    };
    let m = &o["metadata"];
    let mut status = json!({"replicas": n(&paths.status)});
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {"name": m["name"], "namespace": m["namespace"], "uid": m["uid"],
            "resourceVersion": m["resourceVersion"], "creationTimestamp": m["creationTimestamp"]},
        "spec": {"replicas": n(&paths.spec)}, "status": status})
}

fn scale(s: &mut Store, call: Call<'_>, input: Input) -> Result<Outcome, ApiError> {
    let Some(paths) = call.version.scale.clone() else { return Err(ApiError::no_route()) };
    let old = read::get(s, call)?;
    let current = scale_of(call, &old, &paths);
    let wanted = match (call.info.verb.as_str(), input) {
        ("get", _) => return Ok(Outcome::ok(Arc::new(current))),
        ("update", Input::Object(o)) => o,
        ("patch", Input::Bytes(b)) => match PatchKind::of(&call.info.content_type, false)? {
            PatchKind::Json => {
                let p: json_patch::Patch = serde_json::from_slice(&b)
                    .map_err(|e| ApiError::bad_request(format!("error decoding patch: {e}")))?;
                let mut new = current.clone();
                json_patch::patch(&mut new, &p).map_err(|e| {
                    ApiError::new(422, "Invalid", format!("the patch does not fit the scale: {e}"))
                })?;
                new
            }
            PatchKind::Merge | PatchKind::Strategic | PatchKind::Apply => {
                let p = crate::patch::parse_yaml(&b)?;
                let mut new = current.clone();
                json_patch::merge(&mut new, &p);
                new
            }
        },
        _ => return Err(ApiError::method_not_allowed()),
    };
    let Some(replicas) = wanted.pointer("/spec/replicas").map_or(Some(0), Value::as_i64) else {
        return Err(ApiError::bad_request(
            "Scale in version \"v1\" cannot be handled as a Scale: json: cannot unmarshal into Go struct field \
             ScaleSpec.spec.replicas of type int32",
        ));
    };
    if replicas < 0 {
        let subject = crate::status::Subject { group: "autoscaling", kind: "Scale", name: &call.info.name };
        let cause = Cause::invalid("spec.replicas", &replicas.into(), "must be greater than or equal to 0");
        return Err(ApiError::invalid(subject, vec![cause]));
    }
    let mut new = (*old).clone();
    set_path(&mut new, &paths.spec, replicas.into());
    let rv = text(&wanted, "/metadata/resourceVersion");
    new["metadata"]["resourceVersion"] =
        if rv.is_empty() { old["metadata"]["resourceVersion"].clone() } else { rv.into() };
    let out = write::update(s, call, new)?;
    let body = scale_of(call, &out.body, &paths);
    Ok(Outcome { body: Arc::new(body), code: 200, warnings: out.warnings })
}

fn set_path(o: &mut Value, pointer: &str, v: Value) {
    let mut at = o;
    for step in pointer.split('/').filter(|s| !s.is_empty()) {
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[step];
    }
    *at = v;
}

fn bind(s: &mut Store, call: Call<'_>, binding: &Value) -> Result<Outcome, ApiError> {
    let old = read::get(s, call)?;
    let node = text(binding, "/target/name");
    if node.is_empty() {
        return Err(ApiError::invalid(
            call.kind_subject(&call.info.name),
            vec![Cause::required("target.name", "")],
        ));
    }
    if !text(&old, "/spec/nodeName").is_empty() {
        return Err(ApiError::conflict(
            call.subject(&call.info.name),
            &format!(
                "pod {} is already assigned to node \"{}\"",
                call.info.name,
                text(&old, "/spec/nodeName")
            ),
        ));
    }
    let mut new = (*old).clone();
    new["spec"]["nodeName"] = node.into();
    system::system_update(s, &call.res.table, &old, new, &call.manager(), "binding");
    Ok(created())
}

fn created() -> Outcome {
    let body =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Outcome { body: Arc::new(body), code: 201, warnings: Vec::new() }
}

/// Disruption budgets are not weighed: an eviction is a delete.
fn evict(s: &mut Store, call: Call<'_>, eviction: &Value) -> Result<Outcome, ApiError> {
    read::get(s, call)?;
    let mut info: RequestInfo = call.info.clone();
    info.subresource = String::new();
    info.verb = "delete".into();
    let call = Call { info: &info, ..call };
    let options = eviction.get("deleteOptions").map(ToString::to_string).unwrap_or_default();
    delete::one(s, call, options.as_bytes())?;
    Ok(created())
}

fn token(s: &Store, tokens: &Tokens, call: Call<'_>, mut request: Value) -> Result<Outcome, ApiError> {
    let account = read::get(s, call)?;
    let seconds = request.pointer("/spec/expirationSeconds").and_then(Value::as_i64).unwrap_or(3600);
    if seconds < 600 {
        let subject =
            crate::status::Subject { group: "authentication.k8s.io", kind: "TokenRequest", name: "" };
        let cause = Cause::invalid(
            "spec.expirationSeconds",
            &seconds.into(),
            "may not specify a duration less than 10 minutes",
        );
        return Err(ApiError::invalid(subject, vec![cause]));
    }
    let mut audiences: Vec<String> = request
        .pointer("/spec/audiences")
        .and_then(Value::as_array)
        .map(|all| all.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        .unwrap_or_default();
    if audiences.is_empty() {
        audiences.push(ISSUER.to_owned());
    }
    let now = chrono::Utc::now();
    let until = now + chrono::Duration::seconds(seconds);
    let token = tokens.signer.token(&Subject {
        namespace: &call.info.namespace,
        name: &call.info.name,
        uid: account.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default(),
        audiences: audiences.clone(),
        issued: now.timestamp(),
        expires: until.timestamp(),
    })?;
    tokens.add_for(&token, User::service_account(&call.info.namespace, &call.info.name), &audiences);
    request["spec"]["audiences"] = audiences.into();
    request["kind"] = "TokenRequest".into();
    request["apiVersion"] = "authentication.k8s.io/v1".into();
    request["metadata"]["name"] = call.info.name.clone().into();
    request["metadata"]["namespace"] = call.info.namespace.clone().into();
    request["metadata"]["creationTimestamp"] = super::now().into();
    request["spec"]["expirationSeconds"] = seconds.into();
    request["status"] =
        json!({"token": token, "expirationTimestamp": until.format("%Y-%m-%dT%H:%M:%SZ").to_string()});
    Ok(Outcome { body: Arc::new(request), code: 201, warnings: Vec::new() })
}
