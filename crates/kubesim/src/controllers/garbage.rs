//! Garbage collection by owner references.

use std::sync::Arc;

use serde_json::{Value, json};

use super::MANAGER;
use crate::store::{Address, Store, text};
use crate::verbs::system::system_update;

fn finalizers(o: &Value) -> Vec<String> {
    o.pointer("/metadata/finalizers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|f| f.as_str().map(ToOwned::to_owned))
        .collect()
}

fn deleting(o: &Value) -> bool {
    o.pointer("/metadata/deletionTimestamp").is_some()
}

/// Deletes an object as a controller does: finalizers and a running Pod's grace hold it.
pub(super) fn delete(s: &mut Store, a: &Address, foreground: bool) {
    let Some(old) = s.at(a).cloned() else { return };
    if deleting(&old) {
        return;
    }
    let mut held = finalizers(&old);
    if foreground && !held.iter().any(|f| f == "foregroundDeletion") {
        held.push("foregroundDeletion".into());
    }
    let running = &*a.0 == "pods"
        && !text(&old, "/spec/nodeName").is_empty()
        && !matches!(text(&old, "/status/phase"), "Succeeded" | "Failed");
    if held.is_empty() && !running {
        s.remove(&a.0, &a.1);
        return;
    }
    let grace = if running {
        old.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(30)
    } else {
        0
    };
    let mut new = (*old).clone();
    let at = chrono::Utc::now() + chrono::Duration::seconds(grace);
    let meta = &mut new["metadata"];
    if !held.is_empty() {
        meta["finalizers"] = json!(held);
    }
    meta["deletionTimestamp"] = at.format("%Y-%m-%dT%H:%M:%SZ").to_string().into();
    meta["deletionGracePeriodSeconds"] = grace.into();
    if let Some(g) = meta.get("generation").and_then(Value::as_i64) {
        meta["generation"] = (g + 1).into();
    }
    s.put(&a.0, new);
}

/// Takes a finalizer off; the object goes if it was the last thing that held it.
pub(super) fn release(s: &mut Store, a: &Address, finalizer: &str) {
    let Some(old) = s.at(a).cloned() else { return };
    let mut held = finalizers(&old);
    held.retain(|f| f != finalizer);
    let mut new = (*old).clone();
    if let Some(m) = new["metadata"].as_object_mut() {
        if held.is_empty() {
            m.remove("finalizers");
        } else {
            m.insert("finalizers".into(), json!(held));
        }
    }
    let grace = old.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
    let goes = deleting(&old) && held.is_empty() && (grace == 0 || &*a.0 != "pods");
    let stays_namespace = &*a.0 == "namespaces"
        && new.pointer("/spec/finalizers").and_then(Value::as_array).is_some_and(|l| !l.is_empty());
    system_update(s, &a.0, &old, new, MANAGER, "");
    if goes && !stays_namespace {
        s.remove(&a.0, &a.1);
    }
}

/// Collects what is to be collected at and below an address. False if the object is gone.
pub(super) fn reconcile(s: &mut Store, a: &Address) -> bool {
    let Some(o) = s.at(a).cloned() else { return false };
    if deleting(&o) {
        let uid = text(&o, "/metadata/uid").to_owned();
        let held = finalizers(&o);
        if held.iter().any(|f| f == "orphan") {
            for d in s.dependents(&uid) {
                disown(s, &d, &uid);
            }
            release(s, a, "orphan");
            return s.at(a).is_some();
        }
        if held.iter().any(|f| f == "foregroundDeletion") {
            let mut blocked = false;
            for d in s.dependents(&uid) {
                let Some(dep) = s.at(&d).cloned() else { continue };
                let blocks = references(&dep).any(|r| {
                    text(r, "/uid") == uid && r.get("blockOwnerDeletion") == Some(&Value::Bool(true))
                });
                let has_own = !s.dependents(text(&dep, "/metadata/uid")).is_empty();
                if others_alive(s, &dep, &uid) {
                    disown(s, &d, &uid);
                    continue;
                }
                delete(s, &d, has_own);
                blocked |= blocks && s.at(&d).is_some();
            }
            if !blocked {
                release(s, a, "foregroundDeletion");
            }
            return s.at(a).is_some();
        }
    }
    let Some(refs) = o.pointer("/metadata/ownerReferences").and_then(Value::as_array) else { return true };
    if refs.is_empty() {
        return true;
    }
    let alive: Vec<&Value> = refs.iter().filter(|r| owner_exists(s, a, r)).collect();
    if alive.is_empty() {
        if !deleting(&o) {
            delete(s, a, false);
        }
        return s.at(a).is_some();
    }
    if alive.len() < refs.len() {
        let gone: Vec<String> =
            refs.iter().filter(|r| !owner_exists(s, a, r)).map(|r| text(r, "/uid").to_owned()).collect();
        for uid in gone {
            disown(s, a, &uid);
        }
    }
    true
}

fn references(o: &Value) -> impl Iterator<Item = &Value> {
    o.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten()
}

/// An owner counts if its uid is known and it lives in the same namespace or in none.
fn owner_exists(s: &Store, a: &Address, r: &Value) -> bool {
    s.by_uid(text(r, "/uid")).is_some_and(|o| o.1.0.is_empty() || o.1.0 == a.1.0)
}

fn others_alive(s: &Store, o: &Arc<Value>, uid: &str) -> bool {
    references(o).any(|r| {
        let u = text(r, "/uid");
        u != uid && s.by_uid(u).and_then(|x| s.at(x)).is_some_and(|x| !deleting(x))
    })
}

fn disown(s: &mut Store, a: &Address, uid: &str) {
    let Some(old) = s.at(a).cloned() else { return };
    let mut new = (*old).clone();
    if let Some(m) = new["metadata"].as_object_mut() {
        let left: Vec<Value> = references(&old).filter(|r| text(r, "/uid") != uid).cloned().collect();
        if left.is_empty() {
            m.remove("ownerReferences");
        } else {
            m.insert("ownerReferences".into(), left.into());
        }
    }
    system_update(s, &a.0, &old, new, MANAGER, "");
}
