//! Parts that all workload controllers share: Pods from templates, owner references, conditions.

use std::sync::Arc;

use serde_json::{Value, json};

use super::annotations::{FAIL, READY_AFTER};
use crate::selector::Labels;
use crate::store::{Address, Store, text};

/// A number at a pointer, or 0.
pub(super) fn number(o: &Value, pointer: &str) -> i64 {
    o.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// True if it is being deleted.
pub(super) fn deleting(o: &Value) -> bool {
    o.pointer("/metadata/deletionTimestamp").is_some()
}

/// A controller reference to `owner`.
pub(super) fn owner(owner: &Value) -> Value {
    json!([{"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true}])
}

/// The controller that owns an object, by uid.
pub(super) fn controller_uid(o: &Value) -> &str {
    o.pointer("/metadata/ownerReferences")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .find(|r| r.get("controller") == Some(&Value::Bool(true)))
        .map_or("", |r| text(r, "/uid"))
}

/// Objects of `table` that `owner` controls, oldest first. Orphans that its selector matches are adopted.
pub(super) fn controlled(s: &mut Store, table: &str, owner_object: &Value) -> Vec<Arc<Value>> {
    let uid = text(owner_object, "/metadata/uid");
    let ns = text(owner_object, "/metadata/namespace");
    let mut out: Vec<Arc<Value>> = s
        .dependents(uid)
        .iter()
        .filter(|a| &*a.0 == table)
        .filter_map(|a| s.at(a).cloned())
        .filter(|o| controller_uid(o) == uid)
        .collect();
    if !deleting(owner_object)
        && let Some(selector) = owner_object.pointer("/spec/selector")
    {
        let labels = Labels::from_object(selector);
        let orphans: Vec<Arc<Value>> = s
            .iter(table, Some(ns))
            .filter(|(_, o)| controller_uid(o).is_empty() && !deleting(o) && labels.matches(o))
            .map(|(_, o)| o.clone())
            .collect();
        for o in orphans.into_iter().filter(|_| !labels.is_empty()) {
            let mut new = (*o).clone();
            let mut refs =
                o.pointer("/metadata/ownerReferences").and_then(Value::as_array).cloned().unwrap_or_default();
            refs.extend(owner(owner_object).as_array().cloned().unwrap_or_default());
            new["metadata"]["ownerReferences"] = refs.into();
            out.extend(crate::verbs::system::system_update(s, &table.into(), &o, new, super::MANAGER, ""));
        }
    }
    out.sort_by(|a, b| {
        let key = |o: &Value| {
            (text(o, "/metadata/creationTimestamp").to_owned(), text(o, "/metadata/name").to_owned())
        };
        key(a).cmp(&key(b))
    });
    out
}

/// A Pod from the template of `owner`; the failure and delay annotations of the owner reach it.
pub(super) fn pod(owner_object: &Value, name: &str, extra_labels: &[(&str, &str)]) -> Value {
    let template = &owner_object["spec"]["template"];
    let mut meta = template["metadata"].clone();
    if !meta.is_object() {
        meta = json!({});
    }
    meta["name"] = name.into();
    meta["namespace"] = owner_object["metadata"]["namespace"].clone();
    meta["ownerReferences"] = owner(owner_object);
    for (k, v) in extra_labels {
        meta["labels"][*k] = (*v).into();
    }
    for a in [FAIL, READY_AFTER] {
        let path = format!("/metadata/annotations/{}", a.replace('/', "~1"));
        if let Some(v) = owner_object.pointer(&path) {
            meta["annotations"][a] = v.clone();
        }
    }
    json!({"metadata": meta, "spec": template["spec"].clone(), "status": {"phase": "Pending"}})
}

/// True for a Pod that is ready.
pub(super) fn pod_ready(o: &Value) -> bool {
    !deleting(o) && condition_is(o, "Ready", "True")
}

/// True if a condition has this status.
pub(super) fn condition_is(o: &Value, ty: &str, status: &str) -> bool {
    o.pointer("/status/conditions")
        .and_then(Value::as_array)
        .is_some_and(|l| l.iter().any(|c| text(c, "/type") == ty && text(c, "/status") == status))
}

/// Sets a condition; its transition time moves only when its status does.
pub(super) fn set_condition(
    status: &mut Value,
    ty: &str,
    on: &str,
    reason: &str,
    message: &str,
    updated: bool,
) {
    let now = crate::verbs::now();
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(list) = status["conditions"].as_array_mut() else { return };
    let old = list.iter().position(|c| text(c, "/type") == ty);
    let mut new =
        json!({"type": ty, "status": on, "reason": reason, "message": message, "lastTransitionTime": now});
    if updated {
        new["lastUpdateTime"] = now.into();
    }
    match old {
        None => list.push(new),
        Some(i) => {
            if text(&list[i], "/status") == on {
                new["lastTransitionTime"] = list[i]["lastTransitionTime"].clone();
                if text(&list[i], "/reason") == reason && text(&list[i], "/message") == message {
                    return;
                }
            }
            list[i] = new;
        }
    }
}

/// A short hash of a template, written like the suffix of a generated name.
pub(super) fn hash(v: &Value) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    // FNV-1a: the same everywhere and always.
    let mut h: u64 = 0xcbf2_9ce4_8422_2325;
    for b in v.to_string().bytes() {
        h = (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
    }
    (0..10)
        .map(|_| {
            let c = ALPHABET[(h % ALPHABET.len() as u64) as usize] as char;
            h /= ALPHABET.len() as u64;
            c
        })
        .collect()
}

/// Writes a status if it differs.
pub(super) fn put_status(s: &mut Store, a: &Address, old: &Arc<Value>, status: Value) {
    if old["status"] == status {
        return;
    }
    let mut new = (**old).clone();
    new["status"] = status;
    crate::verbs::system::system_update(s, &a.0, old, new, super::MANAGER, "status");
}

/// Reads `250ms`, `5s`, `2m`.
pub(super) fn duration(text: &str) -> Option<std::time::Duration> {
    let split = text.find(|c: char| !c.is_ascii_digit())?;
    let n: u64 = text[..split].parse().ok()?;
    Some(match &text[split..] {
        "ms" => std::time::Duration::from_millis(n),
        "s" => std::time::Duration::from_secs(n),
        "m" => std::time::Duration::from_secs(n * 60),
        _ => return None,
    })
}
