//! Namespaces: furnished when made, emptied before they go.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{MANAGER, garbage};
use crate::bootstrap;
use crate::store::{Address, Store, text};
use crate::verbs::system::system_update;

/// A change inside a namespace that is going may be the last one it waited for.
pub(super) fn touched(s: &mut Store, a: &Address) {
    if a.1.0.is_empty() {
        return;
    }
    let going =
        s.get("namespaces", "", &a.1.0).is_some_and(|n| n.pointer("/metadata/deletionTimestamp").is_some());
    if going {
        s.mark(("namespaces".into(), ("".into(), a.1.0.clone())));
    }
}

/// Brings one namespace forward.
pub(super) fn reconcile(s: &mut Store, a: &Address) {
    let Some(ns) = s.at(a).cloned() else { return };
    let name = a.1.1.clone();
    if ns.pointer("/metadata/deletionTimestamp").is_none() {
        bootstrap::furnish(s, &name);
        return;
    }
    let mut left = 0;
    let mut finalizers: Vec<String> = Vec::new();
    for t in s.tables() {
        let inside: Vec<Address> = s.iter(&t, Some(&name)).map(|(k, _)| (t.clone(), k.clone())).collect();
        if name.is_empty() {
            continue;
        }
        for x in inside {
            garbage::delete(s, &x, false);
            if let Some(o) = s.at(&x) {
                left += 1;
                for f in o.pointer("/metadata/finalizers").and_then(Value::as_array).into_iter().flatten() {
                    finalizers.push(f.as_str().unwrap_or_default().to_owned());
                }
            }
        }
    }
    if left > 0 {
        remaining(s, &ns, left, &finalizers);
        return;
    }
    let mut new = (*ns).clone();
    new["spec"] = json!({});
    s.put(&a.0, new);
    if ns.pointer("/metadata/finalizers").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        s.remove(&a.0, &a.1);
    }
}

/// Says in the status what still holds the namespace.
fn remaining(s: &mut Store, ns: &Arc<Value>, left: usize, finalizers: &[String]) {
    let mut new = (**ns).clone();
    let mut names = finalizers.to_vec();
    names.sort();
    names.dedup();
    let at = crate::verbs::now();
    let condition = |ty: &str, on: bool, yes: &str, no: &str, message: String| {
        json!({"type": ty, "status": if on { "True" } else { "False" }, "reason": if on { yes } else { no },
            "message": message, "lastTransitionTime": at})
    };
    let held = !names.is_empty();
    let message = if held {
        format!(
            "Some content in the namespace has finalizers remaining: {} in {left} resource instances",
            names.join(", ")
        )
    } else {
        "All content-preserving finalizers finished".to_owned()
    };
    let was = ns.pointer("/status/conditions").cloned().unwrap_or_default();
    let same = was.as_array().is_some_and(|l| l.iter().any(|c| text(c, "/message") == message));
    if same {
        return;
    }
    new["status"]["conditions"] = json!([
        condition(
            "NamespaceContentRemaining",
            true,
            "SomeResourcesRemain",
            "ContentRemoved",
            format!("Some resources are remaining: {left} resource instances"),
        ),
        condition(
            "NamespaceFinalizersRemaining",
            held,
            "SomeFinalizersRemain",
            "ContentHasNoFinalizers",
            message.clone(),
        ),
    ]);
    system_update(s, &"namespaces".into(), ns, new, MANAGER, "status");
}
