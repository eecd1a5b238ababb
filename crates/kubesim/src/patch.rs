//! JSON patch, merge patch and strategic merge patch.

use serde_json::{Map, Value};

use crate::schema::{Arena, NodeId, Schema, Type};
use crate::status::{ApiError, Cause, Subject};
use crate::verbs::Call;

/// The four kinds of patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Kubernetes' own, which knows lists with keys.
    Strategic,
    /// Server-side apply.
    Apply,
}

impl PatchKind {
    /// The kind a content type asks for.
    ///
    /// # Errors
    /// 415.
    pub(crate) fn of(content_type: &str, custom: bool) -> Result<Self, ApiError> {
        match content_type {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if !custom => Ok(Self::Strategic),
            "application/apply-patch+yaml" | "application/apply-patch+json" => Ok(Self::Apply),
            "application/strategic-merge-patch+json" => Err(ApiError::unsupported_media(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
            _ => Err(ApiError::unsupported_media("415: Unsupported Media Type")),
        }
    }
}

/// Reads YAML or JSON.
///
/// # Errors
/// 400.
pub(crate) fn parse_yaml(body: &[u8]) -> Result<Value, ApiError> {
    if let Ok(v) = serde_json::from_slice(body) {
        return Ok(v);
    }
    let text =
        std::str::from_utf8(body).map_err(|e| ApiError::bad_request(format!("error decoding YAML: {e}")))?;
    serde_saphyr::from_str(text)
        .map_err(|e| ApiError::bad_request(format!("error decoding YAML: {e}")))
        .and_then(|v: Value| {
            if v.is_object() {
                Ok(v)
            } else {
                Err(ApiError::bad_request("error decoding YAML: not an object"))
            }
        })
}

/// Applies a patch that is not an apply.
///
/// # Errors
/// 400 for a malformed patch, 422 for a JSON patch that does not fit.
pub(crate) fn run(
    kind: PatchKind,
    current: &Value,
    body: &[u8],
    schema: &Schema,
    call: Call<'_>,
) -> Result<Value, ApiError> {
    let bad = |e: &dyn std::fmt::Display| {
        ApiError::bad_request(format!("error decoding patch: {e}; send valid JSON"))
    };
    match kind {
        PatchKind::Json => {
            let patch: json_patch::Patch = serde_json::from_slice(body).map_err(|e| bad(&e))?;
            if patch.0.len() > 10_000 {
                return Err(ApiError::new(
                    413,
                    "RequestEntityTooLarge",
                    format!(
                        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got {}",
                        patch.0.len()
                    ),
                ));
            }
            let mut new = current.clone();
            json_patch::patch(&mut new, &patch).map_err(|e| {
                let mut err = ApiError::invalid(
                    Subject { group: &call.res.group, kind: &call.res.kind, name: &call.info.name },
                    vec![],
                );
                err.message = format!("the server rejected our request due to an error in our request: {e}");
                err.details = Some(Box::default());
                err
            })?;
            Ok(new)
        }
        PatchKind::Merge => {
            let patch: Value = serde_json::from_slice(body).map_err(|e| bad(&e))?;
            if !patch.is_object() {
                return Err(bad(&"a merge patch is a JSON object"));
            }
            let mut new = current.clone();
            json_patch::merge(&mut new, &patch);
            Ok(new)
        }
        PatchKind::Strategic | PatchKind::Apply => {
            let patch: Value = serde_json::from_slice(body).map_err(|e| bad(&e))?;
            if !patch.is_object() {
                return Err(bad(&"a strategic merge patch is a JSON object"));
            }
            strategic(&schema.arena, schema.root, current, &patch).map_err(|why| {
                let c = Cause::invalid("patch", &Value::Null, &why);
                ApiError::invalid(
                    Subject { group: &call.res.group, kind: &call.res.kind, name: &call.info.name },
                    vec![c],
                )
            })
        }
    }
}

/// Lays a strategic merge patch over a value.
///
/// # Errors
/// Names the directive or list item that makes no sense.
pub(crate) fn strategic(a: &Arena, id: NodeId, current: &Value, patch: &Value) -> Result<Value, String> {
    let Value::Object(p) = patch else { return Ok(patch.clone()) };
    match p.get("$patch").and_then(Value::as_str) {
        Some("replace") => {
            let mut out = p.clone();
            out.remove("$patch");
            return Ok(Value::Object(out));
        }
        Some("delete") => return Ok(Value::Object(Map::new())),
        Some("merge") | None => {}
        Some(other) => {
            return Err(format!("unknown directive $patch: {other}; use replace, delete or merge"));
        }
    }
    let mut out = current.as_object().cloned().unwrap_or_default();
    if let Some(keys) = p.get("$retainKeys").and_then(Value::as_array) {
        out.retain(|k, _| keys.iter().any(|x| x.as_str() == Some(k)));
    }
    for (k, v) in p {
        if k == "$patch" || k == "$retainKeys" || k.starts_with("$setElementOrder/") {
            continue;
        }
        if let Some(list) = k.strip_prefix("$deleteFromPrimitiveList/") {
            if let Some(Value::Array(l)) = out.get_mut(list) {
                l.retain(|x| !v.as_array().is_some_and(|gone| gone.contains(x)));
            }
            continue;
        }
        if v.is_null() {
            out.remove(k);
            continue;
        }
        let (f, _) = a.field(id, k).unwrap_or((crate::schema::DEDUCED, false));
        let node = a.node(f);
        let merged = match (out.get(k), v) {
            (Some(old @ Value::Object(_)), Value::Object(_)) => strategic(a, f, old, v)?,
            (None, Value::Object(_)) => strategic(a, f, &Value::Object(Map::new()), v)?,
            (old, Value::Array(items)) if node.ty == Type::Array && node.patch.merge => {
                let empty = Vec::new();
                let old = old.and_then(Value::as_array).unwrap_or(&empty);
                match &node.merge_key {
                    Some(key) => Value::Array(keyed(a, a.item(f), old, items, key)?),
                    None => Value::Array(union(old, items)),
                }
            }
            _ => v.clone(),
        };
        out.insert(k.clone(), merged);
    }
    for (k, order) in p.iter().filter(|(k, _)| k.starts_with("$setElementOrder/")) {
        let list = &k["$setElementOrder/".len()..];
        let (f, _) = a.field(id, list).unwrap_or((crate::schema::DEDUCED, false));
        let key = a.node(f).merge_key.clone();
        if let (Some(Value::Array(items)), Some(order)) = (out.get_mut(list), order.as_array()) {
            reorder(items, order, key.as_deref());
        }
    }
    Ok(Value::Object(out))
}

fn keyed(a: &Arena, item: NodeId, old: &[Value], patch: &[Value], key: &str) -> Result<Vec<Value>, String> {
    if patch.iter().any(|p| p.get("$patch").and_then(Value::as_str) == Some("replace")) {
        let kept = patch.iter().filter(|p| p.get("$patch").is_none());
        return Ok(kept.cloned().collect());
    }
    let mut out = old.to_vec();
    for p in patch {
        let Some(k) = p.get(key) else {
            return Err(format!("map: {p} does not contain declared merge key: {key}"));
        };
        let at = out.iter().position(|o| o.get(key) == Some(k));
        if p.get("$patch").and_then(Value::as_str) == Some("delete") {
            out.retain(|o| o.get(key) != Some(k));
            continue;
        }
        match at {
            Some(i) => out[i] = strategic(a, item, &out[i], p)?,
            None => out.push(strategic(a, item, &Value::Object(Map::new()), p)?),
        }
    }
    Ok(out)
}

fn union(old: &[Value], patch: &[Value]) -> Vec<Value> {
    let mut out = old.to_vec();
    for p in patch {
        if !out.contains(p) {
            out.push(p.clone());
        }
    }
    out
}

/// Items that the order names come in that order; the others keep their place relative to what precedes them.
fn reorder(items: &mut Vec<Value>, order: &[Value], key: Option<&str>) {
    let id = |v: &Value| -> Value { key.and_then(|k| v.get(k)).unwrap_or(v).clone() };
    let rank = |v: &Value| order.iter().position(|o| id(o) == id(v));
    let mut named: Vec<Value> = items.iter().filter(|v| rank(v).is_some()).cloned().collect();
    named.sort_by_key(|v| rank(v));
    let mut named = named.into_iter();
    let old = std::mem::take(items);
    for v in old {
        if rank(&v).is_some() {
            items.extend(named.next());
        } else {
            items.push(v);
        }
    }
}
