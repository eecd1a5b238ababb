//! Reviews: questions about identity and rights that are answered and not stored.

use serde_json::{Value, json};

use super::Call;
use crate::auth::{self, Tokens, User};
use crate::request::RequestInfo;
use crate::resource::Resource;
use crate::status::ApiError;
use crate::store::{Store, text};

/// True for kinds that only take a create and store nothing.
pub(crate) fn is_review(r: &Resource) -> bool {
    matches!(r.group.as_str(), "authorization.k8s.io" | "authentication.k8s.io")
}

fn question(spec: &Value) -> RequestInfo {
    let t = |p: &str| text(spec, p).to_owned();
    if let Some(path) = spec.pointer("/nonResourceAttributes/path").and_then(Value::as_str) {
        return RequestInfo {
            verb: t("/nonResourceAttributes/verb"),
            path: path.to_owned(),
            ..RequestInfo::default()
        };
    }
    RequestInfo {
        verb: t("/resourceAttributes/verb"),
        is_resource: true,
        group: t("/resourceAttributes/group"),
        version: t("/resourceAttributes/version"),
        namespace: t("/resourceAttributes/namespace"),
        resource: t("/resourceAttributes/resource"),
        subresource: t("/resourceAttributes/subresource"),
        name: t("/resourceAttributes/name"),
        ..RequestInfo::default()
    }
}

/// Answers a review.
///
/// # Errors
/// 404 for a kind that is not answered here.
pub(crate) fn run(s: &Store, tokens: &Tokens, call: Call<'_>, mut body: Value) -> Result<Value, ApiError> {
    if !body.is_object() {
        return Err(ApiError::bad_request("the body is not a JSON object"));
    }
    body["apiVersion"] = call.api_version().into();
    body["kind"] = call.res.kind.clone().into();
    if !body["metadata"].is_object() {
        body["metadata"] = json!({});
    }
    let spec = body["spec"].clone();
    let status = match call.res.plural.as_str() {
        "selfsubjectaccessreviews" => access(s, call.user, &spec),
        "subjectaccessreviews" | "localsubjectaccessreviews" => {
            let groups: Vec<&str> =
                spec["groups"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            access(s, &User::new(text(&spec, "/user"), &groups), &spec)
        }
        "selfsubjectrulesreviews" => {
            let rules = if call.user.groups.iter().any(|g| g == "system:masters") {
                vec![
                    json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
                    json!({"verbs": ["*"], "nonResourceURLs": ["*"]}),
                ]
            } else {
                auth::rules_of(s, call.user, text(&spec, "/namespace"))
            };
            let (other, resource): (Vec<Value>, Vec<Value>) =
                rules.into_iter().partition(|r| r.get("nonResourceURLs").is_some());
            json!({"resourceRules": resource, "nonResourceRules": other, "incomplete": false})
        }
        "selfsubjectreviews" => {
            json!({"userInfo": {"username": call.user.name, "groups": call.user.groups}})
        }
        "tokenreviews" => match tokens.review(text(&spec, "/token"), &texts(&spec["audiences"])) {
            Some((u, audiences)) => json!({"authenticated": true, "audiences": audiences,
                "user": {"username": u.name, "groups": u.groups}}),
            None => json!({"authenticated": false, "error": "the token is not known"}),
        },
        _ => return Err(ApiError::no_route()),
    };
    body["status"] = status;
    Ok(body)
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn access(s: &Store, user: &User, spec: &Value) -> Value {
    let q = question(spec);
    if auth::allowed(s, user, &q) {
        json!({"allowed": true, "reason": "RBAC"})
    } else {
        json!({"allowed": false})
    }
}
