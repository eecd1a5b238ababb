//! The plan of a run: what people approve, and what they are shown of it.

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// What people approve: SHA-256, in hex, over the digests of the parts of a plan, each in hex and empty for a part that there is not.
pub fn plan_digest(file: Option<&str>, json: Option<&str>, text: &str) -> String {
    let parts = [("file", file.unwrap_or_default()), ("json", json.unwrap_or_default()), ("text", text)];
    let mut hash = Sha256::new();
    for (name, digest) in parts {
        hash.update(format!("{name}:{digest}\n"));
    }
    hex::encode(hash.finalize())
}

/// The plan of Terraform or OpenTofu as JSON, without the values that it says are sensitive: each is null there, and the plan's own masks
/// (`before_sensitive`, `after_sensitive`, `sensitive_values`, `sensitive`) say where.
///
/// # Guarantees
/// A value without a mask, or with one that does not fit it, is hidden whole. What is no such plan is answered as it is, where it has none of
/// the parts that hold values.
pub fn plan_shown(mut plan: Value) -> Value {
    let Some(all) = plan.as_object_mut() else { return plan };
    let sensitive = sensitive_variables(all);
    if let Some(variables) = all.get_mut("variables").and_then(Value::as_object_mut) {
        for (name, variable) in variables {
            let is_known_plain = sensitive.as_ref().is_some_and(|names| names.get(name) == Some(&false));
            if !is_known_plain && let Some(variable) = variable.as_object_mut() {
                hide(variable, "value");
            }
        }
    }
    for list in ["resource_changes", "resource_drift", "deferred_changes", "action_invocations"] {
        for resource in all.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let deferred = resource.pointer("/resource_change/change").is_some();
            let place = if deferred { "/resource_change/change" } else { "/change" };
            if let Some(change) = resource.pointer_mut(place).and_then(Value::as_object_mut) {
                mask_change(change);
            }
        }
    }
    if let Some(outputs) = all.get_mut("output_changes").and_then(Value::as_object_mut) {
        for change in outputs.values_mut().filter_map(Value::as_object_mut) {
            mask_change(change);
        }
    }
    for place in ["/planned_values", "/prior_state/values"] {
        if let Some(values) = plan.pointer_mut(place).and_then(Value::as_object_mut) {
            mask_values(values);
        }
    }
    // Expressions of the code with constants in them: literals of git, and defaults of variables, which may be secrets.
    if let Some(root) = plan.pointer_mut("/configuration/root_module").and_then(Value::as_object_mut) {
        mask_defaults(root);
    }
    plan
}

/// Of each root variable whether the code says that it is sensitive; none where the plan does not hold the code.
fn sensitive_variables(plan: &Map<String, Value>) -> Option<std::collections::BTreeMap<String, bool>> {
    let root = plan.get("configuration")?.get("root_module")?;
    let Some(variables) = root.get("variables").and_then(Value::as_object) else { return Some([].into()) };
    let is_sensitive = |variable: &Value| variable.get("sensitive") == Some(&Value::Bool(true));
    Some(variables.iter().map(|(name, variable)| (name.clone(), is_sensitive(variable))).collect())
}

fn mask_change(change: &mut Map<String, Value>) {
    for (value, mask) in [("before", "before_sensitive"), ("after", "after_sensitive")] {
        let mask = change.get(mask).cloned();
        if let Some(value) = change.get_mut(value) {
            hide_by(value, mask.as_ref());
        }
    }
    // The code that an import would write holds the values.
    hide(change, "generated_config");
    hide(change, "before_identity");
    hide(change, "after_identity");
}

/// Outputs and modules of a state.
fn mask_values(values: &mut Map<String, Value>) {
    if let Some(outputs) = values.get_mut("outputs").and_then(Value::as_object_mut) {
        for output in outputs.values_mut().filter_map(Value::as_object_mut) {
            if output.get("sensitive") != Some(&Value::Bool(false)) {
                hide(output, "value");
            }
        }
    }
    if let Some(module) = values.get_mut("root_module").and_then(Value::as_object_mut) {
        mask_module(module);
    }
}

fn mask_module(module: &mut Map<String, Value>) {
    let resources = module.get_mut("resources").and_then(Value::as_array_mut);
    for resource in resources.into_iter().flatten().filter_map(Value::as_object_mut) {
        let mask = resource.get("sensitive_values").cloned();
        if let Some(values) = resource.get_mut("values") {
            hide_by(values, mask.as_ref());
        }
    }
    let children = module.get_mut("child_modules").and_then(Value::as_array_mut);
    for child in children.into_iter().flatten().filter_map(Value::as_object_mut) {
        mask_module(child);
    }
}

fn mask_defaults(module: &mut Map<String, Value>) {
    let variables = module.get_mut("variables").and_then(Value::as_object_mut);
    for variable in variables.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut) {
        if variable.get("sensitive") == Some(&Value::Bool(true)) {
            hide(variable, "default");
        }
    }
    let calls = module.get_mut("module_calls").and_then(Value::as_object_mut);
    for call in calls.into_iter().flat_map(Map::values_mut) {
        if let Some(module) = call.get_mut("module").and_then(Value::as_object_mut) {
            mask_defaults(module);
        }
    }
}

fn hide(object: &mut Map<String, Value>, name: &str) {
    if let Some(value) = object.get_mut(name) {
        *value = Value::Null;
    }
}

/// Hides what a mask says: `true` is all of it, and an object or a list holds the masks of what is in the value. `false`, and an object or
/// a list without anything, hide nothing.
fn hide_by(value: &mut Value, mask: Option<&Value>) {
    match (mask, value) {
        (Some(Value::Bool(false)), _) | (_, Value::Null) => {}
        (Some(Value::Object(masks)), _) if masks.is_empty() => {}
        (Some(Value::Array(masks)), _) if masks.is_empty() => {}
        (Some(Value::Object(masks)), Value::Object(values)) => {
            for (name, mask) in masks {
                if let Some(value) = values.get_mut(name) {
                    hide_by(value, Some(mask));
                }
            }
        }
        (Some(Value::Array(masks)), Value::Array(values)) if masks.len() == values.len() => {
            for (value, mask) in values.iter_mut().zip(masks) {
                hide_by(value, Some(mask));
            }
        }
        (_, value) => *value = Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_digest_is_of_all_parts() {
        let all = plan_digest(Some("aa"), Some("bb"), "cc");
        assert_eq!(all, hex::encode(Sha256::digest("file:aa\njson:bb\ntext:cc\n")));
        for other in [
            plan_digest(None, Some("bb"), "cc"),
            plan_digest(Some("aa"), None, "cc"),
            plan_digest(Some("aa"), Some("bb"), ""),
            plan_digest(Some("bb"), Some("aa"), "cc"),
        ] {
            assert_ne!(other, all);
        }
    }

    #[test]
    fn what_is_sensitive_is_not_shown() {
        let plan = json!({
            "variables": {"region": {"value": "eu"}, "password": {"value": "s3cret-1"}},
            "configuration": {"root_module": {
                "variables": {"region": {}, "password": {"sensitive": true, "default": "s3cret-2"}},
                "module_calls": {"db": {"module": {"variables": {"key": {"sensitive": true, "default": "s3cret-3"}}}}},
            }},
            "resource_changes": [{
                "address": "a.b",
                "change": {
                    "actions": ["update"],
                    "before": {"name": "old", "key": "s3cret-4", "list": [{"a": 1, "b": "s3cret-5"}]},
                    "after": {"name": "new", "key": "s3cret-6", "list": [{"a": 2, "b": "s3cret-7"}]},
                    "before_sensitive": {"key": true, "list": [{"b": true}]},
                    "after_sensitive": {"key": true, "list": [{"b": true}]},
                    "generated_config": "key = \"s3cret-8\"",
                },
            }],
            "resource_drift": [{"change": {"before": "s3cret-9", "after": "seen", "before_sensitive": true, "after_sensitive": false}}],
            "output_changes": {
                "token": {"before": null, "after": "s3cret-10", "before_sensitive": true, "after_sensitive": true},
                "address": {"before": null, "after": "10.0.0.1", "before_sensitive": false, "after_sensitive": false},
            },
            "planned_values": {
                "outputs": {"token": {"sensitive": true, "value": "s3cret-11"}, "address": {"sensitive": false, "value": "10.0.0.1"}},
                "root_module": {
                    "resources": [{"values": {"key": "s3cret-12", "name": "new"}, "sensitive_values": {"key": true}}],
                    "child_modules": [{"resources": [{"values": {"key": "s3cret-13"}, "sensitive_values": {"key": true}}]}],
                },
            },
            "prior_state": {"values": {"root_module": {"resources": [
                {"values": {"key": "s3cret-14", "name": "old"}, "sensitive_values": {"key": true}},
            ]}}},
        });
        let shown = plan_shown(plan);
        let text = shown.to_string();
        assert!(!text.contains("s3cret"), "{text}");
        for (place, expected) in [
            ("/variables/region/value", json!("eu")),
            ("/resource_changes/0/change/after/name", json!("new")),
            ("/resource_changes/0/change/after/list/0/a", json!(2)),
            ("/resource_changes/0/change/after/key", Value::Null),
            // The mark beside it.
            ("/resource_changes/0/change/after_sensitive/key", json!(true)),
            ("/resource_drift/0/change/after", json!("seen")),
            ("/output_changes/address/after", json!("10.0.0.1")),
            ("/planned_values/outputs/address/value", json!("10.0.0.1")),
            ("/planned_values/root_module/resources/0/values/name", json!("new")),
            ("/prior_state/values/root_module/resources/0/values/name", json!("old")),
        ] {
            assert_eq!(shown.pointer(place), Some(&expected), "{place}");
        }
    }

    /// A mask that is missing, or of another shape than the value, does not open it.
    #[test]
    fn what_is_not_understood_is_hidden() {
        for (value, mask, expected) in [
            (json!({"a": "x"}), None, Value::Null),
            (json!({"a": "x"}), Some(json!({})), json!({"a": "x"})),
            (json!(["x"]), Some(json!([])), json!(["x"])),
            (json!("x"), Some(json!(false)), json!("x")),
            (json!("x"), Some(json!(true)), Value::Null),
            (json!("x"), Some(json!({"a": true})), Value::Null),
            (json!(["x", "y"]), Some(json!([true])), Value::Null),
            (json!(["x", "y"]), Some(json!([true, false])), json!([null, "y"])),
            (json!({"a": "x"}), Some(json!([true])), Value::Null),
            (json!({"a": "x"}), Some(json!("yes")), Value::Null),
            (
                json!({"a": {"b": "x", "c": "y"}}),
                Some(json!({"a": {"b": true}})),
                json!({"a": {"b": null, "c": "y"}}),
            ),
        ] {
            let mut shown = value.clone();
            hide_by(&mut shown, mask.as_ref());
            assert_eq!(shown, expected, "{value} by {mask:?}");
        }
        let without_code = plan_shown(json!({"variables": {"a": {"value": "s3cret"}}}));
        assert_eq!(without_code.pointer("/variables/a/value"), Some(&Value::Null));
        assert_eq!(plan_shown(json!("text")), json!("text"));
    }
}
