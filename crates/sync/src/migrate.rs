//! Taking over fields that another tool applied.
//!
//! A field that nobody owns any more goes when it leaves git; one that kubectl, Helm, Argo CD or Flux still
//! "owns" by `managedFields` would stay for ever. So their entries are merged into ours once, when an object
//! becomes ours.

use serde_json::{Map, Value, json};

use crate::{api::FIELD_MANAGER, fields};

/// Field managers of tools that apply whole manifests.
const APPLIERS: [&str; 8] = [
    "kubectl-client-side-apply",
    "kubectl-last-applied",
    "kubectl",
    "helm",
    "helm-controller",
    "kustomize-controller",
    "argocd-controller",
    "argocd-application-controller",
];

fn is_applier(entry: &Value) -> bool {
    let manager = entry["manager"].as_str().unwrap_or_default();
    let whole = entry["subresource"].as_str().unwrap_or_default().is_empty();
    // "kubectl" with Update is `kubectl edit` and the like of old versions: a person's own change.
    whole && APPLIERS.contains(&manager) && (manager != "kubectl" || entry["operation"] == "Apply")
}

/// The JSON patch that makes us the owner of all that such tools own on `live`, which we own a part of
/// already; `None` when there is nothing to take over.
pub(crate) fn patch(live: &Value) -> Option<Value> {
    let entries = live["metadata"]["managedFields"].as_array()?;
    if !entries.iter().any(is_applier) {
        return None;
    }
    let mut kept: Vec<Value> = entries.iter().filter(|entry| !is_applier(entry)).cloned().collect();
    let ours =
        kept.iter_mut().find(|entry| entry["manager"] == FIELD_MANAGER && entry["operation"] == "Apply")?;
    for theirs in entries.iter().filter(|entry| is_applier(entry)) {
        unite(&mut ours["fieldsV1"], &theirs["fieldsV1"]);
    }
    Some(json!([
        {"op": "replace", "path": "/metadata/managedFields", "value": kept},
        // Refused when somebody wrote meanwhile.
        {"op": "replace", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]},
    ]))
}

/// `planned` without what goes when we take over what such tools own on it: fields that they own and nobody else. `planned` is
/// the answer to an apply of ours that was a dry run, whose `managedFields` say what we own after it.
pub(crate) fn strip_taken_over(planned: &mut Value) {
    let entries = planned["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let kept: Vec<&Value> =
        entries.iter().filter(|entry| !is_applier(entry)).map(|entry| &entry["fieldsV1"]).collect();
    for theirs in entries.iter().filter(|entry| is_applier(entry)) {
        fields::strip_unowned(&theirs["fieldsV1"], &kept, planned);
    }
}

/// Whether the object of an apply's answer was there before that apply: it has other writers, or is older than what we wrote.
pub(crate) fn was_there(answer: &Value) -> bool {
    let metadata = &answer["metadata"];
    let entries = metadata["managedFields"].as_array().map(Vec::as_slice).unwrap_or_default();
    let made = metadata["creationTimestamp"].as_str().unwrap_or_default();
    entries.iter().any(|entry| {
        let is_ours = entry["manager"] == FIELD_MANAGER && entry["operation"] == "Apply";
        // Both are RFC 3339 in UTC with whole seconds, which sort as text.
        !is_ours || entry["time"].as_str().is_some_and(|time| made < time)
    })
}

fn unite(into: &mut Value, from: &Value) {
    let Some(from) = from.as_object() else { return };
    if !into.is_object() {
        *into = Value::Object(Map::new());
    }
    let Some(map) = into.as_object_mut() else { return };
    for (key, below) in from {
        match map.get_mut(key) {
            Some(own) => unite(own, below),
            None => {
                map.insert(key.clone(), below.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_with_a_take_over_is_known_before() {
        let entry = |manager: &str, fields: Value| json!({"manager": manager, "operation": "Apply", "apiVersion": "v1", "fieldsV1": fields});
        let container = "k:{\"name\":\"side\"}";
        let mut planned = json!({
            "metadata": {"name": "web", "labels": {"a": "1", "b": "2"}, "managedFields": [
                entry("plural", json!({"f:data": {"f:key": {}}, "f:metadata": {"f:labels": {"f:a": {}}}})),
                entry("argocd-controller", json!({
                    "f:data": {".": {}, "f:key": {}, "f:old": {}, "f:both": {}},
                    "f:metadata": {"f:labels": {"f:a": {}, "f:b": {}}},
                    "f:containers": {container: {".": {}, "f:name": {}, "f:image": {}}},
                    "f:finalizers": {"v:\"theirs\"": {}, ".": {}},
                })),
                entry("somebody", json!({"f:data": {"f:both": {}}})),
            ]},
            "data": {"key": "k", "old": "o", "both": "b"},
            "containers": [{"name": "main"}, {"name": "side", "image": "i", "defaulted": true}],
            "finalizers": ["theirs", "ours"],
        });
        strip_taken_over(&mut planned);
        assert_eq!(planned["data"], json!({"key": "k", "both": "b"}));
        assert_eq!(planned["metadata"]["labels"], json!({"a": "1"}));
        assert_eq!(planned["containers"], json!([{"name": "main"}]));
        assert_eq!(planned["finalizers"], json!(["ours"]));
    }

    #[test]
    fn what_others_applied_becomes_ours_and_what_they_changed_does_not() {
        let entry = |manager: &str, operation: &str, fields: Value| json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": fields});
        let live = json!({"metadata": {"resourceVersion": "7", "managedFields": [
            entry("plural", "Apply", json!({"f:data": {"f:a": {}}})),
            entry("kubectl-client-side-apply", "Update", json!({"f:data": {".": {}, "f:b": {}}})),
            entry("helm", "Update", json!({"f:metadata": {"f:labels": {"f:heritage": {}}}})),
            entry("kubectl-edit", "Update", json!({"f:data": {"f:c": {}}})),
        ]}});
        let patch = patch(&live).unwrap();
        let entries = patch[0]["value"].as_array().unwrap();
        assert_eq!(entries.len(), 2);
        assert_eq!(
            entries[0]["fieldsV1"],
            json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}, "f:metadata": {"f:labels": {"f:heritage": {}}}})
        );
        assert_eq!(patch[1]["value"], "7");
        let clean = json!({"metadata": {"managedFields": [entry("plural", "Apply", json!({}))]}});
        assert_eq!(super::patch(&clean), None);
    }
}
