//! Objects as they may be shown.

use serde_json::{Map, Value};

use crate::object::Object;

/// What stands for a value.
const MASK: &str = "********";

/// Hides the values of Secrets and their annotations, where tools keep copies of them; names stay. A Secret that another object
/// holds, a list or a template, is one as well.
pub fn mask_secrets(objects: &mut [Object]) {
    for object in objects {
        mask_below(&mut object.value);
    }
}

fn mask_below(value: &mut Value) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        Value::Array(items) => items.iter_mut().for_each(mask_below),
        Value::Object(fields) => {
            let is = |name: &str, expected: &str| fields.get(name).and_then(Value::as_str) == Some(expected);
            let secret = is("kind", "Secret") && is("apiVersion", "v1");
            // The items of a list need not say what they are.
            let list = is("kind", "SecretList") && is("apiVersion", "v1");
            fields.values_mut().for_each(mask_below);
            if secret {
                mask(fields);
            }
            if let Some(Value::Array(items)) = fields.get_mut("items").filter(|_| list) {
                items.iter_mut().filter_map(Value::as_object_mut).for_each(mask);
            }
        }
    }
}

fn mask(secret: &mut Map<String, Value>) {
    for field in ["data", "stringData"] {
        if let Some(values) = secret.get_mut(field) {
            mask_all(values);
        }
    }
    let annotations = secret.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    if let Some(annotations) = annotations {
        mask_all(annotations);
    }
}

fn mask_all(values: &mut Value) {
    match values {
        Value::Object(values) => values.values_mut().for_each(|value| *value = MASK.into()),
        other => *other = MASK.into(),
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
        let secret = |name: &str| {
            json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": "aHVudGVyMg=="}, "stringData": {"b": "hunter2"},
                "metadata": {"name": name, "labels": {"l": "kept"}, "annotations": {
                    "kubectl.kubernetes.io/last-applied-configuration": "hunter2", "reloader/copy": "hunter2"}}})
        };
        let bare = json!({"metadata": {"annotations": {"a": "hunter2"}}, "data": {"a": "hunter2"}});
        let mut objects = [
            object(secret("s")),
            object(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"},
                "metadata": {"annotations": {"c": "kept"}}})),
            object(
                json!({"apiVersion": "v1", "kind": "List", "items": [secret("in-a-list"), {"kind": "ConfigMap"}]}),
            ),
            object(
                json!({"apiVersion": "v1", "kind": "SecretList", "items": [bare, secret("in-one-of-secrets")]}),
            ),
            object(
                json!({"apiVersion": "x/v1", "kind": "Bundle", "spec": {"resources": [{"template": secret("deep")}]}}),
            ),
            object(
                json!({"apiVersion": "v1", "kind": "Secret", "data": "hunter2", "metadata": {"annotations": ["hunter2"]}}),
            ),
        ];
        mask_secrets(&mut objects);
        let first = &objects[0].value;
        assert_eq!(first["data"], json!({"a": MASK}));
        assert_eq!(first["stringData"], json!({"b": MASK}));
        assert_eq!(first["metadata"]["annotations"]["reloader/copy"], MASK);
        assert_eq!(first["metadata"]["labels"]["l"], "kept");
        assert_eq!(objects[1].value["data"], json!({"a": "b"}));
        assert_eq!(objects[1].value["metadata"]["annotations"]["c"], "kept");
        for object in &objects {
            let text = object.value.to_string();
            assert!(!text.contains("hunter2") && !text.contains("aHVudGVyMg"), "{text}");
        }
    }
}
