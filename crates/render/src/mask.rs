//! Objects as they may be shown.

use serde_json::{Map, Value};

use crate::object::Object;

/// What stands for a value.
const MASK: &str = "********";
/// Where kubectl keeps the whole object once more.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Hides the values of Secrets; their names stay.
pub fn mask_secrets(objects: &mut [Object]) {
    for object in objects {
        if object.kind() == "Secret" && object.api_version() == "v1" {
            mask(&mut object.value);
        }
    }
}

fn mask(secret: &mut Value) {
    for field in ["data", "stringData"] {
        match secret.get_mut(field) {
            Some(Value::Object(values)) => mask_all(values),
            Some(other) => *other = MASK.into(),
            None => {}
        }
    }
    let annotations = secret.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    if let Some(copy) = annotations.and_then(|annotations| annotations.get_mut(LAST_APPLIED)) {
        *copy = MASK.into();
    }
}

fn mask_all(values: &mut Map<String, Value>) {
    for value in values.values_mut() {
        *value = MASK.into();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::Origin;

    #[test]
    fn values_of_secrets_are_hidden_and_names_stay() {
        let object = |value: Value| Object { value, origin: Origin::default() };
        let mut objects = [
            object(json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": "aHVudGVyMg=="},
                "stringData": {"b": "hunter2"},
                "metadata": {"name": "s", "annotations": {LAST_APPLIED: "hunter2", "c": "kept"}}})),
            object(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}})),
        ];
        mask_secrets(&mut objects);
        assert_eq!(objects[0].value["data"], json!({"a": MASK}));
        assert_eq!(objects[0].value["stringData"], json!({"b": MASK}));
        assert_eq!(objects[0].value["metadata"]["annotations"], json!({LAST_APPLIED: MASK, "c": "kept"}));
        assert_eq!(objects[1].value["data"], json!({"a": "b"}));
    }
}
