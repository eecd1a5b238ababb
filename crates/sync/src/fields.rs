//! `managedFields`: who wrote which field of a live object, and when (`FieldsV1`).

use serde_json::{Map, Value};

use crate::{api::FIELD_MANAGER, pointer::Pointer};

/// Who wrote a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Writer {
    /// The field manager, with the subresource that it wrote through: `kube-controller-manager (scale)`.
    pub(crate) manager: String,
    /// Milliseconds since the epoch.
    pub(crate) written_ms: Option<i64>,
}

fn entries(live: &Value) -> impl Iterator<Item = &Value> {
    live["metadata"]["managedFields"].as_array().into_iter().flatten()
}

fn is_ours(entry: &Value) -> bool {
    entry["manager"] == FIELD_MANAGER
        && entry["operation"] == "Apply"
        && entry["subresource"].as_str().unwrap_or_default().is_empty()
}

fn written_ms(entry: &Value) -> Option<i64> {
    let time = chrono::DateTime::parse_from_rfc3339(entry["time"].as_str()?).ok()?;
    Some(time.timestamp_millis())
}

/// Who besides us wrote the field at `path` last.
pub(crate) fn writer_of(live: &Value, path: &[String]) -> Option<Writer> {
    entries(live)
        .filter(|entry| !is_ours(entry) && owns(&entry["fieldsV1"], live, path))
        .max_by_key(|entry| written_ms(entry))
        .map(|entry| {
            let manager = entry["manager"].as_str().unwrap_or_default();
            let manager = match entry["subresource"].as_str().unwrap_or_default() {
                "" => manager.to_owned(),
                subresource => format!("{manager} ({subresource})"),
            };
            Writer { manager, written_ms: written_ms(entry) }
        })
}

/// Whether we own the field at `path`.
pub(crate) fn ours(live: &Value, path: &[String]) -> bool {
    entries(live).any(|entry| is_ours(entry) && owns(&entry["fieldsV1"], live, path))
}

/// Whether a field set names the field at `path`, or anything above or below it that it owns whole.
fn owns(fields: &Value, value: &Value, path: &[String]) -> bool {
    let [segment, rest @ ..] = path else { return true };
    let Some(map) = fields.as_object() else { return false };
    // A leaf above the field: the map or list is owned as a whole.
    if !map.keys().any(|key| key != ".") {
        return true;
    }
    match value {
        Value::Array(items) => {
            let Some(element) = segment.parse::<usize>().ok().and_then(|index| items.get(index)) else {
                return false;
            };
            map.iter().any(|(key, below)| is_element(key, segment, element) && owns(below, element, rest))
        }
        _ => map.get(&format!("f:{segment}")).is_some_and(|below| owns(below, &value[segment], rest)),
    }
}

/// Whether `key` of a field set means the element at `index`.
fn is_element(key: &str, index: &str, element: &Value) -> bool {
    match key.split_once(':') {
        Some(("i", number)) => number == index,
        Some(("v", text)) => serde_json::from_str::<Value>(text).is_ok_and(|value| value == *element),
        Some(("k", text)) => names(text, element),
        _ => false,
    }
}

fn names(keys: &str, element: &Value) -> bool {
    serde_json::from_str::<Map<String, Value>>(keys).is_ok_and(|keys| {
        // A key field that is left out has its default.
        keys.iter().all(|(key, value)| element.get(key).is_none_or(|own| own == value))
    })
}

/// Takes all that one of `managers` owns on `live` out of `desired`.
pub(crate) fn strip_owned(live: &Value, managers: &[String], desired: &mut Value) {
    for entry in entries(live) {
        let manager = entry["manager"].as_str().unwrap_or_default();
        if !is_ours(entry) && managers.iter().any(|name| name == manager) {
            strip(&entry["fieldsV1"], desired);
        }
    }
}

fn strip(fields: &Value, desired: &mut Value) {
    let Some(fields) = fields.as_object() else { return };
    for (key, below) in fields {
        let whole = below.as_object().is_none_or(Map::is_empty);
        match (key.split_once(':'), &mut *desired) {
            (Some(("f", name)), Value::Object(map)) => {
                // What names the object, and our marks, are ours whoever else wrote them.
                if whole && !matches!(name, "name" | "namespace") && !name.contains("plural.sh/") {
                    map.remove(name);
                } else if let Some(child) = map.get_mut(name) {
                    strip(below, child);
                }
            }
            (Some(("v", text)), Value::Array(items)) => {
                if let Ok(value) = serde_json::from_str::<Value>(text) {
                    items.retain(|item| *item != value);
                }
            }
            (Some(("k", text)), Value::Array(items)) => {
                for item in items.iter_mut().filter(|item| names(text, item)) {
                    let keys: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
                    let kept: Vec<(String, Value)> =
                        keys.keys().filter_map(|key| Some((key.clone(), item.get(key)?.clone()))).collect();
                    strip(below, item);
                    if let Value::Object(map) = item {
                        map.extend(kept);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Takes out of `value` what the field set `theirs` names and none of the sets `kept` does.
pub(crate) fn strip_unowned(theirs: &Value, kept: &[&Value], value: &mut Value) {
    let Some(theirs) = theirs.as_object() else { return };
    for (key, below) in theirs {
        let kept: Vec<&Value> = kept.iter().filter_map(|set| set.get(key)).collect();
        let is_whole = below.as_object().is_none_or(|below| below.keys().all(|key| key == "."));
        match (key.split_once(':'), &mut *value) {
            (Some(("f", name)), Value::Object(map)) => {
                if is_whole && kept.is_empty() {
                    map.remove(name);
                } else if let Some(child) = map.get_mut(name) {
                    strip_unowned(below, &kept, child);
                }
            }
            // An element that nobody owns any more goes as a whole, with what was defaulted in it.
            (Some(("k", text)), Value::Array(items)) if kept.is_empty() => {
                items.retain(|item| !names(text, item));
            }
            (Some(("k", text)), Value::Array(items)) => {
                for item in items.iter_mut().filter(|item| names(text, item)) {
                    strip_unowned(below, &kept, item);
                }
            }
            (Some(("v", text)), Value::Array(items)) if kept.is_empty() => {
                if let Ok(element) = serde_json::from_str::<Value>(text) {
                    items.retain(|item| *item != element);
                }
            }
            _ => {}
        }
    }
}

/// The places in `live` that a pointer with `*` means.
pub(crate) fn places(pointer: &[String], live: &Value) -> Vec<Vec<String>> {
    let [segment, rest @ ..] = pointer else { return vec![Vec::new()] };
    let names: Vec<String> = match live {
        Value::Object(map) if segment == "*" => map.keys().cloned().collect(),
        Value::Array(items) if segment == "*" => (0..items.len()).map(|index| index.to_string()).collect(),
        _ => vec![segment.clone()],
    };
    let mut found = Vec::new();
    for name in names {
        let child = match live {
            Value::Object(map) => map.get(&name),
            Value::Array(items) => name.parse::<usize>().ok().and_then(|index| items.get(index)),
            _ => None,
        };
        for mut below in places(rest, child.unwrap_or(&Value::Null)) {
            below.insert(0, name.clone());
            found.push(below);
        }
    }
    found
}

/// What a pointer points at becomes what `live` holds where we own it, and is left out where we do not:
/// so nothing that stands there is changed, and nothing is taken from whoever writes it.
pub(crate) fn leave_alone(pointer: &Pointer, live: &Value, desired: &mut Value) {
    for path in places(pointer.segments(), live) {
        let owned = ours(live, &path);
        let place = Pointer::of(path);
        if owned {
            place.copy(live, desired);
        } else {
            place.remove(desired);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn live() -> Value {
        json!({
            "metadata": {"managedFields": [
                {"manager": "plural", "operation": "Apply", "time": "2026-01-01T00:00:00Z",
                 "fieldsV1": {"f:spec": {"f:paused": {}, "f:template": {"f:containers": {"k:{\"name\":\"web\"}": {
                    ".": {}, "f:name": {}, "f:image": {}}}}}}},
                {"manager": "kube-controller-manager", "operation": "Update", "subresource": "scale",
                 "time": "2026-01-01T00:00:02Z", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
                {"manager": "istio", "operation": "Update", "time": "2026-01-01T00:00:01Z",
                 "fieldsV1": {"f:spec": {"f:template": {"f:containers": {"k:{\"name\":\"web\"}": {"f:env": {}},
                    "k:{\"name\":\"proxy\"}": {".": {}, "f:name": {}, "f:image": {}}}}}}}]},
            "spec": {"replicas": 5, "paused": false, "template": {"containers": [
                {"name": "web", "image": "a", "env": [{"name": "X"}]}, {"name": "proxy", "image": "p"}]}},
        })
    }

    fn path(text: &str) -> Vec<String> {
        Pointer::parse(text).unwrap().segments().to_vec()
    }

    #[test]
    fn tells_who_wrote_a_field_and_when() {
        let live = live();
        let replicas = writer_of(&live, &path("/spec/replicas")).unwrap();
        assert_eq!(replicas.manager, "kube-controller-manager (scale)");
        assert_eq!(replicas.written_ms, Some(1_767_225_602_000));
        assert_eq!(writer_of(&live, &path("/spec/template/containers/1/image")).unwrap().manager, "istio");
        assert_eq!(
            writer_of(&live, &path("/spec/template/containers/0/env/0/name")).unwrap().manager,
            "istio"
        );
        assert_eq!(writer_of(&live, &path("/spec/template/containers/0/image")), None);
        assert!(ours(&live, &path("/spec/template/containers/0/image")));
        assert!(!ours(&live, &path("/spec/replicas")));
    }

    #[test]
    fn leaves_alone_what_others_own() {
        let live = live();
        let mut desired = json!({"spec": {"replicas": 1, "paused": true}});
        leave_alone(&Pointer::parse("/spec/replicas").unwrap(), &live, &mut desired);
        leave_alone(&Pointer::parse("/spec/paused").unwrap(), &live, &mut desired);
        assert_eq!(desired, json!({"spec": {"paused": false}}));
    }

    #[test]
    fn strips_what_a_manager_owns() {
        let mut desired = json!({"spec": {"replicas": 1, "template": {"containers": [
            {"name": "proxy", "image": "mine"}, {"name": "web", "image": "a", "env": []}]}}});
        strip_owned(&live(), &["istio".to_owned(), "plural".to_owned()], &mut desired);
        assert_eq!(
            desired,
            json!({"spec": {"replicas": 1, "template": {"containers": [
                {"name": "proxy"}, {"name": "web", "image": "a"}]}}})
        );
    }
}
