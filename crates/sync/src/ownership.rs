//! What we write on every object that we apply, and how we read it back.
//!
//! | on the object | says |
//! |---|---|
//! | label `plural.sh/managed-by: agent` | one of ours; our watches select it |
//! | annotation `deployments.plural.sh/service-id` | the owning service |
//! | annotation `deployments.plural.sh/tracking-key` | the object that was stamped: a copy of it under another name is not ours |
//! | annotation `deployments.plural.sh/manifest-hash` | the manifest that was applied last |
//! | annotation `deployments.plural.sh/created-by` | of a managed namespace that was not there before: for which service it was made |

use plural_core::ids::ServiceId;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::{
    api::FIELD_MANAGER,
    key::{GroupKind, ObjectKey},
    normalize::Rules,
};

/// Label on every object that an agent applied.
pub const MANAGED_BY_LABEL: &str = "plural.sh/managed-by";
/// Its value.
pub const MANAGED_BY: &str = "agent";
/// Annotation: id of the owning service.
pub const SERVICE_ID_ANNOTATION: &str = "deployments.plural.sh/service-id";
/// Annotation: `group/kind/namespace/name` of the object that was stamped.
pub const TRACKING_ANNOTATION: &str = "deployments.plural.sh/tracking-key";
/// Annotation: hash of the manifest that was applied last.
pub const HASH_ANNOTATION: &str = "deployments.plural.sh/manifest-hash";

/// Annotation on a namespace: id of the service that it was created for.
pub(crate) const CREATED_BY_ANNOTATION: &str = "deployments.plural.sh/created-by";

/// The selector of our watches, as a query.
pub(crate) const SELECTOR: &str = "labelSelector=plural.sh%2Fmanaged-by%3Dagent";

/// A manifest ready to be sent, and its hash.
#[derive(Debug, Clone)]
pub(crate) struct Stamped {
    pub(crate) body: bytes::Bytes,
    /// The body without what is not compared; `None` when that is the same.
    pub(crate) compared: Option<bytes::Bytes>,
    pub(crate) hash: String,
}

impl Stamped {
    /// The manifest that the live object is compared with.
    pub(crate) fn compared(&self) -> &[u8] {
        self.compared.as_ref().unwrap_or(&self.body)
    }
}

/// Makes `manifest` the object `key` of `service`: drops what only a server may say, writes our
/// label and annotations. What `rules` leave out of comparisons does not count for the hash.
pub(crate) fn stamp(mut manifest: Value, key: &ObjectKey, service: ServiceId, rules: &Rules) -> Stamped {
    if let Value::Object(map) = &mut manifest {
        map.remove("status");
    }
    let metadata = object(&mut manifest, "metadata");
    for field in [
        "managedFields",
        "resourceVersion",
        "uid",
        "generation",
        "selfLink",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        metadata.remove(field);
    }
    if key.namespace.is_empty() {
        metadata.remove("namespace");
    } else {
        metadata.insert("namespace".to_owned(), key.namespace.clone().into());
    }
    let labels = object_in(metadata, "labels");
    labels.insert(MANAGED_BY_LABEL.to_owned(), MANAGED_BY.into());
    let annotations = object_in(metadata, "annotations");
    annotations.remove(HASH_ANNOTATION);
    annotations.insert(SERVICE_ID_ANNOTATION.to_owned(), service.to_string().into());
    annotations.insert(TRACKING_ANNOTATION.to_owned(), key.to_string().into());
    manifest.sort_all_objects();
    let mut compared = (!rules.is_empty()).then(|| {
        let mut compared = manifest.clone();
        rules.strip(&mut compared);
        compared
    });
    let text = compared.as_ref().unwrap_or(&manifest).to_string();
    let hash = hex::encode(&Sha256::digest(text.as_bytes())[..16]);
    for manifest in compared.iter_mut().chain([&mut manifest]) {
        let metadata = object(manifest, "metadata");
        object_in(metadata, "annotations").insert(HASH_ANNOTATION.to_owned(), hash.clone().into());
    }
    let bytes = |manifest: Value| bytes::Bytes::from(manifest.to_string());
    Stamped { body: bytes(manifest), compared: compared.map(bytes), hash }
}

fn object<'v>(value: &'v mut Value, field: &str) -> &'v mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(map) = value else { unreachable!("just made an object") };
    object_in(map, field)
}

fn object_in<'v>(map: &'v mut Map<String, Value>, field: &str) -> &'v mut Map<String, Value> {
    let value = map.entry(field).or_insert_with(|| Value::Object(Map::new()));
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(map) = value else { unreachable!("just made an object") };
    map
}

/// The merge patch that takes our marks off an object.
pub(crate) fn unmark() -> Value {
    serde_json::json!({"metadata": {
        "labels": {MANAGED_BY_LABEL: null},
        "annotations": {SERVICE_ID_ANNOTATION: null, TRACKING_ANNOTATION: null, HASH_ANNOTATION: null},
    }})
}

/// Whether a namespace was created for a service, rather than found.
pub(crate) fn was_made_for(namespace: &Value, service: ServiceId) -> bool {
    let by = &namespace["metadata"]["annotations"][CREATED_BY_ANNOTATION];
    by.as_str().is_some_and(|by| by == service.to_string())
}

/// What a live object says of its owner; `None` when it is not one of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) service: Option<ServiceId>,
    pub(crate) hash: String,
}

/// Reads the mark of a live object.
pub(crate) fn mark(object: &Value, key: &ObjectKey) -> Option<Mark> {
    let metadata = &object["metadata"];
    if metadata["labels"][MANAGED_BY_LABEL] != MANAGED_BY {
        return None;
    }
    let annotations = &metadata["annotations"];
    if annotations[TRACKING_ANNOTATION].as_str() != Some(key.to_string().as_str()) {
        return None;
    }
    Some(Mark {
        service: annotations[SERVICE_ID_ANNOTATION].as_str().and_then(|id| id.parse().ok()),
        hash: annotations[HASH_ANNOTATION].as_str().unwrap_or_default().to_owned(),
    })
}

/// The fields that we manage on a live object, as `managedFields` tells them (`FieldsV1`).
///
/// Whoever changes a field that we applied takes it out of this set, whichever way he does it: the
/// set after our apply and the set now differ exactly when our fields were touched.
pub(crate) fn our_fields(object: &Value) -> Option<&Value> {
    let entries = object["metadata"]["managedFields"].as_array()?;
    // What was replaced whole was not applied.
    ["Apply", "Update"].into_iter().find_map(|operation| {
        entries.iter().find_map(|entry| {
            let ours = entry["manager"] == FIELD_MANAGER
                && entry["operation"] == operation
                && entry["subresource"].as_str().unwrap_or_default().is_empty();
            ours.then(|| &entry["fieldsV1"])
        })
    })
}

/// Who besides us wrote to the object last, by `managedFields`.
pub(crate) fn last_other_manager(object: &Value) -> Option<String> {
    object["metadata"]["managedFields"]
        .as_array()?
        .iter()
        .filter(|entry| entry["manager"] != FIELD_MANAGER)
        .filter(|entry| entry["subresource"].as_str().unwrap_or_default().is_empty())
        .max_by_key(|entry| entry["time"].as_str().unwrap_or_default().to_owned())
        .and_then(|entry| Some(entry["manager"].as_str()?.to_owned()))
}

/// Whether `fields` (FieldsV1) holds every field of `manifest`: nobody took any of them since it
/// was applied. For objects whose field set right after the apply is not known (a new agent).
pub(crate) fn covers(fields: &Value, manifest: &Value) -> bool {
    let Value::Object(manifest) = manifest else { return false };
    manifest.iter().all(|(key, value)| match key.as_str() {
        // What names the object is nobody's field.
        "apiVersion" | "kind" => true,
        "metadata" => {
            let Value::Object(metadata) = value else { return true };
            metadata.iter().all(|(key, value)| {
                matches!(key.as_str(), "name" | "namespace")
                    || covers_field(&fields["f:metadata"], key, value)
            })
        }
        _ => covers_field(fields, key, value),
    })
}

fn covers_field(fields: &Value, key: &str, value: &Value) -> bool {
    if value.is_null() {
        return true;
    }
    match fields.get(format!("f:{key}")) {
        None => false,
        Some(below) => covers_value(below, value),
    }
}

fn covers_value(fields: &Value, value: &Value) -> bool {
    // A leaf: a scalar, or a map or list that is owned as a whole.
    let Some(map) = fields.as_object().filter(|map| map.keys().any(|key| key != ".")) else {
        return true;
    };
    match value {
        Value::Object(object) => object.iter().all(|(key, value)| covers_field(fields, key, value)),
        Value::Array(items) => items.iter().all(|item| {
            map.iter().any(|(element, below)| match element.split_once(':') {
                Some(("v", text)) => serde_json::from_str::<Value>(text).is_ok_and(|v| v == *item),
                Some(("k", text)) => {
                    let names_it = serde_json::from_str::<Map<String, Value>>(text).is_ok_and(|names| {
                        // A key field that the manifest leaves out has its default.
                        names.iter().all(|(key, value)| item.get(key).is_none_or(|own| own == value))
                    });
                    names_it && covers_value(below, item)
                }
                _ => false,
            })
        }),
        _ => true,
    }
}

/// Whether health can be told from metadata alone, so that a watch need not carry the rest.
pub(crate) fn metadata_is_enough(kind: &GroupKind) -> bool {
    match kind.group.as_str() {
        "" => matches!(
            kind.kind.as_str(),
            "ConfigMap"
                | "Secret"
                | "ServiceAccount"
                | "LimitRange"
                | "ResourceQuota"
                | "Endpoints"
                | "PodTemplate"
        ),
        "rbac.authorization.k8s.io"
        | "scheduling.k8s.io"
        | "node.k8s.io"
        | "discovery.k8s.io"
        | "admissionregistration.k8s.io"
        | "coordination.k8s.io"
        | "storage.k8s.io" => true,
        "networking.k8s.io" => matches!(kind.kind.as_str(), "NetworkPolicy" | "IngressClass"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key() -> ObjectKey {
        "apps/Deployment/ns/web".parse().unwrap()
    }

    #[test]
    fn stamping_is_stable_and_drops_what_servers_say() {
        let service = ServiceId::new();
        let manifest = json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {"x": 1},
            "metadata": {"name": "web", "creationTimestamp": null, "uid": "u", "annotations": null}});
        let a = stamp(manifest.clone(), &key(), service, &Rules::default());
        let b = stamp(serde_json::from_slice(&a.body).unwrap(), &key(), service, &Rules::default());
        assert_eq!(a.hash, b.hash);
        let body: Value = serde_json::from_slice(&a.body).unwrap();
        assert!(body.get("status").is_none() && body["metadata"].get("uid").is_none());
        assert_eq!(mark(&body, &key()).unwrap(), Mark { service: Some(service), hash: a.hash });
        let other: ObjectKey = "apps/Deployment/ns/copy".parse().unwrap();
        assert_eq!(mark(&body, &other), None, "a copy is not ours");
    }

    #[test]
    fn coverage_follows_fields() {
        let manifest = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "s", "labels": {"a": "b"}},
            "spec": {"type": "ClusterIP", "selector": {}, "ports": [{"port": 80, "name": "http"}]}});
        let fields = json!({"f:metadata": {"f:labels": {"f:a": {}}},
            "f:spec": {"f:type": {}, "f:selector": {}, "f:ports": {
                "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}, "f:name": {}}}}});
        assert!(covers(&fields, &manifest));
        let mut taken = fields.clone();
        taken["f:spec"].as_object_mut().unwrap().remove("f:type");
        assert!(!covers(&taken, &manifest));
        let mut taken = fields.clone();
        taken["f:spec"]["f:ports"]["k:{\"port\":80,\"protocol\":\"TCP\"}"]
            .as_object_mut()
            .unwrap()
            .remove("f:name");
        assert!(!covers(&taken, &manifest));
        assert!(!covers(&Value::Null, &manifest));
    }
}
