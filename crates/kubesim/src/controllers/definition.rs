//! CustomResourceDefinitions: served once accepted, emptied before they go.

use serde_json::{Value, json};

use super::garbage;
use crate::crd;
use crate::kinds::CRDS;
use crate::store::{Address, Store, text};
use crate::verbs::system::system_update;

const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The last object of a resource whose definition is going may just have gone.
pub(super) fn touched(s: &mut Store, a: &Address) {
    let going = s.get(CRDS, "", &a.0).is_some_and(|d| d.pointer("/metadata/deletionTimestamp").is_some());
    if going {
        s.mark((CRDS.into(), ("".into(), a.0.clone())));
    }
}

fn condition(ty: &str, on: bool, reason: &str, message: &str, old: &Value) -> Value {
    let status = if on { "True" } else { "False" };
    let was = old
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .find(|c| text(c, "/type") == ty && text(c, "/status") == status);
    let since = was.map_or_else(crate::verbs::now, |c| text(c, "/lastTransitionTime").to_owned());
    json!({"type": ty, "status": status, "reason": reason, "message": message, "lastTransitionTime": since})
}

/// A name of the definition that another one in the group has already.
fn taken(s: &Store, d: &Value) -> Option<String> {
    let (group, plural) = (text(d, "/spec/group"), text(d, "/spec/names/plural"));
    let kind = text(d, "/spec/names/kind");
    s.custom()
        .find(|r| r.group == group && r.plural != plural && r.kind == kind)
        .map(|r| format!("\"{kind}\" is already in use by {}", r.plural))
}

/// Brings one definition forward.
pub(super) fn reconcile(s: &mut Store, a: &Address) {
    let Some(old) = s.at(a).cloned() else { return };
    let (group, plural) = (text(&old, "/spec/group").to_owned(), text(&old, "/spec/names/plural").to_owned());
    if old.pointer("/metadata/deletionTimestamp").is_some() {
        let table = crate::resource::qualified(&plural, &group);
        let all: Vec<Address> =
            s.iter(&table, None).map(|(k, _)| (table.as_str().into(), k.clone())).collect();
        let mut left = 0;
        for x in all {
            garbage::delete(s, &x, false);
            left += usize::from(s.at(&x).is_some());
        }
        if left == 0 {
            s.unserve(&group, &plural);
            garbage::release(s, a, FINALIZER);
        }
        return;
    }
    if let Some(message) = taken(s, &old) {
        let mut new = (*old).clone();
        new["status"]["conditions"] = json!([
            condition("NamesAccepted", false, "KindConflict", &message, &old),
            condition("Established", false, "NotAccepted", "not all names are accepted", &old),
        ]);
        system_update(s, &a.0, &old, new, "kube-apiserver", "status");
        return;
    }
    let mut new = (*old).clone();
    let meta = &mut new["metadata"];
    let held = meta["finalizers"].as_array().is_some_and(|l| l.iter().any(|f| f == FINALIZER));
    if !held {
        let mut list = meta["finalizers"].as_array().cloned().unwrap_or_default();
        list.push(FINALIZER.into());
        meta["finalizers"] = list.into();
    }
    let r = crd::resource(&old);
    let mut accepted = old["spec"]["names"].clone();
    accepted["singular"] = r.singular.clone().into();
    accepted["listKind"] = r.list_kind.clone().into();
    let storage = r.versions[r.storage].name.clone();
    let mut stored: Vec<Value> =
        old.pointer("/status/storedVersions").and_then(Value::as_array).cloned().unwrap_or_default();
    if !stored.iter().any(|v| v.as_str() == Some(&storage)) {
        stored.push(storage.into());
    }
    new["status"] = json!({
        "acceptedNames": accepted,
        "conditions": [
            condition("NamesAccepted", true, "NoConflicts", "no conflicts found", &old),
            condition("Established", true, "InitialNamesAccepted", "the initial names have been accepted", &old),
        ],
        "storedVersions": stored,
    });
    // Serving it again is harmless, and the only way to pick up a changed schema.
    s.serve(crd::shared(&old));
    system_update(s, &a.0, &old, new, "kube-apiserver", "status");
}
